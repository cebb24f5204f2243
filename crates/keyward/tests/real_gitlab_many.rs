//! Many GitLab tokens at once: spread over their schedule, and patient with a GitLab that asks for a pause.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and figures are for people"
)]

mod real_stage;

use std::time::{Duration, Instant};

use futures::StreamExt;
use jiff::{SignedDuration, Timestamp};
use real_stage::forge::{self, Forge, Kind};
use real_stage::{Credential, plane, until};
use serde_json::{Value, json};
use testbed::gitlab::{Journaled, RateLimit, Settings, TooMany};

/// Everything of a crowd takes its time on a small machine.
const PATIENCE: Duration = Duration::from_mins(5);
const AT_ONCE: usize = 16;

/// So many tokens of one project, all alike.
async fn crowd(forge: &Forge, many: usize, more: &Value) -> Vec<Credential> {
    let all: Vec<Credential> = (0..many)
        .map(|number| forge.credential(&format!("app-{number}")))
        .collect();
    futures::stream::iter(&all)
        .for_each_concurrent(AT_ONCE, async |credential| {
            let mut spec = forge.spec(Kind::Project, more);
            spec["export"]["name"] = format!("{}-token", credential.name).into();
            credential.create(&spec).await;
        })
        .await;
    all
}

async fn all_settle(forge: &Forge, all: &[Credential], serial: u32) {
    let settled = async || {
        all.iter()
            .all(|one| one.shown().serial >= serial && one.settled(one.shown().serial))
    };
    if let Err(error) = until("all settle", PATIENCE, settled).await {
        let late = all.iter().filter(|one| !one.settled(serial));
        let late: Vec<String> = late.map(|one| forge.describe(one)).take(3).collect();
        panic!("{error}: {late:#?}");
    }
}

/// The token and the time of the next rotation, as one status tells them.
fn told(credential: &Credential) -> (u64, Timestamp) {
    let object = credential.seen().unwrap();
    let status = &object.data["status"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (
        text(&status["currentTokenRef"]["id"]).parse().unwrap(),
        text(&status["nextRotationTime"]).parse().unwrap(),
    )
}

/// The most that fall into any stretch of this length.
fn busiest(times: &mut [Timestamp], stretch: SignedDuration) -> usize {
    times.sort_unstable();
    let within = |from: &Timestamp| {
        times
            .iter()
            .filter(|time| *from <= **time && time.duration_since(*from) < stretch)
            .count()
    };
    times.iter().map(within).max().unwrap_or(0)
}

/// GL-A12, GL36: on a schedule of every two minutes they come over twelve seconds, none before its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_two_hundred_tokens_on_one_schedule_come_spread() {
    const MANY: usize = 200;
    let begun = Instant::now();
    let stage = forge::stage(plane().await, Kind::Project).await;
    let forge = Forge::new(&stage, "crowd").await;
    let launch = forge.launch(None);
    let operator = launch.start();
    let often = json!({ "rotationSchedule": "*/2 * * * *" });
    let all = crowd(&forge, MANY, &often).await;
    all_settle(&forge, &all, 1).await;
    println!("{:.1?}: {MANY} tokens are ready", begun.elapsed());

    let before: Vec<(u64, Timestamp)> = all.iter().map(told).collect();
    for (_, next) in &before {
        assert!(next.as_second() % 120 <= 12, "{next} is far from its tick");
    }
    let rotated = async || {
        let now = all.iter().map(told);
        now.zip(&before).all(|(now, before)| now.0 != before.0)
    };
    until("all are rotated", PATIENCE, rotated).await.unwrap();
    let mut made = Vec::new();
    for (one, (_, due)) in all.iter().zip(&before) {
        let id = told(one).0;
        let token = forge.gitlab.token(id).unwrap();
        assert!(token.created >= *due, "{} came before its time", one.name);
        made.push(token.created);
    }
    let most = busiest(&mut made, SignedDuration::from_secs(1));
    let took = made[MANY - 1].duration_since(made[0]);
    println!(
        "{:.1?}: {MANY} rotations over {took:#}, {most} in the busiest second",
        begun.elapsed()
    );
    assert!(most <= MANY / 4, "{most} came in one second");
    all_settle(&forge, &all, 2).await;
    let extra = forge
        .gitlab
        .most_live(|live| live.id != forge.login && live.place.is_some());
    assert!(extra <= 2 * MANY);
    forge.assert_no_leak(&launch, Some(&operator)).await;
}

fn limited(requests: u32, answer: TooMany) -> Settings {
    Settings {
        rate_limit: Some(RateLimit {
            requests,
            window: WINDOW,
            answer,
        }),
        ..Settings::default()
    }
}

const WINDOW: Duration = Duration::from_secs(3);
const CROWD: usize = 30;

async fn crowd_at(namespace: &str, requests: u32, answer: TooMany) -> Vec<Journaled> {
    let begun = Instant::now();
    let stage = forge::stage(plane().await, Kind::Project).await;
    let forge = Forge::with(&stage, namespace, limited(requests, answer)).await;
    // All are there when the operator comes, so that they come to GitLab together, as fast as the machine allows.
    let all = crowd(&forge, CROWD, &json!({})).await;
    let launch = forge.launch(None);
    let operator = launch.start();
    all_settle(&forge, &all, 1).await;
    let live = forge.live();
    assert_eq!(live.len(), CROWD + 1, "{live:?}");
    let journal = forge.gitlab.journal();
    let refused = journal.iter().filter(|asked| asked.status == 429).count();
    println!(
        "{namespace}: {CROWD} tokens after {:.1?}, {} requests, {refused} refused",
        begun.elapsed(),
        journal.len()
    );
    assert!(refused > 0, "the limit was never met");
    forge.assert_no_leak(&launch, Some(&operator)).await;
    journal
}

/// GL36: what GitLab says to one it means for all. Only what was under way by then may still arrive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_nobody_asks_before_the_time_that_gitlab_named() {
    const UNDER_WAY: SignedDuration = SignedDuration::from_millis(500);
    for (namespace, answer) in [("plain", TooMany::Plain), ("json", TooMany::Json)] {
        let journal = crowd_at(namespace, 15, answer).await;
        let window = i64::try_from(WINDOW.as_secs()).unwrap();
        for refused in journal.iter().filter(|asked| asked.status == 429) {
            // Retry-After: whole seconds until the window ends.
            let second = refused.at.as_second();
            let named = SignedDuration::from_secs(window - second.rem_euclid(window));
            let early = journal.iter().filter(|asked| {
                let after = asked.at.duration_since(refused.at);
                after > UNDER_WAY && after < named - SignedDuration::from_millis(50)
            });
            let early: Vec<&Journaled> = early.collect();
            assert!(
                early.is_empty(),
                "after {refused:#?} for {named:#}: {early:#?}"
            );
        }
    }
}

/// GL36: not told how long to wait, everybody waits longer each time, and all get there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_refusal_that_names_no_time_is_met_with_patience() {
    for (namespace, answer) in [
        ("plain-silent", TooMany::PlainWithoutHeaders),
        ("json-silent", TooMany::JsonWithoutHeaders),
    ] {
        let journal = crowd_at(namespace, 30, answer).await;
        let refused = journal.iter().filter(|asked| asked.status == 429).count();
        assert!(refused <= CROWD * 6, "{refused} requests were refused");
    }
}
