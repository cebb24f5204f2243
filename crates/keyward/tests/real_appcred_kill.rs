//! kill -9 at every request of an application credential's whole life: real kube-apiserver, real Keystone.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and figures are for people"
)]

mod real_stage;

use std::time::{Duration, Instant};

use real_stage::cloud::{self, Cloud, PATIENCE};
use real_stage::cloud_consumer::CloudConsumer;
use real_stage::kill::{self, BOTH, Kill, Killer, Life, Side};
use real_stage::leaks::Written;
use real_stage::proxy::upstream;
use real_stage::{Credential, Stage, plane, until};
use serde_json::{Value, json};
use testbed::keystone::real::{Keystone, Options};
use testbed::keystone::{self, Admin};

/// Lives at once: enough to keep two cores busy while others wait.
const AT_ONCE: usize = 6;
const CONSUMER: &str = "openstack.org/barbican-ac-consumer";
/// Keystone has one worker for all lives.
const LOGS_IN_EVERY: Duration = Duration::from_millis(400);

/// Where everybody lives.
struct Ground {
    stage: Stage,
    upstream: kube::Client,
    issuer: Keystone,
}

/// With access rules there is one more thing at Keystone that must not be left behind.
fn rules(with: bool) -> Value {
    if with {
        json!({ "accessRules": [{ "service": "compute", "path": "/servers", "method": "GET" }] })
    } else {
        json!({})
    }
}

/// create, rotate, retire, delete, with a consumer that uses the credential all along. Every life has a user of its
/// own at Keystone, so that whatever is left there is known to be its own.
async fn live(ground: &Ground, name: String, with_rules: bool, kill: Option<Kill>) -> Life {
    let keystone = ground.issuer.url();
    let user = name.as_str();
    new_user(&Admin::new(&keystone), user).await;
    let cloud = Cloud::bare(&ground.stage, &name, &keystone, false).await;
    cloud.put_passwords(&[user]).await;
    cloud.put_keystone_api(&json!({})).await;

    let killer = Killer::new(ground.upstream.clone(), kill).await;
    killer.strike_at(cloud.faults());
    let launch = cloud.launch(Some(killer.api_server()));
    let credential = cloud.credential("ac-barbican");
    let (record, consumer) = CloudConsumer {
        credential: credential.clone(),
        admin: cloud.admin.clone(),
        finalizer: CONSUMER.to_owned(),
        every: LOGS_IN_EVERY,
    }
    .start();
    let doomed = killer.start(launch);

    let mut written = Written::default();
    let mut broken = Vec::new();
    let scene = Scene {
        cloud: &cloud,
        credential: &credential,
        user,
        with_rules,
    };
    if let Err(error) = scene.play(&mut written).await {
        broken.push(format!("{error}: {}", cloud.describe(&credential)));
    }
    consumer.abort();
    let (launch, operator) = killer.end(doomed).await;
    let leaks = cloud.leaks(&mut written, &launch, operator.as_ref()).await;
    broken.extend(leaks.iter().map(|leak| format!("leak: {leak}")));
    broken.append(&mut record.met().refused);
    if record.met().logins < 2 {
        broken.push("lost: the consumer never got to use it".to_owned());
    }
    killer.told(name, cloud.faults().total(), broken, &written)
}

async fn new_user(admin: &Admin, user: &str) {
    let password = keystone::password_of(user);
    admin.create_user(user, &password).await.unwrap();
    admin.assign_role(user, "service", "service").await.unwrap();
}

struct Scene<'a> {
    cloud: &'a Cloud,
    credential: &'a Credential,
    user: &'a str,
    with_rules: bool,
}

impl Scene<'_> {
    async fn play(&self, written: &mut Written) -> Result<(), String> {
        let name = &self.credential.name;
        self.cloud
            .create_with(name, self.user, &rules(self.with_rules))
            .await;
        self.rest_at(1).await?;
        self.credential.rotate("again").await;
        self.rest_at(2).await?;
        written
            .add_objects(&self.cloud.stage, &self.cloud.namespace)
            .await;
        kill::is_deleted(self.credential, PATIENCE).await?;
        self.alive(0, "after the end").await?;
        kill::leaves_no_secret(self.credential, PATIENCE).await?;
        let rules = self.cloud.admin.access_rules(self.user).await.unwrap();
        if !rules.is_empty() {
            return Err("orphan: access rules are left after the end".to_owned());
        }
        kill::never_too_many(self.births_and_deaths())
    }

    async fn alive(&self, wanted: usize, when: &str) -> Result<(), String> {
        let looked = self.cloud.until_alive(self.user, wanted).await;
        looked.map_err(|error| format!("orphan: {when}, {error}"))
    }

    /// Settled at this serial, with one credential alive, the one that is handed out, and nothing lying about.
    ///
    /// The value is ours and was stored before Keystone heard of it: whenever the operator was killed, Keystone has made one
    /// credential per version. One that dies between its intent and its draft takes the value along, and the attempt is
    /// given up before Keystone heard of it; no other kill costs an attempt.
    async fn rest_at(&self, serial: u32) -> Result<(), String> {
        kill::settles(self.credential, serial, PATIENCE).await?;
        let version = self.credential.shown().version;
        if ![1, 2]
            .map(|attempt| format!("{serial}.{attempt}"))
            .contains(&version)
        {
            return Err(format!("lost: it took more attempts: {version}"));
        }
        let made = self.cloud.count(keystone::CREATE, 201);
        if made != serial as usize {
            return Err(format!("lost: {made} were made for {serial} versions"));
        }
        self.alive(1, "at rest").await?;
        let pair = self.credential.handed_out().await;
        let pair = pair.ok_or("lost: nothing is handed out")?;
        let alive = self.cloud.live(self.user).await;
        if alive.len() != 1 || alive[0].id != pair.0 || self.cloud.log_in(&pair).await != 201 {
            return Err("lost: what is handed out does not let anybody in".to_owned());
        }
        kill::has_one_secret(self.credential, PATIENCE).await
    }

    fn births_and_deaths(&self) -> impl Iterator<Item = isize> {
        let log = self.cloud.faults().log().into_iter();
        log.map(|asked| match (asked.line.kind.as_str(), asked.status) {
            (keystone::CREATE, Some(201)) => 1,
            (keystone::DELETE, Some(204)) => -1,
            (_, _) => 0,
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_kill_at_any_request_of_an_application_credentials_life_breaks_no_promise() {
    let begun = Instant::now();
    let plane = plane().await;
    let ground = Ground {
        stage: cloud::stage(plane).await,
        upstream: upstream(plane).await,
        issuer: Keystone::start(Options::default()).await.unwrap(),
    };
    println!("booted in {:.1?}", begun.elapsed());

    let way = |name, with_rules, sides| kill::Way {
        name,
        how: with_rules,
        sides,
    };
    // What access rules change is on Keystone's side.
    let ways = [
        way("plain", false, BOTH),
        way("rules", true, &[Side::Issuer]),
    ];
    kill::at_every_request(begun, AT_ONCE, &ways, |name, with_rules, kill| {
        live(&ground, name, with_rules, kill)
    })
    .await;
}

/// The test of the test: a consumer that is robbed says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_consumer_whose_application_credential_dies_while_it_is_held_complains() {
    let issuer = Keystone::start(Options::default()).await.unwrap();
    let stage = cloud::stage(plane().await).await;
    let cloud = Cloud::new(&stage, "robbed", &issuer.url()).await;
    let operator = cloud.launch(None).start();
    let credential = cloud.create("ac-barbican", "barbican").await;
    let (record, consumer) = CloudConsumer {
        credential: credential.clone(),
        admin: cloud.admin.clone(),
        finalizer: CONSUMER.to_owned(),
        every: LOGS_IN_EVERY,
    }
    .start();
    let (id, _) = cloud.settled(&credential, 1).await;
    let held = async || record.met().holds.is_some();
    until("it is held", PATIENCE, held).await.unwrap();
    operator.stop().await;
    assert!(record.met().refused.is_empty());
    let robbed = cloud.admin.delete_application_credential("barbican", &id);
    assert!(robbed.await.unwrap());
    let complained = async || !record.met().refused.is_empty();
    until("the consumer complains", PATIENCE, complained)
        .await
        .unwrap();
    consumer.abort();
}
