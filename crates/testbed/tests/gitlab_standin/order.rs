//! In which order a request is checked, and what each check says.

use http::Method;
use serde_json::{Value, json};

use crate::bench::{Bench, Reply, bench, date};

const SELF_ROTATE: &str = "/personal_access_tokens/self/rotate";

fn invalid_token(why: &str) -> Value {
    json!({"error": "invalid_token", "error_description": why})
}

fn revoked() -> Value {
    invalid_token("Token was revoked. You have to re-authorize from the user.")
}

fn expired() -> Value {
    invalid_token("Token is expired. You can either do re-authorization or token refresh.")
}

fn is_challenged(reply: &Reply) -> bool {
    let why = reply.body["error_description"].as_str().unwrap();
    let wanted = format!(
        "Bearer realm=\"Protected by OAuth 2.0\", error=\"invalid_token\", error_description=\"{why}\""
    );
    reply.header("www-authenticate") == Some(&wanted)
}

/// A personal token of `olga`'s with this scope and date.
fn added(bench: &Bench, scope: &str, expires: Option<&str>) -> (u64, String) {
    let expires = expires.map(date);
    let added = bench
        .gitlab
        .add_token(bench.owner, "added", &[scope], expires);
    (added.id, added.value.reveal().to_owned())
}

#[tokio::test]
async fn an_unknown_token_is_told_nothing() {
    let bench = bench();
    for value in ["", "glpat-nobody-ever-had-this"] {
        let reply = bench.get_as(value, "/personal_access_tokens/self").await;
        reply.must_say(401, "401 Unauthorized");
        assert_eq!(reply.header("www-authenticate"), None);
    }
}

#[tokio::test]
async fn expired_is_told_before_revoked_and_revoked_before_scope() {
    let bench = bench();
    let (id, both) = added(&bench, "read_user", Some("2026-06-11"));
    bench.gitlab.revoke(id);
    let reply = bench.get_as(&both, "/projects/none").await;
    reply.must_be(401, &expired());
    assert!(is_challenged(&reply));
    let (id, dead) = added(&bench, "read_user", None);
    bench.gitlab.revoke(id);
    let reply = bench.get_as(&dead, "/projects/none").await;
    reply.must_be(401, &revoked());
    assert!(is_challenged(&reply));
}

#[tokio::test]
async fn scope_is_told_before_anything_the_route_has_to_say() {
    let bench = bench();
    let (_, reads) = added(&bench, "read_user", None);
    let why = "The request requires higher privileges than provided by the access token.";
    let denied =
        |scope| json!({"error": "insufficient_scope", "error_description": why, "scope": scope});
    let reply = bench.get_as(&reads, "/projects/none").await;
    reply.must_be(403, &denied("api read_api"));
    let reply = bench.post_as(&reads, &bench.tokens(), json!({})).await;
    reply.must_be(403, &denied("api"));
    let reply = bench.post_as(&reads, SELF_ROTATE, json!({})).await;
    reply.must_be(403, &denied("api self_rotate"));
    bench
        .get("/projects/none")
        .await
        .must_say(404, "404 Project Not Found");
}

#[tokio::test]
async fn any_scope_may_look_at_itself_and_end_itself() {
    let bench = bench();
    let (id, reads) = added(&bench, "read_repository", None);
    let shown = bench.get_as(&reads, "/personal_access_tokens/self").await;
    assert_eq!((shown.status, shown.id()), (200, id));
    assert_eq!(bench.get_as(&reads, "/user").await.status, 403);
    let ended = bench
        .delete_as(&reads, "/personal_access_tokens/self")
        .await;
    assert_eq!((ended.status, ended.text.as_str()), (204, ""));
    bench.get_as(&reads, "/user").await.must_be(401, &revoked());
}

#[tokio::test]
async fn a_revoked_caller_on_a_rotate_path_ends_all_that_was_rotated_from_it() {
    let bench = bench();
    let (_, first) = added(&bench, "api", None);
    let second = bench.post_as(&first, SELF_ROTATE, json!({})).await.token();
    let third = bench.post_as(&second, SELF_ROTATE, json!({})).await.token();
    // Any other path is harmless.
    let reply = bench.get_as(&first, "/personal_access_tokens/self").await;
    reply.must_be(401, &revoked());
    assert_eq!(bench.get_as(&third, "/user").await.status, 200);
    let reply = bench.post_as(&first, SELF_ROTATE, json!({})).await;
    reply.must_be(401, &revoked());
    bench.get_as(&third, "/user").await.must_be(401, &revoked());
    assert_eq!(bench.live_names(), ["login"]);
}

#[tokio::test]
async fn the_rotate_path_of_a_project_ends_the_family_just_the_same() {
    let bench = bench();
    let old = bench.mint("bot").await;
    let new = bench
        .post(&format!("{}/rotate", bench.token(old.id())), json!({}))
        .await;
    assert_eq!(new.status, 200);
    // The number in the path need not be its own, nor be there at all.
    let path = format!("{}/rotate", bench.token(1));
    let reply = bench.post_as(&old.token(), &path, json!({})).await;
    reply.must_be(401, &revoked());
    assert!(!bench.gitlab.token(new.id()).unwrap().active);
}

#[tokio::test]
async fn an_expired_caller_ends_nobody() {
    let bench = bench();
    let (_, first) = added(&bench, "api", Some("2026-06-12"));
    let next = json!({"expires_at": "2026-08-01"});
    let second = bench.post_as(&first, SELF_ROTATE, next).await.token();
    bench.gitlab.advance(jiff::SignedDuration::from_hours(24));
    bench
        .post_as(&first, SELF_ROTATE, json!({}))
        .await
        .must_be(401, &expired());
    assert_eq!(bench.get_as(&second, "/user").await.status, 200);
}

#[tokio::test]
async fn a_token_is_taken_from_either_header_or_from_the_query() {
    let bench = bench();
    let bearer = bench
        .request(Method::GET, "/user")
        .bearer_auth(&bench.login);
    assert_eq!(Bench::read(bearer.send().await.unwrap()).await.status, 200);
    let query = format!("/user?private_token={}", bench.login);
    let query = bench.request(Method::GET, &query).send().await.unwrap();
    assert_eq!(Bench::read(query).await.status, 200);
    let journal = bench.gitlab.journal();
    let paths: Vec<_> = journal.iter().map(|line| line.path.as_str()).collect();
    assert_eq!(paths, ["/api/v4/user", "/api/v4/user"]);
    assert!(journal.iter().all(|line| line.actor == Some(bench.owner)));
}

#[tokio::test]
async fn what_is_no_route_is_not_found_in_another_shape() {
    let bench = bench();
    for path in ["/nothing", "/projects/1/access_tokens/self"] {
        let reply = bench.get(path).await;
        reply.must_be(404, &json!({"error": "404 Not Found"}));
    }
}

#[tokio::test]
async fn a_blocked_user_is_refused_until_unblocked() {
    let bench = bench();
    bench.gitlab.set_blocked(bench.owner, true);
    assert_eq!(bench.get("/user").await.status, 403);
    bench.gitlab.set_blocked(bench.owner, false);
    assert_eq!(bench.get("/user").await.status, 200);
}
