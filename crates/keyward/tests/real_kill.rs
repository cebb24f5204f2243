//! kill -9 at every request of a whole life, on the real kube-apiserver.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and figures are for people"
)]

mod real_stage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use real_stage::consumer::Consumer;
use real_stage::kill::{self, BOTH, Kill, Killer, Life};
use real_stage::leaks::Written;
use real_stage::proxy::upstream;
use real_stage::sampler::Complaints;
use real_stage::{REALM, Stage, Way, plane, until};
use testbed::issuer::{Happened, Kind, StandIn};

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

    let killer = Killer::new(upstream.clone(), kill).await;
    killer.strike_at(issuer.faults());
    let own = std::slice::from_ref(namespace);
    let launch = stage.launch(&name, &user, own, Some(killer.api_server()));
    let credential = stage.credential(namespace, "db");
    let complaints = Complaints::default();
    let consumer = Consumer {
        credential: credential.clone(),
        issuer: issuer.clone(),
        in_place: way.in_place,
        complaints: complaints.clone(),
    };
    let consumer = tokio::spawn(consumer.run());
    let doomed = killer.start(launch);

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
    let (launch, operator) = killer.end(doomed).await;
    written
        .add_all(stage, namespace, &launch, operator.as_ref())
        .await;
    broken.extend(complaints.take());
    let leaks = written.leaks(&issuer);
    broken.extend(leaks.iter().map(|leak| format!("leak: {leak}")));
    killer.told(name, issuer.faults().total(), broken, &written)
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
        kill::is_deleted(self.credential, PATIENCE).await?;
        let empty = async || self.issuer.live(REALM).is_empty();
        until("orphan: nothing is alive after the end", PATIENCE, empty).await?;
        kill::leaves_no_secret(self.credential, PATIENCE).await?;
        kill::never_too_many(births_and_deaths(self.issuer))
    }

    /// Settled at this serial, with one credential alive, the one that is handed out, and nothing lying about.
    async fn rest_at(&self, serial: u32) -> Result<(), String> {
        kill::settles(self.credential, serial, PATIENCE).await?;
        // What we chose ourselves and stored first cannot be lost, so that nothing is ever made anew. Who dies before it is
        // stored has asked for nothing yet.
        let made = births_and_deaths(self.issuer).filter(|step| *step > 0);
        let (version, made) = (self.credential.shown().version, made.count());
        let attempts = [1, 2].map(|attempt| format!("{serial}.{attempt}"));
        let first = attempts.contains(&version) && made == serial as usize;
        if self.way.kind == Kind::Chosen && !first {
            return Err(format!("lost: {version} is the {made}. one made"));
        }
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
        kill::has_one_secret(self.credential, PATIENCE).await
    }
}

fn births_and_deaths(issuer: &StandIn) -> impl Iterator<Item = isize> {
    let history = issuer.history(REALM).into_iter();
    history.map(|event| match event.happened {
        Happened::Minted { .. } => 1,
        Happened::Ended { .. } => -1,
        Happened::ValueChanged { .. }
        | Happened::Rotated { .. }
        | Happened::LoggedIn { .. }
        | Happened::Refused { .. }
        | Happened::Denied => 0,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_request_of_a_whole_life_breaks_no_promise() {
    let begun = Instant::now();
    let stage = Stage::on(plane().await).await;
    let upstream = upstream(stage.plane).await;
    println!("booted in {:.1?}", begun.elapsed());

    let ways = WAYS.map(|(name, how)| kill::Way {
        name,
        how,
        sides: BOTH,
    });
    kill::at_every_request(begun, AT_ONCE, &ways, |name, way, kill| {
        live(&stage, &upstream, name, way, kill)
    })
    .await;
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
        let complaints = Complaints::default();
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
        assert!(complaints.are_none());
        let id = issuer.live(REALM)[0].id.clone();
        assert!(issuer.kill(REALM, &id));
        let complained = async || !complaints.are_none();
        until("the consumer complains", PATIENCE, complained)
            .await
            .unwrap();
        consumer.abort();
    }
}
