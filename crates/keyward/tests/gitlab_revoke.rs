//! The revoke of an old GitLab token: where and with which login, and what follows if it cannot be done.
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be read ends the test"
)]

mod forge;

use forge::openings::{in_window, in_window_of};
use forge::{Forge, Kind, NAME, ROOT, hours, minutes, with};
use jiff::SignedDuration;
use keyward::engine::Options;
use serde_json::json;
use testbed::gitlab::{REVOKE_PROJECT_TOKEN, Settings, Use, level};
use testbed::proxy::Fault;

/// GL7.
#[tokio::test]
async fn a_due_rotation_waits_for_the_old_token_to_be_revoked() {
    let (forge, operator, first, second) = in_window("2h").await;
    forge
        .faults()
        .every(REVOKE_PROJECT_TOKEN, Fault::Error(500));
    // Past the window, and past the next rotation.
    forge.live_through(&operator, hours(18)).await;
    forge
        .until("the trouble is told", || async {
            let status = forge.status().await;
            status["conditions"]
                .to_string()
                .contains("IssuerUnreachable")
                || forge.events_of("IssuerUnreachable") > 0
        })
        .await;
    forge.live_through(&operator, hours(1)).await;
    assert_eq!(forge.minted(), 2, "a third token would be one too many");
    forge.assert_live(&[first, second]);
    forge.faults().clear();
    forge.live_through(&operator, hours(2)).await;
    forge.goes_on_from(&operator, second).await;
}

/// GL7: one that is about to expire is replaced all the same.
#[tokio::test]
async fn a_token_about_to_expire_is_replaced_even_if_the_old_one_cannot_be_revoked() {
    let (forge, operator, first, second) = in_window("2h").await;
    forge
        .faults()
        .every(REVOKE_PROJECT_TOKEN, Fault::Error(500));
    let expires = forge.expires_at().await;
    forge.live_through(&operator, hours(3)).await;
    forge.until_told_of("IssuerUnreachable").await;
    let left = expires.duration_since(forge.now());
    forge.live_through(&operator, left - hours(20)).await;
    let third = forge.until_rotated_from(second).await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.faults().clear();
    for _ in 0..4 {
        forge.live_through(&operator, hours(3)).await;
        forge
            .until("what is due is done", || async { forge.live().len() <= 2 })
            .await;
    }
    forge.until_settled().await;
    assert!(!forge.live().contains(&first));
    let current = forge.current().await;
    assert!(current >= third);
    forge.assert_live(&[current]);
}

/// GL9, GL10: the login is gone before the resource, as when a namespace is deleted. What was known of it a moment ago
/// still serves.
#[tokio::test]
async fn a_login_that_goes_first_still_serves_those_who_leave() {
    let (forge, _operator, _, _) = in_window("2h").await;
    forge.remove_secret(ROOT).await;
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    forge.assert_live(&[]);
}

/// GL9, GL10: after a restart nobody knows the login any more. The current token ends itself; what cannot be ended is
/// told, and not waited for for ever.
#[tokio::test]
async fn without_a_login_what_cannot_be_revoked_is_told_and_let_go() {
    let (forge, operator, first, second) = in_window("2h").await;
    operator.stop().await;
    forge.remove_secret(ROOT).await;
    forge.delete(Kind::Project, NAME).await;
    let operator = forge.operator().await;
    forge
        .until("it is told what it waits for", || async {
            let ready = forge.ready(Kind::Project, NAME).await;
            ready["message"].to_string().contains("is not there")
        })
        .await;
    forge
        .until("it is let go in the end", || async {
            forge.live_through(&operator, hours(1)).await;
            forge.object(Kind::Project, NAME).await.is_none()
        })
        .await;
    let told = forge.event("LeftBehind");
    assert!(told.contains(&first.to_string()), "{:?}", forge.events());
    let known = forge.gitlab.token(second).unwrap();
    assert!(known.revoked, "the current one ended itself");
    let left = forge.gitlab.token(first).unwrap();
    assert!(!left.revoked);
}

/// GL17, GL-A14: another project. The old tokens are revoked where they were made.
#[tokio::test]
async fn a_token_is_revoked_in_the_project_it_was_made_in() {
    let (forge, operator, first, second) = in_window("2h").await;
    let other = forge.gitlab.add_project("team/other");
    forge.edit_spec(json!({ "project": "team/other" })).await;
    let third = forge.until_rotated_from(second).await;
    assert_eq!(forge.gitlab.token(third).unwrap().about.place, Some(other));
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge.until_settled().await;
    for old in [first, second] {
        assert!(forge.gitlab.token(old).unwrap().revoked, "{old}");
    }
    assert!(forge.most_live() <= 2);
    forge.assert_live(&[third]);
}

/// GL17, GL-A14: another login, which cannot see the project. The old token is revoked with the one it was made with.
#[tokio::test]
async fn a_token_is_revoked_with_the_login_it_was_made_with() {
    let (forge, operator, first, second) = in_window("2h").await;
    let stranger = forge.gitlab.add_user("stranger");
    let theirs = forge
        .gitlab
        .add_token(stranger, "no business here", &["api"], None);
    forge
        .add_secret("stranger", &json!({ "token": theirs.value.reveal() }))
        .await;
    forge
        .edit_spec(json!({ "apiTokenSecretRef": { "name": "stranger" } }))
        .await;
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge.until_ended(first).await;
    assert!(forge.gitlab.token(first).unwrap().revoked);
    forge.assert_live(&[second, theirs.id]);
}

async fn until_refusal_is_told(forge: &Forge) {
    forge
        .until("the refusal is told", || async {
            forge.events_of("IssuerDenied") + forge.events_of("IssuerRejected") > 0
        })
        .await;
}

/// GL18.
#[tokio::test]
async fn a_refused_revoke_keeps_the_token_on_record_until_it_has_expired() {
    let (forge, operator, first, second) = in_window("2h").await;
    forge
        .faults()
        .every(REVOKE_PROJECT_TOKEN, Fault::Error(403));
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    until_refusal_is_told(&forge).await;
    assert_eq!(forge.previous().await, first);
    let tried = forge.faults().count(REVOKE_PROJECT_TOKEN);
    forge
        .live_through(&operator, SignedDuration::from_secs(1))
        .await;
    assert_eq!(
        forge.faults().count(REVOKE_PROJECT_TOKEN),
        tried,
        "it backs off"
    );
    forge
        .until("it is given up a day after its end", || async {
            forge.live_through(&operator, hours(12)).await;
            !forge.ledger().await.contains(&format!("\"{first}@"))
        })
        .await;
    let expired = forge.gitlab.token(first).unwrap();
    assert!(!expired.active && !expired.revoked);
    let told = forge.event("Expired");
    assert!(told.contains("version 1.1"), "{told}");
    assert_ne!(forge.current().await, second, "rotations went on");
    assert_eq!(forge.use_exported().await, Use::Works);
}

/// GL19: "Project Not Found" is also what a login without sight of the project is told.
#[tokio::test]
async fn a_project_that_cannot_be_seen_proves_nothing() {
    let (forge, operator, first, second) = in_window("2h").await;
    forge.gitlab.remove_member(forge.group, forge.owner);
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    until_refusal_is_told(&forge).await;
    assert_eq!(forge.previous().await, first);
    forge.assert_live(&[first, second]);
    forge
        .gitlab
        .add_member(forge.group, forge.owner, level::OWNER);
    forge
        .until("it is revoked", || async {
            forge.live_through(&operator, hours(1)).await;
            !forge.live().contains(&first)
        })
        .await;
    assert!(forge.gitlab.token(first).unwrap().revoked);
    forge
        .until("it is settled", || async { forge.previous().await == 0 })
        .await;
}

/// GL20.
#[tokio::test]
async fn an_old_token_that_expired_by_itself_is_cleared() {
    let forge = Forge::with(Settings {
        max_lifetime_days: 3,
        ..Settings::default()
    })
    .await;
    let monthly = with(
        forge.keeping_old("144h"),
        json!({ "spec": { "rotationSchedule": "0 3 1 * *", "maxLifetimeDays": 3 } }),
    );
    let (forge, operator, first, _) = in_window_of(forge, monthly).await;
    forge
        .until("the first has expired and is cleared", || async {
            forge.live_through(&operator, hours(8)).await;
            let known = forge.ledger().await.contains(&format!("\"{first}@"));
            !forge.live().contains(&first) && !known
        })
        .await;
    assert_eq!(forge.use_exported().await, Use::Works);
}

/// GL3, S002-11: 404 is as good as 204.
#[tokio::test]
async fn an_old_token_that_is_gone_already_is_cleared() {
    let (forge, operator, first, second) = in_window("2h").await;
    forge
        .gitlab
        .change_settings(|settings| settings.revoke_deletes_bot = Some(true));
    assert!(forge.gitlab.revoke(first));
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
}

/// The spec leads to an address that nobody allows, where nothing was ever made.
#[tokio::test]
async fn a_deletion_whose_address_is_not_allowed_any_more_ends_where_its_tokens_were_made() {
    for restarted in [false, true] {
        let (forge, mut operator, _, _) = in_window("2h").await;
        let elsewhere = json!({ "baseURL": "https://gitlab.elsewhere.example" });
        forge.edit_spec(elsewhere).await;
        forge
            .until("it is refused", || async {
                let ready = forge.ready(Kind::Project, NAME).await;
                ready.to_string().contains("--allow-base-url")
            })
            .await;
        if restarted {
            operator.kill();
        }
        forge.delete(Kind::Project, NAME).await;
        if restarted {
            operator = forge.operator().await;
        }
        forge.until_gone(Kind::Project, NAME).await;
        operator.stop().await;
        forge.assert_live(&[]);
    }
}

/// What was made there stays to be looked for, and a person hears that nobody may look.
#[tokio::test]
async fn a_deletion_waits_where_tokens_were_made_at_an_address_that_is_not_allowed_any_more() {
    let (forge, operator, first, second) = in_window("2h").await;
    operator.stop().await;
    forge.delete(Kind::Project, NAME).await;
    let other = ["https://gitlab.elsewhere.example"];
    let operator = forge.operator_reaching(&other, Options::default()).await;
    forge
        .until("it is told", || async {
            let ready = forge.ready(Kind::Project, NAME).await;
            ready.to_string().contains("--allow-base-url")
        })
        .await;
    forge.live_through(&operator, minutes(1)).await;
    forge.assert_live(&[first, second]);
    operator.stop().await;
    let _operator = forge.operator().await;
    forge.until_gone(Kind::Project, NAME).await;
    forge.assert_live(&[]);
}

/// Something in front of GitLab redirects what it should let through.
#[tokio::test]
async fn a_revoke_that_is_redirected_is_told_and_tried_again_soon() {
    let (forge, operator, first, second) = in_window("2h").await;
    forge
        .faults()
        .every(REVOKE_PROJECT_TOKEN, Fault::Error(302));
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge
        .until("it is told", || async {
            forge
                .status()
                .await
                .to_string()
                .contains("redirected (302)")
        })
        .await;
    forge.live_through(&operator, minutes(1)).await;
    forge.assert_live(&[first, second]);
    forge.faults().clear();
    forge.live_through(&operator, minutes(1)).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
}

#[tokio::test]
async fn a_deletion_whose_revoke_is_redirected_ends_when_the_server_behaves() {
    let (forge, operator, first, second) = in_window("2h").await;
    forge
        .faults()
        .every(REVOKE_PROJECT_TOKEN, Fault::Error(307));
    forge.delete(Kind::Project, NAME).await;
    forge
        .until("it is told", || async {
            let ready = forge.ready(Kind::Project, NAME).await;
            ready.to_string().contains("redirected (307)")
        })
        .await;
    forge.assert_live(&[first, second]);
    forge.faults().clear();
    forge
        .until("it is gone", || async {
            forge.later(&operator, SignedDuration::from_secs(1));
            forge.object(Kind::Project, NAME).await.is_none()
        })
        .await;
    forge.assert_live(&[]);
}
