//! A fault at every request of every scenario, for every kind of issuer: whatever breaks, no promise does.
//!
//! First each scenario runs without faults and its requests are counted; then it runs again and again, each time with
//! one fault at one request (and, for as long as time allows, with two). After each run the world must be as after the
//! run without faults, and nothing may be written any more.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use keyward::engine::Options;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use stage::{NAME, OPERATOR, Running, Stage};
use testbed::apiserver::Fault as ApiFault;
use testbed::issuer::{Fault as IssuerFault, Happened, Kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scenario {
    Create,
    Rotate,
    SpecChange,
    SecretDeleted,
    RotateTwice,
    NeverReleased,
    LateConsumer,
    Rollback,
    DeleteRevoke,
    DeleteOrphan,
    DeleteRetain,
    IssuerDownDuringDelete,
    LoginDeleted,
    Recreated,
    LedgerLost,
    StatusLost,
}

const SCENARIOS: [Scenario; 16] = [
    Scenario::Create,
    Scenario::Rotate,
    Scenario::SpecChange,
    Scenario::SecretDeleted,
    Scenario::RotateTwice,
    Scenario::NeverReleased,
    Scenario::LateConsumer,
    Scenario::Rollback,
    Scenario::DeleteRevoke,
    Scenario::DeleteOrphan,
    Scenario::DeleteRetain,
    Scenario::IssuerDownDuringDelete,
    Scenario::LoginDeleted,
    Scenario::Recreated,
    Scenario::LedgerLost,
    Scenario::StatusLost,
];

const WAYS: [(Kind, bool); 6] = [
    (Kind::Chosen, false),
    (Kind::ReadBack, false),
    (Kind::ShownOnce, false),
    (Kind::Provided, false),
    (Kind::ShownOnce, true),
    (Kind::SelfRotating, true),
];

/// The eight kinds of fault at the API server.
const API_FAULTS: [ApiFault; 8] = [
    ApiFault::CrashBefore,
    ApiFault::CrashAfter,
    ApiFault::Error(500),
    ApiFault::TimeoutNotApplied,
    ApiFault::TimeoutApplied,
    ApiFault::Conflict,
    ApiFault::StaleRead(1),
    ApiFault::DeliveredTwice,
];

/// And at the issuer, where nothing conflicts or is stale, but replies are cut and requests are throttled.
const ISSUER_FAULTS: [IssuerFault; 8] = [
    IssuerFault::CrashBefore,
    IssuerFault::CrashAfter,
    IssuerFault::Error(500),
    IssuerFault::TimeoutNotApplied,
    IssuerFault::TimeoutApplied,
    IssuerFault::CutBody,
    IssuerFault::Throttle(30),
    IssuerFault::Error(403),
];

#[derive(Debug, Clone, Copy)]
enum Fault {
    Api(u64, ApiFault),
    Issuer(u64, IssuerFault),
}

/// Whether a scenario means anything for this way of issuing.
fn applies(scenario: Scenario, kind: Kind, in_place: bool) -> bool {
    match scenario {
        Scenario::NeverReleased | Scenario::LateConsumer | Scenario::Rollback => !in_place,
        // A person's Secret is gone: there is nothing to make a new one from.
        Scenario::LoginDeleted | Scenario::IssuerDownDuringDelete => kind != Kind::Provided,
        // The only copy of the value is gone with its Secret.
        Scenario::SecretDeleted | Scenario::Recreated => kind != Kind::SelfRotating,
        Scenario::Create
        | Scenario::Rotate
        | Scenario::SpecChange
        | Scenario::RotateTwice
        | Scenario::DeleteRevoke
        | Scenario::DeleteOrphan
        | Scenario::DeleteRetain
        | Scenario::LedgerLost
        | Scenario::StatusLost => true,
    }
}

/// One run: a stage, an operator that is restarted when it dies, a consumer.
struct Run {
    stage: Stage,
    operator: Option<Running>,
    victim: Arc<Mutex<Option<tokio::task::AbortHandle>>>,
    crashed: Arc<AtomicBool>,
    broken: Arc<Mutex<Vec<String>>>,
    consumer: Option<tokio::task::JoinHandle<()>>,
    patience: Duration,
    /// The version to go back to.
    previous: String,
}

fn options() -> Options {
    Options {
        effect_timeout: Duration::from_millis(250),
        concurrency: 2,
        ..Options::default()
    }
}

impl Run {
    async fn new(kind: Kind, in_place: bool) -> Self {
        let stage = Stage::new(kind, in_place);
        stage.prepare().await;
        let victim: Arc<Mutex<Option<tokio::task::AbortHandle>>> = Arc::default();
        let crashed = Arc::new(AtomicBool::new(false));
        let die = {
            let (victim, crashed) = (victim.clone(), crashed.clone());
            move || {
                if let Some(victim) = victim.lock().unwrap().take() {
                    victim.abort();
                }
                crashed.store(true, Ordering::SeqCst);
            }
        };
        stage.server.faults().on_crash({
            let die = die.clone();
            move |_| die()
        });
        stage.issuer.faults().on_crash(move |_| die());
        Self {
            stage,
            operator: None,
            victim,
            crashed,
            broken: Arc::default(),
            consumer: None,
            patience: Duration::from_secs(30),
            previous: String::new(),
        }
    }

    async fn start(&mut self) {
        // A fault may hit the very first request of a new process: then it is started once more, as by its supervisor.
        for _ in 0..50 {
            self.crashed.store(false, Ordering::SeqCst);
            let started =
                tokio::time::timeout(Duration::from_secs(2), self.stage.try_operator(options()))
                    .await;
            if let Ok(Some(running)) = started {
                *self.victim.lock().unwrap() = Some(running.killer());
                self.operator = Some(running);
                return;
            }
        }
        panic!("the operator cannot be started");
    }

    /// Lets time pass until this is so; restarts the operator whenever it has died.
    async fn until<F: Future<Output = bool>>(
        &mut self,
        what: &str,
        is: impl Fn(&Stage) -> F,
    ) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        let mut round = 0;
        loop {
            if self.crashed.load(Ordering::SeqCst) {
                self.operator = None;
                self.start().await;
            }
            if is(&self.stage).await {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "waited in vain for {what}; {}",
                    self.stage.describe()
                ));
            }
            if round % 8 == 4
                && self.stage.kind == Kind::SelfRotating
                && self.stage.now_says("RootCredentialLost").into_inner()
            {
                // The one loss nobody can prevent; it is said, and a person puts a working value there.
                self.stage.put_into_target("by-hand").await;
            }
            round += 1;
            if round % 8 == 0 {
                self.stage.clock.jump(301);
                if let Some(operator) = &self.operator {
                    operator.engine.world().queue.timers.notify_one();
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// A consumer that keeps to the protocol and complains of every dead value it is pointed at.
    fn consume(&mut self) {
        let consumer = Consumer {
            secrets: kube::Api::namespaced(
                self.stage.server.client_named("consumer"),
                stage::NAMESPACE,
            ),
            resources: kube::Api::namespaced(
                self.stage.server.client_named("consumer"),
                stage::NAMESPACE,
            ),
            issuer: self.stage.issuer.clone(),
            broken: self.broken.clone(),
            in_place: self.stage.in_place,
            tolerant: self.stage.kind == Kind::SelfRotating,
        };
        self.consumer = Some(tokio::spawn(consumer.run()));
    }

    fn stop_consuming(&mut self) {
        if let Some(consumer) = self.consumer.take() {
            consumer.abort();
        }
    }
}

struct Consumer {
    secrets: kube::Api<k8s_openapi::api::core::v1::Secret>,
    resources: kube::Api<keyward::api::demo::DemoCredential>,
    issuer: Arc<testbed::issuer::StandIn>,
    broken: Arc<Mutex<Vec<String>>>,
    in_place: bool,
    tolerant: bool,
}

const HOLDER: &str = "example.org/consumer";

impl Consumer {
    async fn run(self) {
        let mut held: Option<(String, String)> = None;
        loop {
            if self.in_place {
                self.look_in_place().await;
            } else {
                self.follow(&mut held).await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn alive(&self, value: &str) -> bool {
        self.issuer
            .live("realm")
            .iter()
            .any(|live| live.value.reveal() == value)
    }

    async fn read(&self, name: &str) -> Option<(String, String)> {
        let secret = self.secrets.get_opt(name).await.ok()??;
        // What is being deleted is nobody's to use any more, in place; a holder's value is judged while it is held.
        if self.in_place && secret.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let value = secret.data.as_ref()?.get("secret")?.0.clone();
        Some((secret.resource_version()?, String::from_utf8(value).ok()?))
    }

    /// What stands in the Secret works, at every moment.
    async fn look_in_place(&self) {
        let Some((version, value)) = self.read("target").await else {
            return;
        };
        if self.tolerant || self.alive(&value) {
            return;
        }
        if let Some((again, value)) = self.read("target").await
            && again == version
            && !self.alive(&value)
        {
            self.broken
                .lock()
                .unwrap()
                .push("the Secret in place holds a dead value".to_owned());
        }
    }

    /// Hold before use, switch, release after.
    async fn follow(&self, held: &mut Option<(String, String)>) {
        if let Some((name, value)) = held
            && !self.alive(value)
        {
            self.broken
                .lock()
                .unwrap()
                .push(format!("{name} was revoked while it was held"));
            *held = None;
        }
        let Ok(object) = self.resources.get_opt(NAME).await else {
            return;
        };
        // A resource that is leaving, or gone, is a reason to let go.
        let wanted = object
            .filter(|object| object.metadata.deletion_timestamp.is_none())
            .and_then(|object| object.status)
            .and_then(|status| status.secret_name);
        if wanted == held.as_ref().map(|(name, _)| name.clone()) {
            return;
        }
        let old = held.take();
        if let Some(name) = &wanted
            && self.set_holder(name, true).await
            && let Some((_, value)) = self.read(name).await
        {
            if !self.alive(&value) {
                self.broken
                    .lock()
                    .unwrap()
                    .push(format!("{name} was published and is dead"));
            }
            *held = Some((name.clone(), value));
        }
        match old {
            Some((name, value)) if held.is_none() && wanted.is_some() => {
                *held = Some((name, value));
            }
            Some((name, _)) => {
                self.set_holder(&name, false).await;
            }
            None => {}
        }
    }

    async fn set_holder(&self, name: &str, holds: bool) -> bool {
        for _ in 0..20 {
            let Ok(Some(secret)) = self.secrets.get_opt(name).await else {
                return false;
            };
            let mut finalizers: Vec<String> = secret
                .finalizers()
                .iter()
                .filter(|f| *f != HOLDER)
                .cloned()
                .collect();
            if holds {
                finalizers.push(HOLDER.to_owned());
            }
            let patch = json!({ "metadata": { "resourceVersion": secret.resource_version(), "finalizers": finalizers } });
            let patch = kube::api::Patch::Merge(&patch);
            match self
                .secrets
                .patch(name, &kube::api::PatchParams::default(), &patch)
                .await
            {
                Ok(_) => return true,
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(_) => return false,
            }
        }
        false
    }
}

/// Runs one scenario with these faults. The result: how many requests its middle part made, at either side.
async fn play(
    scenario: Scenario,
    kind: Kind,
    in_place: bool,
    faults: &[Fault],
) -> Result<(u64, u64), String> {
    let mut run = Run::new(kind, in_place).await;
    run.start().await;
    let spec = {
        let mut spec = run.stage.spec();
        match scenario {
            Scenario::DeleteOrphan => spec["deletionPolicy"] = "Orphan".into(),
            Scenario::DeleteRetain => spec["deletionPolicy"] = "Retain".into(),
            Scenario::Rollback => spec["retire"]["rollbackSeconds"] = 1_000_000.into(),
            _ => {}
        }
        spec
    };
    if scenario != Scenario::Create {
        run.stage.create_with(spec.clone()).await;
        run.until("the first version", Stage::now_settled).await?;
        if scenario != Scenario::LateConsumer {
            run.consume();
            if !in_place {
                run.until("a holder", |stage| stage.now_held(&stage.now_secret()))
                    .await?;
            }
        }
    }
    if scenario == Scenario::Rollback {
        run.previous = run.stage.now_version();
        run.stage.rotate("to-go-back").await;
        run.until("the second version", |stage| stage.now_beyond(1))
            .await?;
    }
    let base_api = run.stage.server.faults().count_of(OPERATOR);
    let base_issuer = run.stage.issuer.faults().total();
    place(&run, faults, base_api, base_issuer);

    let expected = act(&mut run, scenario, spec).await?;
    run.stage.server.faults().clear();
    run.stage.issuer.faults().clear();
    let used = (
        run.stage.server.faults().count_of(OPERATOR) - base_api,
        run.stage.issuer.faults().total() - base_issuer,
    );
    check(&mut run, &expected).await?;
    let setbacks = run.stage.setbacks();
    if setbacks > 20 {
        return Err(format!("{setbacks} setbacks were written: a hot loop"));
    }
    let broken = run.broken.lock().unwrap().clone();
    if broken.is_empty() {
        Ok(used)
    } else {
        Err(broken.join("; "))
    }
}

fn place(run: &Run, faults: &[Fault], base_api: u64, base_issuer: u64) {
    let api: Vec<(u64, ApiFault)> = faults
        .iter()
        .filter_map(|fault| match fault {
            Fault::Api(nth, fault) => Some((base_api + nth, *fault)),
            Fault::Issuer(..) => None,
        })
        .collect();
    let issuer: HashMap<u64, IssuerFault> = faults
        .iter()
        .filter_map(|fault| match fault {
            Fault::Issuer(nth, fault) => Some((base_issuer + nth, *fault)),
            Fault::Api(..) => None,
        })
        .collect();
    if !api.is_empty() {
        run.stage.server.faults().at_each(OPERATOR, api);
    }
    if !issuer.is_empty() {
        run.stage
            .issuer
            .faults()
            .plan(move |line| issuer.get(&line.n).copied().unwrap_or(IssuerFault::Pass));
    }
}

/// How the world must look at the end.
struct Expected {
    /// Credentials of ours that are alive.
    live: usize,
    gone: bool,
}

async fn act(
    run: &mut Run,
    scenario: Scenario,
    spec: serde_json::Value,
) -> Result<Expected, String> {
    let minted =
        usize::from(run.stage.kind != Kind::Provided && run.stage.kind != Kind::SelfRotating);
    let one = Expected {
        live: minted,
        gone: false,
    };
    let second = |stage: &Stage| stage.now_settled_beyond(1);
    let first = run.stage.now_secret();
    match scenario {
        Scenario::Create => {
            run.stage.create_with(spec).await;
            run.consume();
            run.until("the first version", Stage::now_settled).await?;
        }
        Scenario::Rotate => {
            run.stage.rotate("again").await;
            run.until("the second version", second).await?;
        }
        Scenario::SpecChange => {
            run.stage
                .edit_spec(json!({ "rights": ["read", "write"] }))
                .await;
            run.until("the second version", second).await?;
        }
        Scenario::SecretDeleted => {
            let name = if run.stage.in_place { "target" } else { &first };
            // Without a Secret there is no value in place that could work.
            if run.stage.in_place {
                run.stop_consuming();
            }
            run.stage
                .secrets()
                .delete(name, &DeleteParams::default())
                .await
                .unwrap();
            run.until("the second version", second).await?;
        }
        Scenario::RotateTwice => {
            run.stage.rotate("again").await;
            run.until("the second version", |stage| stage.now_beyond(1))
                .await?;
            run.stage.rotate("and-again").await;
            run.until("the third version", |stage| stage.now_settled_beyond(2))
                .await?;
        }
        Scenario::NeverReleased => {
            run.stop_consuming();
            run.stage.hold(&first, "example.org/stubborn").await;
            run.stage.rotate("again").await;
            run.until("the wait is shown", |stage| {
                stage.now_says("HeldByConsumers")
            })
            .await?;
            if minted > 0 && run.stage.live().len() != 2 {
                return Err("a held version was revoked".to_owned());
            }
            run.stage.release(&first, HOLDER).await;
            run.stage.release(&first, "example.org/stubborn").await;
            run.until("rest", second).await?;
        }
        Scenario::LateConsumer => {
            run.stage.rotate("again").await;
            run.consume();
            run.until("the second version", second).await?;
        }
        Scenario::Rollback => {
            let back = run.previous.clone();
            run.stage
                .annotate("keyward.dev/rollback", Some(&run.previous))
                .await;
            run.until("the first version again", |stage| stage.now_at(&back))
                .await?;
            run.stage
                .edit_spec(json!({ "retire": { "rollbackSeconds": 0 } }))
                .await;
            run.until("rest", Stage::now_settled).await?;
        }
        Scenario::DeleteRevoke | Scenario::DeleteOrphan | Scenario::DeleteRetain => {
            run.stage.delete().await;
            run.until("the end", Stage::now_gone).await?;
            let live = if scenario == Scenario::DeleteRevoke {
                0
            } else {
                minted
            };
            return Ok(Expected { live, gone: true });
        }
        Scenario::IssuerDownDuringDelete => {
            run.stage.issuer.disable_login("realm");
            run.stage.delete().await;
            run.until("the wait is shown", |stage| stage.now_says("IssuerDenied"))
                .await?;
            run.stage.issuer.enable_login("realm");
            run.until("the end", Stage::now_gone).await?;
            return Ok(Expected {
                live: 0,
                gone: true,
            });
        }
        Scenario::LoginDeleted => {
            let login = run.stage.secrets().get("login").await.unwrap();
            run.stage
                .secrets()
                .delete("login", &DeleteParams::default())
                .await
                .unwrap();
            run.stage.delete().await;
            // A login that was read a moment ago may still do.
            run.until("the wait is shown, or the end", |stage| {
                let either =
                    stage.now_waits_for_login().into_inner() || stage.now_gone().into_inner();
                std::future::ready(either)
            })
            .await?;
            let mut again = login.clone();
            again.metadata = kube::api::ObjectMeta {
                name: Some("login".into()),
                ..Default::default()
            };
            run.stage
                .secrets()
                .create(&kube::api::PostParams::default(), &again)
                .await
                .unwrap();
            run.until("the end", Stage::now_gone).await?;
            return Ok(Expected {
                live: 0,
                gone: true,
            });
        }
        Scenario::Recreated => {
            run.stage.delete().await;
            run.until("the end", Stage::now_gone).await?;
            run.stage.create_with(spec).await;
            run.until("a version of the new one", Stage::now_settled)
                .await?;
        }
        Scenario::LedgerLost => {
            run.stage.annotate("keyward.dev/ledger", None).await;
            run.until("the ledger is back", Stage::now_has_ledger)
                .await?;
            run.until("rest", Stage::now_settled).await?;
        }
        Scenario::StatusLost => {
            run.stage.lose_status().await;
            run.until("rest", Stage::now_settled).await?;
        }
    }
    Ok(one)
}

/// Nothing extra, nothing missing, and nothing more is written.
async fn check(run: &mut Run, expected: &Expected) -> Result<(), String> {
    let live = expected.live;
    run.until("only what is recorded is alive", |stage| {
        let count = stage.live().len();
        async move { count == live }
    })
    .await?;
    if !expected.gone {
        run.until("rest", Stage::now_settled).await?;
        let (id, _) = run
            .stage
            .handed_out()
            .await
            .ok_or("nothing is handed out")?;
        if !run
            .stage
            .issuer
            .live("realm")
            .iter()
            .any(|live| live.id == id)
        {
            return Err("what is handed out is dead".to_owned());
        }
    }
    run.until("no Secret too many", Stage::now_tidy).await?;
    let family = run.stage.count(|happened| {
        matches!(
            happened,
            Happened::Ended {
                how: testbed::issuer::Ended::Family,
                ..
            }
        )
    });
    if family > 0 {
        return Err("a dead value was used to rotate, and took its successor along".to_owned());
    }
    let leaks = run.stage.leaks();
    if !leaks.is_empty() {
        return Err(format!(
            "a value was written where it must not be: {leaks:?}"
        ));
    }
    let most = most_alive(&run.stage);
    if most > 5 {
        return Err(format!("{most} credentials were alive at once"));
    }
    run.stop_consuming();
    let quiet = Arc::new(AtomicU64::new(0));
    run.until("quiet", |stage| {
        let now = stage.server.version();
        let quiet = quiet.clone();
        async move {
            let before = quiet.swap(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(15)).await;
            before == now
        }
    })
    .await
}

fn most_alive(stage: &Stage) -> usize {
    let mut alive = std::collections::HashSet::new();
    let mut most = 0;
    for event in stage.issuer.history("realm") {
        match event.happened {
            Happened::Minted { id, name } if name.starts_with("kw1-") => {
                alive.insert(id);
            }
            Happened::Ended { id, .. } => {
                alive.remove(&id);
            }
            _ => {}
        }
        most = most.max(alive.len());
    }
    most
}

fn every_single_fault(used: (u64, u64)) -> Vec<Fault> {
    let api =
        (1..=used.0).flat_map(|nth| API_FAULTS.iter().map(move |fault| Fault::Api(nth, *fault)));
    let issuer = (1..=used.1).flat_map(|nth| {
        ISSUER_FAULTS
            .iter()
            .map(move |fault| Fault::Issuer(nth, *fault))
    });
    api.chain(issuer).collect()
}

type Work = (Scenario, Kind, bool, Vec<Fault>);

/// Many runs at once: most of their time is waiting.
async fn play_all(
    work: impl IntoIterator<Item = Work>,
    until: Option<Instant>,
) -> (usize, Vec<String>) {
    let done = AtomicU64::new(0);
    let failures = futures::stream::iter(work)
        .take_while(|_| std::future::ready(until.is_none_or(|until| Instant::now() < until)))
        .map(|(scenario, kind, in_place, faults)| {
            let done = &done;
            async move {
                let task = tokio::spawn(async move {
                    let result = play(scenario, kind, in_place, &faults).await;
                    result.err().map(|error| {
                        format!("{scenario:?} {kind:?} in place {in_place} {faults:?}: {error}")
                    })
                });
                done.fetch_add(1, Ordering::Relaxed);
                task.await.unwrap_or_else(|_| {
                    Some(format!(
                        "{scenario:?} {kind:?} in place {in_place}: panicked"
                    ))
                })
            }
        })
        .buffer_unordered(12)
        .filter_map(std::future::ready)
        .collect()
        .await;
    (
        usize::try_from(done.load(Ordering::Relaxed)).unwrap(),
        failures,
    )
}

async fn fault_free() -> Vec<(Scenario, Kind, bool, (u64, u64))> {
    let mut counted = Vec::new();
    for (kind, in_place) in WAYS {
        for scenario in SCENARIOS {
            if applies(scenario, kind, in_place) {
                let used = play(scenario, kind, in_place, &[]).await;
                let used = used.unwrap_or_else(|error| {
                    panic!("{scenario:?} {kind:?} in place {in_place}: {error}")
                });
                counted.push((scenario, kind, in_place, used));
            }
        }
    }
    counted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_single_fault_breaks_a_promise() {
    let begun = Instant::now();
    let counted = fault_free().await;
    let requests: u64 = counted.iter().map(|(.., used)| used.0 + used.1).sum();
    println!(
        "{} scenarios, {requests} requests, fault-free in {:.1?}",
        counted.len(),
        begun.elapsed()
    );
    let work: Vec<Work> = counted
        .iter()
        .flat_map(|(scenario, kind, in_place, used)| {
            every_single_fault(*used)
                .into_iter()
                .map(move |fault| (*scenario, *kind, *in_place, vec![fault]))
        })
        .collect();
    let only = std::env::var("KEYWARD_FAULTS_ONLY").unwrap_or_default();
    let work: Vec<Work> = work
        .into_iter()
        .filter(|work| format!("{work:?}").contains(&only))
        .collect();
    let limit = std::env::var("KEYWARD_FAULTS")
        .ok()
        .and_then(|text| text.parse::<usize>().ok());
    let step = limit.map_or(1, |limit| work.len().div_ceil(limit.max(1)));
    let work: Vec<Work> = work.into_iter().step_by(step).collect();
    let planned = work.len();
    let (done, failures) = play_all(work, None).await;
    println!(
        "single faults: {done} of {planned} runs in {:.0?}, {} failed",
        begun.elapsed(),
        failures.len()
    );
    for failure in failures.iter().take(20) {
        println!("  {failure}");
    }
    assert!(
        failures.is_empty(),
        "{} of {done} runs failed",
        failures.len()
    );
}

/// How long pairs of faults are tried; `cargo xtask faults` gives more.
fn seconds_for_pairs() -> u64 {
    let asked = std::env::var("KEYWARD_DOUBLE_FAULT_SECONDS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(20)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_faults_together_break_a_promise() {
    let seed: u64 = match std::env::var("KEYWARD_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
    {
        Some(seed) => seed,
        None => rand::random::<u32>().into(),
    };
    let begun = Instant::now();
    let counted = fault_free().await;
    let until = Instant::now() + Duration::from_secs(seconds_for_pairs());
    let mut dice = Dice(seed);
    let work = std::iter::repeat_with(move || {
        let (scenario, kind, in_place, used) = counted[dice.below(counted.len())];
        let faults = every_single_fault(used);
        let pair = vec![
            faults[dice.below(faults.len())],
            faults[dice.below(faults.len())],
        ];
        (scenario, kind, in_place, pair)
    });
    let (done, failures) = play_all(work, Some(until)).await;
    println!(
        "double faults: {done} runs in {:.0?} (seed {seed}), {} failed",
        begun.elapsed(),
        failures.len()
    );
    for failure in failures.iter().take(20) {
        println!("  {failure}");
    }
    assert!(
        failures.is_empty(),
        "{} of {done} runs failed; KEYWARD_SEED={seed}",
        failures.len()
    );
}

/// Random enough to choose by, and the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit
    }
}
