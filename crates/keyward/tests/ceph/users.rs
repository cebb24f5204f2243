//! Users, by themselves and in accounts.

use serde_json::{Value, json};

use super::stage::{ACCOUNT, ANNS_SECRET, NAMESPACE, STORE, Stage, USER, hours};

/// S003-11, S003-13, S003-18, RGW24: both at once, the user first; it is not failed meanwhile, and no clock is needed.
#[tokio::test]
async fn a_user_waits_for_its_account() {
    let stage = Stage::new().await;
    let _operator = stage.operator().await;
    let spec = json!({ "displayName": "ann", "accountRef": { "name": "acme" } });
    stage.create(USER, "ann", spec).await;
    let told = stage.until_said(USER, "ann", "IssuerNotReady").await;
    assert!(told.contains("CephObjectStoreAccount acme"), "{told}");
    assert_eq!(stage.status(USER, "ann").await["phase"], "Progressing");
    stage.create(ACCOUNT, "acme", json!({})).await;
    stage.until_ready(ACCOUNT, "acme").await;
    stage.until_ready(USER, "ann").await;
    let id = stage.status(ACCOUNT, "acme").await["accountID"].clone();
    let user = stage.user("ann").await.unwrap();
    assert_eq!(
        (&user["account_id"], &user["display_name"]),
        (&id, &json!("ann"))
    );
    assert_eq!(
        stage.status(USER, "ann").await["info"]["secretName"],
        ANNS_SECRET
    );

    // S003-16.
    stage.delete(USER, "ann").await;
    stage.until_gone(USER, "ann").await;
    assert!(stage.user("ann").await.is_none());
    assert!(stage.account(id.as_str().unwrap()).await.is_some());
}

/// S003-12, S003-14.
#[tokio::test]
async fn a_user_must_fit_its_account() {
    let stage = Stage::new().await;
    let _operator = stage.operator().await;
    stage.create(ACCOUNT, "acme", json!({})).await;
    stage.until_ready(ACCOUNT, "acme").await;
    let elsewhere = json!({ "store": "another", "accountRef": { "name": "acme" } });
    stage.create(USER, "lost", elsewhere).await;
    stage
        .until("its store is missed", || async {
            !stage.condition(USER, "lost", "Ready").await.is_null()
        })
        .await;
    let told = stage.until_said(USER, "lost", "InvalidSpec").await;
    assert!(told.contains("store"), "{told}");
    let named = json!({ "displayName": "Ann Example", "accountRef": { "name": "acme" } });
    stage.create(USER, "ann", named).await;
    let told = stage.until_said(USER, "ann", "InvalidSpec").await;
    assert!(told.contains("displayName"), "{told}");
    assert_eq!(stage.status(USER, "ann").await["phase"], "ReconcileFailed");
    stage
        .patch(
            USER,
            "ann",
            json!({ "spec": { "displayName": "a+b=c,d.e@f-g_h" } }),
        )
        .await;
    stage.until_ready(USER, "ann").await;
    assert_eq!(
        stage.user("ann").await.unwrap()["display_name"],
        "a+b=c,d.e@f-g_h"
    );
    stage
        .create(
            USER,
            "bob",
            json!({ "displayName": "Bob Example, by himself" }),
        )
        .await;
    stage.until_ready(USER, "bob").await;
    assert_eq!(
        stage.user("bob").await.unwrap()["display_name"],
        "Bob Example, by himself"
    );
}

/// RGW29, and RGW31: a user gets a key.
#[tokio::test]
async fn what_a_user_may_do_follows_the_spec() {
    let stage = Stage::new().await;
    let operator = stage.operator().await;
    let spec = json!({
        "capabilities": { "users": "read", "buckets": "*" }, "opMask": ["read"],
        "quotas": { "maxBuckets": 3, "maxSize": 1024, "maxObjects": 5 },
    });
    stage.create(USER, "ann", spec).await;
    stage.until_ready(USER, "ann").await;
    let user = stage.user("ann").await.unwrap();
    let caps = |user: &Value| user["caps"].as_array().unwrap().len();
    assert_eq!(
        (caps(&user), &user["op_mask"], &user["max_buckets"]),
        (2, &json!("read"), &json!(3))
    );
    assert_eq!(user["user_quota"]["max_objects"], 5);
    assert_eq!(stage.live("ann").len(), 1);
    stage.calm(&operator).await;
    let changes = stage.changes();
    stage
        .annotate(USER, "ann", "example.com/touched", "yes")
        .await;
    stage.live_through(&operator, hours(7)).await;
    assert_eq!(
        stage.changes(),
        changes,
        "nothing changed, nothing is written"
    );

    let nothing = json!({ "spec": { "capabilities": null, "opMask": [], "quotas": null } });
    stage.patch(USER, "ann", nothing).await;
    stage.until_ready(USER, "ann").await;
    let user = stage.user("ann").await.unwrap();
    assert_eq!(
        (caps(&user), &user["op_mask"], &user["max_buckets"]),
        (0, &json!("<none>"), &json!(1000))
    );
    assert_eq!(user["user_quota"]["enabled"], false);
    stage
        .patch(USER, "ann", json!({ "spec": { "opMask": null } }))
        .await;
    stage.until_ready(USER, "ann").await;
    assert_eq!(
        stage.user("ann").await.unwrap()["op_mask"],
        "read, write, delete"
    );
}

/// RGW27: the same name in two namespaces, a name that others need, and a user that was there.
#[tokio::test]
async fn a_user_of_somebody_elses_is_never_taken() {
    let stage = Stage::new().await;
    let operator = stage.operator().await;
    stage.server.create_namespace("team-b");
    stage.allow_users_in(&["*"]).await;
    stage.create(USER, "ann", json!({})).await;
    stage.until_ready(USER, "ann").await;
    let before = stage.user("ann").await;

    let team_b = stage.api_in(USER, "team-b");
    let spec = json!({ "store": STORE, "clusterNamespace": NAMESPACE });
    stage.try_create(&team_b, USER, "ann", spec).await.unwrap();
    stage
        .until("the second is told", || async {
            let second = team_b.get("ann").await.unwrap();
            let conditions = second.data["status"]["conditions"].as_array().cloned();
            let mut conditions = conditions.unwrap_or_default().into_iter();
            conditions.any(|one| one["type"] == "Ready" && one["reason"] == "ThingOfAnother")
        })
        .await;
    stage.calm(&operator).await;
    let secrets = stage.server.objects("secrets");
    assert!(
        secrets
            .iter()
            .all(|secret| secret["metadata"]["namespace"] != "team-b")
    );
    team_b
        .delete("ann", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    stage
        .until("the second is gone", || async {
            team_b.get_opt("ann").await.unwrap().is_none()
        })
        .await;
    assert_eq!(stage.user("ann").await, before);

    stage.create(USER, "rgw-admin-ops-user", json!({})).await;
    let told = stage
        .until_said(USER, "rgw-admin-ops-user", "InvalidSpec")
        .await;
    assert!(told.contains("choose another"), "{told}");
    assert!(stage.user("rgw-admin-ops-user").await.is_none());

    let theirs = [("uid", "theirs"), ("display-name", "theirs")];
    stage
        .by_hand("PUT", "user", &theirs)
        .await
        .expect("theirs", 200)
        .unwrap();
    let before = stage.user("theirs").await;
    stage.create(USER, "theirs", json!({})).await;
    stage.until_said(USER, "theirs", "ThingOfAnother").await;
    stage.delete(USER, "theirs").await;
    stage.until_gone(USER, "theirs").await;
    assert_eq!(stage.user("theirs").await, before);
}
