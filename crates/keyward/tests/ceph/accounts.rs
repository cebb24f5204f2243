//! An account and its root user, while they live.

use serde_json::{Value, json};
use sources::rgw::derived_account_id;
use testbed::rgw::CREATE_ACCOUNT;

use super::stage::{ACCOUNT, ROOT_SECRET, Stage, hours};

async fn made(spec: Value) -> (Stage, super::stage::Running, String) {
    let stage = Stage::new().await;
    let operator = stage.operator().await;
    stage.create(ACCOUNT, "acme", spec).await;
    stage.until_ready(ACCOUNT, "acme").await;
    let uid = stage.uid(ACCOUNT, "acme").await;
    (stage, operator, uid)
}

/// S003-1, S003-2, S003-4, S003-5, S003-6, S003-7, RGW17.
#[tokio::test]
async fn an_account_is_made_with_its_root_user_and_its_secret() {
    let (stage, _operator, uid) = made(json!({})).await;
    let id = derived_account_id(&uid).unwrap();
    let account = stage.account(&id).await.unwrap();
    assert_eq!(account["name"], "acme");
    let root = stage.user(&uid).await.unwrap();
    assert_eq!(
        (&root["display_name"], &root["type"], &root["account_id"]),
        (&json!("root-acme"), &json!("root"), &json!(id))
    );
    let status = stage.status(ACCOUNT, "acme").await;
    assert_eq!(status["phase"], "Ready");
    assert_eq!(status["accountID"], id);
    assert_eq!(status["rootAccountSecretName"], ROOT_SECRET);
    let secret = stage.secret(ROOT_SECRET).await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/rook"));
    let owner = &secret.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.uid.as_str(), owner.kind.as_str()),
        (uid.as_str(), "CephObjectStoreAccount")
    );
    let labels = secret.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["cephObjectStoreAccountName"], "acme");
    let values = stage.values_in(ROOT_SECRET).await.unwrap();
    let keys: Vec<&str> = values.keys().map(String::as_str).collect();
    assert_eq!(keys, ["AccessKey", "Endpoint", "SecretKey"]);
    assert_eq!(values["Endpoint"], stage.store.urls()[0]);
    assert_eq!(
        stage.try_login(&stage.login(ROOT_SECRET).await).await,
        [200, 200]
    );
    stage.assert_no_leak();
}

/// S003-2, S003-3, S003-8, RGW6, RGW11: what is given is used and can be changed, and what is as it should be costs no write.
#[tokio::test]
async fn an_account_becomes_what_is_asked_for_and_rests() {
    let given = "RGW33567154695143645";
    let (stage, operator, uid) = made(json!({
        "name": "Acme Corp", "accountID": given, "email": "a@example.com",
        "rootUser": { "displayName": "boss" },
        "quotas": { "maxSize": "1Gi", "maxBuckets": 7, "maxBucketObjects": 9 },
    }))
    .await;
    let account = stage.account(given).await.unwrap();
    assert_eq!(
        (&account["name"], &account["email"]),
        (&json!("Acme Corp"), &json!("a@example.com"))
    );
    assert_eq!(
        (&account["max_buckets"], &account["quota"]["max_size"]),
        (&json!(7), &json!(1 << 30))
    );
    assert_eq!(account["bucket_quota"]["max_objects"], 9);
    assert_eq!(stage.status(ACCOUNT, "acme").await["accountID"], given);
    stage.calm(&operator).await;
    let changes = stage.changes();
    stage
        .annotate(ACCOUNT, "acme", "example.com/touched", "yes")
        .await;
    stage.live_through(&operator, hours(7)).await;
    assert_eq!(
        stage.changes(),
        changes,
        "nothing changed, nothing is written"
    );

    let patch = json!({ "spec": {
        "name": "Acme", "email": "b@example.com", "rootUser": { "displayName": "chief" },
        "quotas": { "maxSize": null, "maxBuckets": 8 },
    } });
    stage.patch(ACCOUNT, "acme", patch).await;
    stage.until_ready(ACCOUNT, "acme").await;
    let account = stage.account(given).await.unwrap();
    assert_eq!(
        (&account["name"], &account["email"]),
        (&json!("Acme"), &json!("b@example.com"))
    );
    assert_eq!(
        (&account["max_buckets"], &account["quota"]["enabled"]),
        (&json!(8), &json!(false))
    );
    assert_eq!(stage.user(&uid).await.unwrap()["display_name"], "chief");
}

/// S003-9, RGW11, RGW19: what the gateway refuses is said, and mended by an edit.
#[tokio::test]
async fn a_name_that_is_taken_is_told() {
    let (stage, _operator, _uid) = made(json!({})).await;
    let theirs = [("id", "RGW00000000000000009"), ("name", "taken")];
    stage
        .by_hand("POST", "account", &theirs)
        .await
        .expect("theirs", 200)
        .unwrap();
    stage
        .patch(ACCOUNT, "acme", json!({ "spec": { "name": "taken" } }))
        .await;
    let told = stage.until_said(ACCOUNT, "acme", "IssuerConflict").await;
    assert!(told.contains("name"), "{told}");
    assert_eq!(
        stage.status(ACCOUNT, "acme").await["phase"],
        "ReconcileFailed"
    );
    assert_eq!(stage.status(ACCOUNT, "acme").await["observedGeneration"], 1);
    stage
        .patch(ACCOUNT, "acme", json!({ "spec": { "name": "free" } }))
        .await;
    stage.until_ready(ACCOUNT, "acme").await;
}

/// S003-19, RGW4: an account that somebody else made is not taken, not changed and not deleted.
#[tokio::test]
async fn an_account_that_was_there_is_left_alone() {
    let stage = Stage::new().await;
    let operator = stage.operator().await;
    let id = "RGW00000000000000009";
    let theirs = [("id", id), ("name", "theirs")];
    stage
        .by_hand("POST", "account", &theirs)
        .await
        .expect("theirs", 200)
        .unwrap();
    let before = stage.account(id).await;
    stage
        .create(ACCOUNT, "acme", json!({ "accountID": id }))
        .await;
    stage.until_said(ACCOUNT, "acme", "ThingOfAnother").await;
    stage.calm(&operator).await;
    let status = stage.status(ACCOUNT, "acme").await;
    assert_eq!(
        (&status["phase"], &status["accountID"]),
        (&json!("ReconcileFailed"), &Value::Null)
    );
    assert!(stage.secret(ROOT_SECRET).await.is_none());
    stage.delete(ACCOUNT, "acme").await;
    stage.until_gone(ACCOUNT, "acme").await;
    assert_eq!(stage.account(id).await, before);
}

/// RGW18.
#[tokio::test]
async fn a_root_user_can_be_done_without_and_come_back() {
    let (stage, operator, uid) = made(json!({ "rootUser": { "skipCreate": true } })).await;
    stage.calm(&operator).await;
    assert!(stage.user(&uid).await.is_none());
    assert!(stage.secret(ROOT_SECRET).await.is_none());
    assert_eq!(
        stage.status(ACCOUNT, "acme").await["rootAccountSecretName"],
        Value::Null
    );

    let skip = |skip: bool| json!({ "spec": { "rootUser": { "skipCreate": skip } } });
    let mut before = None;
    for _ in 0..2 {
        stage.patch(ACCOUNT, "acme", skip(false)).await;
        stage
            .until("there is a Secret", || async {
                stage.secret(ROOT_SECRET).await.is_some()
            })
            .await;
        stage.until_ready(ACCOUNT, "acme").await;
        assert_eq!(
            stage.status(ACCOUNT, "acme").await["rootAccountSecretName"],
            ROOT_SECRET
        );
        let login = stage.login(ROOT_SECRET).await;
        assert_eq!(stage.try_login(&login).await, [200, 200]);
        assert_ne!(before, Some(login.access_key.clone()));
        before = Some(login.access_key);

        stage.patch(ACCOUNT, "acme", skip(true)).await;
        stage
            .until("user and Secret are gone", || async {
                stage.user(&uid).await.is_none() && stage.secret(ROOT_SECRET).await.is_none()
            })
            .await;
        stage.until_ready(ACCOUNT, "acme").await;
        stage
            .until("status names no Secret", || async {
                stage.status(ACCOUNT, "acme").await["rootAccountSecretName"].is_null()
            })
            .await;
    }
    stage.delete(ACCOUNT, "acme").await;
    stage.until_gone(ACCOUNT, "acme").await;
    assert_eq!(stage.store.live(), []);
}

/// RGW20, RGW22.
#[tokio::test]
async fn what_somebody_changes_comes_right() {
    let (stage, operator, uid) = made(json!({})).await;
    stage.remove_secret(ROOT_SECRET).await;
    stage
        .until("the Secret is back", || async {
            stage
                .secret(ROOT_SECRET)
                .await
                .is_some_and(|secret| secret.metadata.deletion_timestamp.is_none())
        })
        .await;
    stage.until_ready(ACCOUNT, "acme").await;
    assert_eq!(
        stage.try_login(&stage.login(ROOT_SECRET).await).await,
        [200, 200]
    );

    stage
        .write(ROOT_SECRET, &json!({ "SecretKey": "nonsense" }))
        .await
        .unwrap();
    stage
        .until("a key that works is in the Secret", || async {
            stage
                .live_through(&operator, super::stage::minutes(10))
                .await;
            stage.try_login(&stage.login(ROOT_SECRET).await).await == [200, 200]
        })
        .await;

    stage
        .by_hand("POST", "user", &[("uid", &uid), ("account-root", "false")])
        .await
        .expect("no root", 200)
        .unwrap();
    stage.live_through(&operator, hours(7)).await;
    stage
        .until("it is a root user again", || async {
            stage.user(&uid).await.unwrap()["type"] == "root"
        })
        .await;

    stage
        .by_hand("DELETE", "user", &[("uid", &uid)])
        .await
        .expect("no user", 200)
        .unwrap();
    stage.live_through(&operator, hours(7)).await;
    stage
        .until("a key that works is in the Secret", || async {
            stage.live_through(&operator, hours(7)).await;
            stage.try_login(&stage.login(ROOT_SECRET).await).await == [200, 200]
        })
        .await;
}

/// RGW3: the id is on the resource before anything is asked of the store.
#[tokio::test]
async fn the_id_is_written_down_first() {
    let stage = Stage::new().await;
    stage
        .faults()
        .every(CREATE_ACCOUNT, testbed::proxy::Fault::Error(503));
    let operator = stage.operator().await;
    stage.create(ACCOUNT, "acme", json!({})).await;
    stage.until_said(ACCOUNT, "acme", "IssuerUnreachable").await;
    let object = stage.object(ACCOUNT, "acme").await.unwrap();
    let uid = object.metadata.uid.clone().unwrap();
    let record = &object.metadata.annotations.as_ref().unwrap()["keyward.dev/account"];
    assert!(
        record.contains(&derived_account_id(&uid).unwrap()),
        "{record}"
    );
    let finalizers = object.metadata.finalizers.unwrap();
    assert_eq!(finalizers, ["cephobjectstoreaccount.ceph.rook.io"]);
    stage.faults().clear();
    stage
        .live_through(&operator, super::stage::minutes(2))
        .await;
    stage.until_ready(ACCOUNT, "acme").await;
}
