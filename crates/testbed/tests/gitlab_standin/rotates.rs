//! Rotation: one dies and the other is born in one moment, and who may ask for it.

use serde_json::{Value, json};
use testbed::gitlab::{Settings, level};

use crate::bench::{bench, bench_with, date};

fn none() -> Value {
    json!({})
}

#[tokio::test]
async fn a_rotation_keeps_the_user_and_everything_but_value_number_and_date() {
    let bench = bench();
    let old = bench.mint("ci").await;
    let new = bench
        .post(&format!("{}/rotate", bench.token(old.id())), none())
        .await;
    assert_eq!((new.status, new.id()), (200, old.id() + 1));
    for key in ["name", "scopes", "user_id", "access_level", "resource_id"] {
        assert_eq!(new.body[key], old.body[key], "{key}");
    }
    assert_ne!(new.token(), old.token());
    assert_eq!(
        new.body["expires_at"], "2026-06-18",
        "a week if nobody says"
    );
    let (was, is) = (
        bench.gitlab.token(old.id()).unwrap(),
        bench.gitlab.token(new.id()).unwrap(),
    );
    assert!(was.revoked && is.active);
    assert_eq!(is.previous, Some(old.id()));
    assert_eq!(bench.get_as(&old.token(), "/user").await.status, 401);
    assert_eq!(bench.get_as(&new.token(), "/user").await.status, 200);
    assert_eq!(bench.gitlab.most_live(|live| live.name == "ci"), 1);
}

#[tokio::test]
async fn a_rotation_that_is_refused_leaves_the_old_one_alive() {
    let bench = bench();
    let old = bench.mint("ci").await;
    let path = format!("{}/rotate", bench.token(old.id()));
    let reply = bench.post(&path, json!({"expires_at": "2027-06-12"})).await;
    reply.must_say(
        400,
        "400 Bad request - Expiration date must be before 2027-06-11",
    );
    assert_eq!(bench.get_as(&old.token(), "/user").await.status, 200);
    let new = bench.post(&path, json!({"expires_at": "2027-06-11"})).await;
    assert_eq!(
        (new.status, &new.body["expires_at"]),
        (200, &json!("2027-06-11"))
    );
}

#[tokio::test]
async fn one_that_is_revoked_already_is_refused_and_ends_nobody() {
    let bench = bench();
    let old = bench.mint("ci").await;
    let path = format!("{}/rotate", bench.token(old.id()));
    let new = bench.post(&path, none()).await;
    let reply = bench.post(&path, none()).await;
    reply.must_say(400, "400 Bad request - Token already revoked");
    assert!(bench.gitlab.token(new.id()).unwrap().active);
}

#[tokio::test]
async fn one_that_is_expired_can_be_rotated_by_somebody_else() {
    let bench = bench();
    let added = bench.gitlab.add_resource_token(
        bench.project,
        bench.owner,
        "old",
        30,
        &["api"],
        Some(date("2026-06-01")),
    );
    let new = bench
        .post(&format!("{}/rotate", bench.token(added.id)), none())
        .await;
    assert_eq!((new.status, &new.body["active"]), (200, &json!(true)));
}

#[tokio::test]
async fn only_administrators_are_told_that_there_is_nothing_to_rotate() {
    let bench = bench();
    let admin = bench.admin();
    let path = format!("{}/rotate", bench.token(1));
    bench
        .post(&path, none())
        .await
        .must_say(401, "401 Unauthorized");
    bench
        .post_as(&admin, &path, none())
        .await
        .must_say(404, "404 Not Found");
    let path = "/personal_access_tokens/1/rotate";
    bench
        .post(path, none())
        .await
        .must_say(401, "401 Unauthorized");
    assert_eq!(bench.post_as(&admin, path, none()).await.status, 404);
}

#[tokio::test]
async fn a_bot_rotates_itself_and_no_other() {
    let bench = bench();
    let (one, two) = (bench.mint("one").await, bench.mint("two").await);
    let reply = bench
        .post_as(
            &one.token(),
            &format!("{}/rotate", bench.token(two.id())),
            none(),
        )
        .await;
    reply.must_say(401, "401 Unauthorized");
    let itself = format!("{}/self/rotate", bench.tokens());
    let new = bench.post_as(&one.token(), &itself, none()).await;
    assert_eq!(
        (new.status, &new.body["user_id"]),
        (200, &one.body["user_id"])
    );
    assert_eq!(new.body["resource_type"], "project");
}

#[tokio::test]
async fn self_of_a_project_is_for_its_bots_only() {
    let bench = bench();
    let itself = format!("{}/self/rotate", bench.tokens());
    bench
        .post(&itself, none())
        .await
        .must_say(405, "405 Method Not Allowed");
    let other = bench.gitlab.add_project("elsewhere/other");
    let bot = bench
        .gitlab
        .add_resource_token(other, bench.owner, "bot", 40, &["api"], None);
    let reply = bench.post_as(bot.value.reveal(), &itself, none()).await;
    reply.must_say(404, "404 Project Not Found");
    let rotating = ["self_rotate"];
    let bot = bench
        .gitlab
        .add_resource_token(bench.project, bench.owner, "b", 40, &rotating, None);
    assert_eq!(
        bench
            .post_as(bot.value.reveal(), &itself, none())
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn more_than_one_has_cannot_be_rotated() {
    let bench = bench();
    let (_, maintainer) = bench.person("mia", level::MAINTAINER);
    let high =
        bench
            .gitlab
            .add_resource_token(bench.project, bench.owner, "high", 50, &["api"], None);
    let path = format!("{}/rotate", bench.token(high.id));
    let reply = bench.post_as(&maintainer, &path, none()).await;
    let more = "Not eligible to rotate tokens with permissions not held by the user";
    reply.must_say(400, &format!("400 Bad request - {more}"));
}

#[tokio::test]
async fn a_personal_token_rotates_itself_with_the_scope_for_just_that() {
    let bench = bench();
    let login = bench.gitlab.add_token(
        bench.owner,
        "root",
        &["self_rotate"],
        Some(date("2026-07-01")),
    );
    let path = "/personal_access_tokens/self/rotate";
    let new = bench
        .post_as(
            login.value.reveal(),
            path,
            json!({"expires_at": "2026-08-01"}),
        )
        .await;
    assert_eq!((new.status, new.id()), (200, login.id + 1));
    assert!(new.body.get("resource_type").is_none());
    assert_eq!(new.body["user_id"], bench.owner);
}

#[tokio::test]
async fn an_instance_may_forbid_to_rotate_what_has_no_fine_grained_rights() {
    let bench = bench_with(Settings {
        forbid_legacy_rotation: true,
        ..Settings::default()
    });
    let reply = bench
        .post("/personal_access_tokens/self/rotate", none())
        .await;
    assert_eq!(reply.status, 400);
    assert!(
        reply
            .text
            .contains("Rotation of legacy personal access tokens is disabled")
    );
    assert_eq!(bench.get("/user").await.status, 200);
}
