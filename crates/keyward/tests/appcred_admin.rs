//! Ending credentials as the administrator of Keystone, where their own user's login cannot.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::openings::ready_in;
use cloud::{Cloud, NAME, OPERATOR, Running, USER};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::keystone;
use testbed::proxy::Fault;

const ADMIN: &str = "keystone-admin";

/// A cloud in which the example is ready and Keystone's administrator on offer; its operator, and what it handed out.
async fn ready_with_administrator() -> (Cloud, Running, (String, String)) {
    let (cloud, operator, _) = ready_in(Cloud::locking_accounts().await).await;
    add_admin_password(&cloud).await;
    offer(&cloud).await;
    let credential = cloud.handed_out().await;
    (cloud, operator, credential)
}

/// The owner of Keystone offers its administrator, with the Secret that the KeystoneAPI names.
async fn offer(cloud: &Cloud) {
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

async fn add_admin_password(cloud: &Cloud) {
    let password = keystone::password_of("admin");
    cloud
        .add_secret(ADMIN, &json!({ "AdminPassword": format!("{password}\n") }))
        .await;
}

async fn remove_password_of_barbican(cloud: &Cloud) {
    let patch = json!({ "data": { "BarbicanPassword": null } });
    cloud
        .secrets()
        .patch(
            cloud::PASSWORDS,
            &PatchParams::default(),
            &Patch::Merge(&patch),
        )
        .await
        .unwrap();
}

/// Whether the operator ever asked for the administrator's Secret.
fn has_read_the_admins_secret(cloud: &Cloud) -> bool {
    let log = cloud.server.faults().log();
    log.iter()
        .filter(|logged| logged.line.user_agent == OPERATOR)
        .any(|logged| logged.line.name == ADMIN)
}

/// The password was changed at Keystone, and nobody changed the Secret.
#[tokio::test]
async fn a_deletion_whose_password_is_wrong_ends_as_the_administrator() {
    let (cloud, _operator, old) = ready_with_administrator().await;
    cloud.admin.set_password(USER, "another").await.unwrap();
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.log_in(&old).await, 404);
    assert!(cloud.live().await.is_empty());
    assert!(cloud.ours().await.is_empty());
    assert_eq!(cloud.logins(401), 1, "the wrong password is tried once");
    let told = |(reason, text): &(String, String)| {
        reason == "Revoked" && text.contains("as the administrator")
    };
    assert!(cloud.events().iter().any(told), "{:?}", cloud.events());
}

/// Without the annotation it waits, says so, and leaves the administrator's Secret alone.
#[tokio::test]
async fn a_deletion_whose_password_is_gone_ends_as_the_administrator_once_that_is_offered() {
    let cloud = Cloud::new().await;
    add_admin_password(&cloud).await;
    let operator = cloud.operator().await;
    let mut object = cloud::example();
    let rule = json!({ "service": "compute", "path": "/v2.1/servers", "method": "GET" });
    object["spec"]["accessRules"] = json!([rule]);
    cloud.create_this(object).await;
    cloud.until_ready().await;
    let old = cloud.handed_out().await;
    // One that has been there all along still knows the password; this one does not.
    operator.stop().await;
    remove_password_of_barbican(&cloud).await;
    cloud.delete(NAME).await;
    let _operator = cloud.operator().await;
    cloud
        .until("it is told", || {
            cloud.says(NAME, "Ready", "BarbicanPassword")
        })
        .await;
    assert_eq!(cloud.log_in(&old).await, 201);
    assert!(!has_read_the_admins_secret(&cloud));

    offer(&cloud).await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.log_in(&old).await, 404);
    assert!(cloud.live().await.is_empty());
    assert!(cloud.ours().await.is_empty());
    assert_eq!(cloud.logins(401), 0);
}

/// What a lost reply left behind is found by the administrator too, or nobody could say that nothing is left.
#[tokio::test]
async fn an_orphan_is_found_and_ended_by_the_administrator_before_the_resource_goes() {
    let cloud = Cloud::new().await;
    add_admin_password(&cloud).await;
    offer(&cloud).await;
    let operator = cloud.operator().await;
    cloud.create_and_die(&operator).await;
    remove_password_of_barbican(&cloud).await;
    cloud.delete(NAME).await;
    let _operator = cloud.operator().await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
    assert!(cloud.ours().await.is_empty());
}

/// The login works, but Keystone does not let it delete.
#[tokio::test]
async fn one_that_its_user_may_not_revoke_is_revoked_by_the_administrator() {
    let (cloud, _operator, old) = ready_with_administrator().await;
    cloud.faults().next(keystone::DELETE, Fault::Error(403));
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&old.0).await;
    cloud.until_ready().await;
    assert_eq!(cloud.log_in(&old).await, 404);
    assert_eq!(cloud.live().await.len(), 1);
    assert_eq!(cloud.faults().count(keystone::DELETE), 2);
    assert_eq!(cloud.logins(201), 2, "one each");
}

/// The spec names another user now, and the old one's password is gone.
#[tokio::test]
async fn an_old_version_of_a_user_whose_password_is_gone_is_revoked_by_the_administrator() {
    let (cloud, operator, old) = ready_with_administrator().await;
    operator.stop().await;
    remove_password_of_barbican(&cloud).await;
    cloud
        .edit(json!({ "spec": { "userName": "cinder", "passwordSelector": "CinderPassword" } }))
        .await;
    let _operator = cloud.operator().await;
    cloud.until_rotated_from(&old.0).await;
    cloud.until_ready().await;
    assert_eq!(cloud.log_in(&old).await, 404);
    assert!(cloud.live().await.is_empty());
    assert_eq!(cloud.admin.count("cinder").await.unwrap(), 1);
}

/// A wrong password stops rotation, whatever the administrator could do.
#[tokio::test]
async fn the_administrator_makes_lists_and_verifies_nothing_for_a_resource_that_stays() {
    let (cloud, _operator, (first, _)) = ready_with_administrator().await;
    cloud.admin.set_password(USER, "another").await.unwrap();
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud
        .until("it is told", || async {
            cloud.condition(NAME, "Reconciling").await["reason"] == "IssuerDenied"
        })
        .await;
    cloud.clock.jump(13 * 3600);
    cloud.annotate("example.org/look", "later").await;
    cloud
        .until("the current one is verified", || async {
            let verified = keystone::LOGIN_BY_APPLICATION_CREDENTIAL;
            cloud.faults().count(verified) > 1
        })
        .await;
    assert_eq!(cloud.text("acID").await, first);
    assert_eq!(cloud.live_ids().await, [first]);
    assert_eq!(cloud.logins(201), 1, "the administrator never logged in");
    assert_eq!(cloud.logins(401), 1);
}

/// Nothing but the revoke that needs it minds, and its text says what is missing.
#[tokio::test]
async fn what_is_missing_of_the_administrator_is_told_by_the_revoke_that_needs_it() {
    let (cloud, _operator, first) = ready_in(Cloud::locking_accounts().await).await;
    offer(&cloud).await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    let second = cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;

    cloud.faults().next(keystone::DELETE, Fault::Error(403));
    cloud.annotate("keyward.dev/rotate", "2").await;
    let third = cloud.until_rotated_from(&second).await;
    let missing = "the administrator cannot step in: there is no Secret keystone-admin";
    cloud
        .until("it is told", || cloud.says(NAME, "Reconciling", missing))
        .await;
    assert!(cloud.is_ready(NAME).await);
    // The Secret itself is the occasion, not the end of some back-off.
    add_admin_password(&cloud).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [third]);
}

/// Three wrong passwords would lock out whoever runs the cloud.
#[tokio::test]
async fn a_wrong_password_of_the_administrator_is_tried_once_too() {
    let (cloud, _operator, _) = ready_in(Cloud::locking_accounts().await).await;
    cloud
        .add_secret(ADMIN, &json!({ "AdminPassword": "wrong" }))
        .await;
    offer(&cloud).await;
    cloud.admin.set_password(USER, "another").await.unwrap();
    cloud.delete(NAME).await;
    let neither = "neither the user's own login can do it nor the administrator's";
    cloud
        .until("it is told", || cloud.says(NAME, "Ready", neither))
        .await;
    for _ in 0..7 {
        cloud.until_looked_at().await;
    }
    assert_eq!(cloud.logins(401), 2, "one each");
    cloud.clock.jump(13 * 3600);
    for _ in 0..3 {
        cloud.until_looked_at().await;
    }
    assert!(cloud.says(NAME, "Ready", neither).await);
    assert_eq!(cloud.logins(401), 2, "hours later too");

    cloud.remove_secret(ADMIN).await;
    add_admin_password(&cloud).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}

/// The example with an access rule.
fn with_rules() -> Value {
    let mut object = cloud::example();
    let rule = json!({ "service": "compute", "path": "/v2.1/servers", "method": "GET" });
    object["spec"]["accessRules"] = json!([rule]);
    object
}

/// Keystone deletes application credentials with their user, and tells that user's own token so.
#[tokio::test]
async fn a_deletion_after_that_of_its_user_ends_by_itself() {
    for offered in [false, true] {
        let cloud = Cloud::locking_accounts().await;
        add_admin_password(&cloud).await;
        if offered {
            offer(&cloud).await;
        }
        let _operator = cloud.operator().await;
        cloud.create_this(with_rules()).await;
        cloud.until_ready().await;
        let old = cloud.handed_out().await;
        cloud.admin.delete_user(USER).await.unwrap();
        cloud.delete(NAME).await;
        cloud.until_gone(NAME).await;
        assert_eq!(cloud.log_in(&old).await, 404, "offered {offered}");
        assert!(cloud.ours().await.is_empty());
        assert!(cloud.logins(401) <= 1, "the password is tried once");
    }
}

/// Without a token of the user's, only the administrator can see that nothing is left; until it may, that is told.
#[tokio::test]
async fn a_deletion_after_that_of_its_user_ends_after_a_restart_once_the_administrator_may_look() {
    let (cloud, operator, _) = ready_in(Cloud::locking_accounts().await).await;
    add_admin_password(&cloud).await;
    let old = cloud.handed_out().await;
    operator.stop().await;
    cloud.admin.delete_user(USER).await.unwrap();
    cloud.delete(NAME).await;
    let _operator = cloud.operator().await;
    cloud
        .until("it is told", || cloud.says(NAME, "Ready", "deleted"))
        .await;
    cloud
        .until("its Secret is gone", || async {
            cloud.ours().await.is_empty()
        })
        .await;
    offer(&cloud).await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.log_in(&old).await, 404);
}

/// Of a project that is gone the credentials stay behind: nobody gets in with them, and the administrator ends them.
#[tokio::test]
async fn a_deletion_after_that_of_its_project_is_no_proof_by_itself() {
    let (cloud, _operator, _) = ready_in(Cloud::new().await).await;
    cloud.admin.delete_project("service").await.unwrap();
    cloud.delete(NAME).await;
    cloud
        .until("it is told", || {
            cloud.says(NAME, "Ready", "refused the login")
        })
        .await;
    assert_eq!(cloud.live().await.len(), 1);
    add_admin_password(&cloud).await;
    offer(&cloud).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}
