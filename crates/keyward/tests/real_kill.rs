//! kill -9 at every request of a whole life, on the real kube-apiserver.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and figures are for people"
)]

mod real_stage;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::StreamExt;
use real_stage::consumer::Consumer;
use real_stage::leaks::Written;
use real_stage::proxy::{Moment, Proxy, upstream};
use real_stage::victim::Victim;
use real_stage::{REALM, Stage, Way, control_plane, definitions, until};
use testbed::controlplane::ControlPlane;
use testbed::issuer::{Fault, Happened, Kind, StandIn};
use tokio::sync::OnceCell;

const WAYS: [(&str, Way); 4] = [
    ("chosen", way(Kind::Chosen, false)),
    ("read-back", way(Kind::ReadBack, false)),
    ("shown-once", way(Kind::ShownOnce, false)),
    ("in-place", way(Kind::ShownOnce, true)),
];

const fn way(kind: Kind, in_place: bool) -> Way {
    Way { kind, in_place }
}

/// Lives at once: enough to keep two cores busy while others wait.
const AT_ONCE: usize = 8;

/// Longer than any back-off that a single kill can lead to.
const PATIENCE: Duration = Duration::from_mins(1);

async fn plane() -> &'static ControlPlane {
    static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    PLANE
        .get_or_init(|| async { control_plane(definitions()).await })
        .await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    ApiServer,
    Issuer,
}

/// At which request the operator is killed.
#[derive(Debug, Clone, Copy)]
struct Kill {
    side: Side,
    n: u64,
    moment: Moment,
}

/// How one life went.
struct Life {
    name: String,
    killed: bool,
    /// Requests made, to the API server and to the issuer.
    asked: (u64, u64),
    broken: Vec<String>,
    scanned: usize,
}

/// create, rotate, retire, delete, with a consumer that uses the credential all along.
async fn live(
    stage: &Stage,
    upstream: &kube::Client,
    name: String,
    way: Way,
    kill: Option<Kill>,
) -> Life {
    let namespace = &name;
    let user = format!("keyward-{name}");
    stage.namespace(namespace, &user).await;
    let issuer = Arc::new(StandIn::start().unwrap());
    let login = issuer.realm(REALM, way.kind);
    stage.put_login(namespace, login.reveal().as_bytes()).await;

    let victim = Arc::new(Victim::default());
    strike_at_the_issuer(&issuer, kill, &victim);
    let strike = Arc::new({
        let victim = victim.clone();
        move || victim.kill()
    });
    let at = kill.filter(|kill| kill.side == Side::ApiServer);
    let at = at.map(|kill| (kill.n, kill.moment));
    let proxy = Proxy::start(upstream.clone(), at, strike).await;
    let launch = stage.launch(
        &name,
        &user,
        std::slice::from_ref(namespace),
        Some(proxy.url()),
    );
    let credential = stage.credential(namespace, "db");
    let complaints = Arc::new(Mutex::new(Vec::new()));
    let consumer = Consumer {
        credential: credential.clone(),
        issuer: issuer.clone(),
        in_place: way.in_place,
        complaints: complaints.clone(),
    };
    let consumer = tokio::spawn(consumer.run());
    let supervisor = victim.start(launch.clone());

    let mut written = Written::default();
    let scene = Scene {
        stage,
        way,
        issuer: &issuer,
        credential: &credential,
    };
    let mut broken = Vec::new();
    if let Err(error) = scene.play(&mut written).await {
        broken.push(format!("{error}: {}", credential.describe()));
    }

    consumer.abort();
    let operator = victim.end(supervisor).await;
    if let Some(operator) = operator {
        written.add_process(&operator).await;
    }
    written.add_log(&launch);
    written.add_objects(stage, namespace).await;
    broken.extend(complaints.lock().unwrap().drain(..));
    broken.extend(
        written
            .leaks(&issuer)
            .iter()
            .map(|leak| format!("leak: {leak}")),
    );
    if victim.ended_by_itself() {
        broken.push("the operator ended by itself".to_owned());
    }
    Life {
        killed: victim.was_killed(),
        asked: (proxy.asked(), issuer.faults().total()),
        broken,
        scanned: written.bytes(),
        name,
    }
}

fn strike_at_the_issuer(issuer: &StandIn, kill: Option<Kill>, victim: &Arc<Victim>) {
    let Some(kill) = kill.filter(|kill| kill.side == Side::Issuer) else {
        return;
    };
    issuer.faults().plan(move |line| match kill.moment {
        Moment::Before if line.n == kill.n => Fault::CrashBefore,
        Moment::After if line.n == kill.n => Fault::CrashAfter,
        Moment::Before | Moment::After => Fault::Pass,
    });
    let victim = victim.clone();
    issuer.faults().on_crash(move |_| victim.kill());
}

struct Scene<'a> {
    stage: &'a Stage,
    way: Way,
    issuer: &'a StandIn,
    credential: &'a real_stage::Credential,
}

impl Scene<'_> {
    async fn play(&self, written: &mut Written) -> Result<(), String> {
        self.credential.create(&self.way.spec(self.issuer)).await;
        self.rest_at(1).await?;
        self.credential.rotate("again").await;
        self.rest_at(2).await?;
        written
            .add_objects(self.stage, &self.credential.namespace)
            .await;
        self.credential.delete().await;
        let gone = async || self.credential.seen().is_none();
        until("untidy: the resource is gone", PATIENCE, gone).await?;
        let empty = async || self.issuer.live(REALM).is_empty();
        until("orphan: nothing is alive after the end", PATIENCE, empty).await?;
        let tidy = async || self.credential.secrets_of_ours().await.is_empty();
        until("untidy: no Secret is left after the end", PATIENCE, tidy).await?;
        let most = most_alive(self.issuer);
        if most > 4 {
            return Err(format!("orphan: {most} credentials were alive at once"));
        }
        Ok(())
    }

    /// Settled at this serial, with one credential alive, the one that is handed out, and nothing lying about.
    async fn rest_at(&self, serial: u32) -> Result<(), String> {
        let settled = async || self.credential.settled(serial);
        until(
            &format!("lost: version {serial} settles"),
            PATIENCE,
            settled,
        )
        .await?;
        let alone = async || self.issuer.live(REALM).len() == 1;
        until("orphan: one credential is alive", PATIENCE, alone).await?;
        let (id, value) = self
            .credential
            .handed_out()
            .await
            .ok_or("lost: nothing is handed out")?;
        let live = self.issuer.live(REALM);
        if !live
            .iter()
            .any(|live| live.id == id && live.value.reveal() == value)
        {
            return Err("lost: what is handed out does not let anybody in".to_owned());
        }
        let tidy = async || self.credential.secrets_of_ours().await.len() == 1;
        until("untidy: one Secret", PATIENCE, tidy).await
    }
}

fn most_alive(issuer: &StandIn) -> usize {
    let (mut alive, mut most) = (0_usize, 0);
    for event in issuer.history(REALM) {
        match event.happened {
            Happened::Minted { .. } => alive += 1,
            Happened::Ended { .. } => alive = alive.saturating_sub(1),
            Happened::ValueChanged { .. }
            | Happened::Rotated { .. }
            | Happened::LoggedIn { .. }
            | Happened::Refused { .. }
            | Happened::Denied => {}
        }
        most = most.max(alive);
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_request_of_a_whole_life_breaks_no_promise() {
    let begun = Instant::now();
    let stage = Stage::on(plane().await).await;
    let upstream = upstream(stage.plane).await;
    println!("booted in {:.1?}", begun.elapsed());

    let undisturbed = WAYS.map(|(name, way)| live(&stage, &upstream, name.to_owned(), way, None));
    let undisturbed = futures::future::join_all(undisturbed).await;
    let mut plan = Vec::new();
    for (life, (name, way)) in undisturbed.iter().zip(WAYS) {
        assert!(life.broken.is_empty(), "{name}: {:#?}", life.broken);
        println!(
            "{name}: {} requests to the API server, {} to the issuer",
            life.asked.0, life.asked.1
        );
        for (side, requests) in [
            (Side::ApiServer, life.asked.0),
            (Side::Issuer, life.asked.1),
        ] {
            for n in 1..=requests {
                for moment in [Moment::Before, Moment::After] {
                    plan.push((name, way, Kill { side, n, moment }));
                }
            }
        }
    }
    let planned = plan.len();
    println!("{:.1?}: {planned} kills planned", begun.elapsed());

    let lives: Vec<Life> = futures::stream::iter(plan)
        .map(|(name, way, kill)| {
            let name =
                format!("{name}-{:?}-{}-{:?}", kill.side, kill.n, kill.moment).to_lowercase();
            live(&stage, &upstream, name, way, Some(kill))
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;

    let kills = lives.iter().filter(|life| life.killed).count();
    let broken = |what: &str| {
        let all = lives.iter().flat_map(|life| &life.broken);
        all.filter(|text| text.starts_with(what)).count()
    };
    let scanned: usize = lives.iter().map(|life| life.scanned).sum();
    println!(
        "kill -9: {kills} kills, {} orphans, {} lost, {} early revokes, {} untidy, {} leaks in {} MiB ({:.0?})",
        broken("orphan"),
        broken("lost"),
        broken("early revoke"),
        broken("untidy"),
        broken("leak"),
        scanned >> 20,
        begun.elapsed()
    );
    let all = lives
        .iter()
        .flat_map(|life| life.broken.iter().map(|text| (&life.name, text)));
    let failed: Vec<String> = all.map(|(name, text)| format!("{name}: {text}")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(
        kills * 100 >= planned * 95,
        "only {kills} of {planned} kills came about"
    );
}

/// The test of the test: a consumer that is robbed says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_whose_credential_dies_while_it_is_held_complains() {
    for (name, way) in [WAYS[2], WAYS[3]] {
        let stage = Stage::on(plane().await).await;
        let (namespace, user) = (format!("robbed-{name}"), format!("keyward-robbed-{name}"));
        stage.namespace(&namespace, &user).await;
        let issuer = Arc::new(StandIn::start().unwrap());
        let login = issuer.realm(REALM, way.kind);
        stage.put_login(&namespace, login.reveal().as_bytes()).await;
        let credential = stage.credential(&namespace, "db");
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let consumer = Consumer {
            credential: credential.clone(),
            issuer: issuer.clone(),
            in_place: way.in_place,
            complaints: complaints.clone(),
        };
        let launch = stage.launch(&namespace, &user, std::slice::from_ref(&namespace), None);
        let _operator = launch.start();
        let consumer = tokio::spawn(consumer.run());
        credential.create(&way.spec(&issuer)).await;
        until("ready", PATIENCE, async || credential.settled(1))
            .await
            .unwrap();
        let held = async || {
            let secret = credential.shown().secret.unwrap_or_default();
            let secret = stage.secrets.get(&namespace, &secret);
            way.in_place
                || secret
                    .is_some_and(|secret| secret.metadata.finalizers.iter().flatten().count() == 2)
        };
        until("it is held", PATIENCE, held).await.unwrap();
        assert!(complaints.lock().unwrap().is_empty());
        let id = issuer.live(REALM)[0].id.clone();
        assert!(issuer.kill(REALM, &id));
        let complained = async || !complaints.lock().unwrap().is_empty();
        until("the consumer complains", PATIENCE, complained)
            .await
            .unwrap();
        consumer.abort();
    }
}
