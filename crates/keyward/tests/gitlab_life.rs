//! A GitLab token from its first day to its last: made, stored, rotated by schedule, by request, by force; and what
//! people see of it.
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be read ends the test"
)]

mod forge;

use forge::openings::{in_window, in_window_of, settled};
use forge::{EXPORT, Forge, Kind, NAME, NAMESPACE, ROOT, hours, minutes, with};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use testbed::gitlab::{CREATE_PROJECT_TOKEN, Use, level};

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

/// S002-1, S002-6, S002-16.
#[tokio::test]
async fn a_token_is_made_stored_and_told_of() {
    let (forge, _operator, id) = settled().await;
    let status = forge.status().await;
    assert_eq!(status["currentTokenRef"]["name"], EXPORT);
    assert_eq!(status["currentTokenRef"]["namespace"], NAMESPACE);
    let (last, next) = (
        time(&status["lastRotationTime"]),
        time(&status["nextRotationTime"]),
    );
    assert!(forge.now().duration_since(last) < minutes(1));
    // Three in the morning, and a little of its own.
    let due = next.duration_since(last);
    assert!(due > hours(16) && due < hours(17) + minutes(6), "{due:#}");
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(forge.use_exported().await, Use::Works);
    let live = forge.gitlab.live();
    let made = live.iter().find(|live| live.id == id).unwrap();
    assert_eq!(made.description.as_deref(), Some("Keyward: team-a/app"));
    assert_eq!(made.scopes, ["read_api"]);
    assert_eq!(made.place, Some(forge.project));
    for reason in ["RotationStarted", "ExportUpdated", "RotationSucceeded"] {
        assert_eq!(forge.events_of(reason), 1, "{reason}");
    }
    assert_eq!(forge.leaks().len(), 0);
    forge.assert_live(&[id]);
}

/// A project that does not exist: what never worked once is told like what did, and that it exists now is noticed.
#[tokio::test]
async fn a_project_that_does_not_exist_is_told_and_one_that_does_by_now_is_noticed_within_a_minute()
{
    const LATER: &str = "team/later";
    let forge = Forge::new().await;
    let operator = forge.operator().await;
    let project = json!({ "spec": { "project": LATER } });
    forge.create(with(forge.example(), project)).await;
    let told = forge
        .until_refused(Kind::Project, NAME, "IssuerRejected")
        .await;
    assert!(told.contains("no such project"), "{told}");
    forge.until_told_of("RotationFailed").await;
    let event = forge.event("RotationFailed");
    assert!(event.contains("no such project"), "{event}");

    // As long as it lasts it is looked at, and told of once.
    let asked = forge.faults().total();
    for _ in 0..30 {
        forge.live_through(&operator, minutes(1)).await;
    }
    let asked = forge.faults().total() - asked;
    assert!(
        (30..=31).contains(&asked),
        "{asked} requests in half an hour"
    );
    assert_eq!(forge.events_of("RotationFailed"), 1);
    let metrics = operator.engine.world().telemetry.scrape();
    let counted = metrics.lines().any(|line| {
        let counts = line.starts_with("token_rotator_rotation_failures_total");
        counts && line.contains("reason=\"IssuerRejected\"")
    });
    assert!(counted, "{metrics}");

    forge.gitlab.add_project(LATER);
    forge.live_through(&operator, minutes(1)).await;
    forge.until_settled().await;
    let current = forge.current().await;
    forge.assert_live(&[current]);
}

/// A group's token is made the same way, in the group.
#[tokio::test]
async fn a_group_token_is_made_in_its_group() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    let mut object = with(
        forge.example(),
        json!({ "kind": Kind::Group.name(), "spec": { "group": "team" } }),
    );
    object["spec"].as_object_mut().unwrap().remove("project");
    forge.create(object).await;
    forge
        .until("it is ready", || forge.is_settled(Kind::Group, NAME))
        .await;
    let id = forge.current_of(Kind::Group, NAME).await;
    let live = forge.gitlab.live();
    let made = live.iter().find(|live| live.id == id).unwrap();
    assert_eq!(made.place, Some(forge.group));
    forge.assert_live(&[id]);
    forge.delete(Kind::Group, NAME).await;
    forge.until_gone(Kind::Group, NAME).await;
    forge.assert_live(&[]);
}

/// S002-1, S002-11: by schedule, and with Immediate the one before is revoked as soon as the new one is stored.
#[tokio::test]
async fn the_schedule_rotates_and_the_old_token_is_revoked_at_once() {
    let (forge, operator, first) = settled().await;
    forge.live_through(&operator, hours(16)).await;
    forge.ring(&operator);
    assert_eq!(forge.current().await, first, "it is two in the morning");
    forge.live_through(&operator, hours(1) + minutes(6)).await;
    let second = forge.until_rotated_from(first).await;
    forge.until_settled().await;
    assert_eq!(forge.use_exported().await, Use::Works);
    assert_eq!(forge.events_of("TokenRevoked"), 1);
    assert!(forge.event("TokenRevoked").contains(&first.to_string()));
    assert_eq!(forge.most_live(), 2);
    forge.assert_live(&[second]);
}

/// S002-7, S002-10, S002-11, S002-15.
#[tokio::test]
async fn an_old_token_is_kept_for_an_hour_unless_told_otherwise() {
    let forge = Forge::new().await;
    let strategy = json!({ "spec": { "rotationStrategy": { "type": "KeepOld" } } });
    let object = with(forge.example(), strategy);
    let (forge, operator, first, second) = in_window_of(forge, object).await;
    let until = forge.window_ends_at().await;
    let left = until.duration_since(forge.now());
    assert!(left > minutes(58) && left <= hours(1), "{left:#}");
    let column = forge.status().await["gracePeriod"].to_string();
    assert!(column.contains(&format!("until {until}")), "{column}");
    forge.live_through(&operator, minutes(50)).await;
    forge.assert_live(&[first, second]);
    forge.live_through(&operator, minutes(11)).await;
    forge.until_settled().await;
    let status = forge.status().await;
    for gone in [
        "previousTokenRef",
        "previousTokenRevocationTime",
        "gracePeriod",
    ] {
        assert_eq!(status[gone], Value::Null, "{gone}");
    }
    forge.assert_live(&[second]);
}

/// S002-26: once per generation, and the annotation beside it.
#[tokio::test]
async fn force_now_rotates_once_per_generation() {
    let (forge, operator, first) = settled().await;
    forge.edit_spec(json!({ "forceNow": true })).await;
    let second = forge.until_rotated_from(first).await;
    forge.until_settled().await;
    assert_eq!(forge.status().await["lastForceRotationGeneration"], 2);
    // The same generation asks no second time: not by another look, not after a restart, not beside an annotation.
    forge.rotate("a person").await;
    let third = forge.until_rotated_from(second).await;
    forge.until_settled().await;
    operator.stop().await;
    let _operator = forge.operator().await;
    forge
        .annotate(Kind::Project, NAME, "example.org/look", "1")
        .await;
    forge.edit_spec(json!({ "forceNow": false })).await;
    forge
        .until("the new generation was looked at", || async {
            forge.status().await["observedGeneration"] == 3
        })
        .await;
    assert_eq!(forge.current().await, third);
    assert_eq!(forge.minted(), 3);
    forge.edit_spec(json!({ "forceNow": true })).await;
    let fourth = forge.until_rotated_from(third).await;
    forge.until_settled().await;
    assert_eq!(forge.status().await["handledRotate"], "a person");
    forge.assert_live(&[fourth]);
}

/// S002-25: the time zone of the schedule, beside it or before it.
#[tokio::test]
async fn a_schedule_has_the_time_zone_it_was_given() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    for (name, change) in [
        ("beside", json!({ "timeZone": "Asia/Tokyo" })),
        (
            "before",
            json!({ "rotationSchedule": "CRON_TZ=Asia/Tokyo 0 3 * * *" }),
        ),
    ] {
        let object = forge.project_token(name, &format!("{name}-token"), ROOT);
        forge.create(with(object, json!({ "spec": change }))).await;
        forge
            .until("it is ready", || forge.is_settled(Kind::Project, name))
            .await;
        let status = forge.status_of(Kind::Project, name).await;
        let due = time(&status["nextRotationTime"]).duration_since(forge.now());
        // Three in the morning there is six in the evening in UTC.
        assert!(due > hours(7) && due < hours(8) + minutes(6), "{due:#}");
    }
    let live: Vec<u64> = [
        forge.current_of(Kind::Project, "beside").await,
        forge.current_of(Kind::Project, "before").await,
    ]
    .to_vec();
    forge.assert_live(&live);
}

/// What the token is, is part of what it must be: another scope or level is another token.
#[tokio::test]
async fn other_scopes_or_another_level_make_another_token() {
    let (forge, _operator, first) = settled().await;
    forge
        .edit_spec(json!({ "scopes": ["read_repository", "read_api", "read_api"] }))
        .await;
    let second = forge.until_rotated_from(first).await;
    forge.until_settled().await;
    // The order in which they are written down does not matter.
    forge
        .edit_spec(json!({ "scopes": ["read_api", "read_repository"] }))
        .await;
    forge
        .edit_spec(json!({ "accessLevel": "Maintainer" }))
        .await;
    let third = forge.until_rotated_from(second).await;
    forge.until_settled().await;
    assert_eq!(forge.minted(), 3);
    forge.assert_live(&[third]);
    assert!(!forge.exported().await.is_empty());
}

/// P9: at rest nothing is asked and nothing written; a restart makes no difference.
#[tokio::test]
async fn a_restart_mints_nothing_and_writes_nothing() {
    let (forge, operator, first, second) = in_window("2h").await;
    let before = forge.status().await;
    operator.stop().await;
    let (writes, mints) = (forge.writes(), forge.minted());
    let operator = forge.operator().await;
    forge
        .until("it has looked at everything", || async {
            operator.engine.world().ready.missing() == 0
                && operator.engine.world().queue.load().1 == 0
        })
        .await;
    forge.live_through(&operator, minutes(5)).await;
    assert_eq!(forge.status().await, before);
    assert_eq!((forge.writes(), forge.minted()), (writes, mints));
    forge.assert_live(&[first, second]);
    // And the deadline still holds.
    forge.live_through(&operator, hours(2)).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
}

/// The deletion policies.
#[tokio::test]
async fn a_deleted_resource_leaves_what_its_policy_says() {
    for (policy, alive, secret) in [
        ("Revoke", false, false),
        ("Orphan", true, false),
        ("Retain", true, true),
    ] {
        let forge = Forge::new().await;
        let _operator = forge.operator().await;
        let change = json!({ "spec": { "deletionPolicy": policy } });
        forge.create(with(forge.example(), change)).await;
        forge.until_settled().await;
        let id = forge.current().await;
        forge.delete(Kind::Project, NAME).await;
        forge.until_gone(Kind::Project, NAME).await;
        forge
            .until("the Secret is as it should be", || async {
                forge.secret(EXPORT).await.is_some() == secret
            })
            .await;
        let expected: Vec<u64> = alive.then_some(id).into_iter().collect();
        forge.assert_live(&expected);
        if secret {
            assert_eq!(forge.use_exported().await, Use::Works);
            let kept = forge.secret(EXPORT).await.unwrap();
            assert!(kept.finalizers().is_empty() && kept.owner_references().is_empty());
            let ours = |key: &&String| key.starts_with("keyward.dev/");
            assert_eq!(kept.labels().keys().find(ours), None);
            assert_eq!(kept.annotations().keys().find(ours), None);
        }
    }
}

/// A login without the role for it is told apart from one that is dead, and is tried again when it changes.
#[tokio::test]
async fn a_login_that_may_not_make_tokens_is_told() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    forge
        .gitlab
        .add_member(forge.group, forge.owner, level::DEVELOPER);
    forge.create(forge.example()).await;
    forge
        .until("it is refused", || async {
            let ready = forge.ready(Kind::Project, NAME).await;
            ["IssuerDenied", "IssuerRejected"].contains(&ready["reason"].as_str().unwrap_or(""))
        })
        .await;
    assert_eq!(forge.minted(), forge.faults().count(CREATE_PROJECT_TOKEN));
    forge.assert_live(&[]);
    assert_eq!(forge.leaks().len(), 0);
}
