//! kill -9 at every request of a GitLab token's whole life: real kube-apiserver, stand-in GitLab.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and figures are for people"
)]

mod real_stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jiff::SignedDuration;
use kube::ResourceExt;
use kube::api::DynamicObject;
use real_stage::forge::{self, EXPORT, Forge, Kind, PATIENCE, ROOT, current};
use real_stage::kill::{self, BOTH, Kill, Killer, Life};
use real_stage::leaks::Written;
use real_stage::proxy::upstream;
use real_stage::sampler::{Complaints, Sampler};
use real_stage::{Credential, Stage, control_plane, definitions, until};
use serde_json::{Value, json};
use testbed::controlplane::ControlPlane;
use testbed::gitlab::{ROTATE_SELF, Use};
use tokio::sync::OnceCell;

/// Lives at once: enough to keep two cores busy while others wait.
const AT_ONCE: usize = 8;
const NAME: &str = "app";
/// Long enough to see that it is kept, short enough to wait for.
const GRACE: SignedDuration = SignedDuration::from_secs(2);

async fn plane() -> &'static ControlPlane {
    static PLANE: OnceCell<ControlPlane> = OnceCell::const_new();
    PLANE
        .get_or_init(|| async { control_plane(definitions()).await })
        .await
}

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
    let killer = Killer::new(ground.upstream.clone(), kill).await;
    if let Some((at, fault, strike)) = killer.at_issuer() {
        forge.faults().at(at, fault);
        forge
            .faults()
            .on_crash(move |line| strike(&line.to_string()));
    }
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
    let asked = forge.faults().total() as u64;
    killer.told(name, asked, broken, &written)
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
/// resource has one under way, or says that it is not ready.
fn is_rotating_or_says_so(resource: &DynamicObject) -> bool {
    let ledger = resource.annotations().get("keyward.dev/ledger");
    let ledger: Value = ledger
        .and_then(|ledger| serde_json::from_str(ledger).ok())
        .unwrap_or_default();
    let conditions = resource.data["status"]["conditions"].as_array();
    let is_ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    !ledger["intent"].is_null() || !is_ready
}

struct Scene<'a> {
    ground: &'a Ground,
    forge: &'a Forge,
    credential: &'a Credential,
    how: How,
    killer: &'a Killer,
    /// What a lost rotation left alive at GitLab, which nobody can know the value of.
    left_behind: Vec<u64>,
    /// Values that a person brought.
    mended: usize,
}

impl Scene<'_> {
    async fn play(&mut self, written: &mut Written) -> Result<(), String> {
        let spec = self.forge.spec(self.how.kind(), &self.how.more());
        self.credential.create(&spec).await;
        let first = self.rest_at(1).await?;
        self.credential.rotate("again").await;
        let second = self.rest_at(2).await?;
        if first == second {
            return Err("lost: it was not rotated".to_owned());
        }
        if self.how == How::KeepOld {
            self.was_kept(first, second)?;
        }
        let (stage, namespace) = (&self.forge.stage, &self.forge.namespace);
        written.add_objects(stage, namespace).await;
        self.credential.delete().await;
        let gone = async || self.credential.seen().is_none();
        until("untidy: the resource is gone", PATIENCE, gone).await?;
        match self.how {
            How::KeepOld | How::Immediate => self.nothing_is_left().await?,
            How::Itself => self.token_and_secret_are_left(second).await?,
        }
        self.never_too_many()?;
        self.rotated_once_each()
    }

    /// Settled at this serial, with exactly the expected tokens alive, and the one that is handed out works. Says its id.
    async fn rest_at(&mut self, serial: u32) -> Result<u64, String> {
        let what = format!("lost: version {serial} settles");
        let settled = async || self.credential.settled(serial) || self.needs_a_person();
        until(&what, PATIENCE, settled).await?;
        if self.needs_a_person() {
            self.mend(serial).await?;
        }
        let id = current(self.credential).ok_or("lost: status names no token")?;
        self.forge
            .until_live(&self.expected(id), "at rest, one token")
            .await?;
        if self.forge.use_exported(self.how.secret()).await != Use::Works {
            return Err("lost: what is handed out does not let anybody in".to_owned());
        }
        Ok(id)
    }

    fn expected(&self, id: u64) -> Vec<u64> {
        let mut expected = self.left_behind.clone();
        expected.push(id);
        if self.how != How::Itself {
            expected.push(self.forge.login);
        }
        expected
    }

    fn needs_a_person(&self) -> bool {
        let reason = self.credential.shown().reason;
        ["RotationUnconfirmed", "RootCredentialLost"].contains(&reason.as_str())
    }

    /// A kill in the middle of a self-rotation is told as what it is, with the command that mends it; and no other kill
    /// is. Then a person does as told.
    async fn mend(&mut self, serial: u32) -> Result<(), String> {
        let shown = self.credential.shown();
        if self.how != How::Itself || self.mended > 0 {
            return Err(format!("lost: {} without a reason", shown.reason));
        }
        let struck = self.killer.struck();
        let (request, moment) = struck.ok_or("lost: nobody was killed, and a person is asked")?;
        let command = format!(
            "kubectl -n {} patch secret {ROOT} --type=merge -p '{{\"stringData\":{{\"token\":\"<the new token>\"}}}}'",
            self.forge.namespace
        );
        if !shown.message.contains(&command) {
            return Err(format!("untidy: no command in {:?}", shown.message));
        }
        let works = self.forge.use_exported(ROOT).await == Use::Works;
        let (count, as_told) = match shown.reason.as_str() {
            "RotationUnconfirmed" => (&self.ground.unconfirmed, works),
            _ => (&self.ground.lost, !works && !shown.ready),
        };
        count.fetch_add(1, Ordering::SeqCst);
        if !as_told {
            return Err(format!("lost: {} is not so", shown.reason));
        }
        println!("{}: {request} {moment:?}", shown.reason);
        if !works {
            // Its answer never came, or died with the process.
            self.left_behind = self.forge.live().into_iter().collect();
        }
        let fresh = self
            .forge
            .gitlab
            .add_token(self.forge.owner, "by hand", &["api"], None);
        self.forge.write(ROOT, fresh.value.reveal()).await;
        self.mended += 1;
        let what = format!("lost: version {serial} settles with what a person brought");
        let settled = async || {
            self.credential.shown().serial >= serial && {
                let serial = self.credential.shown().serial;
                self.credential.settled(serial)
            }
        };
        until(&what, PATIENCE, settled).await
    }

    /// The old token lived for its grace period.
    fn was_kept(&self, first: u64, second: u64) -> Result<(), String> {
        let since = self
            .forge
            .gitlab
            .token(second)
            .ok_or("lost: no such token")?;
        let journal = self.forge.gitlab.journal();
        let ended = journal
            .iter()
            .find(|asked| asked.method == "DELETE" && asked.path.ends_with(&format!("/{first}")))
            .ok_or("orphan: the old token was never revoked")?;
        let kept = ended.at.duration_since(since.created);
        if kept < GRACE {
            return Err(format!("early revoke: it was kept for {kept:#} only"));
        }
        Ok(())
    }

    async fn nothing_is_left(&self) -> Result<(), String> {
        let login = [self.forge.login];
        self.forge.until_live(&login, "after the end").await?;
        let tidy = async || self.credential.secrets_of_ours().await.is_empty();
        until("untidy: no Secret is left after the end", PATIENCE, tidy).await
    }

    /// It was a person's before it was ours.
    async fn token_and_secret_are_left(&self, id: u64) -> Result<(), String> {
        self.forge
            .until_live(&self.expected(id), "after the end")
            .await?;
        if self.forge.use_exported(ROOT).await != Use::Works {
            return Err("lost: the Secret that was left does not let anybody in".to_owned());
        }
        Ok(())
    }

    /// One more than needed at any time, and no third, but for what was lost and what a person brought.
    fn never_too_many(&self) -> Result<(), String> {
        let login = self.forge.login;
        let counts_login = self.how == How::Itself;
        let most = self
            .forge
            .gitlab
            .most_live(|live| counts_login || live.id != login);
        if most > 2 + self.mended {
            return Err(format!("orphan: {most} tokens were alive at once"));
        }
        Ok(())
    }

    /// Each self-rotation is one request, and none with a value that was dead by then: it would end the whole family.
    fn rotated_once_each(&self) -> Result<(), String> {
        let journal = self.forge.gitlab.journal();
        let rotations = journal.iter().filter(|asked| asked.kind == ROTATE_SELF);
        let statuses: Vec<u16> = rotations.map(|asked| asked.status).collect();
        let expected = match self.how {
            How::KeepOld | How::Immediate => 0,
            How::Itself => 2 + self.left_behind.len(),
        };
        if statuses.len() != expected || statuses.iter().any(|status| *status >= 300) {
            return Err(format!(
                "lost: the rotate requests ended {statuses:?}, not {expected} times well"
            ));
        }
        Ok(())
    }
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
