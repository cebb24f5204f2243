//! status, explain, rotate, suspend and resume against a cluster with the operator at work in it.

mod program;

use program::{Cluster, NAME, NAMESPACE, eventually};
use serde_json::{Value, json};
use testbed::apiserver::Fault;

const IT: &str = "democred/db";

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_rotated_and_everything_about_it_can_be_seen() {
    let cluster = Cluster::start().await;
    let _operator = cluster.operator(&[]);
    cluster.create(json!({ "rotateAfterSeconds": 86400 })).await;
    cluster.until_version("1.1").await;

    let seen = cluster.keyward(&["status", "-n", NAMESPACE]).await;
    assert_eq!(seen.code, 0, "{}", seen.err);
    let lines: Vec<Vec<&str>> = seen
        .out
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(
        lines[0],
        [
            "KIND", "NAME", "READY", "VERSION", "SECRET", "NEXT", "LIVE", "WHY", "HELD BY"
        ]
    );
    assert_eq!(
        lines[1][..5],
        ["DemoCredential", "db", "True", "1.1", "db-1-1"]
    );
    assert!(lines[1][5].starts_with("in 23h"), "{}", seen.out);
    assert_eq!(lines[1][6..], ["1", "UpToDate", "-"]);

    // Somebody holds the first version, so that it stays when the second comes.
    cluster.set_holder("db-1-1", Some("example.com/job")).await;
    let rotated = cluster
        .keyward(&["rotate", IT, "-n", NAMESPACE, "--wait", "--timeout", "30s"])
        .await;
    assert_eq!(rotated.code, 0, "{} {}", rotated.out, rotated.err);
    let lines: Vec<&str> = rotated.out.lines().collect();
    assert_eq!(
        lines[0],
        "asked for a rotation of DemoCredential team-a/db (version 1.1 is current)"
    );
    assert!(
        lines.contains(&"version 2.1 is published, in Secret db-2-1"),
        "{}",
        rotated.out
    );
    assert_eq!(
        lines.last(),
        Some(&"version 1.1 stays valid until it is released by example.com/job")
    );

    let listed = json_of(&cluster.keyward(&["status", "-A", "-o", "json"]).await.out);
    let row = &listed["items"][0];
    assert_eq!(
        (&row["version"], &row["live"], &row["heldBy"]),
        (&json!("2.1"), &json!(2), &json!(["example.com/job"]))
    );

    eventually("the holder to be the reason", || async {
        let listed = cluster.keyward(&["status", "-A", "-o", "json"]).await;
        json_of(&listed.out)["items"][0]["why"] == "HeldByConsumers"
    })
    .await;
    let explained = cluster
        .keyward(&[
            "explain",
            "DemoCredential/db",
            "-n",
            NAMESPACE,
            "--ask-issuer",
        ])
        .await;
    assert_eq!(explained.code, 0, "{}", explained.err);
    for part in [
        "DemoCredential team-a/db\n\nWhat is so\n  - It is ready.\n",
        "Version 2.1 is current, in Secret db-2-1, minted",
        "Version 1.1 is being retired. Its Secret db-1-1 is deleted as soon as nobody holds it, and nobody new can. It is held by example.com/job.",
        "What happens next\n  Nothing, until something changes",
        "[HeldByConsumers]\n    Who must act: example.com/job\n    What ends it: each holder has to take its finalizer off the Secret",
    ] {
        assert!(
            explained.out.contains(part),
            "{part}\n---\n{}",
            explained.out
        );
    }

    cluster.set_holder("db-1-1", None).await;
    eventually("the old version's end", || async {
        cluster.issuer.live("realm").len() == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_the_same_as_the_operator_and_changes_nothing() {
    let cluster = Cluster::start().await;
    cluster.create(json!({})).await;
    let before = cluster.server.version();
    let quiet = cluster.keyward(&["explain", IT, "-n", NAMESPACE]).await;
    assert_eq!(quiet.code, 0, "{}", quiet.err);
    for part in [
        "No operator has taken it up yet",
        "ask the issuer which credentials bear this resource's mark",
        "Run again with --ask-issuer",
    ] {
        assert!(quiet.out.contains(part), "{part}\n---\n{}", quiet.out);
    }
    assert_eq!(cluster.issuer.faults().total(), 0, "the issuer was asked");
    let asked = cluster
        .keyward(&["explain", IT, "-n", NAMESPACE, "--ask-issuer", "-o", "json"])
        .await;
    let asked = json_of(&asked.out);
    assert_eq!(asked["decision"]["because"], "FirstMint");
    assert_eq!(
        asked["decision"]["next"]["Do"]["Record"]["change"],
        "Intent"
    );
    assert_eq!(asked["askedIssuer"], true);
    assert_eq!(cluster.server.version(), before, "something was written");
    assert!(cluster.issuer.live("realm").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_who_must_act_when_the_login_is_missing() {
    let cluster = Cluster::start().await;
    cluster.create(json!({ "loginSecret": "nowhere" })).await;
    let ended = cluster.keyward(&["explain", IT, "-n", NAMESPACE]).await;
    assert!(
        ended.out.contains("there is no Secret nowhere"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("[LoginMissing]"), "{}", ended.out);
    assert!(
        ended
            .out
            .contains("put it into the Secret that the spec names"),
        "{}",
        ended.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_credential_rests_until_it_is_resumed() {
    let cluster = Cluster::start().await;
    let _operator = cluster.operator(&[]);
    cluster.create(json!({})).await;
    cluster.until_version("1.1").await;
    let here = ["-n", NAMESPACE];
    let suspend = |verb: &'static str| async move { [&[verb, IT][..], &here].concat() };

    let ended = cluster.keyward(&suspend("suspend").await).await;
    assert_eq!(ended.out, "DemoCredential team-a/db is suspended\n");
    let again = cluster.keyward(&suspend("suspend").await).await;
    assert_eq!(
        (again.code, again.out.as_str()),
        (0, "DemoCredential team-a/db is already suspended\n")
    );

    let refused = cluster.keyward(&["rotate", IT, "-n", NAMESPACE]).await;
    assert_eq!(refused.code, 1);
    assert_eq!(
        refused.err,
        "error: DemoCredential team-a/db is suspended\n  `keyward resume democredentials/db -n team-a` takes it up again\n"
    );
    let status = cluster
        .keyward(&["status", "-n", NAMESPACE, "-o", "json"])
        .await;
    assert_eq!(json_of(&status.out)["items"][0]["suspended"], true);

    let resumed = cluster
        .keyward(&[&suspend("resume").await[..], &["-o", "json"]].concat())
        .await;
    assert_eq!(json_of(&resumed.out)["changed"], true);
    let rotated = cluster
        .keyward(&["rotate", IT, "-n", NAMESPACE, "--wait", "-o", "json"])
        .await;
    let rotated = json_of(&rotated.out);
    assert_eq!(
        (&rotated["before"], &rotated["after"]),
        (&json!("1.1"), &json!("2.1"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_an_operator_that_is_not_there_ends_in_time() {
    let cluster = Cluster::start().await;
    cluster.create(json!({})).await;
    let ended = cluster
        .keyward(&["rotate", IT, "-n", NAMESPACE, "--wait", "--timeout", "1s"])
        .await;
    assert_eq!(ended.code, 4, "{}", ended.err);
    assert!(
        ended.err.contains("was not rotated within 1s"),
        "{}",
        ended.err
    );
    assert!(
        ended.err.contains("keyward run --controllers demo"),
        "{}",
        ended.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_said_to_be_not_there() {
    let cluster = Cluster::start().await;
    for command in ["explain", "rotate", "suspend", "resume"] {
        let ended = cluster
            .keyward(&[command, "democred/nope", "-n", NAMESPACE])
            .await;
        assert_eq!(ended.code, 3, "{command}: {}", ended.err);
        assert!(
            ended
                .err
                .starts_with("error: there is no DemoCredential team-a/nope\n"),
            "{command}: {}",
            ended.err
        );
    }
    let empty = cluster.keyward(&["status", "-n", NAMESPACE]).await;
    assert_eq!(
        (empty.code, empty.out.as_str()),
        (0, "Nothing in namespace team-a. -A looks everywhere.\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_our_kinds_is_no_riddle() {
    let cluster = Cluster::bare().await;
    let status = cluster.keyward(&["status", "-A"]).await;
    assert_eq!(
        (status.code, status.out.as_str()),
        (0, "Nothing in any namespace.\n")
    );
    let explained = cluster.keyward(&["explain", IT]).await;
    assert_eq!(explained.code, 3);
    assert!(
        explained.err.contains("keyward crds | kubectl apply"),
        "{}",
        explained.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_name_is_a_wrong_usage() {
    let cluster = Cluster::start().await;
    let cases = [
        (
            "pod/x",
            "there is no kind pod\n  there are: KeystoneApplicationCredential (appcred), OpenStackControlPlane (osctlplane), OpenStackDataPlaneNodeSet, GitLabProjectAccessToken (glprat), GitLabGroupAccessToken (glgrat), GitLabPersonalAccessToken (glpat), CephObjectStoreAccount, CephObjectStoreUser (cephosu), CredentialsRequest, DemoCredential (democred), Deployment, StatefulSet, DaemonSet, CronJob",
        ),
        (
            NAME,
            "db names no kind\n  use KIND/NAME, such as appcred/ac-barbican",
        ),
        ("democred/", "democred/ names no resource"),
    ];
    for (name, text) in cases {
        let ended = cluster.keyward(&["explain", name]).await;
        assert_eq!(ended.code, 2, "{name}: {}", ended.err);
        assert!(ended.err.contains(text), "{name}: {}", ended.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_cluster_it_says_so() {
    for args in [
        &["status"][..],
        &["explain", IT],
        &["rotate", IT],
        &["suspend", IT],
    ] {
        let ended = program::run(None, args).await;
        assert_eq!(ended.code, 6, "{args:?}: {}", ended.err);
        assert!(
            ended.err.starts_with("error: no cluster to connect to: "),
            "{}",
            ended.err
        );
        assert!(ended.err.contains("set KUBECONFIG"), "{}", ended.err);
    }
    let cluster = Cluster::start().await;
    cluster.server.stop();
    let ended = cluster.keyward(&["status"]).await;
    assert_eq!(ended.code, 6, "{}", ended.err);
    assert!(ended.err.contains("could not be reached"), "{}", ended.err);
}

/// What the API server turns away for being busy was not carried out, and is asked again when it says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_api_server_is_asked_again_as_it_says() {
    let cluster = Cluster::start().await;
    let _operator = cluster.operator(&[]);
    cluster.create(json!({})).await;
    cluster.until_version("1.1").await;
    for args in [
        &["status", "-n", NAMESPACE][..],
        &["explain", IT, "-n", NAMESPACE],
        &["rotate", IT, "-n", NAMESPACE],
    ] {
        let left = std::sync::atomic::AtomicU32::new(2);
        cluster.server.faults().plan(move |line| {
            use std::sync::atomic::Ordering::Relaxed;
            let of_a_person = line.resource == "democredentials";
            let busy = of_a_person
                && left
                    .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
                    .is_ok();
            if busy { Fault::Error(429) } else { Fault::Pass }
        });
        let ended = cluster.keyward(args).await;
        assert_eq!(ended.code, 0, "{args:?}: {}{}", ended.out, ended.err);
    }
}
