//! Dates, last uses, retention and rate limits, all by the stand-in's own clock.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use testbed::gitlab::{RateLimit, Settings, TooMany, Use};

use crate::bench::{at, bench, bench_with, date};

#[tokio::test]
async fn a_token_is_dead_from_the_first_second_of_its_date() {
    let bench = bench();
    let made = bench.mint("ci").await;
    let expiring = |day| {
        bench
            .gitlab
            .add_token(bench.owner, "x", &["api"], Some(date(day)))
    };
    let today = expiring("2026-06-11");
    assert_eq!(bench.gitlab.use_token(today.value.reveal()), Use::Expired);
    bench.gitlab.stop_clock(at("2026-07-10T23:59:59Z"));
    assert_eq!(bench.gitlab.use_token(&made.token()), Use::Works);
    assert_eq!(
        bench.get(&bench.token(made.id())).await.body["active"],
        true
    );
    bench.gitlab.advance(SignedDuration::from_secs(1));
    assert_eq!(bench.gitlab.use_token(&made.token()), Use::Expired);
    let shown = bench.get(&bench.token(made.id())).await;
    assert_eq!(
        (&shown.body["active"], &shown.body["revoked"]),
        (&json!(false), &json!(false))
    );
    let refused = bench.get_as(&made.token(), "/user").await;
    assert_eq!(
        (refused.status, &refused.body["error"]),
        (401, &json!("invalid_token"))
    );
}

#[tokio::test]
async fn one_without_a_date_never_dies_of_age() {
    let bench = bench();
    bench.gitlab.set_clock(at("2126-01-01T00:00:00Z"));
    assert_eq!(bench.get("/user").await.status, 200);
}

#[tokio::test]
async fn the_servers_clock_is_on_every_answer() {
    let bench = bench();
    let reply = bench.get("/metadata").await;
    assert_eq!(reply.header("date"), Some("Thu, 11 Jun 2026 12:00:00 GMT"));
}

#[tokio::test]
async fn a_last_use_is_written_down_once_in_ten_minutes() {
    let bench = bench();
    let made = bench.mint("ci").await;
    let last_used = async || bench.get(&bench.token(made.id())).await.body["last_used_at"].clone();
    assert_eq!(last_used().await, Value::Null);
    assert_eq!(bench.gitlab.use_token(&made.token()), Use::Works);
    assert_eq!(last_used().await, "2026-06-11T12:00:00.000Z");
    bench.gitlab.advance(SignedDuration::from_mins(10));
    bench.gitlab.use_token(&made.token());
    assert_eq!(last_used().await, "2026-06-11T12:00:00.000Z");
    bench.gitlab.advance(SignedDuration::from_secs(1));
    // A look at itself is a use like any other; a look by somebody else is none.
    bench
        .get_as(&made.token(), "/personal_access_tokens/self")
        .await;
    assert_eq!(last_used().await, "2026-06-11T12:10:01.000Z");
}

#[tokio::test]
async fn inactive_tokens_are_gone_with_their_bots_after_the_retention_time() {
    let bench = bench();
    let (revoked, alive) = (bench.mint("revoked").await, bench.mint("alive").await);
    bench.delete(&bench.token(revoked.id())).await;
    bench.gitlab.advance(SignedDuration::from_hours(24 * 29));
    assert_eq!(bench.gitlab.run_retention(), 0);
    assert_eq!(bench.delete(&bench.token(revoked.id())).await.status, 204);
    bench.gitlab.advance(SignedDuration::from_hours(24 * 2));
    assert_eq!(bench.gitlab.run_retention(), 1);
    let reply = bench.delete(&bench.token(revoked.id())).await;
    reply.must_say(404, "404 project Access Token Not Found");
    // Expired since the eleventh, which is not long enough.
    assert_eq!(bench.get(&bench.token(alive.id())).await.status, 200);
}

fn limited(answer: TooMany) -> Settings {
    Settings {
        rate_limit: Some(RateLimit {
            requests: 2,
            window: Duration::from_mins(1),
            answer,
        }),
        ..Settings::default()
    }
}

#[tokio::test]
async fn too_many_requests_are_refused_in_plain_text_with_all_headers_until_the_window_ends() {
    let bench = bench_with(limited(TooMany::Plain));
    bench.gitlab.advance(SignedDuration::from_secs(20));
    for _ in 0..2 {
        let reply = bench.get("/user").await;
        assert_eq!((reply.status, reply.header("ratelimit-limit")), (200, None));
    }
    let made = bench
        .post(&bench.tokens(), json!({"name": "ci", "scopes": ["api"]}))
        .await;
    assert_eq!((made.status, made.text.trim()), (429, "Retry later"));
    assert_eq!(made.header("content-type"), Some("text/plain"));
    for (name, value) in [
        ("ratelimit-limit", "2"),
        ("ratelimit-name", "throttle_authenticated_api"),
        ("ratelimit-observed", "3"),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", "1781179260"),
        ("ratelimit-resettime", "Thu, 11 Jun 2026 12:01:00 GMT"),
        ("retry-after", "40"),
    ] {
        assert_eq!(made.header(name), Some(value), "{name}");
    }
    assert_eq!(bench.live_names(), ["login"], "nothing was done");
    let (_, other) = bench.person("sam", 0);
    assert_eq!(
        bench.get_as(&other, "/user").await.status,
        200,
        "limits are by user"
    );
    bench.gitlab.advance(SignedDuration::from_secs(40));
    assert_eq!(bench.get("/user").await.status, 200);
}

#[tokio::test]
async fn too_many_requests_may_also_come_without_headers_or_as_json() {
    for (answer, json, waits) in [
        (TooMany::PlainWithoutHeaders, false, false),
        (TooMany::Json, true, true),
        (TooMany::JsonWithoutHeaders, true, false),
    ] {
        let bench = bench_with(limited(answer));
        for _ in 0..2 {
            bench.get("/user").await;
        }
        let reply = bench.get("/user").await;
        assert_eq!(reply.status, 429);
        assert_eq!(reply.body["message"].is_object(), json);
        assert_eq!(reply.header("retry-after").is_some(), waits);
        assert_eq!(reply.header("ratelimit-limit"), None);
    }
}

#[tokio::test]
async fn newer_servers_tell_of_the_limit_on_every_answer() {
    let bench = bench_with(Settings {
        rate_headers_on_every_answer: true,
        ..limited(TooMany::Plain)
    });
    let reply = bench.get("/user").await;
    assert_eq!(reply.header("ratelimit-remaining"), Some("1"));
    assert_eq!(reply.header("retry-after"), None);
}
