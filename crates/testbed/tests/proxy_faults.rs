//! Every fault of the proxy, in front of a server that has state: what was done there, and what the client got.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testbed::issuer::{Kind, StandIn};
use testbed::proxy::{Fault, Options, Proxy};

const REALM: &str = "behind";
const MINT: &str = "POST /v1/behind/credentials";

struct Bench {
    issuer: StandIn,
    login: String,
    proxy: Proxy,
    client: reqwest::Client,
}

fn bench(options: Options) -> Bench {
    let issuer = StandIn::start().unwrap();
    let login = issuer.realm(REALM, Kind::ShownOnce).reveal().to_owned();
    let proxy = Proxy::start(&issuer.url(), options).unwrap();
    let mut client = reqwest::Client::builder().timeout(Duration::from_millis(700));
    if let Some(pem) = proxy.ca_pem() {
        let authority = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
        client = client.tls_certs_only([authority]);
    }
    Bench {
        issuer,
        login,
        client: client.build().unwrap(),
        proxy,
    }
}

impl Bench {
    /// The status, `None` without an answer, or `Some(0)` if the body broke off.
    async fn mint(&self, name: &str) -> Option<u16> {
        let reply = self
            .client
            .post(format!(
                "{}/v1/{REALM}/credentials?secret=in-a-query",
                self.proxy.url()
            ))
            .bearer_auth(&self.login)
            .json(&json!({ "name": name }))
            .send()
            .await
            .ok()?;
        let status = reply.status().as_u16();
        match reply.text().await {
            Ok(_) => Some(status),
            Err(_) => Some(0),
        }
    }

    fn minted(&self) -> usize {
        self.issuer.live(REALM).len()
    }
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "not within 20 s: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn each_fault_does_what_it_says() {
    let moment = Duration::from_millis(30);
    for (fault, answer, done) in [
        (Fault::Pass, Some(201), 1),
        (Fault::Error(503), Some(503), 0),
        (Fault::ErrorApplied(502), Some(502), 1),
        (Fault::Throttle(7), Some(429), 0),
        (Fault::DropNotApplied, None, 0),
        (Fault::DropApplied, None, 1),
        (Fault::TimeoutNotApplied, None, 0),
        (Fault::TimeoutApplied, None, 1),
        (Fault::CutBody, Some(0), 1),
        (Fault::Delay(moment), Some(201), 1),
        (Fault::DelayReply(moment), Some(201), 1),
        (Fault::CrashBefore, None, 0),
        (Fault::CrashAfter, None, 1),
        (Fault::Twice, Some(201), 2),
        (Fault::Park, None, 0),
    ] {
        let bench = bench(Options::default());
        bench.proxy.faults().at(2, fault);
        assert_eq!(bench.mint("one").await, Some(201));
        assert_eq!(bench.mint("two").await, answer, "{fault:?}");
        assert_eq!(bench.minted(), 1 + done, "{fault:?}");
        assert_eq!(bench.mint("three").await, Some(201), "after {fault:?}");
    }
}

#[tokio::test]
async fn a_parked_request_is_done_when_it_is_released() {
    let bench = bench(Options::default());
    bench.proxy.faults().next(MINT, Fault::Park);
    assert_eq!(bench.mint("late").await, None);
    assert_eq!((bench.minted(), bench.proxy.parked()), (0, 1));
    assert_eq!(bench.proxy.release_parked(), 1);
    assert_eq!((bench.minted(), bench.proxy.parked()), (1, 0));
}

#[tokio::test]
async fn a_held_request_is_done_and_answered_when_it_is_released() {
    let bench = bench(Options::default());
    bench.proxy.faults().next(MINT, Fault::Hold);
    let (answer, ()) = tokio::join!(bench.mint("held"), async {
        eventually("the request waits", || bench.proxy.parked() == 1).await;
        assert_eq!(bench.minted(), 0);
        bench.proxy.release_parked();
    });
    assert_eq!((answer, bench.minted()), (Some(201), 1));
}

#[tokio::test]
async fn a_request_goes_on_when_its_client_is_gone() {
    let bench = bench(Options::default());
    bench
        .proxy
        .faults()
        .next(MINT, Fault::Delay(Duration::from_secs(1)));
    assert_eq!(bench.mint("from a dead client").await, None);
    eventually("it is done all the same", || bench.minted() == 1).await;
}

#[tokio::test]
async fn the_crash_hook_runs_before_or_after_the_server_acted() {
    let bench = Arc::new(bench(Options::default()));
    for (fault, seen) in [(Fault::CrashBefore, 0), (Fault::CrashAfter, 1)] {
        let (called, inside) = (Arc::new(AtomicU64::new(9)), Arc::downgrade(&bench));
        let told = Arc::clone(&called);
        bench.proxy.faults().on_crash(move |line| {
            assert_eq!(line.kind, MINT);
            let minted = inside.upgrade().expect("still there").minted();
            told.store(minted as u64, Ordering::SeqCst);
        });
        bench.proxy.faults().next(MINT, fault);
        assert_eq!(bench.mint("doomed").await, None);
        assert_eq!(called.load(Ordering::SeqCst), seen, "{fault:?}");
    }
}

#[tokio::test]
async fn the_record_tells_everything_but_queries_headers_and_bodies() {
    let bench = bench(Options::default());
    bench.mint("one").await;
    bench.proxy.faults().next(MINT, Fault::DropApplied);
    bench.mint("two").await;
    let log = bench.proxy.faults().log();
    assert_eq!(log.len(), 2);
    assert_eq!(log[1].line.n, 2);
    assert_eq!(log[1].line.path, "/v1/behind/credentials");
    assert_eq!(
        (log[1].status, log[1].fault),
        (Some(201), Fault::DropApplied)
    );
    assert!(log[0].answered.unwrap() >= log[0].arrived);
    assert_eq!(bench.proxy.faults().count(MINT), 2);
    let told = format!("{log:?}");
    for hidden in ["in-a-query", "two", &bench.login] {
        assert!(!told.contains(hidden));
    }
}

#[tokio::test]
async fn over_tls_the_same() {
    let bench = bench(Options {
        tls: true,
        ..Options::default()
    });
    assert!(bench.proxy.url().starts_with("https://"));
    assert_eq!(bench.mint("one").await, Some(201));
    bench.proxy.faults().at(2, Fault::DropApplied);
    assert_eq!(bench.mint("two").await, None);
    assert_eq!(bench.minted(), 2);
}

#[tokio::test]
async fn a_server_that_is_gone_is_a_broken_connection_until_it_is_back() {
    let mut bench = bench(Options::default());
    bench.issuer = StandIn::start().unwrap();
    bench
        .issuer
        .realm_with_login(REALM, Kind::ShownOnce, &bench.login);
    assert_eq!(bench.mint("one").await, None);
    bench.proxy.point_at(&bench.issuer.url());
    assert_eq!(bench.mint("two").await, Some(201));
}
