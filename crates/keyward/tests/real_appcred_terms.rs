//! The terms of an application credential as Keystone has them, and the time at which it is replaced: real
//! kube-apiserver, real Keystone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod real_stage;

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use keyward::engine::conditions::whole_second;
use keyward::engine::world::Clock;
use kube::api::{Patch, PatchParams};
use real_stage::cloud::{self, Cloud, PATIENCE};
use real_stage::{Credential, plane, until};
use serde_json::json;
use testbed::keystone::CREATE;
use testbed::keystone::real::{Keystone, Options};

const NAME: &str = "ac-barbican";
const USER: &str = "barbican";
/// Nine hours ahead of UTC all year.
const TOKYO: &str = "Asia/Tokyo";
const LIFE_DAYS: i64 = 30;
const GRACE_DAYS: i64 = 7;

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn now() -> Timestamp {
    Clock::default().now()
}

async fn cloud(namespace: &str, issuer: &Keystone) -> Cloud {
    let stage = cloud::stage(plane().await).await;
    Cloud::new(&stage, namespace, &issuer.url()).await
}

/// S000-2 and J30.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_keystone_has_the_roles_rules_and_expiry_that_were_asked_for_in_any_time_zone() {
    let issuer = Keystone::start(Options::default()).await.unwrap();
    let cloud = cloud("terms", &issuer).await;
    let mut launch = cloud.launch(None);
    launch.zone = Some(TOKYO);
    let operator = launch.start();
    let asked = [
        ("compute", "/v2.1/servers/*", "GET"),
        ("compute", "/v2.1/servers", "POST"),
        ("image", "/v2/images/**", "DELETE"),
    ];
    let asked_rules = asked.map(
        |(service, path, method)| json!({ "service": service, "path": path, "method": method }),
    );
    let more = json!({
        "roles": ["service"], "accessRules": asked_rules, "unrestricted": true,
        "expirationDays": LIFE_DAYS, "gracePeriodDays": GRACE_DAYS,
    });
    let before = now();
    let credential = cloud.create_with(NAME, USER, &more).await;
    let pair = cloud.settled(&credential, 1).await;
    let after = now();
    if let Some(environment) = operator.environment() {
        let environment = String::from_utf8(environment).unwrap();
        assert!(environment.contains(&format!("TZ={TOKYO}")));
    }

    let alive = cloud.live(USER).await;
    assert_eq!(alive.len(), 1);
    let made = &alive[0];
    assert_eq!(made.id, pair.0);
    assert_eq!(made.unrestricted, Some(true));
    let project = cloud.admin.project_id("service").await.unwrap();
    assert_eq!(made.project_id.as_ref(), Some(&project));
    assert_eq!(made.roles.len(), 1);
    assert_eq!(made.roles[0].name, "service");
    let mut rules: Vec<(&str, &str, &str)> = made
        .access_rules
        .iter()
        .map(|rule| (&*rule.service, &*rule.path, &*rule.method))
        .collect();
    rules.sort_unstable();
    let mut wanted = asked.to_vec();
    wanted.sort_unstable();
    assert_eq!(rules, wanted);

    // Keystone writes UTC, without a zone.
    let expires = format!("{}Z", made.expires_at.as_ref().unwrap());
    let expires: Timestamp = expires.parse().unwrap();
    let second = SignedDuration::from_secs(1);
    let asked = before + days(LIFE_DAYS) - second..=after + days(LIFE_DAYS) + second;
    assert!(asked.contains(&expires), "{expires} is not in {asked:?}");
    let shown: Timestamp = status(&credential, "expiresAt").parse().unwrap();
    assert!(shown.duration_since(expires).abs() <= second, "{shown}");
    let eligible: Timestamp = status(&credential, "rotationEligibleAt").parse().unwrap();
    assert_eq!(eligible, shown - days(GRACE_DAYS));
}

fn status(credential: &Credential, field: &str) -> String {
    let object = credential.seen().unwrap();
    let text = object.data["status"][field].as_str();
    text.unwrap_or_default().to_owned()
}

/// When the first request for a credential came after so many.
fn asked_after(cloud: &Cloud, before: usize) -> Option<Instant> {
    let log = cloud.faults().log().into_iter();
    let mut creates = log.filter(|one| one.line.kind == CREATE);
    creates.nth(before).map(|one| one.arrived)
}

/// J4. A credential's own grace period begins after a day at the earliest, so that its end is moved near, as a person
/// may; from then on nothing happens but time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_the_next_one_is_asked_for_within_a_second_of_its_time_also_after_a_restart() {
    let issuer = Keystone::start(Options::default()).await.unwrap();
    let cloud = cloud("timer", &issuer).await;
    let launch = cloud.launch(None);
    let mut operator = launch.start();
    let more = json!({ "expirationDays": LIFE_DAYS, "gracePeriodDays": GRACE_DAYS });
    let credential = cloud.create_with(NAME, USER, &more).await;
    cloud.settled(&credential, 1).await;

    for (serial, restarts) in [(2, false), (3, true)] {
        let made = cloud.faults().count(CREATE);
        let eligible: Timestamp = whole_second(now() + SignedDuration::from_secs(7))
            .parse()
            .unwrap();
        let (instant, left) = (Instant::now(), eligible.duration_since(now()));
        let due = instant + Duration::try_from(left).unwrap();
        let end = whole_second(eligible + days(GRACE_DAYS));
        let patch = json!({ "status": { "expiresAt": end } });
        credential
            .api()
            .patch_status(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
        let noticed = async || status(&credential, "rotationEligibleAt") == whole_second(eligible);
        let waited = until("the time is told", PATIENCE, noticed).await;
        waited.unwrap_or_else(|error| panic!("{error}: {}", cloud.describe(&credential)));
        if restarts {
            operator.kill();
            operator = launch.start();
        }
        assert!(Instant::now() < due, "the machine is too slow for this");
        assert_eq!(cloud.faults().count(CREATE), made);
        let asked = async || asked_after(&cloud, made).is_some();
        until("another is asked for", PATIENCE, asked)
            .await
            .unwrap();
        let asked = asked_after(&cloud, made).unwrap();
        assert!(asked >= due, "{:?} too early", due - asked);
        let late = asked - due;
        assert!(late <= Duration::from_secs(1), "{late:?} late");
        cloud.settled(&credential, serial).await;
    }
    drop(operator);
}
