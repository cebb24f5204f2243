//! Lists: what is in them, in which order, and how they are cut into pages.

use jiff::SignedDuration;
use serde_json::json;
use testbed::gitlab::{Settings, level};

use crate::bench::{Bench, bench, bench_with, date};

/// Five, a minute apart: alive, revoked, expiring today, expired, and alive without a date.
fn five() -> Bench {
    let bench = bench();
    let minute = SignedDuration::from_mins(1);
    let add = |name: &str, expires: Option<&str>| {
        let expires = expires.map(date);
        let made = bench.gitlab.add_resource_token(
            bench.project,
            bench.owner,
            name,
            30,
            &["api"],
            expires,
        );
        bench.gitlab.advance(minute);
        made
    };
    add("Alive App", Some("2026-07-01"));
    let revoked = add("revoked app", Some("2026-07-01"));
    add("today", Some("2026-06-11"));
    add("expired", Some("2026-06-01"));
    add("undated app", None);
    bench.gitlab.revoke(revoked.id);
    bench
}

#[tokio::test]
async fn a_state_is_asked_for_and_what_ends_today_has_none() {
    let bench = five();
    let tokens = bench.tokens();
    let state = async |query: &str| bench.get(&format!("{tokens}?{query}")).await;
    assert_eq!(state("").await.names().len(), 5);
    assert_eq!(
        state("state=active").await.names(),
        ["Alive App", "undated app"]
    );
    assert_eq!(
        state("state=inactive").await.names(),
        ["revoked app", "expired"]
    );
    assert_eq!(state("revoked=true").await.names(), ["revoked app"]);
    assert_eq!(state("revoked=false").await.names().len(), 4);
    let wrong = state("state=dead").await;
    wrong.must_be(400, &json!({"error": "state does not have a valid value"}));
}

#[tokio::test]
async fn a_search_looks_at_names_only_and_at_every_word() {
    let bench = five();
    let tokens = bench.tokens();
    let found = async |text: &str| bench.get(&format!("{tokens}?search={text}")).await;
    assert_eq!(
        found("app").await.names(),
        ["Alive App", "revoked app", "undated app"]
    );
    assert_eq!(found("alive%20APP").await.names(), ["Alive App"]);
    assert_eq!(found("to").await.names().len(), 0, "too short for a part");
    assert_eq!(found("today").await.names(), ["today"]);
}

#[tokio::test]
async fn times_and_orders_are_asked_for() {
    let bench = five();
    let tokens = bench.tokens();
    let asked = async |query: &str| bench.get(&format!("{tokens}?{query}")).await;
    let after = asked("created_after=2026-06-11T12:03:00Z").await;
    assert_eq!(after.names(), ["expired", "undated app"]);
    let before = asked("created_before=2026-06-11T12:01:00Z&sort=created_desc").await;
    assert_eq!(before.names(), ["revoked app", "Alive App"]);
    assert_eq!(asked("sort=name_asc").await.names()[0], "Alive App");
    assert_eq!(asked("sort=expires_asc").await.names()[0], "expired");
    assert_eq!(asked("last_used_after=2026-01-01").await.names().len(), 0);
}

#[tokio::test]
async fn a_list_comes_in_pages_and_its_links_lead_to_the_configured_host() {
    let bench = bench();
    for i in 0..45 {
        let name = format!("bot {i:02}");
        bench
            .gitlab
            .add_resource_token(bench.project, bench.owner, &name, 30, &["api"], None);
    }
    let first = bench.get(&bench.tokens()).await;
    assert_eq!(first.names().len(), 20);
    for (name, value) in [
        ("x-page", "1"),
        ("x-per-page", "20"),
        ("x-next-page", "2"),
        ("x-prev-page", ""),
        ("x-total", "45"),
        ("x-total-pages", "3"),
    ] {
        assert_eq!(first.header(name), Some(value), "{name}");
    }
    let next = format!(
        "<https://gitlab.example.com/api/v4{}?page=2&per_page=20>; rel=\"next\"",
        bench.tokens()
    );
    assert!(first.header("link").unwrap().contains(&next));
    let last = bench.get(&format!("{}?page=3", bench.tokens())).await;
    assert_eq!(
        (last.names().len(), last.header("x-next-page")),
        (5, Some(""))
    );
    let all = bench
        .get(&format!("{}?per_page=1000", bench.tokens()))
        .await;
    assert_eq!(
        (all.names().len(), all.header("x-per-page")),
        (45, Some("100"))
    );
    let beyond = bench.get(&format!("{}?page=9", bench.tokens())).await;
    assert_eq!((beyond.status, beyond.names().len()), (200, 0));
    let wrong = bench.get(&format!("{}?page=0", bench.tokens())).await;
    wrong.must_be(400, &json!({"error": "page does not have a valid value"}));
}

#[tokio::test]
async fn a_list_that_is_too_long_to_count_has_no_total() {
    let bench = bench_with(Settings {
        count_up_to: 3,
        link_host: None,
        ..Settings::default()
    });
    for _ in 0..4 {
        bench
            .gitlab
            .add_resource_token(bench.project, bench.owner, "bot", 30, &["api"], None);
    }
    let first = bench.get(&format!("{}?per_page=2", bench.tokens())).await;
    assert_eq!(
        (first.header("x-total"), first.header("x-next-page")),
        (None, Some("2"))
    );
    let link = first.header("link").unwrap();
    assert!(link.contains(&bench.gitlab.url()) && !link.contains("rel=\"last\""));
}

#[tokio::test]
async fn only_who_manages_tokens_gets_a_list_and_everybody_else_is_nobody() {
    let bench = bench();
    let made = bench.mint("ci").await;
    let (_, developer) = bench.person("dan", level::DEVELOPER);
    let (_, maintainer) = bench.person("mia", level::MAINTAINER);
    for path in [bench.tokens(), bench.token(made.id())] {
        bench
            .get_as(&developer, &path)
            .await
            .must_say(401, "401 Unauthorized");
        assert_eq!(bench.get_as(&maintainer, &path).await.status, 200);
        assert_eq!(
            bench.get_as(&made.token(), &path).await.status,
            200,
            "a maintainer bot"
        );
    }
    assert_eq!(
        bench
            .get_as(&maintainer, &bench.group_tokens())
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn personal_tokens_are_listed_to_their_user_and_all_to_administrators() {
    let bench = bench();
    let (sam, stranger) = bench.person("sam", 0);
    bench.mint("ci").await;
    assert_eq!(
        bench
            .get_as(&stranger, "/personal_access_tokens")
            .await
            .names(),
        ["of a person"]
    );
    let of_sam = format!("/personal_access_tokens?user_id={sam}");
    bench.get(&of_sam).await.must_say(401, "401 Unauthorized");
    let admin = bench.admin();
    assert_eq!(bench.get_as(&admin, &of_sam).await.names(), ["of a person"]);
    assert_eq!(
        bench
            .get_as(&admin, "/personal_access_tokens")
            .await
            .names()
            .len(),
        4
    );
}
