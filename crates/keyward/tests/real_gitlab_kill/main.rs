//! kill -9 at every request of a GitLab token's whole life: real kube-apiserver, stand-in GitLab.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and figures are for people"
)]

#[path = "../real_stage/mod.rs"]
mod real_stage;
mod scene;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kube::ResourceExt;
use kube::api::DynamicObject;
use real_stage::forge::{self, EXPORT, Forge, Kind, PATIENCE, ROOT, current};
use real_stage::kill::{self, BOTH, Kill, Killer, Life};
use real_stage::leaks::Written;
use real_stage::proxy::upstream;
use real_stage::sampler::{Complaints, Sampler};
use real_stage::{Credential, Stage, plane, until};
use scene::Scene;
use serde_json::{Value, json};
use testbed::gitlab::Use;

/// Lives at once: enough to keep two cores busy while others wait.
const AT_ONCE: usize = 8;
const NAME: &str = "app";
const LEDGER: &str = "keyward.dev/ledger";

/// How tokens follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// A project's, the old one kept for the grace period.
    KeepOld,
    /// A group's, the old one revoked at once.
    Immediate,
    /// A person's, which rotates itself.
    Itself,
}

impl How {
    fn kind(self) -> Kind {
        match self {
            Self::KeepOld => Kind::Project,
            Self::Immediate => Kind::Group,
            Self::Itself => Kind::Personal,
        }
    }

    fn more(self) -> Value {
        match self {
            Self::KeepOld => json!({ "rotationStrategy": {
                "type": "KeepOld", "keepOld": { "gracePeriod": "2s" },
            } }),
            Self::Immediate | Self::Itself => json!({}),
        }
    }

    fn secret(self) -> &'static str {
        match self {
            Self::KeepOld | Self::Immediate => EXPORT,
            Self::Itself => ROOT,
        }
    }
}

/// Where everybody lives: one stage for each kind, on one control plane.
struct Ground {
    keep_old: Stage,
    immediate: Stage,
    itself: Stage,
    upstream: kube::Client,
    /// Self-rotations whose end is not known, and those whose successor is lost: told, and mended by a person.
    unconfirmed: AtomicU64,
    lost: AtomicU64,
}

impl Ground {
    async fn new() -> Self {
        let plane = plane().await;
        Self {
            keep_old: forge::stage(plane, How::KeepOld.kind()).await,
            immediate: forge::stage(plane, How::Immediate.kind()).await,
            itself: forge::stage(plane, How::Itself.kind()).await,
            upstream: upstream(plane).await,
            unconfirmed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    fn stage(&self, how: How) -> &Stage {
        match how {
            How::KeepOld => &self.keep_old,
            How::Immediate => &self.immediate,
            How::Itself => &self.itself,
        }
    }
}

/// create, rotate, retire, delete, with somebody who uses the token all along. Every life has a GitLab of its own.
async fn live(ground: &Ground, name: String, how: How, kill: Option<Kill>) -> Life {
    let forge = Forge::new(ground.stage(how), &name).await;
    forge.let_adopt(NAME).await;
    let killer = Killer::new(ground.upstream.clone(), kill).await;
    killer.strike_at(forge.faults());
    let credential = forge.credential(NAME);
    let (sampler, complaints, worked) = sampler(&forge, &credential, how);
    let sampler = tokio::spawn(sampler.run());
    let doomed = killer.start(forge.launch(Some(killer.api_server())));

    let mut written = Written::default();
    let mut broken = Vec::new();
    let mut scene = Scene {
        ground,
        forge: &forge,
        credential: &credential,
        how,
        killer: &killer,
        left_behind: Vec::new(),
        mended: 0,
    };
    if let Err(error) = scene.play(&mut written).await {
        broken.push(format!("{error}: {}", forge.describe(&credential)));
    }
    sampler.abort();
    let (launch, operator) = killer.end(doomed).await;
    let leaks = forge.leaks(&mut written, &launch, operator.as_ref()).await;
    broken.extend(leaks.iter().map(|leak| format!("leak: {leak}")));
    broken.extend(complaints.take());
    if worked.load(Ordering::SeqCst) < 2 {
        broken.push("lost: nobody ever got to use it".to_owned());
    }
    killer.told(name, forge.faults().total(), broken, &written)
}

fn sampler(
    forge: &Forge,
    credential: &Credential,
    how: How,
) -> (Sampler, Complaints, Arc<AtomicU64>) {
    let (complaints, worked) = (Complaints::default(), Arc::<AtomicU64>::default());
    let gitlab = forge.gitlab.clone();
    let sampler = Sampler {
        credential: credential.clone(),
        secret: how.secret().to_owned(),
        key: "token",
        works: Arc::new(move |value| gitlab.use_token(value) == Use::Works),
        excused: match how {
            How::KeepOld | How::Immediate => |_| false,
            How::Itself => is_rotating_or_says_so,
        },
        complaints: complaints.clone(),
        worked: worked.clone(),
    };
    (sampler, complaints, worked)
}

/// A rotation of itself ends the old value before the new one can be stored: GitLab has no other. But only while the
/// resource has one under way, or says that it is not ready; who finds one begun and does not know its end says so.
fn is_rotating_or_says_so(resource: &DynamicObject) -> bool {
    let conditions = resource.data["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready");
    let says = |key: &str, what: &str| ready.is_some_and(|ready| ready[key] == what);
    let is_rotating =
        !ledger(resource)["intent"].is_null() && !says("reason", "RotationUnanswered");
    is_rotating || !says("status", "True")
}

fn ledger(resource: &DynamicObject) -> Value {
    let ledger = resource.annotations().get(LEDGER);
    ledger
        .and_then(|ledger| serde_json::from_str(ledger).ok())
        .unwrap_or_default()
}

/// GL-A10, GL-A11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_kill_at_any_request_of_a_gitlab_tokens_life_breaks_no_promise() {
    let begun = Instant::now();
    let ground = Ground::new().await;
    println!("booted in {:.1?}", begun.elapsed());
    let ways = [
        ("keep-old", How::KeepOld),
        ("immediate", How::Immediate),
        ("itself", How::Itself),
    ];
    let ways = ways.map(|(name, how)| kill::Way {
        name,
        how,
        sides: BOTH,
    });
    kill::at_every_request(begun, AT_ONCE, &ways, |name, how, kill| {
        live(&ground, name, how, kill)
    })
    .await;
    println!(
        "self-rotations in the middle of which the operator died: {} unconfirmed, {} lost, each told with the command that mends it",
        ground.unconfirmed.load(Ordering::SeqCst),
        ground.lost.load(Ordering::SeqCst)
    );
}

/// The test of the test: whoever uses a token that dies says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_whoever_uses_a_gitlab_token_that_dies_complains() {
    let stage = forge::stage(plane().await, Kind::Project).await;
    let forge = Forge::new(&stage, "robbed").await;
    let operator = forge.launch(None).start();
    let credential = forge.credential(NAME);
    credential
        .create(&forge.spec(Kind::Project, &json!({})))
        .await;
    let settled = async || credential.settled(1);
    until("ready", PATIENCE, settled).await.unwrap();
    operator.stop().await;
    let (sampler, complaints, worked) = sampler(&forge, &credential, How::KeepOld);
    let sampler = tokio::spawn(sampler.run());
    let used = async || worked.load(Ordering::SeqCst) > 3;
    until("it is used", PATIENCE, used).await.unwrap();
    assert!(complaints.are_none());
    assert!(forge.gitlab.revoke(current(&credential).unwrap()));
    let complained = async || !complaints.are_none();
    until("somebody complains", PATIENCE, complained)
        .await
        .unwrap();
    sampler.abort();
}
