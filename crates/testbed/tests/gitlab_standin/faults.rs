//! Faults at any request, and what is known of it afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;
use serde_json::json;
use testbed::canary::Canaries;
use testbed::gitlab::{CREATE_PROJECT_TOKEN, REVOKE_PROJECT_TOKEN, ROTATE_SELF};
use testbed::proxy::Fault;

use crate::bench::{Bench, bench};

/// A create as a program sends it; `None` without a whole answer.
async fn create(bench: &Bench) -> Option<u16> {
    let body = json!({"name": "ci", "scopes": ["api"], "expires_at": "2026-07-01"});
    let request = bench.request(Method::POST, &bench.tokens());
    let request = request.header("PRIVATE-TOKEN", &bench.login).json(&body);
    let reply = request.send().await.ok()?;
    let status = reply.status().as_u16();
    reply.text().await.ok()?;
    Some(status)
}

#[tokio::test]
async fn an_answer_can_be_lost_after_the_token_was_made() {
    let bench = bench();
    for fault in [Fault::DropApplied, Fault::CutBody] {
        bench.gitlab.faults().next(CREATE_PROJECT_TOKEN, fault);
        assert_eq!(create(&bench).await, None);
    }
    assert_eq!(bench.live_names(), ["login", "ci", "ci"]);
    bench
        .gitlab
        .faults()
        .next(CREATE_PROJECT_TOKEN, Fault::DropNotApplied);
    assert_eq!(create(&bench).await, None);
    assert_eq!(bench.live_names().len(), 3);
    assert_eq!(bench.gitlab.faults().count(CREATE_PROJECT_TOKEN), 3);
    assert_eq!(bench.gitlab.journal().len(), 2, "the third never arrived");
}

#[tokio::test]
async fn a_request_can_be_done_twice_or_much_later() {
    let bench = bench();
    bench
        .gitlab
        .faults()
        .next(CREATE_PROJECT_TOKEN, Fault::Twice);
    assert_eq!(create(&bench).await, Some(201));
    assert_eq!(bench.live_names().len(), 3);
    let made = bench.mint("late").await;
    bench
        .gitlab
        .faults()
        .next(REVOKE_PROJECT_TOKEN, Fault::Park);
    let path = bench.token(made.id());
    let revoke = bench.delete(&path);
    let impatient = tokio::time::timeout(std::time::Duration::from_millis(300), revoke);
    assert!(impatient.await.is_err());
    assert!(bench.gitlab.token(made.id()).unwrap().active);
    assert_eq!(bench.gitlab.release_parked(), 1);
    assert!(!bench.gitlab.token(made.id()).unwrap().active);
}

#[tokio::test]
async fn planned_errors_look_like_those_of_gitlab() {
    let bench = bench();
    bench
        .gitlab
        .faults()
        .next("GET /api/v4/user", Fault::Error(500));
    bench
        .get("/user")
        .await
        .must_say(500, "500 Internal Server Error");
    bench
        .gitlab
        .faults()
        .next("GET /api/v4/user", Fault::Error(502));
    let reply = bench.get("/user").await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (502, Some("text/html"))
    );
    bench
        .gitlab
        .faults()
        .next("GET /api/v4/user", Fault::Throttle(7));
    let reply = bench.get("/user").await;
    assert_eq!((reply.status, reply.text.trim()), (429, "Retry later"));
    assert_eq!(reply.header("retry-after"), Some("7"));
}

#[tokio::test]
async fn whoever_dies_in_a_self_rotation_has_lost_it() {
    let bench = bench();
    let died = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&died);
    bench.gitlab.faults().on_crash(move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
    });
    bench.gitlab.faults().next(ROTATE_SELF, Fault::CrashAfter);
    let rotate = bench.post("/personal_access_tokens/self/rotate", json!({}));
    let dead = tokio::time::timeout(std::time::Duration::from_millis(300), rotate);
    assert!(dead.await.is_err());
    assert_eq!(died.load(Ordering::SeqCst), 1);
    let reply = bench.get("/personal_access_tokens/self").await;
    assert_eq!(reply.body["error"], "invalid_token");
    assert_eq!(
        bench.gitlab.live().len(),
        1,
        "alive, and nobody knows its value"
    );
}

#[tokio::test]
async fn how_many_lived_at_once_is_remembered() {
    let bench = bench();
    let one = bench.mint("ci").await;
    let two = bench.mint("ci").await;
    bench.delete(&bench.token(one.id())).await;
    bench.mint("ci").await;
    bench.delete(&bench.token(two.id())).await;
    assert_eq!(bench.gitlab.most_live(|live| live.name == "ci"), 2);
}

#[tokio::test]
async fn no_journal_and_no_record_holds_a_value() {
    let bench = bench();
    let made = bench.mint("ci").await;
    let query = format!("/user?private_token={}", made.token());
    bench.get_as("", &query).await;
    bench.get_as("glpat-never-heard-of", "/user").await;
    let journal = bench.gitlab.journal();
    let actors: Vec<_> = journal.iter().map(|line| line.actor).collect();
    assert_eq!(
        actors,
        [Some(bench.owner), made.body["user_id"].as_u64(), None]
    );
    assert_eq!(
        journal.iter().map(|line| line.status).collect::<Vec<_>>(),
        [201, 200, 401]
    );
    let text = format!(
        "{journal:?} {:?} {:?} {:?}",
        bench.gitlab.faults().log(),
        bench.gitlab.live(),
        bench.gitlab
    );
    let values = bench.gitlab.every_value();
    assert_eq!(values.len(), 2);
    let canaries = Canaries::new();
    for value in &values {
        canaries.add("a token", value.reveal());
    }
    canaries.assert_absent("what is told", text.as_bytes());
}
