//! `keyward demo` as a newcomer runs it.

mod program;

use program::run;

/// Times, counts and the order of who came first differ from run to run; what is told does not.
fn told(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.trim_start().split_once("s  "))
        .filter(|(time, _)| time.parse::<f64>().is_ok())
        .map(|(_, rest)| {
            let words: Vec<String> = rest.split(' ').map(without_chance).collect();
            words.join(" ")
        })
        .collect()
}

/// A Secret's name has a part of an id that Keystone chose; numbers are counts, times and versions.
fn without_chance(word: &str) -> String {
    if let Some((service, rest)) = word.rsplit_once("-secret")
        && let Some((service, _id)) = service.rsplit_once('-')
    {
        return format!("{service}-#-secret{rest}");
    }
    let mut text = String::new();
    for letter in word.chars() {
        match letter {
            '0'..='9' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            other => text.push(other),
        }
    }
    text
}

#[tokio::test]
async fn a_whole_life_is_told_and_every_promise_kept() {
    let ended = run(None, &["demo", "--once", "--speed", "5"]).await;
    assert_eq!(ended.code, 0, "{}\n{}", ended.out, ended.err);
    assert_eq!(ended.err, "");
    assert!(!ended.out.contains('\x1b'), "colours without a terminal");

    let chapters: Vec<&str> = ended
        .out
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(' '))
        .collect();
    assert_eq!(
        chapters,
        [
            "Keyward: one credential's whole life",
            "1. Minted and handed over",
            "2. Rotated, and nobody is cut off",
            "3. The operator is killed at the worst moment",
            "4. Deleted",
            "The end",
        ]
    );

    let mut told = told(&ended.out);
    told.sort();
    told.dedup();
    // Which of the two is seen holding first, and whether both are, is up to the moment.
    told.retain(|line| !line.starts_with("keyward  waits: "));
    insta::assert_snapshot!("told", told.join("\n"));

    assert!(
        ended.out.contains("is held by barbican-worker"),
        "{}",
        ended.out
    );
    assert!(
        ended
            .out
            .lines()
            .any(|line| line.trim_start().starts_with("3.1 ") && line.contains("handed to nobody")),
        "{}",
        ended.out
    );
    assert!(
        ended
            .out
            .contains("made 3 credentials and revoked 3; alive: 0"),
        "{}",
        ended.out
    );
    assert!(
        ended.out.contains("logins of the two programs, refused: 0"),
        "{}",
        ended.out
    );
}

#[tokio::test]
async fn a_broken_promise_is_noticed_and_named() {
    let ended = run(None, &["demo", "--once", "--speed", "20", "--sabotage"]).await;
    assert_eq!(ended.code, 5, "{}\n{}", ended.out, ended.err);
    assert!(
        ended
            .err
            .starts_with("error: a promise was broken: P1, P2: "),
        "{}",
        ended.err
    );
}

#[tokio::test]
async fn a_speed_that_makes_no_sense_is_refused() {
    for speed in ["0", "fast", "-1", "NaN"] {
        let ended = run(None, &["demo", &format!("--speed={speed}")]).await;
        assert_eq!(ended.code, 2, "{speed}: {}", ended.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stays_up_to_be_looked_at_until_it_is_interrupted() {
    use std::process::Stdio;
    use tokio::io::{AsyncBufReadExt, BufReader};

    let mut demo = tokio::process::Command::new(program::PROGRAM)
        .args(["demo", "--speed", "20"])
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let mut kubeconfig = None;
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some(path) = line.trim().strip_prefix("export KUBECONFIG=") {
            kubeconfig = Some(std::path::PathBuf::from(path));
        }
        if line.starts_with("Ctrl-C ends the demo") {
            break;
        }
    }
    let kubeconfig = kubeconfig.expect("it says how to look at it");
    let seen = run(Some(&kubeconfig), &["status", "-n", "openstack"]).await;
    assert!(
        seen.out
            .contains("KeystoneApplicationCredential  ac-barbican"),
        "{} {}",
        seen.out,
        seen.err
    );
    let rotate = ["rotate", "appcred/ac-barbican", "-n", "openstack", "--wait"];
    let rotated = run(Some(&kubeconfig), &rotate).await;
    assert_eq!(rotated.code, 0, "{} {}", rotated.out, rotated.err);

    program::signal(&demo, "-INT").await;
    let reading = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let status = tokio::time::timeout(std::time::Duration::from_secs(10), demo.wait()).await;
    assert_eq!(status.unwrap().unwrap().code(), Some(0));
    assert!(!kubeconfig.exists(), "the kubeconfig was left behind");
    reading.await.unwrap();
}
