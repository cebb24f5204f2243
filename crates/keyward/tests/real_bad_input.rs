//! What goes wrong around the operator is said, delays nobody else, and is over when its cause is.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and figures are for people"
)]

mod real_stage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::rbac::v1::Role;
use keyward::api::demo::DemoCredential;
use kube::api::{Patch, PatchParams};
use kube::{Api, CustomResourceExt};
use real_stage::leaks::Written;
use real_stage::operator::{Launch, Operator};
use real_stage::{Credential, REALM, Stage, Way, plane_with, until};
use serde_json::{Value, json};
use testbed::controlplane::ControlPlane;
use testbed::issuer::{Kind, StandIn};

const WAY: Way = Way {
    kind: Kind::ShownOnce,
    in_place: false,
};

/// How long a neighbour may take, whatever goes on beside it.
const PROMPTLY: Duration = Duration::from_secs(10);
/// How long it may take to notice that a cause is gone: two of the longest pauses of a watch, and a bit.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the API server is away.
const ABSENCE: Duration = Duration::from_mins(1);

const USER: &str = "keyward-bad-input";

/// A control plane whose definition lets everything through, as an old one or somebody else's might.
async fn plane() -> &'static ControlPlane {
    plane_with(|| {
        let mut crd = DemoCredential::crd();
        for version in &mut crd.spec.versions {
            let anything = json!({ "openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            } });
            version.schema = serde_json::from_value(anything).unwrap();
        }
        let mut crd = serde_json::to_value(&crd).unwrap();
        crd["apiVersion"] = "apiextensions.k8s.io/v1".into();
        crd["kind"] = "CustomResourceDefinition".into();
        crd.to_string()
    })
    .await
}

struct Play {
    stage: Stage,
    issuer: Arc<StandIn>,
    login: Vec<u8>,
    operator: Operator,
    launch: Launch,
    neighbours: u32,
    slowest: Duration,
}

const NAMESPACES: [&str; 6] = [
    "malformed",
    "junk-login",
    "denied",
    "no-writes",
    "absent",
    "crowded",
];

impl Play {
    async fn new() -> Self {
        let stage = Stage::on(plane().await).await;
        let issuer = Arc::new(StandIn::start().unwrap());
        let login = issuer.realm(REALM, WAY.kind).reveal().as_bytes().to_vec();
        for namespace in NAMESPACES {
            stage.namespace(namespace, USER).await;
            stage.put_login(namespace, &login).await;
        }
        let namespaces = NAMESPACES.map(str::to_owned);
        let launch = stage.launch("bad-input", USER, &namespaces, None);
        let operator = launch.start();
        Self {
            stage,
            issuer,
            login,
            operator,
            launch,
            neighbours: 0,
            slowest: Duration::ZERO,
        }
    }

    fn spec(&self) -> Value {
        WAY.spec(&self.issuer)
    }

    /// Somebody else's credential comes to be, promptly.
    async fn neighbour(&mut self, namespace: &str) -> Credential {
        self.neighbours += 1;
        let name = format!("neighbour-{}", self.neighbours);
        let neighbour = self.stage.credential(namespace, &name);
        let begun = Instant::now();
        neighbour.create(&self.spec()).await;
        ready(&neighbour, 1, PROMPTLY).await;
        self.slowest = self.slowest.max(begun.elapsed());
        neighbour
    }

    async fn created(&self, namespace: &str, name: &str, spec: &Value) -> Credential {
        let credential = self.stage.credential(namespace, name);
        credential.create(spec).await;
        credential
    }

    async fn until_logged(&self, what: &str) {
        let logged = until(what, PROMPTLY, async || self.launch.logged().contains(what)).await;
        logged.expect("it is in the log");
    }
}

async fn ready(credential: &Credential, serial: u32, limit: Duration) {
    let what = format!("{}/{} is ready", credential.namespace, credential.name);
    let waited = until(&what, limit, async || credential.settled(serial)).await;
    waited.unwrap_or_else(|error| panic!("{error}: {}", credential.describe()));
}

async fn until_shown(credential: &Credential, reason: &str) {
    until_shown_within(credential, reason, PROMPTLY).await;
}

async fn until_shown_within(credential: &Credential, reason: &str, limit: Duration) {
    let what = format!("{} shows {reason}", credential.name);
    let waited = until(&what, limit, async || credential.shown().reason == reason).await;
    waited.unwrap_or_else(|error| panic!("{error}: {}", credential.describe()));
}

async fn malformed_objects_are_told_so(play: &mut Play) {
    let namespace = "malformed";
    let mut broken = Vec::new();
    let specs = [
        json!("a text"),
        json!([1, 2, 3]),
        Value::Null,
        json!({}),
        json!({ "issuer": 7, "loginSecret": "login" }),
        json!({ "issuer": { "url": "http://127.0.0.1:1", "realm": [] }, "loginSecret": { "x": 1 } }),
        json!({ "issuer": { "url": "http://192.0.2.1:80", "realm": "r" }, "loginSecret": "login" }),
        json!({ "issuer": { "url": play.issuer.url(), "realm": REALM, "kind": "Nonsense" }, "loginSecret": "login" }),
        json!({ "issuer": { "url": play.issuer.url(), "realm": REALM }, "loginSecret": "login", "rotateAfterSeconds": "soon", "retire": 9 }),
        json!({ "issuer": { "url": play.issuer.url(), "realm": REALM }, "loginSecret": "login", "delivery": "InPlace" }),
    ];
    for (n, spec) in specs.iter().enumerate() {
        broken.push(play.created(namespace, &format!("broken-{n}"), spec).await);
    }
    play.neighbour(namespace).await;
    for credential in &broken {
        until_shown(credential, "InvalidSpec").await;
    }
    assert_eq!(play.operator.counter("keyward_panics_total").await, 0);
    // A status that makes no sense is written anew.
    let nonsense =
        json!({ "status": { "conditions": "none", "version": { "a": 1 }, "secretName": 5 } });
    let odd = play.neighbour(namespace).await;
    odd.api()
        .patch_status(&odd.name, &PatchParams::default(), &Patch::Merge(&nonsense))
        .await
        .ok();
    odd.merge(&nonsense).await.unwrap();
    ready(&odd, 1, PROMPTLY).await;
    for credential in &broken {
        let spec = play.spec();
        let whole = json!([{ "op": "add", "path": "/spec", "value": spec }]);
        let whole: Patch<Value> = Patch::Json(serde_json::from_value(whole).unwrap());
        let params = PatchParams::default();
        credential
            .api()
            .patch(&credential.name, &params, &whole)
            .await
            .unwrap();
        ready(credential, 1, PROMPTLY).await;
    }
    println!(
        "malformed: {} objects told InvalidSpec, all ready once they made sense",
        broken.len()
    );
}

async fn a_login_of_junk_is_told_so(play: &mut Play) {
    let namespace = "junk-login";
    for (n, junk) in [&b"\xff\xfe\x00\x01\r\nHost: x\x80"[..], b"", &[0xC3; 4096]]
        .iter()
        .enumerate()
    {
        play.stage.put_login(namespace, junk).await;
        let credential = play
            .created(namespace, &format!("db-{n}"), &play.spec())
            .await;
        let told = async || {
            let shown = credential.shown();
            !shown.ready && !shown.reason.is_empty() && !shown.message.is_empty()
        };
        until("trouble is shown", PROMPTLY, told).await.unwrap();
        let shown = credential.shown();
        println!("junk login {n}: {} ({})", shown.reason, shown.message);
        play.neighbour("absent").await;
        play.stage.put_login(namespace, &play.login).await;
        ready(&credential, 1, PROMPTLY).await;
    }
}

async fn denied_rights_are_told_so(play: &mut Play) {
    let namespace = "denied";
    let settled = play.neighbour(namespace).await;
    play.stage.deny(namespace).await;
    let credential = play.created(namespace, "db", &play.spec()).await;
    settled.rotate("again").await;
    play.until_logged("the API server refused (403 Forbidden)")
        .await;
    play.neighbour("absent").await;
    assert!(!credential.shown().ready);
    play.stage.grant(namespace, USER).await;
    let begun = Instant::now();
    ready(&credential, 1, PATIENCE).await;
    ready(&settled, 2, PATIENCE).await;
    println!(
        "denied: in the log, and over {:.1?} after the rights came back",
        begun.elapsed()
    );
}

/// Everything may be read, but no Secret be written.
async fn denied_writes_are_told_so(play: &mut Play) {
    let namespace = "no-writes";
    let roles: Api<Role> = Api::namespaced(play.stage.client.clone(), namespace);
    let mut role = roles.get("keyward").await.unwrap();
    for rule in role.rules.iter_mut().flatten() {
        if rule
            .resources
            .iter()
            .flatten()
            .any(|resource| resource == "secrets")
        {
            rule.verbs = ["get", "list", "watch"].map(str::to_owned).to_vec();
        }
    }
    role.metadata.managed_fields = None;
    role.metadata.resource_version = None;
    real_stage::put(&roles, &role).await;
    let credential = play.created(namespace, "db", &play.spec()).await;
    play.until_logged("storing the Secret: the API server refused (403 Forbidden)")
        .await;
    until_shown(&credential, "ExportFailed").await;
    let shown = credential.shown();
    play.neighbour("absent").await;
    play.stage.grant(namespace, USER).await;
    let begun = Instant::now();
    // Each attempt that could not be stored was given up, and has used up its number.
    until_shown_within(&credential, "UpToDate", PATIENCE).await;
    println!(
        "no writes: {} ({}), over {:.1?} after the rights came back",
        shown.reason,
        shown.message,
        begun.elapsed()
    );
}

async fn too_much_and_garbage_in_annotations(play: &mut Play) {
    let namespace = "crowded";
    let large = play.neighbour(namespace).await;
    let note = |length: usize| json!({ "metadata": { "annotations": { "example.org/note": "x".repeat(length) } } });
    let refused = large.merge(&note(1 << 20)).await;
    assert!(
        matches!(refused, Err(kube::Error::Api(status)) if status.code == 422 || status.code == 413)
    );
    large.merge(&note(200 << 10)).await.unwrap();
    large.rotate("with a large note").await;
    ready(&large, 2, PROMPTLY).await;

    // To the brim: there is no room for a ledger.
    let full = play
        .created(namespace, "full", &json!({ "issuer": 1 }))
        .await;
    until_shown(&full, "InvalidSpec").await;
    full.merge(&note((256 << 10) - "example.org/note".len()))
        .await
        .unwrap();
    full.merge(&json!({ "spec": play.spec() })).await.unwrap();
    play.until_logged("writing the ledger: the API server refused (422 Invalid)")
        .await;
    play.neighbour(namespace).await;
    full.annotate("example.org/note", None).await;
    ready(&full, 1, PROMPTLY).await;

    let before = play.issuer.live(REALM).len();
    let big = format!("{{\"{}\"", "a".repeat(40_000));
    for garbage in [
        "{not json",
        "[]",
        "null",
        "{\"v\":1,\"current\":7}",
        "\u{0}\u{1}",
        &big,
    ] {
        large.annotate("keyward.dev/ledger", Some(garbage)).await;
        let rebuilt = async || {
            let object = large.seen().unwrap();
            let ledger = object
                .metadata
                .annotations
                .as_ref()
                .and_then(|notes| notes.get("keyward.dev/ledger"));
            ledger.is_some_and(|ledger| ledger != garbage && ledger.contains("current"))
        };
        until("the ledger is made good", PROMPTLY, rebuilt)
            .await
            .unwrap_or_else(|error| panic!("{error} from {garbage:.20}: {}", large.describe()));
        ready(&large, 2, PROMPTLY).await;
    }
    assert_eq!(
        play.issuer.live(REALM).len(),
        before,
        "nothing was minted for it"
    );
    play.neighbour(namespace).await;
    println!(
        "annotations: 1 MiB refused by the API server, 200 KiB served, to the brim logged, 6 kinds of garbage made good"
    );
}

async fn an_api_server_that_is_away_is_waited_for(play: &mut Play) {
    let namespace = "absent";
    let one = play.neighbour(namespace).await;
    let two = play.neighbour(namespace).await;
    let in_use: Vec<_> = [&one, &two]
        .map(Credential::handed_out)
        .into_iter()
        .collect();
    let in_use = futures::future::join_all(in_use).await;
    one.rotate("cut off").await;
    let pid = play.operator.pid();
    play.stage.plane.stop_apiserver().await.unwrap();
    let gone = Instant::now();
    let alive = || {
        let live = play.issuer.live(REALM);
        let of_two = in_use[1].as_ref().unwrap();
        live.iter().any(|live| live.id == of_two.0)
    };
    while gone.elapsed() < ABSENCE {
        assert!(alive(), "what is in use stays alive");
        assert!(play.operator.is_running(), "the operator waits");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let logged = play.launch.logged();
    assert!(logged.contains("watch interrupted") || logged.contains("could not be reached"));
    play.stage.plane.start_apiserver().await.unwrap();
    let back = Instant::now();
    until("the test sees again", PATIENCE, async || {
        one.seen().is_some()
    })
    .await
    .unwrap();
    two.rotate("after").await;
    ready(&one, 2, PATIENCE).await;
    ready(&two, 2, PATIENCE).await;
    assert_eq!(play.operator.pid(), pid);
    println!(
        "API server away for {ABSENCE:?}: all settled {:.1?} after it was back",
        back.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_told_delays_nobody_and_passes() {
    let mut play = Play::new().await;
    malformed_objects_are_told_so(&mut play).await;
    a_login_of_junk_is_told_so(&mut play).await;
    denied_rights_are_told_so(&mut play).await;
    too_much_and_garbage_in_annotations(&mut play).await;
    denied_writes_are_told_so(&mut play).await;
    an_api_server_that_is_away_is_waited_for(&mut play).await;
    play.neighbour("malformed").await;

    assert!(play.operator.is_running(), "one process all along");
    assert_eq!(play.operator.counter("keyward_panics_total").await, 0);
    println!(
        "{} neighbours, the slowest ready in {:.1?}",
        play.neighbours, play.slowest
    );
    let mut written = Written::default();
    written.add_process(&play.operator).await;
    written.add_log(&play.launch);
    for namespace in NAMESPACES {
        written.add_objects(&play.stage, namespace).await;
    }
    let leaks = written.leaks(&play.issuer);
    assert!(leaks.is_empty(), "{leaks:#?}");
    let credentials = play.stage.credentials.all().len();
    assert_eq!(
        play.issuer.live(REALM).len(),
        credentials,
        "one alive for each, no orphan"
    );
    println!(
        "no value in {} KiB that were written; {credentials} credentials, as many alive",
        written.bytes() >> 10
    );
}
