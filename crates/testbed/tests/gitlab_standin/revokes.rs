//! Revocation, and what is left after it on new and on old servers.

use serde_json::json;
use testbed::gitlab::{Settings, Use, Version, level};

use crate::bench::{bench, bench_with};

#[tokio::test]
async fn a_revoke_is_done_at_once_and_again_without_complaint() {
    let bench = bench();
    let made = bench.mint("ci").await;
    for _ in 0..2 {
        let reply = bench.delete(&bench.token(made.id())).await;
        assert_eq!((reply.status, reply.text.as_str()), (204, ""));
    }
    assert_eq!(bench.gitlab.use_token(&made.token()), Use::Revoked);
    let shown = bench.get(&bench.token(made.id())).await;
    assert_eq!(
        (&shown.body["revoked"], &shown.body["active"]),
        (&json!(true), &json!(false))
    );
}

#[tokio::test]
async fn an_old_server_deletes_the_bot_and_every_token_that_was_its() {
    let bench = bench_with(Settings {
        version: Version::new(17, 5, 0),
        ..Settings::default()
    });
    let old = bench.mint("ci").await;
    let new = bench
        .post(&format!("{}/rotate", bench.token(old.id())), json!({}))
        .await;
    assert_eq!(bench.delete(&bench.token(old.id())).await.status, 204);
    assert!(bench.gitlab.token(new.id()).is_none(), "it shared the bot");
    assert_eq!(bench.gitlab.use_token(&new.token()), Use::Unknown);
    let again = bench.delete(&bench.token(old.id())).await;
    again.must_say(404, "404 project Access Token Not Found");
}

#[tokio::test]
async fn a_revoke_of_nothing_says_what_is_missing() {
    let bench = bench();
    let reply = bench.delete(&bench.token(1)).await;
    reply.must_say(404, "404 project Access Token Not Found");
    let reply = bench.delete(&format!("{}/1", bench.group_tokens())).await;
    reply.must_say(404, "404 group Access Token Not Found");
    bench
        .delete("/projects/none/access_tokens/1")
        .await
        .must_say(404, "404 Project Not Found");
    bench
        .delete("/personal_access_tokens/1")
        .await
        .must_say(404, "404 Not found");
}

#[tokio::test]
async fn whoever_may_not_revoke_is_told_by_a_bad_request() {
    let bench = bench();
    let made = bench.mint("ci").await;
    let (user, developer) = bench.person("dan", level::DEVELOPER);
    let reply = bench.delete_as(&developer, &bench.token(made.id())).await;
    reply.must_say(400, "400 Bad request - dan cannot delete ci");
    let personal = format!("/personal_access_tokens/{}", made.id());
    bench
        .delete_as(&developer, &personal)
        .await
        .must_say(400, "400 Bad request");
    // With the project out of sight the same request looks as if the project were gone.
    bench.gitlab.remove_member(bench.project, user);
    bench.gitlab.remove_member(bench.group, user);
    let reply = bench.delete_as(&developer, &bench.token(made.id())).await;
    reply.must_say(404, "404 Project Not Found");
    assert!(bench.gitlab.token(made.id()).unwrap().active);
}

#[tokio::test]
async fn any_token_can_end_itself_without_a_number_or_a_login() {
    let bench = bench();
    let made = bench.mint("ci").await;
    let reply = bench
        .delete_as(&made.token(), "/personal_access_tokens/self")
        .await;
    assert_eq!(reply.status, 204);
    assert_eq!(bench.live_names(), ["login"]);
    let again = bench
        .delete_as(&made.token(), "/personal_access_tokens/self")
        .await;
    assert_eq!(again.body["error"], "invalid_token");
}

#[tokio::test]
async fn a_personal_token_is_looked_at_by_number_by_its_own_user_and_by_administrators() {
    let bench = bench();
    let admin = bench.admin();
    let (_, stranger) = bench.person("sam", level::OWNER);
    let own = bench.gitlab.add_token(bench.owner, "own", &["api"], None);
    let path = format!("/personal_access_tokens/{}", own.id);
    assert_eq!(bench.get(&path).await.status, 200);
    assert_eq!(bench.get_as(&admin, &path).await.status, 200);
    bench
        .get_as(&stranger, &path)
        .await
        .must_say(401, "401 Unauthorized");
    bench
        .get("/personal_access_tokens/1")
        .await
        .must_say(401, "401 Unauthorized");
    assert_eq!(
        bench
            .get_as(&admin, "/personal_access_tokens/1")
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn a_project_that_is_removed_takes_its_tokens_along() {
    let bench = bench();
    let made = bench.mint("ci").await;
    bench.gitlab.remove(bench.project);
    assert_eq!(bench.gitlab.use_token(&made.token()), Use::Unknown);
    bench
        .delete(&bench.token(made.id()))
        .await
        .must_say(404, "404 Project Not Found");
    assert_eq!(bench.live_names(), ["login"]);
}
