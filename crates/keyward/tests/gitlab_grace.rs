//! The grace period of an old GitLab token: when it ends, what may end it sooner, and that nothing makes it last longer.

mod forge;

use forge::openings::{in_window, in_window_of, settled_in};
use forge::{Forge, Kind, NAME, Running, hours, minutes, with};
use jiff::SignedDuration;
use serde_json::{Value, json};
use testbed::gitlab::{CREATE_PROJECT_TOKEN, LIST_PROJECT_TOKENS, Use};
use testbed::proxy::Fault;

/// GL6, S002-13.
#[tokio::test]
async fn a_rotation_that_fails_in_a_window_does_not_make_it_last_longer() {
    let (forge, operator, first, second) = in_window("2h").await;
    forge
        .faults()
        .every(CREATE_PROJECT_TOKEN, Fault::Error(500));
    forge.rotate("and again").await;
    forge.until_told_of("RotationFailed").await;
    forge.live_through(&operator, hours(2)).await;
    forge.until_ended(first).await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[second]);
    forge.faults().clear();
    forge.live_through(&operator, hours(1)).await;
    forge.goes_on_from(&operator, second).await;
}

/// GL6, S002-13: the schedule asks for the next rotation while a window is open, and GitLab makes no tokens. The window closes
/// when it was to close, not later.
#[tokio::test]
async fn a_scheduled_rotation_that_fails_does_not_move_the_end_of_an_open_window() {
    let forge = Forge::new().await;
    let object = forge.keeping_old("6h");
    let (forge, operator, first) = settled_in(forge, object).await;
    // At one at night somebody rotates; the window is open until seven, and three is the time of the schedule.
    forge.live_through(&operator, hours(15)).await;
    forge.rotate("open the window").await;
    let second = forge.until_rotated_from(first).await;
    let ends = forge.window_ends_at().await;
    forge
        .faults()
        .every(CREATE_PROJECT_TOKEN, Fault::Error(500));
    for _ in 0..5 {
        forge.live_through(&operator, hours(1)).await;
        assert_eq!(forge.window_ends_at().await, ends);
    }
    forge.live_through(&operator, minutes(50)).await;
    forge.assert_live(&[first, second]);
    forge.live_through(&operator, minutes(11)).await;
    forge.until_ended(first).await;
    forge.until_told_of("RotationFailed").await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[second]);
    forge.faults().clear();
    forge.live_through(&operator, hours(1)).await;
    let third = forge.until_rotated_from(second).await;
    forge.live_through(&operator, hours(7)).await;
    forge.until_settled().await;
    forge.assert_live(&[third]);
}

/// S002-15: the column shows how long the old token has left, as of the moment when its end was settled, and that end.
/// Nothing is written while it runs down.
#[tokio::test]
async fn the_column_counts_down_without_being_written_again() {
    let (forge, operator, _, _) = in_window("2h").await;
    let told = forge.status().await["gracePeriod"].clone();
    let text = told.as_str().unwrap();
    let (left, until) = text.split_once(", until ").unwrap();
    let (left, at) = left.split_once(" left at ").unwrap();
    assert!(["2h", "1h59m"].contains(&left), "{text}");
    assert!(at.ends_with('Z'), "{text}");
    assert_eq!(until, forge.window_ends_at().await.to_string());
    forge.calm(&operator).await;
    let writes = forge.writes();
    for _ in 0..5 {
        forge.live_through(&operator, minutes(20)).await;
    }
    assert_eq!(forge.writes(), writes);
    assert_eq!(forge.status().await["gracePeriod"], told);
}

/// GL8.
#[tokio::test]
async fn force_now_in_a_window_closes_it_and_then_rotates() {
    let (forge, operator, first, second) = in_window("2h").await;
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
    let (forge, _operator, _, _) = in_window("2h").await;
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    forge.assert_live(&[]);
}

/// GL9: or leaves both, if that is its policy; with a Warning that names them.
#[tokio::test]
async fn a_resource_deleted_in_a_window_leaves_both_if_its_policy_says_so() {
    let forge = Forge::new().await;
    let orphan = with(
        forge.keeping_old("2h"),
        json!({ "spec": { "deletionPolicy": "Orphan" } }),
    );
    let (forge, _operator, first, second) = in_window_of(forge, orphan).await;
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    let told = forge.event("LeftAtIssuer");
    for id in [first, second] {
        assert!(told.contains(&id.to_string()), "{told}");
    }
    forge.assert_live(&[first, second]);
}

/// GL11: one clock, ours, says when a window ends; that GitLab's differs is measured and told.
#[tokio::test]
async fn a_window_ends_by_our_clock_and_the_difference_to_gitlabs_is_told() {
    let forge = Forge::new().await;
    forge.gitlab.advance(minutes(10));
    let object = forge.keeping_old("2h");
    let (forge, operator, first, second) = in_window_of(forge, object).await;
    let ends = forge.window_ends_at().await.duration_since(forge.now());
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
    let (forge, operator, first, second) = in_window("2h").await;
    forge
        .edit_spec(json!({ "rotationSchedule": "*/30 * * * *" }))
        .await;
    let told = forge
        .until_refused(Kind::Project, NAME, "InvalidGracePeriod")
        .await;
    assert!(told.contains("30m"), "{told}");
    assert_eq!(forge.events_of("InvalidGracePeriod"), 1);
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge.until_ended(first).await;
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
    let (forge, operator, first, second) = in_window("2h").await;
    let declared = forge.window_ends_at().await;
    forge
        .edit_spec(json!({ "rotationStrategy": { "keepOld": { "gracePeriod": "20h" } } }))
        .await;
    forge
        .until("it was looked at", || async {
            forge.status().await["observedGeneration"] == 2
        })
        .await;
    assert_eq!(forge.window_ends_at().await, declared);
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge.until_settled().await;
    assert!(!forge.live().contains(&first));
    forge.assert_live(&[second]);
}

/// GL15.
#[tokio::test]
async fn a_shorter_grace_ends_an_open_window_sooner() {
    let (forge, operator, first, second) = in_window("10h").await;
    let declared = forge.window_ends_at().await;
    forge
        .edit_spec(json!({ "rotationStrategy": { "keepOld": { "gracePeriod": "1h" } } }))
        .await;
    forge
        .until("it is told", || async {
            forge.window_ends_at().await < declared
        })
        .await;
    forge.assert_live(&[first, second]);
    forge.live_through(&operator, hours(1) + minutes(1)).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
}

/// GL16.
#[tokio::test]
async fn going_over_to_immediate_ends_an_open_window() {
    let (forge, _operator, first, second) = in_window("10h").await;
    forge
        .edit_spec(json!({ "rotationStrategy": { "type": "Immediate", "keepOld": null } }))
        .await;
    forge.until_settled().await;
    assert!(!forge.live().contains(&first));
    forge.assert_live(&[second]);
}

/// A token whose value a consumer used five minutes before the end of its grace period, which is over by now.
async fn used_to_the_end(keep_old: Value) -> (Forge, Running, [u64; 2], String) {
    let forge = Forge::new().await;
    let change = json!({ "spec": { "rotationStrategy": { "keepOld": keep_old } } });
    let object = with(forge.keeping_old("2h"), change);
    let (forge, operator, first) = settled_in(forge, object).await;
    let value = forge.exported().await;
    forge.rotate("open").await;
    let second = forge.until_rotated_from(first).await;
    forge.live_through(&operator, hours(1) + minutes(55)).await;
    assert_eq!(forge.gitlab.use_token(&value), Use::Works);
    forge.live_through(&operator, minutes(6)).await;
    (forge, operator, [first, second], value)
}

/// GL-A8: at the deadline it goes even if it is used, but not without a word.
#[tokio::test]
async fn a_token_still_in_use_at_the_deadline_is_revoked_with_a_warning() {
    let (forge, _operator, [_, second], value) = used_to_the_end(json!({})).await;
    forge.until_settled().await;
    assert_eq!(forge.events_of("StillUsed"), 1, "{:?}", forge.events());
    assert_eq!(forge.gitlab.use_token(&value), Use::Revoked);
    forge.assert_live(&[second]);
}

/// GL-A8: or waits until nobody uses it, if the resource says so.
#[tokio::test]
async fn a_token_still_in_use_is_waited_for_where_the_spec_says_so() {
    let unused = json!({ "revokeWhen": "Unused" });
    let (forge, operator, [first, second], _) = used_to_the_end(unused).await;
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

/// GL-A8: what only we have tried is in nobody's use.
#[tokio::test]
async fn a_token_that_only_we_have_tried_is_not_said_to_be_in_use() {
    for restarted in [false, true] {
        let (forge, mut operator, _, second) = in_window("5m").await;
        if restarted {
            operator.kill();
            operator = forge.operator().await;
        }
        forge.live_through(&operator, minutes(6)).await;
        forge.until_settled().await;
        assert_eq!(forge.events_of("StillUsed"), 0, "restarted {restarted}");
        forge.assert_live(&[second]);
    }
}

/// GL-A8: GitLab notes a use every ten minutes, so that our own hides another's for so long. No longer is it waited for.
#[tokio::test]
async fn a_token_that_only_we_have_tried_is_kept_no_longer_than_others_can_be_hidden() {
    for used in [false, true] {
        let forge = Forge::new().await;
        let change =
            json!({ "spec": { "rotationStrategy": { "keepOld": { "revokeWhen": "Unused" } } } });
        let object = with(forge.keeping_old("5m"), change);
        let (forge, operator, first) = settled_in(forge, object).await;
        let value = forge.exported().await;
        forge.rotate("open").await;
        let second = forge.until_rotated_from(first).await;
        forge.live_through(&operator, minutes(6)).await;
        forge
            .until("it is told", || async {
                forge.status().await.to_string().contains("our own check")
            })
            .await;
        forge.assert_live(&[first, second]);
        forge
            .live_through(&operator, SignedDuration::from_secs(270))
            .await;
        if used {
            assert_eq!(forge.gitlab.use_token(&value), Use::Works);
        }
        forge.live_through(&operator, minutes(2)).await;
        if used {
            forge
                .until("it is told", || async {
                    forge.status().await.to_string().contains("used it at")
                })
                .await;
            forge.assert_live(&[first, second]);
        } else {
            forge.until_settled().await;
            forge.assert_live(&[second]);
        }
    }
}
