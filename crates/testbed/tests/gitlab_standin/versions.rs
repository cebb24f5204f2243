//! What a release does not have yet.

use serde_json::json;
use testbed::gitlab::{Settings, Version, level};

use crate::bench::{Bench, Reply, bench_with};

fn release(major: u16, minor: u16) -> Bench {
    bench_with(Settings {
        version: Version::new(major, minor, 2),
        ..Settings::default()
    })
}

fn must_be_no_route(reply: &Reply) {
    reply.must_be(404, &json!({"error": "404 Not Found"}));
}

#[tokio::test]
async fn the_version_is_told() {
    let bench = release(17, 11);
    let told = bench.get("/metadata").await;
    assert_eq!(
        (&told.body["version"], &told.body["enterprise"]),
        (&json!("17.11.2-ee"), &json!(true))
    );
    assert_eq!(bench.get("/version").await.body["version"], "17.11.2-ee");
    bench
        .get_as("", "/metadata")
        .await
        .must_say(401, "401 Unauthorized");
}

#[tokio::test]
async fn fields_that_came_later_are_not_there() {
    for (bench, there) in [(release(18, 10), false), (release(18, 11), true)] {
        let made = bench.mint("ci").await;
        assert_eq!(made.body.get("granular").is_some(), there);
        let shown = bench.get(&bench.token(made.id())).await;
        assert_eq!(shown.body.get("last_used_ips").is_some(), there);
    }
}

#[tokio::test]
async fn scopes_and_levels_that_came_later_are_refused() {
    let asked =
        |scope: &str, level: u8| json!({"name": "a", "scopes": [scope], "access_level": level});
    for (bench, scope, level, status) in [
        (release(17, 8), "self_rotate", level::MAINTAINER, 400),
        (release(17, 9), "self_rotate", level::MAINTAINER, 201),
        (release(17, 0), "manage_runner", level::MAINTAINER, 400),
        (release(17, 6), "api", level::PLANNER, 400),
        (release(17, 7), "api", level::PLANNER, 201),
        (release(18, 10), "api", level::SECURITY_MANAGER, 400),
    ] {
        let reply = bench.post(&bench.tokens(), asked(scope, level)).await;
        assert_eq!(reply.status, status, "{}", reply.text);
    }
    let (old, new) = (release(17, 11), release(18, 0));
    for (bench, status) in [(old, 400), (new, 201)] {
        let body = asked("read_virtual_registry", level::MAINTAINER);
        assert_eq!(
            bench.post(&bench.group_tokens(), body.clone()).await.status,
            status
        );
        assert_eq!(
            bench.post(&bench.tokens(), body).await.status,
            400,
            "groups only"
        );
    }
}

#[tokio::test]
async fn rotations_came_one_after_the_other() {
    let itself = "/personal_access_tokens/self/rotate";
    let old = release(15, 11);
    let made = old.mint("ci").await;
    must_be_no_route(
        &old.post(&format!("{}/rotate", old.token(made.id())), json!({}))
            .await,
    );
    must_be_no_route(&release(16, 9).post(itself, json!({})).await);
    assert_eq!(release(16, 10).post(itself, json!({})).await.status, 200);
    for (bench, there) in [(release(17, 8), false), (release(17, 9), true)] {
        let bot = bench.mint("ci").await;
        let path = format!("{}/self/rotate", bench.tokens());
        let reply = bench.post_as(&bot.token(), &path, json!({})).await;
        assert_eq!(reply.status == 200, there);
    }
    // A date was not listened to at first.
    for (bench, expires) in [
        (release(16, 5), "2026-06-18"),
        (release(16, 6), "2026-08-01"),
    ] {
        let made = bench.mint("ci").await;
        let path = format!("{}/rotate", bench.token(made.id()));
        let new = bench.post(&path, json!({"expires_at": "2026-08-01"})).await;
        assert_eq!(new.body["expires_at"], expires);
    }
}

#[tokio::test]
async fn a_state_was_not_listened_to_at_first() {
    for (bench, listed) in [(release(17, 1), 1), (release(17, 2), 0)] {
        bench.mint("ci").await;
        let path = format!("{}?state=inactive", bench.tokens());
        assert_eq!(bench.get(&path).await.names().len(), listed);
    }
}

#[tokio::test]
async fn tokens_of_service_accounts_could_not_be_listed_or_revoked_at_first() {
    for (bench, there) in [(release(17, 10), false), (release(17, 11), true)] {
        let account = bench.gitlab.add_service_account("robot", Some(bench.group));
        let path = format!("/groups/team/service_accounts/{account}/personal_access_tokens");
        let made = bench
            .post(&path, json!({"name": "a", "scopes": ["api"]}))
            .await;
        assert_eq!(made.status, 201);
        assert_eq!(bench.get(&path).await.status == 200, there);
        let ended = bench.delete(&format!("{path}/{}", made.id())).await;
        assert_eq!(ended.status == 204, there);
    }
    for (bench, there) in [(release(18, 10), false), (release(18, 11), true)] {
        let reply = bench
            .post("/projects/team%2Fapp/service_accounts", json!({}))
            .await;
        assert_eq!(reply.status == 201, there);
    }
}
