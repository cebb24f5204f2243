//! Restarts and two replicas, on the real kube-apiserver.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and figures are for people"
)]

mod real_stage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use real_stage::leaks::Written;
use real_stage::operator::{Launch, Operator};
use real_stage::{Credential, REALM, Stage, Way, plane, until};
use testbed::controlplane::ControlPlane;
use testbed::issuer::{Fault, Happened, Kind, StandIn, Verb};
use tokio::sync::Mutex;

const PATIENCE: Duration = Duration::from_secs(90);

/// Issuing in every way that a restart could disturb.
const WAYS: [Way; 4] = [
    way(Kind::Chosen, false),
    way(Kind::ReadBack, false),
    way(Kind::ShownOnce, false),
    way(Kind::ShownOnce, true),
];

const fn way(kind: Kind, in_place: bool) -> Way {
    Way { kind, in_place }
}

/// One control plane, and one test on it at a time: requests are counted and leases have to be kept in time.
async fn alone() -> (&'static ControlPlane, impl Drop) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    let alone = ONE_AT_A_TIME.lock().await;
    (plane().await, alone)
}

/// Four namespaces, one per way of issuing, with an issuer each.
struct Crowd {
    stage: Stage,
    user: String,
    namespaces: Vec<String>,
    issuers: Vec<Arc<StandIn>>,
    credentials: Vec<(usize, Credential)>,
}

impl Crowd {
    /// Namespaces and logins; the credentials are created with [`Crowd::create`].
    async fn prepare(plane: &'static ControlPlane, name: &str, each: usize) -> Self {
        let stage = Stage::on(plane).await;
        let user = format!("keyward-{name}");
        let (mut namespaces, mut issuers, mut credentials) = (Vec::new(), Vec::new(), Vec::new());
        for (index, way) in WAYS.into_iter().enumerate() {
            let namespace = format!("{name}-{index}");
            let issuer = Arc::new(StandIn::start().unwrap());
            let login = issuer.realm(REALM, way.kind);
            stage.namespace(&namespace, &user).await;
            stage.put_login(&namespace, login.reveal().as_bytes()).await;
            namespaces.push(namespace);
            issuers.push(issuer);
        }
        // In turn, so that every way is among those that are done first.
        for n in 0..each {
            for (index, namespace) in namespaces.iter().enumerate() {
                credentials.push((index, stage.credential(namespace, &format!("db-{n}"))));
            }
        }
        Self {
            stage,
            user,
            namespaces,
            issuers,
            credentials,
        }
    }

    async fn create(&self) {
        let all = futures::stream::iter(&self.credentials);
        all.for_each_concurrent(8, |(index, credential)| async move {
            let mut spec = WAYS[*index].spec(&self.issuers[*index]);
            if WAYS[*index].in_place {
                spec["secretName"] = format!("{}-target", credential.name).into();
            }
            credential.create(&spec).await;
        })
        .await;
    }

    fn launch(&self, name: &str) -> Launch {
        self.stage.launch(name, &self.user, &self.namespaces, None)
    }

    async fn until_settled(&self, serial: u32) {
        let missing = || {
            let all = self.credentials.iter().map(|(_, credential)| credential);
            all.filter(|credential| !credential.settled(serial))
                .collect::<Vec<_>>()
        };
        let what = format!("all settle at version {serial}");
        let waited = until(&what, PATIENCE, async || missing().is_empty()).await;
        if let Err(error) = waited {
            let some: Vec<String> = missing().iter().take(3).map(|one| one.describe()).collect();
            panic!(
                "{error}: {} are missing, such as {some:#?}",
                missing().len()
            );
        }
    }

    fn count(&self, which: impl Fn(&Happened) -> bool) -> usize {
        let events = self.issuers.iter().flat_map(|issuer| issuer.history(REALM));
        events.filter(|event| which(&event.happened)).count()
    }

    fn minted(&self) -> usize {
        self.count(|happened| matches!(happened, Happened::Minted { .. }))
    }

    fn ended(&self) -> usize {
        self.count(|happened| matches!(happened, Happened::Ended { .. }))
    }

    fn alive(&self) -> usize {
        self.issuers
            .iter()
            .map(|issuer| issuer.live(REALM).len())
            .sum()
    }

    /// Requests to the issuers so far: timed checks, and all others.
    fn asked(&self) -> (usize, usize) {
        let all = self.issuers.iter().map(|issuer| issuer.faults());
        all.fold((0, 0), |(checks, others), faults| {
            let lists = faults.count(Verb::List);
            (checks + lists, others + faults.total() - lists)
        })
    }

    /// Requests of the operator's user so far: reads, and writes other than of leases.
    fn requests(&self) -> (usize, usize) {
        let all = self.stage.plane.requests().unwrap();
        let ours = all.iter().filter(|request| request.user == self.user);
        let (writes, reads): (Vec<_>, Vec<_>) = ours
            .filter(|request| request.resource != "leases" && request.verb != "watch")
            .partition(|request| {
                ["create", "update", "patch", "delete"].contains(&request.verb.as_str())
            });
        (reads.len(), writes.len())
    }

    /// No request but watches and leases for a whole second.
    async fn until_quiet(&self) {
        let mut last = self.requests();
        until("quiet", PATIENCE, async || {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.requests();
            std::mem::replace(&mut last, now) == now
        })
        .await
        .unwrap();
    }

    async fn assert_handed_out_works(&self) {
        let all = futures::stream::iter(&self.credentials);
        all.for_each_concurrent(8, |(index, credential)| async move {
            let (id, value) = credential
                .handed_out()
                .await
                .expect("something is handed out");
            let live = self.issuers[*index].live(REALM);
            let works = live
                .iter()
                .any(|live| live.id == id && live.value.reveal() == value);
            assert!(works, "what {} hands out is dead", credential.name);
        })
        .await;
    }

    /// Nothing that anybody may read holds a value.
    async fn assert_no_leak(&self, operators: &[&Operator], logs: &[&Launch]) {
        let mut written = Written::default();
        for operator in operators {
            written.add_process(operator).await;
        }
        for log in logs {
            written.add_log(log);
        }
        for namespace in &self.namespaces {
            written.add_objects(&self.stage, namespace).await;
        }
        for issuer in &self.issuers {
            let leaks = written.leaks(issuer);
            assert!(leaks.is_empty(), "{leaks:#?}");
        }
        println!(
            "no value in {} KiB that were written",
            written.bytes() >> 10
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_with_two_hundred_credentials_mints_revokes_and_writes_nothing() {
    let (plane, _alone) = alone().await;
    let crowd = Crowd::prepare(plane, "restart", 50).await;
    let launch = crowd.launch("restart");
    let mut operator = launch.start();
    let begun = Instant::now();
    crowd.create().await;
    crowd.until_settled(1).await;
    println!(
        "{} credentials ready in {:.1?}",
        crowd.credentials.len(),
        begun.elapsed()
    );
    crowd.assert_handed_out_works().await;
    assert_eq!((crowd.minted(), crowd.alive()), (200, 200));

    for how in ["stopped", "killed"] {
        match how {
            "stopped" => operator.stop().await,
            _ => operator.kill(),
        }
        let (minted, ended, asked) = (crowd.minted(), crowd.ended(), crowd.asked());
        let (reads, writes) = crowd.requests();
        let begun = Instant::now();
        operator = launch.start();
        until("every credential was looked at", PATIENCE, async || {
            operator.counter("keyward_passes_total").await >= 200
        })
        .await
        .unwrap();
        let warm = begun.elapsed();
        // What a look leads to, if anything, follows at once.
        crowd.until_quiet().await;
        let (reads_now, writes_now) = crowd.requests();
        println!(
            "{how} and restarted with 200 credentials: {} mints, {} revokes, {} writes, {} timed checks, {} other issuer requests, {} reads, warm in {warm:.1?}",
            crowd.minted() - minted,
            crowd.ended() - ended,
            writes_now - writes,
            crowd.asked().0 - asked.0,
            crowd.asked().1 - asked.1,
            reads_now - reads,
        );
        assert_eq!((crowd.minted(), crowd.ended()), (minted, ended));
        assert_eq!(writes_now, writes, "nothing is written");
        assert_eq!(crowd.asked().1, asked.1, "no issuer is asked for anything");
        // One check for each credential, spread over the ten minutes after a start.
        let checks = (crowd.asked().0 - asked.0) as u64;
        let most = 5 + begun.elapsed().as_secs() * 200 / 600 * 3;
        assert!(checks <= most, "{checks} checks, and {most} would do");
    }
    crowd.assert_no_leak(&[&operator], &[&launch]).await;
}

async fn leader(leases: &Api<Lease>) -> Option<String> {
    let lease = leases.get_opt("keyward").await.ok()??;
    let holder = lease.spec?.holder_identity?;
    holder.split('_').next().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_sleeps_past_its_lease_and_wakes_doubles_nothing() {
    let (plane, _alone) = alone().await;
    let crowd = Crowd::prepare(plane, "replicas", 25).await;
    let lease_namespace = &crowd.namespaces[0];
    crowd.stage.grant_lease(lease_namespace, &crowd.user).await;
    let leases: Api<Lease> = Api::namespaced(crowd.stage.client.clone(), lease_namespace);
    let launches = ["first", "second"].map(|name| {
        let mut launch = crowd.launch(name);
        let lease = [
            "--lease",
            "on",
            "--lease-duration",
            "6s",
            "--request-timeout",
            "2s",
            "--lease-namespace",
        ];
        launch.more = lease.iter().map(|&text| text.to_owned()).collect();
        launch.more.push(lease_namespace.clone());
        launch
    });
    let first = launches[0].start();
    until("the first leads", PATIENCE, async || {
        leader(&leases).await.as_deref() == Some("first")
    })
    .await
    .unwrap();
    let second = launches[1].start();
    crowd.create().await;
    crowd.until_settled(1).await;
    assert_eq!((crowd.minted(), crowd.alive()), (100, 100));

    // Replies that take their time: when the leader is stopped, the issuer has minted what the leader has not seen.
    for issuer in &crowd.issuers {
        let slow = Fault::DelayReply(Duration::from_millis(300));
        issuer.faults().plan(move |line| match line.verb {
            Verb::Mint => slow,
            Verb::List
            | Verb::Look
            | Verb::ReadValue
            | Verb::Rotate
            | Verb::Revoke
            | Verb::Login => Fault::Pass,
        });
    }
    let rotations = tokio::spawn({
        let all: Vec<Credential> = crowd
            .credentials
            .iter()
            .map(|(_, one)| one.clone())
            .collect();
        futures::stream::iter(all)
            .for_each_concurrent(8, |one| async move { one.rotate("again").await })
    });
    // In the middle of it: some are done, some under way, some not begun.
    until("some are minted", PATIENCE, async || crowd.minted() >= 115)
        .await
        .unwrap();
    first.signal("STOP");
    let paused = Instant::now();
    rotations.await.unwrap();
    for issuer in &crowd.issuers {
        issuer.faults().clear();
    }
    let begun_by_first = crowd.minted() - 100;
    let published = || {
        crowd
            .credentials
            .iter()
            .filter(|(_, one)| one.shown().serial == 2)
            .count()
    };
    let done = published();
    until("the second takes over", PATIENCE, async || {
        leader(&leases).await.as_deref() == Some("second")
    })
    .await
    .unwrap();
    let taken_over = paused.elapsed();
    crowd.until_settled(2).await;
    first.signal("CONT");
    until(
        "the first knows that it leads no longer",
        PATIENCE,
        async || first.logged().contains("no longer leading"),
    )
    .await
    .unwrap();
    crowd.until_quiet().await;
    crowd.until_settled(2).await;
    until("one credential is alive for each", PATIENCE, async || {
        crowd.alive() == 100
    })
    .await
    .unwrap();
    assert_eq!(leader(&leases).await.as_deref(), Some("second"));
    for namespace in &crowd.namespaces {
        let any = crowd.stage.credential(namespace, "any");
        until("no Secret too many", PATIENCE, async || {
            any.secrets_of_ours().await.len() == 25
        })
        .await
        .unwrap();
    }
    crowd.assert_handed_out_works().await;
    for (_, credential) in &crowd.credentials {
        assert_eq!(credential.shown().serial, 2, "{}", credential.describe());
    }
    println!(
        "leader paused with {begun_by_first} of 100 rotations minted and {done} published, relieved after {taken_over:.1?}: \
         100 new versions of {} minted, 100 alive, 0 orphans",
        crowd.minted() - 100
    );
    crowd
        .assert_no_leak(&[&first, &second], &[&launches[0], &launches[1]])
        .await;
}

#[tokio::test]
async fn a_planted_leak_is_found_wherever_it_is() {
    let (plane, _alone) = alone().await;
    let crowd = Crowd::prepare(plane, "planted", 1).await;
    let launch = crowd.launch("planted");
    let operator = launch.start();
    crowd.create().await;
    crowd.until_settled(1).await;
    let (index, credential) = &crowd.credentials[0];
    let (_, value) = credential.handed_out().await.unwrap();
    let namespace = &crowd.namespaces[*index];

    let mut objects = Written::default();
    objects.add_objects(&crowd.stage, namespace).await;
    assert!(objects.leaks(&crowd.issuers[*index]).is_empty());
    credential
        .annotate("example.org/note", Some(&format!("it is {value}!")))
        .await;
    let mut objects = Written::default();
    objects.add_objects(&crowd.stage, namespace).await;
    assert!(
        !objects.leaks(&crowd.issuers[*index]).is_empty(),
        "in an object"
    );

    let mut log = Written::default();
    log.add_log(&launch);
    assert!(log.bytes() > 1000, "there is a log");
    assert!(log.leaks(&crowd.issuers[*index]).is_empty());
    let mut text = std::fs::read_to_string(&launch.log).unwrap();
    text.push_str(&value[4..value.len() - 4]);
    std::fs::write(&launch.log, text).unwrap();
    let mut log = Written::default();
    log.add_log(&launch);
    assert!(!log.leaks(&crowd.issuers[*index]).is_empty(), "in a log");

    let metrics = operator.metrics().await.unwrap();
    assert!(
        metrics.contains("keyward_passes_total"),
        "there are metrics"
    );
    let outside = String::from_utf8_lossy(&operator.seen_from_outside()).into_owned();
    assert!(outside.contains("run\0--controllers"));
    assert!(operator.environment().is_none() || outside.contains("KUBECONFIG="));
}
