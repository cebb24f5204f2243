//! The grace period of an old GitLab token: when it ends, what may end it sooner, and that nothing makes it last longer.
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be read ends the test"
)]

mod forge;

use forge::{Forge, Kind, NAME, ROOT, Running, hours, minutes, with};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use testbed::gitlab::{
    CREATE_PROJECT_TOKEN, LIST_PROJECT_TOKENS, REVOKE_PROJECT_TOKEN, Settings, Use, level,
};
use testbed::proxy::Fault;

/// A forge in which the example was rotated once: the first token is in its grace period.
async fn in_window(object: impl Fn(&Forge) -> Value) -> (Forge, Running, u64, u64) {
    in_window_of(Forge::new().await, object).await
}

async fn in_window_of(
    forge: Forge,
    object: impl Fn(&Forge) -> Value,
) -> (Forge, Running, u64, u64) {
    let operator = forge.operator().await;
    forge.create(object(&forge)).await;
    forge.until_settled().await;
    let first = forge.current().await;
    forge.rotate("open the window").await;
    let second = forge.until_rotated_from(first).await;
    forge
        .until("the window is open", || async {
            forge.previous().await == first
        })
        .await;
    forge.assert_live(&[first, second]);
    (forge, operator, first, second)
}

async fn ends_at(forge: &Forge) -> Timestamp {
    let status = forge.status().await;
    let text = status["previousTokenRevocationTime"].as_str().unwrap();
    text.parse().unwrap()
}

/// GL6, S002-13.
#[tokio::test]
async fn a_rotation_that_fails_in_a_window_does_not_make_it_last_longer() {
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
    forge
        .faults()
        .every(CREATE_PROJECT_TOKEN, Fault::Error(500));
    forge.rotate("and again").await;
    forge
        .until("the rotation fails", || async {
            forge.events_of("RotationFailed") > 0
        })
        .await;
    forge.live_through(&operator, hours(2)).await;
    forge
        .until("the first is gone", || async {
            !forge.live().contains(&first)
        })
        .await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[second]);
    forge.faults().clear();
    forge.live_through(&operator, hours(1)).await;
    let third = forge.until_rotated_from(second).await;
    forge.live_through(&operator, hours(3)).await;
    forge.until_settled().await;
    assert!(forge.most_live() <= 2, "{}", forge.most_live());
    forge.assert_live(&[third]);
}

/// GL7.
#[tokio::test]
async fn a_due_rotation_waits_for_the_old_token_to_be_revoked() {
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
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
    let third = forge.until_rotated_from(second).await;
    forge.live_through(&operator, hours(3)).await;
    forge.until_settled().await;
    assert!(forge.most_live() <= 2, "{}", forge.most_live());
    forge.assert_live(&[third]);
}

/// GL7: one that is about to expire is replaced all the same.
#[tokio::test]
async fn a_token_about_to_expire_is_replaced_even_if_the_old_one_cannot_be_revoked() {
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
    forge
        .faults()
        .every(REVOKE_PROJECT_TOKEN, Fault::Error(500));
    let expires: Timestamp = forge.status().await["currentTokenRef"]["expiresAt"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    forge.live_through(&operator, hours(3)).await;
    forge
        .until("the trouble is told", || async {
            forge.events_of("IssuerUnreachable") > 0
        })
        .await;
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

/// GL8.
#[tokio::test]
async fn force_now_in_a_window_closes_it_and_then_rotates() {
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
    forge.edit_spec(json!({ "forceNow": true })).await;
    let third = forge.until_rotated_from(second).await;
    forge
        .until("the second is in its window", || async {
            forge.previous().await == second
        })
        .await;
    assert!(!forge.live().contains(&first));
    assert_eq!(forge.most_live(), 2, "never more than one too many");
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge.until_settled().await;
    forge.assert_live(&[third]);
}

/// GL9.
#[tokio::test]
async fn a_resource_deleted_in_a_window_takes_both_tokens_along() {
    let (forge, _operator, _, _) = in_window(|forge| forge.keeping_old("2h")).await;
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    forge.assert_live(&[]);
}

/// GL9: or leaves both, if that is its policy; with a Warning that names them.
#[tokio::test]
async fn a_resource_deleted_in_a_window_leaves_both_if_its_policy_says_so() {
    let orphan = |forge: &Forge| {
        with(
            forge.keeping_old("2h"),
            json!({ "spec": { "deletionPolicy": "Orphan" } }),
        )
    };
    let (forge, _operator, first, second) = in_window(orphan).await;
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    let told = forge.event("LeftAtIssuer");
    for id in [first, second] {
        assert!(told.contains(&id.to_string()), "{told}");
    }
    forge.assert_live(&[first, second]);
}

/// GL9, GL10: the login is gone before the resource, as when a namespace is deleted. What was known of it a moment ago
/// still serves.
#[tokio::test]
async fn a_login_that_goes_first_still_serves_those_who_leave() {
    let (forge, _operator, _, _) = in_window(|forge| forge.keeping_old("2h")).await;
    forge
        .secrets()
        .delete(ROOT, &kube::api::DeleteParams::default())
        .await
        .unwrap();
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    forge.assert_live(&[]);
}

/// GL9, GL10: after a restart nobody knows the login any more. The current token ends itself; what cannot be ended is
/// told, and not waited for for ever.
#[tokio::test]
async fn without_a_login_what_cannot_be_revoked_is_told_and_let_go() {
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
    operator.stop().await;
    forge
        .secrets()
        .delete(ROOT, &kube::api::DeleteParams::default())
        .await
        .unwrap();
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

/// GL11: one clock, ours, says when a window ends; that GitLab's differs is measured and told.
#[tokio::test]
async fn a_window_ends_by_our_clock_and_the_difference_to_gitlabs_is_told() {
    let forge = Forge::new().await;
    forge.gitlab.advance(minutes(10));
    let (forge, operator, first, second) =
        in_window_of(forge, |forge| forge.keeping_old("2h")).await;
    let ends = ends_at(&forge).await.duration_since(forge.now());
    assert!(
        ends > hours(1) + minutes(58) && ends <= hours(2),
        "{ends:#}"
    );
    forge.live_through(&operator, hours(1) + minutes(55)).await;
    forge.assert_live(&[first, second]);
    forge.live_through(&operator, minutes(6)).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
    // The real clock is what GitLab's is compared with.
    let real = keyward::engine::world::Clock::default().now();
    let ahead = forge.gitlab.now().duration_since(real).as_secs_f64();
    let scraped = operator.engine.world().telemetry.scrape();
    let gauge = scraped
        .lines()
        .find(|line| line.starts_with("keyward_issuer_clock_skew"))
        .and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    let told = gauge.unwrap_or(f64::NAN);
    assert!((told - ahead).abs() < 60.0, "{told} is told, {ahead} is so");
}

/// GL12, S002-9: a grace period that no longer fits stops rotations, and an open window closes on time.
#[tokio::test]
async fn a_window_closes_on_time_although_the_new_spec_is_invalid() {
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
    forge
        .edit_spec(json!({ "rotationSchedule": "*/30 * * * *" }))
        .await;
    let told = forge
        .until_refused(Kind::Project, NAME, "InvalidGracePeriod")
        .await;
    assert!(told.contains("30m"), "{told}");
    assert_eq!(forge.events_of("InvalidGracePeriod"), 1);
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge
        .until("the first is gone", || async {
            !forge.live().contains(&first)
        })
        .await;
    assert_eq!(forge.minted(), 2, "nothing is rotated");
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[second]);
    // Mended, it goes on.
    forge
        .edit_spec(json!({ "rotationStrategy": { "keepOld": { "gracePeriod": "10m" } } }))
        .await;
    let third = forge.until_rotated_from(second).await;
    forge.live_through(&operator, minutes(11)).await;
    forge.until_settled().await;
    forge.assert_live(&[third]);
}

/// GL12: two ticks on neighbouring days count, however far the others are apart.
#[tokio::test]
async fn the_shortest_gap_in_a_year_counts() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    let object = with(
        forge.keeping_old("25h"),
        json!({ "spec": { "rotationSchedule": "0 0 1,2 * *" } }),
    );
    forge.create(object).await;
    let told = forge
        .until_refused(Kind::Project, NAME, "InvalidGracePeriod")
        .await;
    assert!(told.contains("24h"), "{told}");
    assert_eq!(
        forge.faults().total(),
        0,
        "GitLab is not asked for anything"
    );
    forge.assert_live(&[]);
}

/// GL13.
#[tokio::test]
async fn the_default_grace_with_a_schedule_of_half_an_hour_is_an_error_that_says_so() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    let change = json!({ "spec": {
        "rotationSchedule": "*/30 * * * *", "rotationStrategy": { "type": "KeepOld" },
    } });
    forge.create(with(forge.example(), change)).await;
    let told = forge
        .until_refused(Kind::Project, NAME, "InvalidGracePeriod")
        .await;
    for word in ["1h", "default", "30m", "gracePeriod"] {
        assert!(told.contains(word), "{told}");
    }
    forge.assert_live(&[]);
}

/// GL15, S002-13.
#[tokio::test]
async fn a_longer_grace_changes_nothing_in_an_open_window() {
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
    let declared = ends_at(&forge).await;
    forge
        .edit_spec(json!({ "rotationStrategy": { "keepOld": { "gracePeriod": "20h" } } }))
        .await;
    forge
        .until("it was looked at", || async {
            forge.status().await["observedGeneration"] == 2
        })
        .await;
    assert_eq!(ends_at(&forge).await, declared);
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge.until_settled().await;
    assert!(!forge.live().contains(&first));
    forge.assert_live(&[second]);
}

/// GL15.
#[tokio::test]
async fn a_shorter_grace_ends_an_open_window_sooner() {
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("10h")).await;
    let declared = ends_at(&forge).await;
    forge
        .edit_spec(json!({ "rotationStrategy": { "keepOld": { "gracePeriod": "1h" } } }))
        .await;
    forge
        .until("it is told", || async { ends_at(&forge).await < declared })
        .await;
    forge.assert_live(&[first, second]);
    forge.live_through(&operator, hours(1) + minutes(1)).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
}

/// GL16.
#[tokio::test]
async fn going_over_to_immediate_ends_an_open_window() {
    let (forge, _operator, first, second) = in_window(|forge| forge.keeping_old("10h")).await;
    forge
        .edit_spec(json!({ "rotationStrategy": { "type": "Immediate", "keepOld": null } }))
        .await;
    forge.until_settled().await;
    assert!(!forge.live().contains(&first));
    forge.assert_live(&[second]);
}

/// GL17, GL-A14: another project. The old tokens are revoked where they were made.
#[tokio::test]
async fn a_token_is_revoked_in_the_project_it_was_made_in() {
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
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
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
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
    forge
        .until("the first is gone", || async {
            !forge.live().contains(&first)
        })
        .await;
    assert!(forge.gitlab.token(first).unwrap().revoked);
    forge.assert_live(&[second, theirs.id]);
}

/// GL18.
#[tokio::test]
async fn a_refused_revoke_keeps_the_token_on_record_until_it_has_expired() {
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
    forge
        .faults()
        .every(REVOKE_PROJECT_TOKEN, Fault::Error(403));
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge
        .until("the refusal is told", || async {
            forge.events_of("IssuerDenied") + forge.events_of("IssuerRejected") > 0
        })
        .await;
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
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
    forge.gitlab.remove_member(forge.group, forge.owner);
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge
        .until("it was tried", || async {
            forge.events_of("IssuerDenied") + forge.events_of("IssuerRejected") > 0
        })
        .await;
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
    let weekly = |forge: &Forge| {
        with(
            forge.keeping_old("144h"),
            json!({ "spec": { "rotationSchedule": "0 3 1 * *", "maxLifetimeDays": 3 } }),
        )
    };
    let (forge, operator, first, _) = in_window_of(forge, weekly).await;
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
    let (forge, operator, first, second) = in_window(|forge| forge.keeping_old("2h")).await;
    forge
        .gitlab
        .change_settings(|settings| settings.revoke_deletes_bot = Some(true));
    assert!(forge.gitlab.revoke(first));
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
}

/// GL-A8: at the deadline it goes even if it is used, but not without a word.
#[tokio::test]
async fn a_token_still_in_use_at_the_deadline_is_revoked_with_a_warning() {
    let forge = Forge::new().await;
    let operator = forge.operator().await;
    forge.create(forge.keeping_old("2h")).await;
    forge.until_settled().await;
    let (first, value) = (forge.current().await, forge.exported().await);
    forge.rotate("open").await;
    let second = forge.until_rotated_from(first).await;
    forge.live_through(&operator, hours(1) + minutes(55)).await;
    assert_eq!(forge.gitlab.use_token(&value), Use::Works);
    forge.live_through(&operator, minutes(6)).await;
    forge.until_settled().await;
    assert_eq!(forge.events_of("StillUsed"), 1, "{:?}", forge.events());
    assert_eq!(forge.gitlab.use_token(&value), Use::Revoked);
    forge.assert_live(&[second]);
}

/// GL-A8: or waits until nobody uses it, if the resource says so.
#[tokio::test]
async fn a_token_still_in_use_is_waited_for_where_the_spec_says_so() {
    let forge = Forge::new().await;
    let operator = forge.operator().await;
    let unused =
        json!({ "spec": { "rotationStrategy": { "keepOld": { "revokeWhen": "Unused" } } } });
    forge.create(with(forge.keeping_old("2h"), unused)).await;
    forge.until_settled().await;
    let (first, value) = (forge.current().await, forge.exported().await);
    forge.rotate("open").await;
    let second = forge.until_rotated_from(first).await;
    forge.live_through(&operator, hours(1) + minutes(55)).await;
    assert_eq!(forge.gitlab.use_token(&value), Use::Works);
    forge.live_through(&operator, minutes(6)).await;
    forge
        .until("it is told", || async {
            forge.status().await.to_string().contains("used it at")
        })
        .await;
    forge.assert_live(&[first, second]);
    forge.live_through(&operator, minutes(30)).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
    assert!(forge.faults().count(LIST_PROJECT_TOKENS) > 0);
}
