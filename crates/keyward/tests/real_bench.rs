//! The benches on a small scale: what is counted has to be right at every size and on a busy machine. Times are for
//! `cargo xtask bench`, with a machine to itself.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;

use testbed::bench::{self, Judged, Verdict, keystone};
use testbed::keystone::{CREATE, DELETE, LOGIN_BY_APPLICATION_CREDENTIAL, LOGIN_BY_PASSWORD};

const KEYWARD: &str = env!("CARGO_BIN_EXE_keyward");

/// Enough of them that a request which just is under way when two counts are compared is less than a hundredth.
const CREDENTIALS: u32 = 100;
/// What has a target in requests, and not in MiB.
const COUNTED: [&str; 10] = [
    "first mint, API-server requests",
    "first mint, issuer requests",
    "rotation with retirement, API-server requests",
    "rotation with retirement, issuer requests",
    "at rest: issuer requests",
    "at rest: API-server writes",
    "restart: mints",
    "restart: Secret writes",
    "restart: all API-server writes",
    "audit log against apiserver_request_total, apart by (%)",
];

/// Application credentials; Keystone takes tens of milliseconds for each.
const AT_KEYSTONE: u32 = 30;

fn verdicts(judged: &[Judged]) -> BTreeMap<&str, (f64, Verdict)> {
    let each = judged.iter();
    each.map(|line| (line.what.as_str(), (line.measured, line.verdict)))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_the_engine_stays_within_its_requests_and_the_api_server_counts_the_same() {
    let plan = bench::Plan {
        sizes: vec![CREDENTIALS],
        keyward: KEYWARD.into(),
        rest_seconds: 5,
        namespaces: 20,
        planted: 0,
    };
    let figures = bench::engine(&plan).await.unwrap();
    let judged = bench::judge(&figures);
    let verdicts = verdicts(&judged);
    for what in COUNTED {
        let (measured, verdict) = verdicts[what];
        assert_eq!(verdict, Verdict::Ok, "{what}: {measured}");
    }
    assert!(figures[0].answered > u64::from(CREDENTIALS));
}

/// Each run ends with an administrator's look into its Keystone, and fails unless exactly as many are alive as there are
/// resources.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_mint_at_keystone_asks_for_what_it_needs_and_leaves_nothing_else() {
    let plan = keystone::Plan {
        sizes: vec![AT_KEYSTONE],
        keyward: KEYWARD.into(),
        rounds: Some(1),
        flags: Vec::new(),
        keystone_has_a_core: false,
    };
    let figures = keystone::keystone(&plan).await.unwrap();
    let judged = keystone::judge(&figures);
    let mut verdicts = judged.iter().map(|line| line.verdict);
    assert!(
        verdicts.all(|verdict| verdict != Verdict::Missed),
        "{judged:#?}"
    );
    let users = u64::try_from(figures[0].users).unwrap();
    let n = u64::from(AT_KEYSTONE);
    let round = &figures[0].rounds[0];
    let asked = |sample: &keystone::Sample| {
        [
            CREATE,
            LOGIN_BY_APPLICATION_CREDENTIAL,
            LOGIN_BY_PASSWORD,
            DELETE,
        ]
        .map(|kind| sample.keystone_requests.get(kind).copied().unwrap_or(0))
    };
    assert_eq!(asked(&round.bare), [n, 0, users, 0]);
    assert_eq!(asked(&round.verifying), [n, n, users, 0]);
    assert_eq!(asked(&round.mint), [n, n, users, 0]);
    let [created, tried, _, ended] = asked(&round.rotation);
    // The new one is tried because it must work, the old one because it must not.
    assert_eq!([created, tried, ended], [n, 2 * n, n]);
}
