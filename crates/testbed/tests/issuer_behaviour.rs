//! The stand-in issuer behaves like an issuer, fails as planned, and remembers everything.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use lifecycle::{ClusterId, Mark, Minting, Owner, TroubleKind, Verdict, Version};
use serde_json::{Value, json};
use sources::http::{Http, Settings};
use sources::standin::{ID, SECRET, StandIn as Client};
use sources::{Minted, Order, Proof, SecretValue, Source, SourceError, Values};
use testbed::issuer::{Ended, Fault, Happened, Kind, StandIn, Verb};

const REALM: &str = "a";

fn settings() -> Settings {
    Settings {
        timeout: Duration::from_secs(1),
        ..Settings::default()
    }
}

fn reach(issuer: &StandIn, kind: Kind) -> Client {
    let minting = match kind {
        Kind::Chosen => Minting::Chosen,
        Kind::ReadBack => Minting::ReadBack,
        Kind::ShownOnce => Minting::ShownOnce,
        Kind::SelfRotating => Minting::SelfRotating,
        Kind::Provided => Minting::Provided,
    };
    let login = SecretValue::new(issuer.realm(REALM, kind).reveal());
    Client::new(&issuer.url(), REALM, login, minting, &settings()).unwrap()
}

fn owner() -> Owner {
    Owner::new(ClusterId::of_cluster("a cluster"), "a resource")
}

fn mark(attempt: u32) -> Mark {
    owner().mark(Version::new(1, attempt))
}

async fn mint(source: &Client, mark: Mark) -> Result<Minted, SourceError> {
    let wish = json!({ "rights": ["read", "write"] });
    mint_as_wished(source, mark, wish).await
}

async fn mint_as_wished(source: &Client, mark: Mark, wish: Value) -> Result<Minted, SourceError> {
    let draft = source.draft(&mark, &[7; 32]);
    let order = Order {
        mark,
        chosen: (!draft.is_empty()).then_some(draft),
        present: None,
        wish,
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    source.mint(&order).await
}

fn present(issuer: &StandIn) -> Values {
    let added = issuer.add(REALM, "bot").unwrap();
    Values::new()
        .with(ID, SecretValue::new(added.id))
        .with(SECRET, SecretValue::new(added.value.reveal()))
}

async fn rotate(source: &Client, present: &Values) -> Result<Minted, SourceError> {
    let order = Order {
        mark: mark(1),
        chosen: None,
        present: Some(present.clone()),
        wish: json!(null),
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    source.mint(&order).await
}

#[tokio::test]
async fn history_tells_in_order_who_did_what() {
    let issuer = StandIn::start().unwrap();
    let source = reach(&issuer, Kind::ShownOnce);
    let minted = mint(&source, mark(1)).await.unwrap();
    let consumer = source.clone().named("consumer-a");
    assert_eq!(
        consumer.verify(&minted.values).await.unwrap(),
        Verdict::Works
    );
    let live = issuer.live(REALM);
    assert_eq!(live.len(), 1);
    assert_eq!(live[0].rights, ["read", "write"]);
    assert!(live[0].last_login.is_some());
    source
        .revoke(&Proof::by(&mark(1)), &minted.id)
        .await
        .unwrap();
    assert_eq!(
        consumer.verify(&minted.values).await.unwrap(),
        Verdict::Refused
    );

    let id = minted.id.to_string();
    let name = mark(1).to_string();
    let who = "consumer-a".to_owned();
    let happened: Vec<Happened> = issuer
        .history(REALM)
        .into_iter()
        .map(|e| e.happened)
        .collect();
    assert_eq!(
        happened,
        [
            Happened::Minted {
                id: id.clone(),
                name: name.clone()
            },
            Happened::LoggedIn {
                id: id.clone(),
                who: who.clone()
            },
            Happened::Ended {
                id: id.clone(),
                name,
                how: Ended::Revoked
            },
            Happened::Refused { id: Some(id), who },
        ]
    );
    let seqs: Vec<u64> = issuer
        .history(REALM)
        .iter()
        .map(|event| event.seq)
        .collect();
    assert!(seqs.is_sorted_by(|a, b| a < b));
    assert!(issuer.live(REALM).is_empty());
}

#[tokio::test]
async fn a_value_without_its_id_is_told_apart_too() {
    let issuer = StandIn::start().unwrap();
    let source = reach(&issuer, Kind::Chosen);
    let minted = mint(&source, mark(1)).await.unwrap();
    let draft = source.draft(&mark(1), &[7; 32]);
    assert_eq!(source.verify(&draft).await.unwrap(), Verdict::Works);
    source
        .revoke(&Proof::by(&mark(1)), &minted.id)
        .await
        .unwrap();
    assert_eq!(source.verify(&draft).await.unwrap(), Verdict::Refused);
    let last = issuer.history(REALM).pop().unwrap().happened;
    assert_eq!(
        last,
        Happened::Refused {
            id: Some(minted.id.to_string()),
            who: "keyward".into()
        }
    );
}

#[tokio::test]
async fn a_read_back_realm_changes_the_value_when_asked_twice() {
    let issuer = StandIn::start().unwrap();
    let source = reach(&issuer, Kind::ReadBack);
    let first = mint(&source, mark(1)).await.unwrap();
    let second = mint(&source, mark(1)).await.unwrap();
    assert_eq!(first.id, second.id);
    assert_eq!(
        source.verify(&first.values).await.unwrap(),
        Verdict::Refused
    );
    assert_eq!(source.verify(&second.values).await.unwrap(), Verdict::Works);
}

#[tokio::test]
async fn rotating_with_a_dead_value_ends_the_whole_family() {
    let issuer = StandIn::start().unwrap();
    let source = reach(&issuer, Kind::SelfRotating);
    let first = present(&issuer);
    let second = rotate(&source, &first).await.unwrap();
    assert_eq!(issuer.live(REALM).len(), 1);
    let error = rotate(&source, &first).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Denied);
    assert_eq!(
        source.verify(&second.values).await.unwrap(),
        Verdict::Refused
    );
    assert!(issuer.live(REALM).is_empty());
    let ended = issuer.history(REALM).into_iter().any(|event| {
        event.happened
            == Happened::Ended {
                id: second.id.to_string(),
                name: "bot".into(),
                how: Ended::Family,
            }
    });
    assert!(ended);
}

#[tokio::test]
async fn a_lifetime_ends_by_itself() {
    let issuer = StandIn::start().unwrap();
    let source = reach(&issuer, Kind::ShownOnce);
    let wish = json!({ "lifetimeSeconds": 60 });
    let minted = mint_as_wished(&source, mark(1), wish).await.unwrap();
    assert_eq!(minted.expires, issuer.live(REALM)[0].expires);
    issuer.advance(SignedDuration::from_secs(61));
    assert_eq!(
        source.verify(&minted.values).await.unwrap(),
        Verdict::Refused
    );
    assert!(source.gone(&minted.id, None).await.unwrap());
    assert!(source.list(&owner(), &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_wish_that_makes_no_sense_is_rejected_before_anything_is_sent() {
    let issuer = StandIn::start().unwrap();
    let source = reach(&issuer, Kind::ShownOnce);
    let wish = json!({ "right": ["read"] });
    let error = mint_as_wished(&source, mark(1), wish).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Rejected);
    assert_eq!(issuer.faults().total(), 0);
}

#[tokio::test]
async fn a_disabled_login_is_denied_while_credentials_still_work() {
    let issuer = StandIn::start().unwrap();
    let source = reach(&issuer, Kind::ShownOnce);
    let minted = mint(&source, mark(1)).await.unwrap();
    issuer.disable_login(REALM);
    assert_eq!(
        source.list(&owner(), &[]).await.unwrap_err().kind,
        TroubleKind::Denied
    );
    assert_eq!(source.verify(&minted.values).await.unwrap(), Verdict::Works);
    let denied = issuer
        .history(REALM)
        .iter()
        .filter(|e| e.happened == Happened::Denied)
        .count();
    assert_eq!(denied, 1);
    issuer.enable_login(REALM);
    assert_eq!(source.list(&owner(), &[]).await.unwrap().len(), 1);
}

/// What each fault does to a mint: the kind of trouble it looks like, and how many credentials there are afterwards.
#[tokio::test]
async fn every_fault_does_what_it_says() {
    let cases = [
        (Fault::Pass, None, 1),
        (Fault::CrashBefore, Some(TroubleKind::Unreachable), 0),
        (Fault::CrashAfter, Some(TroubleKind::Unreachable), 1),
        (Fault::Error(422), Some(TroubleKind::Rejected), 0),
        (Fault::Error(500), Some(TroubleKind::Unreachable), 0),
        (Fault::TimeoutNotApplied, Some(TroubleKind::Unreachable), 0),
        (Fault::TimeoutApplied, Some(TroubleKind::Unreachable), 1),
        (Fault::CutBody, Some(TroubleKind::Unreachable), 1),
        (Fault::Throttle(3), Some(TroubleKind::Throttled), 0),
        (Fault::Delay(Duration::from_millis(20)), None, 1),
        (Fault::DelayReply(Duration::from_millis(20)), None, 1),
        (Fault::Twice, None, 2),
        (Fault::Park, Some(TroubleKind::Unreachable), 0),
    ];
    for (fault, trouble, live) in cases {
        let issuer = StandIn::start().unwrap();
        let source = reach(&issuer, Kind::ShownOnce);
        let crashed = Arc::new(AtomicU64::new(0));
        let at = Arc::clone(&crashed);
        issuer
            .faults()
            .on_crash(move |line| at.store(line.n, Ordering::SeqCst));
        issuer.faults().plan(move |line| {
            if line.verb == Verb::Mint {
                fault
            } else {
                Fault::Pass
            }
        });
        source.list(&owner(), &[]).await.unwrap();
        let answer = mint(&source, mark(1)).await;
        assert_eq!(answer.err().map(|error| error.kind), trouble, "{fault:?}");
        assert_eq!(issuer.live(REALM).len(), live, "{fault:?}");
        let meant_to = matches!(fault, Fault::CrashBefore | Fault::CrashAfter);
        assert_eq!(
            crashed.load(Ordering::SeqCst),
            if meant_to { 2 } else { 0 },
            "{fault:?}"
        );
        let parked = usize::from(fault == Fault::Park);
        assert_eq!(issuer.release_parked(), parked, "{fault:?}");
        assert_eq!(issuer.live(REALM).len(), live + parked, "{fault:?}");
        let line = &issuer.faults().log()[1].line;
        assert_eq!(
            (line.n, line.verb, line.name.clone()),
            (2, Verb::Mint, mark(1).to_string())
        );
        assert_eq!(
            (issuer.faults().count(Verb::Mint), issuer.faults().total()),
            (1, 2)
        );
        issuer.faults().reset();
        assert_eq!(issuer.faults().total(), 0);
        source.list(&owner(), &[]).await.unwrap();
        assert_eq!(issuer.faults().log()[0].line.n, 1);
    }
}

#[tokio::test]
async fn a_cut_reply_without_a_body_is_unreachable_too() {
    let issuer = StandIn::start().unwrap();
    let source = reach(&issuer, Kind::ShownOnce);
    let minted = mint(&source, mark(1)).await.unwrap();
    issuer.faults().next(Verb::Revoke, Fault::CutBody);
    let error = source
        .revoke(&Proof::by(&mark(1)), &minted.id)
        .await
        .unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unreachable);
    assert!(issuer.live(REALM).is_empty());
    assert_eq!(
        issuer.faults().count(Verb::Revoke),
        1,
        "it was not sent again"
    );
}

#[tokio::test]
async fn a_stand_in_that_is_dropped_is_gone_at_once() {
    let issuer = StandIn::start().unwrap();
    let source = reach(&issuer, Kind::ShownOnce);
    source.list(&owner(), &[]).await.unwrap();
    drop(issuer);
    let error = source.list(&owner(), &[]).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unreachable);
}

#[tokio::test]
async fn the_process_of_its_own_is_steered_from_outside() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_testbed-issuer"))
        .arg("0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let url = url.trim();
    let http = Http::new(url, &settings()).unwrap();
    let control = |method: &str, path: &'static str, body: serde_json::Value| {
        let request = http
            .request("steering", method.parse().unwrap(), path.split('/'))
            .json(&body);
        async move {
            request
                .send()
                .await
                .unwrap()
                .json::<serde_json::Value>()
                .unwrap()
        }
    };
    let realm = json!({ "name": REALM, "kind": "shown-once", "login": "a-login-for-a" });
    assert_eq!(
        control("POST", "control/realms", realm).await["login"],
        "a-login-for-a"
    );
    let login = SecretValue::new("a-login-for-a");
    let source = Client::over(http.clone(), REALM, login, Minting::ShownOnce);
    let fault = json!({ "fault": { "error": 503 }, "times": 1, "verb": "mint" });
    control("POST", "control/faults", fault).await;
    let error = mint(&source, mark(1)).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unreachable);
    let minted = mint(&source, mark(1)).await.unwrap();
    let live = control("GET", "control/realms/a/live", json!(null)).await;
    assert_eq!(live["live"][0]["id"], minted.id.as_str());
    assert!(live["live"][0].get("value").is_none());
    let counts = control("GET", "control/realms/a/counts", json!(null)).await;
    assert_eq!((&counts["minted"], &counts["live"]), (&json!(1), &json!(1)));
    let requests = control("GET", "control/requests", json!(null)).await;
    assert_eq!(requests["counts"]["mint"], 2);

    // It ends with whoever started it.
    drop(process.stdin.take());
    assert!(process.wait().unwrap().success());
}

#[tokio::test]
async fn it_serves_a_crowd() {
    const CLIENTS: usize = 8;
    let each = 500;
    let issuer = StandIn::start().unwrap();
    let source = Arc::new(reach(&issuer, Kind::ShownOnce));
    let minted = Arc::new(mint(&source, mark(1)).await.unwrap());
    let begun = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (source, minted) = (Arc::clone(&source), Arc::clone(&minted));
            tokio::spawn(async move {
                for _ in 0..each {
                    assert_eq!(source.verify(&minted.values).await.unwrap(), Verdict::Works);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(issuer.faults().count(Verb::Login), CLIENTS * each);
    let rate = f64::from(u32::try_from(CLIENTS * each).unwrap()) / begun.elapsed().as_secs_f64();
    // The true figure depends on the machine and the build; this only catches a mistake in kind.
    assert!(rate > 200.0, "{rate:.0} requests/s");
    eprintln!("stand-in issuer: {rate:.0} requests/s with {CLIENTS} clients");
}
