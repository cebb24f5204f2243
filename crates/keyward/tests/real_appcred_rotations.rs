//! Many rotations of application credentials under consumers that never stop logging in: real kube-apiserver, real
//! Keystone.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and figures are for people"
)]

mod real_stage;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use real_stage::cloud::{self, Cloud, PATIENCE};
use real_stage::cloud_consumer::{CloudConsumer, Record};
use real_stage::{Credential, plane, until};
use testbed::keystone::real::{Keystone, Options};
use testbed::keystone::{self, SERVICE_USERS};
use tokio::sync::Mutex;

const RESOURCES: usize = 4;
/// A user may have several resources: they must not get into each other's way.
const USERS: usize = 2;

const CONSUMERS: [&str; 2] = [
    "openstack.org/first-ac-consumer",
    "openstack.org/second-ac-consumer",
];

/// Slow enough for Keystone to have time for the operator too: it has one worker.
const LOGS_IN_EVERY: Duration = Duration::from_millis(500);

/// From the last release to Keystone's answer that the old one is gone.
const REVOKED_WITHIN: Duration = Duration::from_secs(1);

fn user(n: usize) -> &'static str {
    SERVICE_USERS[n % USERS]
}

/// When the next rotation is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// The old one is revoked.
    AtRest,
    /// Both consumers have moved on, and the old one is still being revoked.
    AtOnce,
}

async fn rotate_on(
    cloud: &Cloud,
    credential: Credential,
    consumers: Vec<Record>,
    rotations: u32,
    pace: Pace,
) {
    let both_hold_another = async |than: &str| {
        let moved = async || {
            let now = credential.shown().secret.filter(|now| now != than);
            now.is_some() && consumers.iter().all(|one| one.met().holds == now)
        };
        let waited = until("both consumers hold the next one", PATIENCE, moved).await;
        if let Err(error) = waited {
            panic!("{error}: {}", cloud.describe(&credential));
        }
    };
    both_hold_another("").await;
    for n in 0..rotations {
        let before = credential.shown().secret.unwrap();
        credential.rotate(&n.to_string()).await;
        both_hold_another(&before).await;
        if pace == Pace::AtRest {
            let rest = async || credential.settled(n + 2);
            let waited = until("the old one is revoked", PATIENCE, rest).await;
            if let Err(error) = waited {
                panic!("{error}: {}", cloud.describe(&credential));
            }
        }
    }
}

struct Lags(Vec<Duration>);

impl Lags {
    fn at(&self, percent: usize) -> Duration {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }
}

/// From the last release of each credential to its end at Keystone. Complains of one that ended before it, or never.
fn lags(cloud: &Cloud, consumers: &[Record], complaints: &mut Vec<String>) -> Lags {
    let mut released: HashMap<String, (usize, Instant, Instant)> = HashMap::new();
    for release in consumers.iter().flat_map(|one| one.met().released.clone()) {
        let (times, sent, done) =
            released
                .entry(release.id)
                .or_insert((0, release.sent, release.done));
        *times += 1;
        *sent = (*sent).max(release.sent);
        *done = (*done).max(release.done);
    }
    let mut ended: HashMap<String, (Instant, Instant)> = HashMap::new();
    for (id, request) in cloud.revocations() {
        match (request.status, request.answered) {
            // The one answer that ends it.
            (Some(204), Some(answered)) => {
                let before = ended.insert(id.clone(), (request.arrived, answered));
                if before.is_some() {
                    complaints.push(format!("{id} was revoked twice"));
                }
            }
            // A rotation that was asked for in between outran the note of the end, and it was looked at once more.
            (Some(404), Some(_)) if ended.contains_key(&id) => {}
            (status, _) => complaints.push(format!("revoking {id} was answered {status:?}")),
        }
    }
    for id in ended.keys() {
        if !released.contains_key(id) {
            complaints.push(format!("{id} was revoked, and nobody had let go of it"));
        }
    }
    let mut lags = Vec::new();
    for (id, (times, sent, done)) in released {
        let Some((asked, answered)) = ended.get(&id) else {
            complaints.push(format!("{id} was released and never revoked"));
            continue;
        };
        if times != CONSUMERS.len() || *asked < sent {
            complaints.push(format!("{id} was revoked before its last release"));
        }
        lags.push(answered.saturating_duration_since(done));
    }
    lags.sort_unstable();
    Lags(lags)
}

/// Rotates every resource so often, and looks at what came of it. Says how long the slowest revocation took.
async fn rotate_all(namespace: &str, rotations: u32, pace: Pace) -> Duration {
    // Times are measured: one test at a time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    let _alone = ONE_AT_A_TIME.lock().await;
    let issuer = Keystone::start(Options::default()).await.unwrap();
    let stage = cloud::stage(plane().await).await;
    let cloud = Cloud::new(&stage, namespace, &issuer.url()).await;
    let launch = cloud.launch(None);
    let operator = launch.start();
    let begun = Instant::now();

    let mut consumers = Vec::new();
    let mut tasks = Vec::new();
    let mut drivers = Vec::new();
    for n in 0..RESOURCES {
        let credential = cloud.create(&format!("ac-service{n}"), user(n)).await;
        let mut own = Vec::new();
        for finalizer in CONSUMERS {
            let consumer = CloudConsumer {
                credential: credential.clone(),
                admin: cloud.admin.clone(),
                finalizer: finalizer.to_owned(),
                every: LOGS_IN_EVERY,
            };
            let (record, task) = consumer.start();
            own.push(record);
            tasks.push(task);
        }
        consumers.extend(own.clone());
        drivers.push(rotate_on(&cloud, credential, own, rotations, pace));
    }
    futures::future::join_all(drivers).await;
    let rotated_in = begun.elapsed();
    for n in 0..RESOURCES {
        let credential = cloud.credential(&format!("ac-service{n}"));
        cloud.settled(&credential, rotations + 1).await;
    }
    for task in tasks {
        task.abort();
    }

    let mut complaints = Vec::new();
    let lags = lags(&cloud, &consumers, &mut complaints);
    let logins: u64 = consumers.iter().map(|one| one.met().logins).sum();
    let refused: Vec<String> = consumers
        .iter()
        .flat_map(|one| one.met().refused.clone())
        .collect();
    let mut alive = 0;
    for user in &SERVICE_USERS[..USERS] {
        alive += cloud.live(user).await.len();
    }
    let made = cloud.count(keystone::CREATE, 201);
    println!(
        "{pace:?}: rotations {} in {rotated_in:.0?}, logins {logins}, refused {}, alive at the end {alive}, \
         revoked after the last release: p50 {:.1?}, p99 {:.1?}, max {:.1?}",
        made - RESOURCES,
        refused.len(),
        lags.at(50),
        lags.at(99),
        lags.at(100)
    );
    println!(
        "asked of Keystone by the operator: {:?}",
        cloud.faults().counts()
    );
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert_eq!(alive, RESOURCES);
    assert_eq!(lags.0.len(), RESOURCES * rotations as usize);
    assert_eq!(made, RESOURCES + lags.0.len());
    cloud.assert_no_leak(&launch, Some(&operator)).await;
    lags.at(100)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_500_rotations_under_consumers_that_hold_refuse_no_login_and_leave_nothing() {
    let slowest = rotate_all("rotations", 125, Pace::AtRest).await;
    assert!(slowest <= REVOKED_WITHIN, "the slowest: {slowest:?}");
}

/// How long a revocation takes is not the point here: it competes with the next credential's making.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_rotations_that_overtake_the_revocation_before_refuse_no_login_and_leave_nothing() {
    rotate_all("overtaking", 25, Pace::AtOnce).await;
}
