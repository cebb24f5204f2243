//! Keyward in a cluster whose definitions are somebody else's: what must last is in metadata, and what is dropped from
//! status is only display. Real kube-apiserver, real Keystone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod real_stage;

use std::time::{Duration, Instant};

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use real_stage::cloud::{self, Cloud, PATIENCE};
use real_stage::cloud_consumer::{release, set_holder};
use real_stage::operator::{Launch, Operator};
use real_stage::{Credential, plane_with, until};
use serde_json::{Value, json};
use testbed::controlplane::ControlPlane;
use testbed::keystone;
use testbed::keystone::real::{Keystone, Options};

const DEFINITIONS: &str = include_str!("real_stage/original_crds.yaml");
const NAME: &str = "ac-barbican";
const USER: &str = "barbican";
const CONSUMER: &str = "openstack.org/barbican-ac-consumer";
/// How long nothing must happen for it to count as rest.
const REST: Duration = Duration::from_secs(3);

async fn plane() -> &'static ControlPlane {
    plane_with(|| DEFINITIONS.to_owned()).await
}

struct Play {
    cloud: Cloud,
    credential: Credential,
    launch: Launch,
    operator: Operator,
    _issuer: Keystone,
}

impl Play {
    /// Ready, with a first version.
    async fn begin(namespace: &str) -> Self {
        let issuer = Keystone::start(Options::default()).await.unwrap();
        let stage = cloud::stage(plane().await).await;
        let cloud = Cloud::new(&stage, namespace, &issuer.url()).await;
        let launch = cloud.launch(None);
        let operator = launch.start();
        let play = Self {
            credential: cloud.create(NAME, USER).await,
            cloud,
            launch,
            operator,
            _issuer: issuer,
        };
        play.until_another_than("").await;
        play
    }

    fn status(&self) -> Value {
        let object = self.credential.seen();
        object.map_or(Value::Null, |object| object.data["status"].clone())
    }

    fn text(&self, field: &str) -> String {
        self.status()[field].as_str().unwrap_or_default().to_owned()
    }

    async fn wait(&self, what: &str, is: impl AsyncFnMut() -> bool) {
        if let Err(error) = until(what, PATIENCE, is).await {
            panic!("{error}: {}", self.cloud.describe(&self.credential));
        }
    }

    /// Ready with another credential than this one, which alone is left at Keystone.
    async fn until_another_than(&self, before: &str) -> (String, String) {
        let another = async || {
            let now = self.text("acID");
            self.credential.shown().ready && !now.is_empty() && now != before
        };
        self.wait("another credential", another).await;
        let alone = async || self.text("previousSecretName").is_empty();
        self.wait("the one before is gone", alone).await;
        let pair = self.credential.handed_out().await.unwrap();
        assert_eq!(pair.0, self.text("acID"));
        assert_eq!(self.cloud.log_in(&pair).await, 201);
        let alive = self.cloud.live(USER).await;
        let ids: Vec<&str> = alive.iter().map(|one| &*one.id).collect();
        assert_eq!(ids, [&pair.0]);
        pair
    }

    /// Nobody writes anything and nobody asks Keystone anything for a while.
    async fn assert_at_rest(&self, when: &str) {
        let seen = async || {
            let (writes, asked) = (self.cloud.writes().len(), self.cloud.faults().total());
            (writes, asked)
        };
        let (writes, asked) = seen().await;
        let begun = Instant::now();
        let over = async || begun.elapsed() >= REST || seen().await != (writes, asked);
        until("rest", 2 * REST, over).await.unwrap();
        let written = &self.cloud.writes()[writes..];
        assert!(written.is_empty(), "{when}: {written:#?}");
        let log = self.cloud.faults().log();
        let lines: Vec<String> = log[asked..]
            .iter()
            .map(|one| one.line.to_string())
            .collect();
        assert!(lines.is_empty(), "{when}: {lines:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_with_the_original_definition_a_credential_is_created_rotated_and_deleted() {
    let play = Play::begin("whole-life").await;
    let pruned = ["live", "version", "heldBy", "handledRotate"];
    let status = play.status();
    assert!(pruned.iter().all(|field| status[field].is_null()));
    for field in [
        "createdAt",
        "expiresAt",
        "rotationEligibleAt",
        "securityHash",
    ] {
        assert!(status[field].is_string(), "{field}: {status}");
    }
    assert!(status["lastRotated"].is_null(), "{status}");
    let first = play.credential.handed_out().await.unwrap();

    play.credential.rotate("once").await;
    let second = play.until_another_than(&first.0).await;
    assert_eq!(play.cloud.log_in(&first).await, 404);
    assert!(!play.text("lastRotated").is_empty());

    // As the designs say it: a time in the past, put there by a person.
    let past = json!({ "status": { "expiresAt": "2001-05-19T00:00:00Z" } });
    let (api, params) = (play.credential.api(), PatchParams::default());
    api.patch_status(NAME, &params, &Patch::Merge(&past))
        .await
        .unwrap();
    let third = play.until_another_than(&second.0).await;
    assert!(!play.text("expiresAt").starts_with("2001"));

    let roles = json!({ "spec": { "roles": ["service", "admin"] } });
    play.credential.merge(&roles).await.unwrap();
    let fourth = play.until_another_than(&third.0).await;
    let alive = play.cloud.live(USER).await;
    assert!(alive[0].roles.iter().any(|role| role.name == "admin"));

    let secret = play.credential.shown().secret.unwrap();
    let held = set_holder(&play.credential, &secret, CONSUMER, true).await;
    assert!(held.is_some());
    play.credential.delete().await;
    let named = async || play.credential.shown().message.contains(CONSUMER);
    play.wait("the holder is named", named).await;
    assert_eq!(play.cloud.log_in(&fourth).await, 201);
    release(&play.credential, &secret, CONSUMER).await.unwrap();
    let gone = async || play.credential.seen().is_none();
    play.wait("the resource is gone", gone).await;
    assert!(play.cloud.live(USER).await.is_empty());
    assert!(play.credential.secrets_of_ours().await.is_empty());
    assert_eq!(play.cloud.count(keystone::CREATE, 201), 4);
    play.cloud
        .assert_no_leak(&play.launch, Some(&play.operator))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_with_the_original_definition_nothing_is_written_at_rest_and_a_restart_changes_nothing()
 {
    let mut play = Play::begin("at-rest").await;
    play.assert_at_rest("after the first version").await;
    let first = play.text("acID");
    play.credential.rotate("once").await;
    play.until_another_than(&first).await;
    play.assert_at_rest("after a rotation").await;

    // A look that finds everything as it should be writes nothing, though status lacks what was dropped from it.
    for n in 0..5 {
        let note = n.to_string();
        play.credential
            .annotate("example.org/touched", Some(&note))
            .await;
    }
    play.assert_at_rest("after looks").await;
    let (writes, made) = (
        play.cloud.writes().len(),
        play.cloud.count(keystone::CREATE, 201),
    );
    let before = play.credential.api().get(NAME).await.unwrap();
    play.operator.kill();
    play.operator = play.launch.start();
    let up = async || play.launch.logged().matches("serving /livez").count() == 2;
    play.wait("the operator is up again", up).await;
    let begun = Instant::now();
    let over = async || begun.elapsed() >= REST;
    play.wait("a while is over", over).await;
    // What the definition drops can be learned only by writing it: once per process, and that write changes nothing.
    let written = &play.cloud.writes()[writes..];
    let learned = format!("patch keystoneapplicationcredentials/status {NAME}");
    assert!(
        written.len() <= 1 && written.iter().all(|write| *write == learned),
        "after a restart: {written:#?}"
    );
    let after = play.credential.api().get(NAME).await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    assert_eq!(play.cloud.count(keystone::CREATE, 201), made);
    assert_eq!(play.cloud.live(USER).await.len(), 1);
}

/// K8: this definition admits what Keystone would not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_with_the_original_definition_a_rule_that_keystone_would_refuse_never_reaches_it() {
    let issuer = Keystone::start(Options::default()).await.unwrap();
    let stage = cloud::stage(plane().await).await;
    let cloud = Cloud::new(&stage, "bad-rule", &issuer.url()).await;
    let _operator = cloud.launch(None).start();
    let rules = |service: &str, path: &str| {
        let rule = json!({ "service": service, "path": path, "method": "GET" });
        json!({ "accessRules": [rule] })
    };
    let long = format!("/{}", "s".repeat(128));
    let wrong = [
        ("no-slash", rules("compute", "servers")),
        ("long-path", rules("compute", &long)),
        ("odd-service", rules("com pute", "/servers")),
    ];
    let mut refused = Vec::new();
    for (name, rules) in wrong {
        refused.push(cloud.create_with(name, USER, &rules).await);
    }
    for credential in &refused {
        let told = async || {
            let shown = credential.shown();
            shown.reason == "InvalidSpec" && shown.message.contains("access rule")
        };
        let waited = until("what is wrong is told", PATIENCE, told).await;
        waited.unwrap_or_else(|error| panic!("{error}: {}", cloud.describe(credential)));
        assert!(!credential.shown().ready);
    }
    assert_eq!(cloud.faults().total(), 0);

    let right = json!({ "spec": rules("compute", "/servers") });
    refused[0].merge(&right).await.unwrap();
    let ready = async || refused[0].shown().ready;
    let waited = until("the right rule is taken", PATIENCE, ready).await;
    waited.unwrap_or_else(|error| panic!("{error}: {}", cloud.describe(&refused[0])));
    let alive = cloud.live(USER).await;
    assert_eq!(alive.len(), 1);
    assert_eq!(alive[0].access_rules[0].path, "/servers");
}
