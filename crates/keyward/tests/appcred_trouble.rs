//! Application credentials when something is wrong: with Keystone, or with what is around them in the cluster.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use std::time::Duration;

use cloud::openings::ready;
use cloud::{Cloud, NAME, Running, USER};
use futures::StreamExt as _;
use jiff::SignedDuration;
use keyward::engine::Options;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use testbed::keystone;
use testbed::proxy::Fault;

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

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// J11: failing, silent or late at any single request of a life; nothing is lost.
#[tokio::test]
async fn keystone_failing_at_any_request_loses_nothing() {
    let undisturbed = lives(0, Fault::Pass).await;
    for kind in [
        keystone::LOGIN_BY_PASSWORD,
        keystone::LIST,
        keystone::CREATE,
        keystone::DELETE,
        keystone::LIST_RULES,
        keystone::DELETE_RULE,
    ] {
        assert!(undisturbed.iter().any(|one| one == kind), "{kind}");
    }
    let is_login = |kind: &&String| *kind == keystone::LOGIN_BY_APPLICATION_CREDENTIAL;
    assert!(
        undisturbed.iter().filter(is_login).count() >= 4,
        "each is tried when it is made and when it was revoked: {undisturbed:?}"
    );
    let faults = [
        Fault::Error(500),
        Fault::DropNotApplied,
        Fault::DropApplied,
        Fault::TimeoutApplied,
        // It gets through, when nobody waits for it any more.
        Fault::Delay(PATIENCE * 3 / 2),
    ];
    let all = (1..=undisturbed.len() as u64).flat_map(|n| faults.map(|fault| lives(n, fault)));
    let mut all = futures::stream::iter(all).buffer_unordered(24);
    while all.next().await.is_some() {}
}

/// Create, rotate, delete, with access rules, and this fault at the request with this number. What was asked of Keystone.
async fn lives(n: u64, fault: Fault) -> Vec<String> {
    let cloud = Cloud::new().await;
    cloud.faults().at(n, fault);
    let operator = cloud
        .operator_with(Options {
            effect_timeout: PATIENCE,
            ..Options::default()
        })
        .await;
    let case = format!("{fault:?} at request {n}");
    let mut object = cloud::example();
    let rule = json!({ "service": "compute", "path": "/servers", "method": "GET" });
    object["spec"]["accessRules"] = json!([rule]);
    cloud.create_this(object).await;
    let moves_on = || no_longer_waits(&cloud, &operator, n);
    cloud
        .until(&case, || async {
            moves_on();
            cloud.settled(NAME).await
        })
        .await;
    let first = cloud.text("acID").await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud
        .until(&case, || async {
            moves_on();
            cloud.text("acID").await != first && cloud.settled(NAME).await
        })
        .await;
    let rotated = cloud.clock.now();
    // A create that comes so late that its name is free again makes one more. It is found by its mark at the
    // next timed look: an attempt that was made good is not looked for any earlier.
    cloud
        .until(&case, || async {
            let log = cloud.faults().log();
            let mut late = log
                .iter()
                .filter(|asked| matches!(asked.fault, Fault::Delay(_)));
            if late.any(|asked| asked.answered.is_none()) {
                return false;
            }
            let alone = cloud.live_ids().await == [cloud.text("acID").await];
            if !alone {
                cloud.clock.jump(300);
                operator.engine.world().queue.timers.notify_one();
            }
            alone
        })
        .await;
    let took = cloud.clock.now().duration_since(rotated);
    assert!(took < SignedDuration::from_hours(8), "{case}: {took:?}");
    cloud.delete(NAME).await;
    cloud
        .until(&case, || async {
            moves_on();
            cloud.object(NAME).await.is_none()
        })
        .await;
    assert!(cloud.live().await.is_empty(), "{case}");
    assert!(cloud.ours().await.is_empty(), "{case}");
    let rules = cloud.admin.access_rules(USER).await.unwrap();
    assert_eq!(rules, [], "{case}");
    let log = cloud.faults().log();
    let met = log
        .iter()
        .any(|asked| asked.fault == fault && asked.line.n == n);
    assert!(met || n == 0, "{case}: there was no such request");
    log.into_iter().map(|asked| asked.line.kind).collect()
}

/// Once the fault was met, time goes by faster, so that no test waits for a back-off.
fn no_longer_waits(cloud: &Cloud, operator: &Running, n: u64) {
    if n > 0 && cloud.faults().total() as u64 >= n {
        cloud.clock.jump(1);
        operator.engine.world().queue.timers.notify_one();
    }
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
    let cloud = Cloud::with(options).await;
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
    for _ in 0..3 {
        cloud.until_this_is_looked_at("ac-two").await;
    }
    assert_eq!(cloud.faults().count(keystone::CREATE), asked, "no hot loop");
    // Room is made: the next try, at its time, gets through.
    cloud.delete("ac-one").await;
    cloud.until_gone("ac-one").await;
    cloud.clock.jump(3600);
    cloud
        .annotate_named("ac-two", "example.org/look", "2")
        .await;
    cloud.until("the second", || cloud.settled("ac-two")).await;
}

/// P10: the KeystoneAPI went first. Nothing is forgotten, and what is waited for is said.
#[tokio::test]
async fn deletion_without_a_keystone_waits_says_so_and_ends_when_it_is_back() {
    let (cloud, operator, first) = ready().await;
    // One that has been there all along still knows the way; this one does not.
    operator.stop().await;
    cloud.remove_keystone_api().await;
    let _operator = cloud.operator().await;
    cloud
        .until("it is seen", || async {
            cloud.condition(NAME, "KeystoneAPIReady").await["status"] == "False"
        })
        .await;
    cloud.delete(NAME).await;
    cloud
        .until("it is told", || cloud.says(NAME, "Ready", "KeystoneAPI"))
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
    cloud.remove_keystone_api().await;
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
    cloud.remove_secret(cloud::PASSWORDS).await;
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
    assert_eq!(cloud.found(&canaries), []);
}

/// What expires, and when, is said by Keystone's clock and judged by ours.
#[tokio::test]
async fn the_difference_between_keystones_clock_and_ours_is_told() {
    let keystone = keystone::standin::StandIn::start(keystone::Options::default()).unwrap();
    keystone.advance(SignedDuration::from_mins(10));
    let cloud = Cloud::over(cloud::Issuer::StandIn(keystone)).await;
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let scraped = operator.engine.world().telemetry.scrape();
    let told = scraped
        .lines()
        .find(|line| line.starts_with("keyward_issuer_clock_skew_seconds{"))
        .and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(
        told.is_some_and(|told| (told - 600.0).abs() < 30.0),
        "{told:?}\n{scraped}"
    );
}
