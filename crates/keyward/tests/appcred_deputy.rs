//! Whoever may edit a resource must not get more out of the operator than that.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::{Cloud, NAME, USER};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testbed::keystone;

const ADMIN: &str = "keystone-admin";
const LEDGER: &str = "keyward.dev/ledger";

/// The owner of Keystone offers its administrator to those whose own login cannot end something.
async fn offer_administrator(cloud: &Cloud) {
    let password = keystone::password_of("admin");
    cloud
        .add_secret(ADMIN, &json!({ "AdminPassword": password }))
        .await;
    let patch = json!({
        "metadata": { "annotations": { "keyward.dev/revoke-as-admin": "true" } },
        "spec": { "secret": ADMIN },
    });
    cloud
        .keystone_apis()
        .patch("keystone", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

/// A resource of another user, and its credential.
async fn of_cinder(cloud: &Cloud) -> (String, String) {
    let mut object = cloud::named("ac-cinder");
    object["spec"]["userName"] = "cinder".into();
    object["spec"]["passwordSelector"] = "CinderPassword".into();
    cloud.create_this(object).await;
    cloud
        .until("the other is ready", || cloud.settled("ac-cinder"))
        .await;
    let secret = cloud.status_of("ac-cinder").await["secretName"].clone();
    cloud.values_of(secret.as_str().unwrap()).await
}

/// As whoever may edit the resource and its Secrets can do it.
async fn replace_in_records(cloud: &Cloud, before: &str, after: &str) {
    let object = cloud.object(NAME).await.unwrap();
    let ledger = object.annotations()[LEDGER].replace(before, after);
    assert!(ledger.contains(after), "{ledger}");
    cloud.annotate(LEDGER, &ledger).await;
    for secret in cloud.ours().await {
        let notes = serde_json::to_string(secret.annotations()).unwrap();
        if notes.contains(before) {
            let notes = notes.replace(before, after);
            let notes: serde_json::Value = serde_json::from_str(&notes).unwrap();
            let patch = json!({ "metadata": { "annotations": notes } });
            cloud
                .secrets()
                .patch(
                    &secret.name_any(),
                    &PatchParams::default(),
                    &Patch::Merge(&patch),
                )
                .await
                .unwrap();
        }
    }
}

/// The login of a user may end all that the user has.
#[tokio::test]
async fn a_record_that_names_a_neighbours_credential_of_the_same_user_does_not_end_it() {
    let cloud = Cloud::new().await;
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let own = cloud.handed_out().await;
    cloud.create_this(cloud::named("ac-neighbour")).await;
    cloud
        .until("the other is ready", || cloud.settled("ac-neighbour"))
        .await;
    let secret = cloud.status_of("ac-neighbour").await["secretName"].clone();
    let victim = cloud.values_of(secret.as_str().unwrap()).await;
    operator.stop().await;
    replace_in_records(&cloud, &own.0, &victim.0).await;
    cloud.delete(NAME).await;
    let _operator = cloud.operator().await;
    cloud
        .until("it is told", || {
            cloud.says(NAME, "Ready", "may be anybody's")
        })
        .await;
    assert_eq!(cloud.log_in(&victim).await, 201);
}

/// The record of a resource is an annotation on it.
#[tokio::test]
async fn a_record_that_names_another_users_credential_does_not_end_it() {
    let cloud = Cloud::new().await;
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let own = cloud.handed_out().await;
    let victim = of_cinder(&cloud).await;
    operator.stop().await;

    let (barbican, cinder) = (
        cloud.admin.user_id(USER).await.unwrap(),
        cloud.admin.user_id("cinder").await.unwrap(),
    );
    let (before, after) = (
        format!("{}@{barbican}", own.0),
        format!("{}@{cinder}", victim.0),
    );
    replace_in_records(&cloud, &before, &after).await;
    // The own login gets nowhere, so that the administrator's is used.
    cloud
        .set_password_in_secret("BarbicanPassword", "wrong")
        .await;
    offer_administrator(&cloud).await;
    cloud.delete(NAME).await;
    let _operator = cloud.operator().await;
    cloud
        .until("it is told", || {
            cloud.says(NAME, "Ready", "may be anybody's")
        })
        .await;
    assert_eq!(cloud.log_in(&victim).await, 201);
}

/// Every key of a Secret is a password of its own.
#[tokio::test]
async fn six_resources_with_six_wrong_passwords_of_one_user_do_not_lock_it_out() {
    let cloud = Cloud::locking_accounts().await;
    for n in 0..6 {
        let key = format!("Wrong{n}");
        let data = json!({ key.as_str(): format!("wrong {n}") });
        cloud.write(cloud::PASSWORDS, &data).await.unwrap();
        let mut object = cloud::named(&format!("ac-{n}"));
        object["spec"]["passwordSelector"] = key.into();
        cloud.create_this(object).await;
    }
    let _operator = cloud.operator().await;
    cloud
        .until("all were refused", || async {
            for n in 0..6 {
                let ready = cloud.condition(&format!("ac-{n}"), "Ready").await;
                if ready["reason"] != "IssuerDenied" {
                    return false;
                }
            }
            true
        })
        .await;
    assert_eq!(cloud.logins(401), 2);
    let password = keystone::password_of(USER);
    let let_in = cloud.admin.log_in_with_password(USER, &password).await;
    assert_eq!(let_in.unwrap(), 201);
}
