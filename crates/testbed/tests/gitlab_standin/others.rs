//! Every other sort of token that GitLab has.

use jiff::SignedDuration;
use serde_json::json;
use testbed::gitlab::{Kind, Settings, Use, level};

use crate::bench::{bench, bench_with, date};

#[tokio::test]
async fn administrators_make_personal_tokens_for_others_and_nobody_else_does() {
    let bench = bench();
    let admin = bench.admin();
    let path = format!("/users/{}/personal_access_tokens", bench.owner);
    let body = |date: &str| json!({"name": "for her", "scopes": ["api"], "expires_at": date});
    let made = bench.post_as(&admin, &path, body("2026-07-01")).await;
    assert_eq!(
        (made.status, &made.body["user_id"]),
        (201, &json!(bench.owner))
    );
    bench
        .post(&path, body("2026-07-01"))
        .await
        .must_say(403, "403 Forbidden");
    let reply = bench.post_as(&admin, &path, body("2028-07-01")).await;
    reply.must_say(422, "Expiration date must be before 2027-06-11");
    let reply = bench
        .post_as(
            &admin,
            "/users/4711/personal_access_tokens",
            body("2026-07-01"),
        )
        .await;
    reply.must_say(404, "404 User Not Found");
}

#[tokio::test]
async fn for_oneself_only_what_cannot_do_harm_is_made() {
    let bench = bench();
    let asked = |scope: &str| json!({"name": "mine", "scopes": [scope]});
    let path = "/user/personal_access_tokens";
    let reply = bench.post(path, asked("api")).await;
    reply.must_be(400, &json!({"error": "scopes does not have a valid value"}));
    assert_eq!(bench.post(path, asked("self_rotate")).await.status, 201);
}

#[tokio::test]
async fn impersonation_tokens_live_their_own_life_and_rotate_like_personal_ones() {
    let bench = bench();
    let admin = bench.admin();
    let path = format!("/users/{}/impersonation_tokens", bench.owner);
    let body = json!({"name": "as her", "scopes": ["api"], "expires_at": "2026-07-01"});
    assert_eq!(bench.post(&path, body.clone()).await.status, 403);
    let made = bench.post_as(&admin, &path, body).await;
    assert_eq!(
        (made.status, &made.body["impersonation"]),
        (201, &json!(true))
    );
    assert_eq!(bench.get_as(&made.token(), "/user").await.id(), bench.owner);
    let rotate = "/personal_access_tokens/self/rotate";
    let new = bench.post_as(&made.token(), rotate, json!({})).await;
    assert_eq!(
        (new.status, &new.body["impersonation"]),
        (200, &json!(true))
    );
    assert_eq!(bench.get_as(&admin, &path).await.names().len(), 2);
    let one = format!("{path}/{}", new.id());
    assert_eq!(bench.get_as(&admin, &one).await.status, 200);
    assert_eq!(bench.delete_as(&admin, &one).await.status, 204);
    let none = bench.delete_as(&admin, &format!("{path}/1")).await;
    none.must_say(404, "404 Impersonation Token Not Found");
    assert_eq!(bench.gitlab.use_token(&new.token()), Use::Revoked);
    let empty = json!({"name": "as her", "scopes": []});
    let reply = bench.post_as(&admin, &path, empty).await;
    reply.must_be(400, &json!({"message": {"scopes": ["can't be blank"]}}));
}

#[tokio::test]
async fn a_service_account_has_tokens_that_may_need_no_date() {
    let bench = bench_with(Settings {
        require_service_account_expiry: false,
        ..Settings::default()
    });
    let account = bench
        .post("/groups/team/service_accounts", json!({"name": "Robot"}))
        .await;
    assert_eq!(account.status, 201);
    assert_eq!(
        bench.get("/groups/team/service_accounts").await.names(),
        ["Robot"]
    );
    let path = format!(
        "/groups/team/service_accounts/{}/personal_access_tokens",
        account.id()
    );
    let made = bench
        .post(&path, json!({"name": "a", "scopes": ["api"]}))
        .await;
    assert_eq!((made.status, &made.body["expires_at"]), (201, &json!(null)));
    assert_eq!(
        bench.get_as(&made.token(), "/user").await.id(),
        account.id()
    );
    let new = bench
        .post(&format!("{path}/{}/rotate", made.id()), json!({}))
        .await;
    assert_eq!(
        (new.status, &new.body["expires_at"]),
        (200, &json!("2026-06-18"))
    );
    let live = bench.gitlab.live();
    let live = live.iter().find(|live| live.id == new.id()).unwrap();
    assert_eq!(
        (live.kind, live.place),
        (Kind::ServiceAccount, Some(bench.group))
    );
    assert_eq!(
        bench.delete(&format!("{path}/{}", new.id())).await.status,
        204
    );
    let (_, maintainer) = bench.person("mia", level::MAINTAINER);
    assert_eq!(bench.get_as(&maintainer, &path).await.status, 403);
    let account = format!("/groups/team/service_accounts/{}", account.id());
    assert_eq!(bench.delete(&account).await.status, 204);
    bench.get(&path).await.must_say(404, "404 User Not Found");
    assert_eq!(bench.live_names(), ["login", "of a person"]);
}

#[tokio::test]
async fn a_deploy_token_works_through_its_date_and_never_for_the_api() {
    let bench = bench();
    let path = "/projects/team%2Fapp/deploy_tokens";
    let body =
        json!({"name": "pull", "scopes": ["read_registry"], "expires_at": "2026-06-12T00:00:00Z"});
    let made = bench.post(path, body).await;
    assert_eq!(
        (made.status, &made.body["expires_at"]),
        (201, &json!("2026-06-12T00:00:00.000Z"))
    );
    assert_eq!(
        made.body["username"],
        format!("gitlab+deploy-token-{}", made.id())
    );
    bench
        .get_as(&made.token(), "/user")
        .await
        .must_say(401, "401 Unauthorized");
    bench.gitlab.advance(SignedDuration::from_hours(24));
    assert_eq!(bench.gitlab.use_token(&made.token()), Use::Works);
    assert_eq!(
        bench.get(&format!("{path}?active=true")).await.names(),
        ["pull"]
    );
    bench.gitlab.advance(SignedDuration::from_hours(24));
    assert_eq!(bench.gitlab.use_token(&made.token()), Use::Expired);
    assert_eq!(
        bench
            .get(&format!("{path}?active=true"))
            .await
            .names()
            .len(),
        0
    );
    let one = format!("{path}/{}", made.id());
    assert_eq!(bench.get(&one).await.body["expired"], true);
    assert_eq!(bench.delete(&one).await.status, 204);
    bench
        .delete(&one)
        .await
        .must_say(404, "404 Deploy Token Not Found");
    let wrong = json!({"name": "pull", "scopes": ["read_registry"], "username": "a b"});
    let reply = bench.post("/groups/team/deploy_tokens", wrong).await;
    assert_eq!(reply.status, 400);
    assert!(reply.body["message"]["username"].is_array());
}

#[tokio::test]
async fn a_trigger_is_shown_again_to_its_owner_and_cut_to_others() {
    let bench = bench();
    let path = "/projects/team%2Fapp/triggers";
    let made = bench.post(path, json!({"description": "nightly"})).await;
    assert_eq!(made.status, 201);
    let one = format!("{path}/{}", made.id());
    assert_eq!(bench.get(&one).await.token(), made.token());
    let (_, maintainer) = bench.person("mia", level::MAINTAINER);
    assert_eq!(bench.get_as(&maintainer, &one).await.token().len(), 4);
    assert_eq!(bench.gitlab.use_token(&made.token()), Use::Works);
    assert_eq!(
        bench.get(&one).await.body["last_used"],
        "2026-06-11T12:00:00.000Z"
    );
    assert_eq!(bench.delete(&one).await.status, 204);
    bench
        .delete(&one)
        .await
        .must_say(404, "404 Trigger Not Found");
    assert_eq!(bench.gitlab.use_token(&made.token()), Use::Unknown);
    let reply = bench.post(path, json!({})).await;
    reply.must_be(400, &json!({"error": "description is missing"}));
}

#[tokio::test]
async fn a_runners_token_is_reset_and_the_old_one_is_dead_at_once() {
    let bench = bench();
    let body = json!({"runner_type": "project_type", "project_id": bench.project.id()});
    let made = bench.post("/user/runners", body).await;
    assert_eq!(made.status, 201);
    let reset = bench
        .post(
            &format!("/runners/{}/reset_authentication_token", made.id()),
            json!({}),
        )
        .await;
    assert_eq!(reset.status, 201);
    assert_eq!(bench.gitlab.use_token(&made.token()), Use::Unknown);
    let own = "/runners/reset_authentication_token";
    let again = bench
        .post_as("", own, json!({"token": reset.token()}))
        .await;
    assert_eq!(
        (again.status, bench.gitlab.use_token(&again.token())),
        (201, Use::Works)
    );
    assert_eq!(
        bench
            .post_as("", own, json!({"token": reset.token()}))
            .await
            .status,
        403
    );
    assert_eq!(
        bench
            .delete(&format!("/runners/{}", made.id()))
            .await
            .status,
        204
    );
    assert_eq!(bench.live_names(), ["login"]);
}

#[tokio::test]
async fn users_projects_and_groups_are_looked_at_by_number_and_by_name() {
    let bench = bench();
    let named = bench.get("/users?username=OLGA").await;
    assert_eq!(named.body[0]["id"], bench.owner);
    assert_eq!(
        bench.get(&format!("/users/{}", bench.owner)).await.status,
        200
    );
    for path in [
        "/projects/team%2Fapp",
        &format!("/projects/{}", bench.project.id()),
    ] {
        assert_eq!(
            bench.get(path).await.body["path_with_namespace"],
            "team/app"
        );
    }
    assert_eq!(bench.get("/groups/team").await.id(), bench.group.id());
    bench
        .get("/groups/none")
        .await
        .must_say(404, "404 Group Not Found");
    let dead = bench
        .gitlab
        .add_token(bench.owner, "old", &["api"], Some(date("2026-01-01")));
    assert_eq!(
        bench
            .get_as(dead.value.reveal(), "/groups/team")
            .await
            .status,
        401
    );
}
