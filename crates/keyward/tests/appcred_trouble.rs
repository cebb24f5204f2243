//! Application credentials when something is wrong: with Keystone, or with the login.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use std::time::Duration;

use cloud::{Cloud, Issuer, NAME, USER};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use testbed::keystone::{self, standin::StandIn};
use testbed::proxy::Fault;

async fn ready() -> (Cloud, cloud::Running, String) {
    let cloud = Cloud::new().await;
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let id = cloud.text("acID").await;
    (cloud, operator, id)
}

/// J12: whatever becomes of the reply, what Keystone did is found by its name.
#[tokio::test]
async fn a_reply_lost_after_keystone_committed_leads_to_no_second_credential() {
    for fault in [
        Fault::DropApplied,
        Fault::CutBody,
        Fault::ErrorApplied(502),
        Fault::Twice,
    ] {
        let cloud = Cloud::new().await;
        cloud.faults().next(keystone::CREATE, fault);
        let _operator = cloud.operator().await;
        cloud.create().await;
        cloud.until_ready().await;
        let live = cloud.live().await;
        assert_eq!(live.len(), 1, "{fault:?}: {live:?}");
        assert_eq!(cloud.log_in(&cloud.handed_out().await).await, 201);
        let expires = cloud.time("expiresAt").await;
        assert!(
            expires.is_some(),
            "{fault:?}: its expiry is known all the same"
        );
        assert!(
            live[0].name.ends_with("-1-1"),
            "{fault:?}: no second attempt was needed: {}",
            live[0].name
        );
    }
}

/// J11: down, failing, silent; nothing is lost and everything is told.
#[tokio::test]
async fn keystone_failing_at_any_request_loses_nothing() {
    let kinds = [
        keystone::LOGIN_BY_PASSWORD,
        keystone::LIST,
        keystone::CREATE,
        keystone::LOGIN_BY_APPLICATION_CREDENTIAL,
        keystone::DELETE,
    ];
    let faults = [
        Fault::Error(500),
        Fault::Error(503),
        Fault::DropNotApplied,
        Fault::DropApplied,
    ];
    let lives = kinds
        .into_iter()
        .flat_map(|kind| faults.map(|fault| survives(kind, fault)));
    futures::future::join_all(lives).await;
}

/// A whole life with this fault at the first request of this kind.
async fn survives(kind: &str, fault: Fault) {
    let cloud = Cloud::new().await;
    cloud.faults().next(kind, fault);
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let first = cloud.text("acID").await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live().await.len(), 1, "{kind} {fault:?}");
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty(), "{kind} {fault:?}");
}

/// J11: while it lasts, the conditions say so, and the credential in use stays ready.
#[tokio::test]
async fn a_keystone_that_is_down_is_told_and_what_works_stays_ready() {
    let (cloud, _operator, first) = ready().await;
    cloud.faults().plan(|_| Fault::Error(503));
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud
        .until("it is told", || async {
            let busy = cloud.condition(NAME, "Reconciling").await;
            busy["reason"] == "IssuerUnreachable"
        })
        .await;
    assert!(cloud.is_ready(NAME).await, "the one in use still works");
    let told = cloud.condition(NAME, "Ready").await;
    let told = told["message"].as_str().unwrap();
    assert!(
        told.starts_with("Setup complete, but the issuer gave no usable answer"),
        "{told}"
    );
    assert_eq!(cloud.text("acID").await, first);
    cloud.faults().clear();
    cloud.clock.jump(120);
    cloud.annotate("example.org/look", "1").await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live().await.len(), 1);
}

/// J13, W10: a wrong password is tried once, however often it is looked at, by however many resources.
#[tokio::test]
async fn a_wrong_password_is_tried_once_and_not_again_until_its_secret_changes() {
    let options = keystone::Options {
        lockout: Some(keystone::Lockout {
            attempts: 3,
            lasts: Duration::from_mins(30),
        }),
        ..keystone::Options::default()
    };
    let cloud = Cloud::over(Issuer::StandIn(StandIn::start(options).unwrap())).await;
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
    for turn in 0..20 {
        cloud.annotate("example.org/look", &turn.to_string()).await;
    }
    assert_eq!(cloud.faults().count(keystone::LOGIN_BY_PASSWORD), 1);
    // Hours later, too; and after a restart it is tried at most once more.
    cloud.clock.jump(13 * 3600);
    cloud.annotate("example.org/look", "later").await;
    operator.stop().await;
    let _operator = cloud.operator().await;
    cloud.annotate("example.org/look", "after a restart").await;
    cloud
        .until("it is told again", || async {
            cloud.condition(NAME, "Ready").await["reason"] == "IssuerDenied"
        })
        .await;
    let tried = cloud.faults().count(keystone::LOGIN_BY_PASSWORD);
    assert!(tried <= 2, "{tried} failed logins");

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

/// J15, W8: somebody deleted it at Keystone. The timed check finds out.
#[tokio::test]
async fn one_deleted_at_keystone_is_noticed_and_made_anew() {
    let (cloud, _operator, first) = ready().await;
    cloud
        .admin
        .delete_application_credential(USER, &first)
        .await
        .unwrap();
    cloud.clock.jump(8 * 3600);
    cloud.annotate("example.org/look", "1").await;
    let second = cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [second]);
    assert_eq!(cloud.events_of("ApplicationCredentialRotated"), 1);
}

/// J22.
#[tokio::test]
async fn a_full_user_limit_is_told_and_not_hammered() {
    let options = keystone::Options {
        user_limit: Some(1),
        ..keystone::Options::default()
    };
    let cloud = Cloud::over(Issuer::StandIn(StandIn::start(options).unwrap())).await;
    let _operator = cloud.operator().await;
    cloud.create_this(cloud::named("ac-one")).await;
    cloud.until("the first", || cloud.settled("ac-one")).await;
    cloud.create_this(cloud::named("ac-two")).await;
    cloud
        .until("it is told", || async {
            let ready = cloud.condition("ac-two", "Ready").await;
            ready["reason"] == "IssuerRejected"
                && ready["message"].as_str().unwrap().contains("user_limit")
        })
        .await;
    let asked = cloud.faults().count(keystone::CREATE);
    cloud
        .appcreds()
        .patch(
            "ac-two",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(
                json!({ "metadata": { "annotations": { "example.org/look": "1" } } }),
            ),
        )
        .await
        .unwrap();
    assert_eq!(cloud.faults().count(keystone::CREATE), asked, "no hot loop");
    // Room is made: the next try, at its time, gets through.
    cloud.delete("ac-one").await;
    cloud.until_gone("ac-one").await;
    cloud.clock.jump(3600);
    let patch = json!({ "metadata": { "annotations": { "example.org/look": "2" } } });
    cloud
        .appcreds()
        .patch(
            "ac-two",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(&patch),
        )
        .await
        .unwrap();
    cloud.until("the second", || cloud.settled("ac-two")).await;
}

/// P10: the KeystoneAPI went first. Nothing is forgotten, and what is waited for is said.
#[tokio::test]
async fn deletion_without_a_keystone_waits_says_so_and_ends_when_it_is_back() {
    let (cloud, operator, first) = ready().await;
    // One that has been there all along still knows the way; this one does not.
    operator.stop().await;
    cloud
        .keystone_apis()
        .delete("keystone", &DeleteParams::default())
        .await
        .unwrap();
    let _operator = cloud.operator().await;
    cloud
        .until("it is seen", || async {
            cloud.condition(NAME, "KeystoneAPIReady").await["status"] == "False"
        })
        .await;
    cloud.delete(NAME).await;
    cloud
        .until("it is told", || async {
            let ready = cloud.condition(NAME, "Ready").await;
            ready["message"]
                .as_str()
                .unwrap_or_default()
                .contains("KeystoneAPI")
        })
        .await;
    assert_eq!(
        cloud.live_ids().await,
        [first.as_str()],
        "nothing can be revoked"
    );
    let object = cloud.object(NAME).await.unwrap();
    assert!(
        object.annotations()["keyward.dev/ledger"].contains(&first),
        "the id is kept"
    );
    cloud.add_keystone_api(true).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}

/// The person's way out: what stays alive is named.
#[tokio::test]
async fn with_the_orphan_policy_deletion_ends_and_names_what_stays_alive() {
    let (cloud, _operator, first) = ready().await;
    cloud
        .keystone_apis()
        .delete("keystone", &DeleteParams::default())
        .await
        .unwrap();
    cloud
        .annotate("keyward.dev/deletion-policy", "Orphan")
        .await;
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.live_ids().await, [first.as_str()]);
    let told = cloud
        .events()
        .into_iter()
        .any(|(reason, text)| reason == "LeftAtIssuer" && text.contains(&first));
    assert!(told, "{:?}", cloud.events());
}

/// J29.
#[tokio::test]
async fn a_namespace_that_is_deleted_takes_its_credentials_along() {
    let (cloud, _operator, _) = ready().await;
    // What a namespace's deletion does first: everything in it is deleted, in no order.
    cloud
        .secrets()
        .delete(cloud::PASSWORDS, &DeleteParams::default())
        .await
        .unwrap();
    cloud.delete(NAME).await;
    let secret = cloud.text("secretName").await;
    if !secret.is_empty() {
        let _ = cloud
            .secrets()
            .delete(&secret, &DeleteParams::default())
            .await;
    }
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}

/// A login that was there a moment ago and a changed spec in the middle of a mint: nothing is left at the old user.
#[tokio::test]
async fn a_user_changed_in_the_middle_of_a_mint_leaves_nothing_behind() {
    let cloud = Cloud::new().await;
    cloud.faults().next(keystone::CREATE, Fault::DropApplied);
    cloud
        .faults()
        .next(keystone::LOGIN_BY_APPLICATION_CREDENTIAL, Fault::Error(503));
    let operator = cloud.operator().await;
    // The operator dies when Keystone has committed and before it knows.
    let killer = operator.killer();
    cloud.faults().on_crash(move |_| killer.abort());
    cloud.faults().next(keystone::CREATE, Fault::CrashAfter);
    cloud.create().await;
    cloud
        .until("Keystone has it", || async {
            cloud.live().await.len() == 1
        })
        .await;
    cloud.faults().clear();
    cloud
        .edit(json!({ "spec": { "userName": "cinder", "passwordSelector": "CinderPassword" } }))
        .await;
    let _operator = cloud.operator().await;
    cloud.until_ready().await;
    assert_eq!(cloud.admin.count("cinder").await.unwrap(), 1);
    cloud
        .until("nothing is left at the old user", || async {
            cloud.live().await.is_empty()
        })
        .await;
}

/// J16: the user is disabled, then enabled.
#[tokio::test]
async fn a_user_that_is_disabled_is_noticed_and_taken_up_again_when_it_is_enabled() {
    let (cloud, _operator, first) = ready().await;
    cloud.admin.disable_user(USER).await.unwrap();
    cloud.clock.jump(8 * 3600);
    cloud.annotate("example.org/look", "1").await;
    cloud
        .until("it is not ready any more", || async {
            !cloud.is_ready(NAME).await
        })
        .await;
    let said = cloud.condition(NAME, "Ready").await;
    cloud.admin.enable_user(USER).await.unwrap();
    cloud.clock.jump(8 * 3600);
    cloud.annotate("example.org/look", "2").await;
    cloud.until("it works again", || cloud.settled(NAME)).await;
    assert_eq!(cloud.log_in(&cloud.handed_out().await).await, 201, "{said}");
    let _ = first;
}

/// J21: one that cannot be revoked does not keep others alive.
#[tokio::test]
async fn one_that_cannot_be_revoked_does_not_keep_others_alive() {
    let (cloud, _operator, first) = ready().await;
    let stuck = first.clone();
    cloud.faults().plan(move |request| {
        if request.method == "DELETE" && request.path.ends_with(&stuck) {
            Fault::Error(403)
        } else {
            Fault::Pass
        }
    });
    cloud.annotate("keyward.dev/rotate", "1").await;
    let second = cloud.until_rotated_from(&first).await;
    cloud
        .until("the refusal is told", || async {
            cloud.condition(NAME, "Reconciling").await["reason"] == "IssuerDenied"
        })
        .await;
    cloud.annotate("keyward.dev/rotate", "2").await;
    let third = cloud.until_rotated_from(&second).await;
    let mut expected = vec![first.clone(), third.clone()];
    expected.sort_unstable();
    cloud
        .until("the second is revoked", || async {
            cloud.live_ids().await == expected
        })
        .await;
    cloud.faults().clear();
    cloud.clock.jump(24 * 3600);
    cloud.annotate("example.org/look", "1").await;
    cloud.until_ready().await;
    assert_eq!(cloud.live_ids().await, [third]);
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
    let failed = |asked: &testbed::proxy::Recorded| {
        asked.line.kind == keystone::LOGIN_BY_PASSWORD && asked.status == Some(401)
    };
    assert_eq!(cloud.faults().count_where(failed), 0);
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
    let failed = |asked: &&testbed::proxy::Recorded| {
        asked.line.kind == keystone::LOGIN_BY_PASSWORD && asked.status == Some(401)
    };
    assert_eq!(log.iter().filter(failed).count(), 0);
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
        .until("it is told", || async {
            let busy = cloud.condition(NAME, "Reconciling").await;
            busy["message"]
                .as_str()
                .unwrap_or_default()
                .contains("domain nowhere")
        })
        .await;
    assert_eq!(cloud.text("acID").await, second);
    assert!(cloud.is_ready(NAME).await);
}

/// J23 in process: nothing that the cluster stores shows a value, but for the Secrets themselves.
#[tokio::test]
async fn no_value_is_shown_anywhere_but_in_secrets() {
    let (cloud, _operator, first) = ready().await;
    let old = cloud.handed_out().await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    let canaries = testbed::canary::Canaries::new();
    canaries.add("the first value", &old.1);
    canaries.add("the second value", &cloud.handed_out().await.1);
    canaries.add("the password", keystone::password_of(USER));
    for (key, object) in cloud.server.everything() {
        let mut object = (*object).clone();
        if key.resource == "secrets" {
            object.as_object_mut().unwrap().remove("data");
        }
        canaries.assert_absent(&format!("{key:?}"), object.to_string().as_bytes());
    }
}
