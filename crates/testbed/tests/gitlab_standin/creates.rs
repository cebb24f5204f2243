//! Who may make which token, with which date, and what the answer looks like.

use http::Method;
use serde_json::{Value, json};
use testbed::gitlab::{Kind, Settings, level};

use crate::bench::{Bench, bench, bench_with, date};

fn wanted() -> Value {
    json!({"name": "ci", "scopes": ["read_api"], "expires_at": "2026-07-01", "access_level": 30})
}

/// The keys of a flat object, in the order in which they were written.
fn keys_of(text: &str) -> Vec<&str> {
    let members = text.split("\":").map(|before| before.rsplit('"').next());
    let mut keys: Vec<_> = members.flatten().collect();
    keys.pop();
    keys
}

#[tokio::test]
async fn a_create_answers_with_everything_in_order_and_the_value_once() {
    let bench = bench();
    let mut body = wanted();
    body["description"] = json!("Keyward: team/app");
    let made = bench.post("/projects/team%2Fapp/access_tokens", body).await;
    assert_eq!(made.status, 201);
    let keys = [
        "id",
        "name",
        "revoked",
        "created_at",
        "description",
        "scopes",
        "user_id",
        "last_used_at",
        "active",
        "granular",
        "expires_at",
        "access_level",
        "resource_type",
        "resource_id",
        "token",
    ];
    assert_eq!(keys_of(&made.text), keys);
    assert_eq!(made.body["created_at"], "2026-06-11T12:00:00.000Z");
    assert_eq!(made.body["expires_at"], "2026-07-01");
    assert_eq!(
        (&made.body["access_level"], &made.body["resource_type"]),
        (&json!(30), &json!("project"))
    );
    let shown = bench.get(&bench.token(made.id())).await;
    assert_eq!(shown.status, 200);
    assert!(shown.body.get("token").is_none());
    assert_eq!(shown.body["last_used_ips"], json!([]));
    let own = bench.get("/personal_access_tokens/self").await;
    let keys = [
        "id",
        "name",
        "revoked",
        "created_at",
        "description",
        "scopes",
        "user_id",
        "last_used_at",
        "active",
        "granular",
        "expires_at",
        "last_used_ips",
    ];
    assert_eq!(keys_of(&own.text), keys);
}

#[tokio::test]
async fn each_create_makes_a_new_bot_that_the_token_acts_as() {
    let bench = bench();
    let (one, two) = (bench.mint("ci").await, bench.mint("ci").await);
    assert_ne!(one.body["user_id"], two.body["user_id"]);
    let me = bench.get_as(&one.token(), "/user").await;
    assert_eq!(
        (me.id(), &me.body["bot"]),
        (one.body["user_id"].as_u64().unwrap(), &json!(true))
    );
    let name = me.body["username"].as_str().unwrap();
    assert!(name.starts_with(&format!("project_{}_bot_", bench.project.id())));
    let live = bench.gitlab.live();
    let live: Vec<_> = live
        .iter()
        .filter(|live| live.kind == Kind::Project)
        .collect();
    assert_eq!(live.len(), 2, "names need not differ");
    assert!(
        live.iter()
            .all(|live| live.creator == bench.owner && live.place == Some(bench.project))
    );
}

#[tokio::test]
async fn maintainers_make_project_tokens_and_only_owners_group_tokens() {
    let bench = bench();
    let (_, maintainer) = bench.person("mia", level::MAINTAINER);
    let (_, developer) = bench.person("dan", level::DEVELOPER);
    assert_eq!(
        bench
            .post_as(&maintainer, &bench.tokens(), wanted())
            .await
            .status,
        201
    );
    assert_eq!(
        bench.post(&bench.group_tokens(), wanted()).await.status,
        201
    );
    let denied = "400 Bad request - User does not have permission to create";
    let reply = bench.post_as(&developer, &bench.tokens(), wanted()).await;
    reply.must_say(400, &format!("{denied} project access token"));
    let reply = bench
        .post_as(&maintainer, &bench.group_tokens(), wanted())
        .await;
    reply.must_say(400, &format!("{denied} group access token"));
}

#[tokio::test]
async fn nobody_gives_more_than_he_has_and_no_bot_gives_anything() {
    let bench = bench();
    let (_, maintainer) = bench.person("mia", level::MAINTAINER);
    let mut body = wanted();
    body["access_level"] = json!(level::OWNER);
    let reply = bench
        .post_as(&maintainer, &bench.tokens(), body.clone())
        .await;
    let more = "Access level of the token contains permissions not held by the creating user";
    reply.must_say(400, &format!("400 Bad request - {more}"));
    body["scopes"] = json!(["api"]);
    let bot = bench.post(&bench.tokens(), body).await;
    assert_eq!(bot.status, 201);
    let reply = bench.post_as(&bot.token(), &bench.tokens(), wanted()).await;
    assert!(
        reply
            .text
            .contains("User does not have permission to create project access token")
    );
}

#[tokio::test]
async fn what_cannot_be_seen_is_not_found() {
    let bench = bench();
    let (_, stranger) = bench.person("sam", 0);
    let reply = bench.post_as(&stranger, &bench.tokens(), wanted()).await;
    reply.must_say(404, "404 Project Not Found");
    let reply = bench
        .post_as(&stranger, "/groups/team/access_tokens", wanted())
        .await;
    reply.must_say(404, "404 Group Not Found");
    // A public one can be seen, and is refused in another way.
    bench
        .gitlab
        .set_visibility(bench.project, testbed::gitlab::Visibility::Public);
    assert_eq!(
        bench
            .post_as(&stranger, &bench.tokens(), wanted())
            .await
            .status,
        400
    );
    bench
        .get_as(&stranger, &bench.tokens())
        .await
        .must_say(401, "401 Unauthorized");
}

#[tokio::test]
async fn a_form_that_is_wrong_is_told_all_at_once_and_before_the_project_is_looked_for() {
    let bench = bench();
    let none = "/projects/none/access_tokens";
    for (body, why) in [
        (json!({}), "name is missing, scopes is missing"),
        (
            json!({"name": "a", "scopes": ["root"]}),
            "scopes does not have a valid value",
        ),
        (
            json!({"name": "a", "scopes": ["api"], "expires_at": "soon"}),
            "expires_at is invalid",
        ),
        (
            json!({"name": "a", "scopes": ["api"], "access_level": 33}),
            "access_level does not have a valid value",
        ),
    ] {
        bench
            .post(none, body)
            .await
            .must_be(400, &json!({"error": why}));
    }
    let long = json!({"name": "a", "scopes": ["api"], "description": "x".repeat(256)});
    let reply = bench.post(&bench.tokens(), long).await;
    reply.must_say(
        400,
        "400 Bad request - Description is too long (maximum is 255 characters)",
    );
}

#[tokio::test]
async fn a_form_may_come_as_a_form() {
    let bench = bench();
    let body = "name=ci&scopes[]=api&scopes%5B%5D=read_api&expires_at=2026-07-01";
    let request = bench
        .request(Method::POST, &bench.tokens())
        .header("PRIVATE-TOKEN", &bench.login)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(body);
    let made = Bench::read(request.send().await.unwrap()).await;
    assert_eq!(
        (made.status, &made.body["scopes"]),
        (201, &json!(["api", "read_api"]))
    );
}

#[tokio::test]
async fn the_last_allowed_date_is_allowed_and_the_next_is_not() {
    let bench = bench();
    let until = |day: &str| json!({"name": "ci", "scopes": ["api"], "expires_at": day});
    let reply = bench.post(&bench.tokens(), until("2027-06-12")).await;
    reply.must_say(
        400,
        "400 Bad request - Expiration date must be before 2027-06-11",
    );
    assert_eq!(
        bench
            .post(&bench.tokens(), until("2027-06-11"))
            .await
            .status,
        201
    );
    bench
        .gitlab
        .change_settings(|settings| settings.max_lifetime_days = 30);
    let reply = bench.post(&bench.tokens(), until("2026-07-12")).await;
    reply.must_say(
        400,
        "400 Bad request - Expiration date must be before 2026-07-11",
    );
}

#[tokio::test]
async fn a_create_without_a_date_gets_the_longest_or_none_as_it_is_set() {
    let bench = bench();
    let body = json!({"name": "ci", "scopes": ["api"]});
    let made = bench.post(&bench.tokens(), body.clone()).await;
    assert_eq!(made.body["expires_at"], "2027-06-11");
    bench
        .gitlab
        .change_settings(|settings| settings.max_lifetime_days = 400);
    let made = bench.post(&bench.tokens(), body.clone()).await;
    assert_eq!(made.body["expires_at"], "2027-06-11");
    bench
        .gitlab
        .change_settings(|settings| settings.require_expiry = false);
    let made = bench.post(&bench.tokens(), body.clone()).await;
    assert_eq!((made.status, &made.body["expires_at"]), (201, &Value::Null));
    let settings = Settings {
        expiry_must_be_sent: true,
        ..Settings::default()
    };
    let strict = bench_with(settings);
    let reply = strict.post(&strict.tokens(), body).await;
    reply.must_be(400, &json!({"error": "expires_at is missing"}));
}

#[tokio::test]
async fn a_token_that_a_person_made_is_live_until_a_person_revokes_it() {
    let bench = bench();
    let expires = Some(date("2026-07-01"));
    let foreign =
        bench
            .gitlab
            .add_resource_token(bench.group, bench.owner, "foreign", 30, &["api"], expires);
    let live = bench.gitlab.live();
    let live = live.iter().find(|live| live.id == foreign.id).unwrap();
    assert_eq!((live.kind, live.place), (Kind::Group, Some(bench.group)));
    assert!(bench.gitlab.revoke(foreign.id) && !bench.gitlab.revoke(foreign.id));
    assert_eq!(bench.live_names(), ["login"]);
    assert!(bench.gitlab.journal().is_empty());
}
