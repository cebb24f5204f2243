//! The login with which application credentials are made: a password that is wrong or changes, a user that is disabled,
//! the token that all share, and the project it is for.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use std::time::Duration;

use cloud::openings::ready;
use cloud::{Cloud, NAME, USER};
use testbed::keystone;
use testbed::proxy::Fault;

/// J13, W10: a wrong password is tried once, however often it is looked at, by however many resources.
#[tokio::test]
async fn a_wrong_password_is_tried_once_and_not_again_until_its_secret_changes() {
    let cloud = Cloud::locking_accounts().await;
    cloud
        .set_password_in_secret("BarbicanPassword", "wrong")
        .await;
    let operator = cloud.operator().await;
    for name in ["ac-a", "ac-b", "ac-c", NAME] {
        cloud.create_this(cloud::named(name)).await;
    }
    for name in ["ac-a", "ac-b", "ac-c", NAME] {
        cloud
            .until("it is told", || async {
                let ready = cloud.condition(name, "Ready").await;
                ready["reason"] == "IssuerDenied"
            })
            .await;
    }
    let looked_at = async || {
        for name in ["ac-a", "ac-b", "ac-c", NAME] {
            cloud.until_this_is_looked_at(name).await;
        }
    };
    for _ in 0..5 {
        looked_at().await;
    }
    assert_eq!(cloud.faults().count(keystone::LOGIN_BY_PASSWORD), 1);
    // Hours later, too; and after a restart it is tried at most once more.
    cloud.clock.jump(13 * 3600);
    looked_at().await;
    assert_eq!(cloud.faults().count(keystone::LOGIN_BY_PASSWORD), 1);
    operator.stop().await;
    let _operator = cloud.operator().await;
    for _ in 0..5 {
        looked_at().await;
    }
    let tried = cloud.faults().count(keystone::LOGIN_BY_PASSWORD);
    assert!(tried <= 2, "{tried} failed logins");
    assert_eq!(cloud.logins(401), tried);
    assert_eq!(
        cloud.condition(NAME, "Ready").await["reason"],
        "IssuerDenied"
    );

    cloud
        .set_password_in_secret("BarbicanPassword", &keystone::password_of(USER))
        .await;
    for name in ["ac-a", "ac-b", "ac-c", NAME] {
        cloud.until(name, || cloud.settled(name)).await;
    }
}

/// J14, S000-1: running credentials do not notice; the next mint uses the new password.
#[tokio::test]
async fn a_password_that_is_changed_at_keystone_and_in_the_secret_disturbs_nobody() {
    let (cloud, _operator, first) = ready().await;
    let old = cloud.handed_out().await;
    cloud
        .admin
        .set_password(USER, "a-new-password")
        .await
        .unwrap();
    cloud
        .set_password_in_secret("BarbicanPassword", "a-new-password")
        .await;
    assert_eq!(cloud.log_in(&old).await, 201);
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(cloud.log_in(&old).await, 404);
    assert_eq!(cloud.log_in(&cloud.handed_out().await).await, 201);
}

/// J16: the user is disabled, then enabled. Its credential worked before and works after: another would be needless.
#[tokio::test]
async fn a_user_that_is_disabled_is_noticed_and_taken_up_again_when_it_is_enabled() {
    let (cloud, operator, first) = ready().await;
    cloud.admin.disable_user(USER).await.unwrap();
    cloud.clock.jump(8 * 3600);
    cloud.annotate("example.org/look", "1").await;
    cloud
        .until("it is not ready any more", || async {
            !cloud.is_ready(NAME).await
        })
        .await;
    cloud.until_looked_at().await;
    let said = cloud.condition(NAME, "Ready").await;
    cloud.admin.enable_user(USER).await.unwrap();
    // Within a minute, although a refused login is left alone for longer: what consumers use shows it.
    cloud.clock.jump(60);
    operator.engine.world().queue.timers.notify_one();
    cloud.until("it works again", || cloud.settled(NAME)).await;
    cloud.until_looked_at().await;
    assert_eq!(cloud.log_in(&cloud.handed_out().await).await, 201, "{said}");
    assert_eq!(cloud.text("acID").await, first, "{said}");
    assert_eq!(cloud.live_ids().await, [first]);
    assert_eq!(cloud.faults().count(keystone::CREATE), 1);
    assert_eq!(cloud.events_of("ApplicationCredentialRotated"), 0);
}

/// P7: a rotation is refused, because the user is shut out. Nobody gets in with its credential either, which is tried: it is
/// not ready, although the time of its own check has not come.
async fn is_not_ready_after(shut_out: impl AsyncFnOnce(&Cloud)) {
    let (cloud, _operator, _) = ready().await;
    let handed_out = cloud.handed_out().await;
    shut_out(&cloud).await;
    assert_ne!(cloud.log_in(&handed_out).await, 201);
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud
        .until("it is told", || async {
            let ready = cloud.condition(NAME, "Ready").await;
            ready["status"] == "False" && ready["reason"] == "CurrentRefused"
        })
        .await;
    let asked = cloud.faults().count(keystone::LOGIN_BY_PASSWORD);
    for _ in 0..5 {
        cloud.until_looked_at().await;
    }
    assert!(!cloud.is_ready(NAME).await, "it stays so");
    assert_eq!(cloud.faults().count(keystone::LOGIN_BY_PASSWORD), asked);
}

#[tokio::test]
async fn a_disabled_user_is_not_ready_once_our_login_was_refused() {
    is_not_ready_after(async |cloud: &Cloud| cloud.admin.disable_user(USER).await.unwrap()).await;
}

#[tokio::test]
async fn a_deleted_user_is_not_ready_once_our_login_was_refused() {
    is_not_ready_after(async |cloud: &Cloud| cloud.admin.delete_user(USER).await.unwrap()).await;
}

#[tokio::test]
async fn a_user_without_its_role_is_not_ready_once_our_login_was_refused() {
    is_not_ready_after(async |cloud: &Cloud| {
        let unassigned = cloud.admin.unassign_role(USER, "service", "service").await;
        unassigned.unwrap();
    })
    .await;
}

/// P7: the password changed at Keystone alone. Our login is refused, and what consumers use works: that was seen, too.
#[tokio::test]
async fn a_credential_that_outlives_our_login_stays_ready() {
    let (cloud, _operator, first) = ready().await;
    cloud.admin.set_password(USER, "another").await.unwrap();
    let tried = cloud
        .faults()
        .count(keystone::LOGIN_BY_APPLICATION_CREDENTIAL);
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud
        .until("it is told", || {
            cloud.says(NAME, "Reconciling", "refused the login")
        })
        .await;
    assert!(cloud.is_ready(NAME).await);
    assert!(
        cloud
            .faults()
            .count(keystone::LOGIN_BY_APPLICATION_CREDENTIAL)
            > tried
    );
    assert_eq!(cloud.live_ids().await, [first]);
}

/// What is not text cannot be sent: that is said, and not that Keystone refused it.
#[tokio::test]
async fn a_password_that_is_not_text_is_told_as_such_and_keystone_is_not_asked() {
    let cloud = Cloud::new().await;
    let patch = serde_json::json!({ "data": { "BarbicanPassword": "//79" } });
    cloud
        .secrets()
        .patch(
            cloud::PASSWORDS,
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(&patch),
        )
        .await
        .unwrap();
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud
        .until("it is told", || {
            cloud.says(
                NAME,
                "Ready",
                "key BarbicanPassword of Secret osp-secret is not text",
            )
        })
        .await;
    let ready = cloud.condition(NAME, "Ready").await;
    assert_eq!(ready["reason"], "LoginMissing");
    assert_eq!(cloud.faults().count(keystone::LOGIN_BY_PASSWORD), 0);
}

/// K1: one login for all who need one, and a token that Keystone no longer takes is replaced by one more.
#[tokio::test]
async fn a_token_is_shared_and_replaced_when_keystone_no_longer_takes_it() {
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    for name in ["ac-a", "ac-b", "ac-c"] {
        cloud.create_this(cloud::named(name)).await;
    }
    for name in ["ac-a", "ac-b", "ac-c"] {
        cloud.until(name, || cloud.settled(name)).await;
    }
    assert_eq!(cloud.faults().count(keystone::LOGIN_BY_PASSWORD), 1);
    // A changed password ends every token; the Secret has the new one already.
    cloud.admin.set_password(USER, "another").await.unwrap();
    cloud
        .set_password_in_secret("BarbicanPassword", "another")
        .await;
    cloud.create().await;
    cloud.until_ready().await;
    // More than two where the first new token was made in the second of the change, which Keystone refuses.
    assert!((2..=4).contains(&cloud.faults().count(keystone::LOGIN_BY_PASSWORD)));
    assert_eq!(cloud.logins(401), 0);
}

/// K7: Keystone refuses a token made in the second of a password change. That is no wrong password, and a token of the
/// next second works.
#[tokio::test]
async fn a_fresh_token_that_is_refused_is_tried_again_a_second_later() {
    let (cloud, _operator, first) = ready().await;
    let before = cloud.faults().log().len();
    let mut refusals = 0;
    cloud.faults().plan(move |request| {
        if request.kind == keystone::LIST && refusals < 2 {
            refusals += 1;
            return Fault::Error(401);
        }
        Fault::Pass
    });
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&first).await;
    let log = cloud.faults().log().split_off(before);
    let lists: Vec<_> = log
        .iter()
        .filter(|asked| asked.line.kind == keystone::LIST)
        .collect();
    assert_eq!(
        lists
            .iter()
            .take(3)
            .map(|asked| asked.status)
            .collect::<Vec<_>>(),
        [Some(401), Some(401), Some(200)]
    );
    let wait = lists[2].arrived.duration_since(lists[1].arrived);
    let about_a_second = Duration::from_millis(900)..Duration::from_secs(4);
    assert!(about_a_second.contains(&wait), "{wait:?}");
    assert_eq!(cloud.logins(401), 0);
}

/// K2.
#[tokio::test]
async fn project_and_domains_can_be_set() {
    let cloud = Cloud::new().await;
    let project = cloud.admin.create_project("other").await.unwrap();
    cloud
        .admin
        .assign_role(USER, "other", "service")
        .await
        .unwrap();
    let _operator = cloud.operator().await;
    let mut object = cloud::example();
    object["metadata"]["annotations"]["keyward.dev/project"] = "other".into();
    cloud.create_this(object).await;
    cloud.until_ready().await;
    assert_eq!(
        cloud.live().await[0].project_id.as_deref(),
        Some(project.as_str())
    );
    // Another project is another credential.
    let first = cloud.text("acID").await;
    cloud.annotate("keyward.dev/project", "service").await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_ne!(
        cloud.live().await[0].project_id.as_deref(),
        Some(project.as_str())
    );
    // One that is not there is told, and nothing is lost.
    let second = cloud.text("acID").await;
    cloud
        .annotate("keyward.dev/project-domain", "nowhere")
        .await;
    cloud
        .until("it is told", || {
            cloud.says(NAME, "Reconciling", "domain nowhere")
        })
        .await;
    assert_eq!(cloud.text("acID").await, second);
    assert!(cloud.is_ready(NAME).await);
}
