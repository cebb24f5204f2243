//! Where a store is, who may use it, and what is missing.

use keyward::controllers::addresses::Allowed;
use serde_json::json;

use super::stage::{ACCOUNT, NAMESPACE, STORE, Stage, USER, minutes};

/// RGW8: nothing is there yet; each piece that comes is noticed, and no clock is needed.
#[tokio::test]
async fn what_is_missing_is_told_and_noticed_when_it_comes() {
    let stage = Stage::bare();
    let operator = stage.operator().await;
    stage.create(ACCOUNT, "acme", json!({})).await;
    let told = stage.until_said(ACCOUNT, "acme", "IssuerMissing").await;
    assert!(told.contains("CephObjectStore my-store"), "{told}");
    stage.add_store().await;
    stage.annotate_store("").await;
    let told = stage.until_said(ACCOUNT, "acme", "IssuerNotReady").await;
    assert!(told.contains("no endpoint"), "{told}");
    stage.annotate_store(&stage.store.urls().join(",")).await;
    let told = stage.until_said(ACCOUNT, "acme", "LoginMissing").await;
    assert!(told.contains("rgw-admin-ops-user"), "{told}");
    stage.calm(&operator).await;
    let writes = stage.writes();
    for _ in 0..5 {
        stage.live_through(&operator, minutes(1)).await;
    }
    assert_eq!(stage.writes(), writes, "it waits without writing");
    let login = testbed::rgw::admin();
    let keys = json!({ "accessKey": login.access_key, "secretKey": "wrong" });
    stage.add_secret("rgw-admin-ops-user", &keys).await;
    // RGW9.
    stage.until_said(ACCOUNT, "acme", "IssuerDenied").await;
    let keys = json!({ "secretKey": login.secret_key.reveal() });
    stage.write("rgw-admin-ops-user", &keys).await.unwrap();
    stage.until_ready(ACCOUNT, "acme").await;
}

/// RGW9: a capability that the administrator lacks is named.
#[tokio::test]
async fn a_missing_capability_is_named() {
    let stage = Stage::new().await;
    stage.store.take_capability("accounts");
    let _operator = stage.operator().await;
    stage.create(ACCOUNT, "acme", json!({})).await;
    let told = stage.until_said(ACCOUNT, "acme", "IssuerDenied").await;
    assert!(told.contains("accounts=*"), "{told}");
}

/// RGW28.
#[tokio::test]
async fn a_store_says_which_namespaces_may_have_users() {
    let stage = Stage::new().await;
    let _operator = stage.operator().await;
    stage.server.create_namespace("team-b");
    let team_b = stage.api_in(USER, "team-b");
    let spec = json!({ "store": STORE, "clusterNamespace": NAMESPACE });
    stage.try_create(&team_b, USER, "bob", spec).await.unwrap();
    let ready = || async {
        let bob = team_b.get("bob").await.unwrap();
        let conditions = bob.data["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions
            .into_iter()
            .find(|one| one["type"] == "Ready")
            .unwrap_or_default()
    };
    let refused = || async {
        ready().await["message"]
            .to_string()
            .contains("allowUsersInNamespaces")
    };
    stage.until("nobody is allowed", refused).await;
    stage.allow_users_in(&["team-c"]).await;
    stage.until("somebody else is allowed", refused).await;
    assert!(stage.user("bob").await.is_none());
    stage.allow_users_in(&["team-b"]).await;
    stage
        .until("bob is ready", || async {
            ready().await["status"] == "True"
        })
        .await;
    stage.allow_users_in(&[]).await;
    stage.until("it was withdrawn", refused).await;
    stage.allow_users_in(&["*"]).await;
    stage
        .until("bob is ready", || async {
            ready().await["status"] == "True"
        })
        .await;
    // A user is removed whatever its store allows by then.
    stage.allow_users_in(&[]).await;
    team_b
        .delete("bob", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    stage
        .until("bob is gone", || async {
            team_b.get_opt("bob").await.unwrap().is_none()
        })
        .await;
    assert!(stage.user("bob").await.is_none());
}

/// A login is sent nowhere but where whoever runs the operator allows it.
#[tokio::test]
async fn an_address_that_is_not_allowed_hears_nothing() {
    let stage = Stage::new().await;
    let _operator = stage.operator_reaching(Allowed::default()).await;
    stage.create(USER, "ann", json!({})).await;
    let told = stage.until_said(USER, "ann", "IssuerMissing").await;
    assert!(told.contains("--allow-rgw-url"), "{told}");
    assert_eq!(stage.faults().total(), 0);
}
