//! `keyward demo`: one credential's whole life, live, with nothing but this program.
//!
//! An API server and an issuer in process, the real operator, two programs that use the credential, and an auditor who
//! holds everything against the promises.

mod auditor;
mod consumer;
mod narrator;
mod operator;
mod scenery;
mod teller;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use sources::http::{Http, Settings};
use testbed::issuer::{Fault, Verb};
use tokio::signal::unix::{SignalKind, signal};

use super::exit::{Exit, Failure};
use crate::engine::names;
use auditor::Auditor;
use consumer::Consumer;
use narrator::Narrator;
use operator::Operator;
use scenery::Scenery;
use teller::{Teller, Who};

const REALM: &str = "demo";
const NAMESPACE: &str = "default";
const NAME: &str = "db";

/// How often narrator and auditor look.
const EVERY: Duration = Duration::from_millis(10);

/// Nothing in the demo takes longer, at any speed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Show one credential's whole life, with nothing but this program
///
/// Minted, handed over, rotated, the operator killed in the middle, proof that nobody uses the old one, revoked,
/// deleted. No cluster is needed and nothing leaves this machine. Afterwards it stays up to be looked at with kubectl.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward demo\n  keyward demo --once\n  keyward demo --once --speed 4"
)]
pub(crate) struct DemoArgs {
    /// End when the story is told, with exit code 5 if a promise was broken
    #[arg(long)]
    once: bool,
    /// Tell the story this many times faster
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text
        .parse()
        .map_err(|_| "use a number such as 2".to_owned())?;
    if (0.1..=100.0).contains(&speed) {
        Ok(speed)
    } else {
        Err("use a number from 0.1 to 100".to_owned())
    }
}

pub(crate) async fn run(args: DemoArgs) -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stage = Stage::set(args.speed).await?;
    let story = async {
        stage.tell().await?;
        if !args.once {
            stage.stay().await?;
        }
        Ok(())
    };
    let ended = tokio::select! {
        ended = story => ended,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    stage.strike();
    ended
}

/// Everybody on stage.
struct Stage {
    scenery: Arc<Scenery>,
    teller: Arc<Teller>,
    auditor: Arc<Mutex<Auditor>>,
    operator: Mutex<Operator>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Stage {
    async fn set(speed: f64) -> Result<Self, Failure> {
        let scenery = Arc::new(Scenery::start().await?);
        let teller = Arc::new(Teller::new(speed));
        let auditor = Arc::new(Mutex::new(Auditor::default()));
        let operator = Operator::start(scenery.config()?)?;
        let mut tasks = Vec::new();
        for (who, lingers) in [(Who::Web, 0), (Who::Batch, 3500)] {
            let issuer = Http::new(&scenery.issuer.url(), &Settings::default())
                .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
            let consumer = Consumer {
                who,
                lingers: teller.scaled(Duration::from_millis(lingers)),
                client: scenery.client()?,
                issuer,
                teller: teller.clone(),
                usage: scenery.usage.clone(),
            };
            tasks.push(tokio::spawn(consumer.run()));
        }
        tasks.push(tokio::spawn(look_on(
            scenery.clone(),
            teller.clone(),
            auditor.clone(),
        )));
        Ok(Self {
            scenery,
            teller,
            auditor,
            operator: Mutex::new(operator),
            tasks,
        })
    }

    fn auditor(&self) -> std::sync::MutexGuard<'_, Auditor> {
        self.auditor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn operator(&self) -> Operator {
        self.operator
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The whole story. Stops at once when a promise is broken.
    async fn tell(&self) -> Result<(), Failure> {
        self.introduce().await;
        self.mint().await?;
        self.rotate().await?;
        self.crash().await?;
        self.delete().await?;
        self.sum_up()
    }

    async fn introduce(&self) {
        let teller = &self.teller;
        teller.heading(
            "Keyward: one credential's whole life",
            "Everything below really happens, inside this program: a Kubernetes API server, an issuer that hands out credentials, the operator, and two programs that log in all the time.",
        );
        let cast = [
            (
                Who::Issuer,
                "makes and revokes credentials; shows the value of a new one only once",
            ),
            (
                Who::Keyward,
                "the operator: mints, hands over, waits for proof, revokes",
            ),
            (Who::Web, "a program that moves to a new credential at once"),
            (
                Who::Batch,
                "a program that finishes its work with the old one first",
            ),
            (
                Who::Auditor,
                "checks after every event that no promise is broken",
            ),
        ];
        for (who, text) in cast {
            teller.line(who, text);
        }
        teller.pause(Duration::from_millis(2500)).await;
    }

    async fn mint(&self) -> Result<(), Failure> {
        self.teller.heading(
            "1. Minted and handed over",
            "You ask for a credential. Keyward writes down what it is about to do before it does it, tries the new credential before anybody is pointed at it, and keeps it in a Secret that never changes.",
        );
        self.create().await?;
        self.until("the first version", || self.scenery.is_settled())
            .await?;
        self.until("both programs to hold it", || self.held_by_both())
            .await?;
        self.teller.pause(Duration::from_millis(1500)).await;
        self.show("Alive at the issuer now:");
        self.settle()?;
        self.teller.pause(Duration::from_millis(2000)).await;
        Ok(())
    }

    async fn rotate(&self) -> Result<(), Failure> {
        self.teller.heading(
            "2. Rotated, and nobody is cut off",
            "A new version is made beside the old one. web moves at once. batch is still busy with the old one, so the old one stays valid: it is never revoked while somebody holds it.",
        );
        let old = self.current_id();
        self.ask_for_rotation("first").await?;
        self.until("the old version to be held by batch alone", || {
            self.scenery.issuer.live(REALM).len() == 2 && self.old_is_held_by_batch_alone()
        })
        .await?;
        self.teller.pause(Duration::from_millis(600)).await;
        self.show("Alive at the issuer now:");
        self.until("the end of the old version", || self.scenery.is_settled())
            .await?;
        self.tell_how_soon(&old);
        self.show("Proof that nobody holds it, then the end. Alive at the issuer now:");
        self.settle()?;
        self.teller.pause(Duration::from_millis(2000)).await;
        Ok(())
    }

    async fn crash(&self) -> Result<(), Failure> {
        self.teller.heading(
            "3. The operator is killed at the worst moment",
            "Another rotation. The issuer makes the credential, and before its answer arrives the operator is dead. The issuer shows a value only once: this one is lost, and a careless operator would leave it behind for ever.",
        );
        let old = self.current_id();
        let victim = self.operator();
        let faults = self.scenery.issuer.faults();
        faults.next(Verb::Mint, Fault::CrashAfter);
        faults.on_crash({
            let victim = victim.clone();
            move |_| victim.kill()
        });
        self.ask_for_rotation("second").await?;
        self.until("the crash", || victim.is_dead()).await?;
        self.until("the stranded credential", || {
            self.scenery.issuer.live(REALM).len() == 2
        })
        .await?;
        faults.clear();
        self.teller.pause(Duration::from_millis(200)).await;
        self.teller.line(
            Who::Crash,
            "the operator is gone; the programs go on with what they hold",
        );
        self.teller.pause(Duration::from_millis(1500)).await;
        self.show("Alive at the issuer now:");
        self.teller.pause(Duration::from_millis(1500)).await;
        self.teller.line(
            Who::Keyward,
            "is started again, remembers nothing, and looks at what is there",
        );
        *self.operator.lock().unwrap_or_else(PoisonError::into_inner) =
            Operator::start(self.scenery.config()?)?;
        self.until("recovery from the crash", || self.scenery.is_settled())
            .await?;
        self.tell_how_soon(&old);
        self.show("Nothing lost, nothing left behind. Alive at the issuer now:");
        self.settle()?;
        self.teller.pause(Duration::from_millis(2000)).await;
        Ok(())
    }

    async fn delete(&self) -> Result<(), Failure> {
        self.teller.heading(
            "4. Deleted",
            "You delete the resource. Even now nothing is revoked while a program holds it; then everything goes, at the issuer first and in the cluster last.",
        );
        let last = self.current_id();
        self.teller.line(
            Who::Person,
            &format!("kubectl delete democredential {NAME}"),
        );
        self.scenery
            .resources()?
            .delete(NAME, &DeleteParams::default())
            .await
            .map_err(|error| Failure::of_request("deleting the resource", &error))?;
        self.until("the resource to be gone", || {
            self.scenery.object().is_none()
        })
        .await?;
        self.tell_how_soon(&last);
        self.show("Alive at the issuer now:");
        self.settle()?;
        self.teller.pause(Duration::from_millis(500)).await;
        Ok(())
    }

    fn sum_up(&self) -> Result<(), Failure> {
        let (made, ended) = self.scenery.made_and_ended();
        let (logins, refused) = self.scenery.logins();
        let events = self.auditor().events;
        self.teller.heading("The end", "");
        self.teller.line(
            Who::Issuer,
            &format!(
                "made {made} credentials and revoked {ended}; alive: {}",
                self.scenery.issuer.live(REALM).len()
            ),
        );
        self.teller.line(
            Who::Auditor,
            &format!("counted {logins} logins of the two programs, refused: {refused}"),
        );
        self.teller.line(
            Who::Auditor,
            &format!("checked every promise after each of {events} events: all kept"),
        );
        self.kept()
    }

    /// Stays up with a fresh credential, until somebody ends it.
    async fn stay(&self) -> Result<(), Failure> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("kubeconfig");
        let text = self
            .scenery
            .server
            .kubeconfig_yaml()
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        std::fs::write(&path, text)?;
        self.teller.heading(
            "Now you",
            "The cluster stays up, with a fresh credential in it. In another terminal:",
        );
        self.create().await?;
        self.until("a fresh credential", || self.scenery.is_settled())
            .await?;
        self.until("both programs to hold it", || self.held_by_both())
            .await?;
        let me = std::env::current_exe().map_or_else(
            |_| "keyward".to_owned(),
            |program| program.display().to_string(),
        );
        let text = format!(
            "
  export KUBECONFIG={path}

  # look
  kubectl get democred,secrets
  kubectl get democred {NAME} -o yaml
  {me} status
  {me} explain democred/{NAME}

  # rotate, and watch the two programs move
  {me} rotate democred/{NAME} --wait
  kubectl annotate democred {NAME} keyward.dev/rotate=again --overwrite

  # hold a version yourself: it is not revoked until you let go
  kubectl patch secret {NAME}-1-1 --type=json -p '[{{\"op\":\"add\",\"path\":\"/metadata/finalizers/-\",\"value\":\"example.com/me\"}}]'

  # end it
  kubectl delete democred {NAME}

Ctrl-C ends the demo and removes everything.
",
            path = path.display()
        );
        self.teller.plain(&text);
        self.until_broken().await
    }

    async fn create(&self) -> Result<(), Failure> {
        self.teller.line(
            Who::Person,
            &format!("kubectl apply: DemoCredential {NAME}"),
        );
        let object = serde_json::from_value(self.scenery.manifest())
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        self.scenery
            .resources()?
            .create(&PostParams::default(), &object)
            .await
            .map(|_| ())
            .map_err(|error| Failure::of_request("creating the resource", &error))
    }

    async fn ask_for_rotation(&self, token: &str) -> Result<(), Failure> {
        self.teller.line(
            Who::Person,
            &format!("keyward rotate democredential/{NAME}"),
        );
        let patch = json!({ "metadata": { "annotations": { names::ROTATE: token } } });
        self.scenery
            .resources()?
            .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(|_| ())
            .map_err(|error| Failure::of_request("asking for a rotation", &error))
    }

    fn current_id(&self) -> Option<String> {
        let ledger = self.scenery.ledger()?;
        Some(ledger.current?.id.to_string())
    }

    fn held_by_both(&self) -> bool {
        let current = self.scenery.ledger().and_then(|ledger| ledger.current);
        current.is_some_and(|current| self.scenery.holders(current.secret.as_str()).len() == 2)
    }

    fn old_is_held_by_batch_alone(&self) -> bool {
        let Some(ledger) = self.scenery.ledger() else {
            return false;
        };
        ledger
            .retiring
            .iter()
            .any(|old| self.scenery.holders(old.secret.as_str()) == [Who::Batch.name()])
    }

    fn tell_how_soon(&self, id: &Option<String>) {
        let events = self.scenery.issuer.history(REALM);
        let soon = id
            .as_ref()
            .and_then(|id| auditor::revoked_after(&self.scenery.usage, &events, id));
        if let Some(soon) = soon {
            self.teller.line(
                Who::Auditor,
                &format!(
                    "the old one was revoked {} ms after its last user was done",
                    soon.as_millis()
                ),
            );
        }
    }

    fn show(&self, title: &str) {
        self.teller.table(title, &self.scenery.live_table());
    }

    /// At rest: nothing alive that is not written down.
    fn settle(&self) -> Result<(), Failure> {
        self.auditor().settle(&self.scenery);
        self.kept()
    }

    fn kept(&self) -> Result<(), Failure> {
        let broken = self.auditor().broken.clone();
        if broken.is_empty() {
            return Ok(());
        }
        for promise in &broken {
            self.teller.line(Who::Crash, promise);
        }
        Err(Failure::new(
            Exit::PromiseBroken,
            format!("a promise was broken: {}", broken.join("; ")),
        ))
    }

    async fn until(&self, what: &str, is: impl Fn() -> bool) -> Result<(), Failure> {
        let begun = Instant::now();
        while !is() {
            self.kept()?;
            if begun.elapsed() > PATIENCE {
                let text = format!("the demo is stuck: it waited in vain for {what}");
                return Err(Failure::new(Exit::Failed, text));
            }
            tokio::time::sleep(EVERY).await;
        }
        // Those who look on have their say before the next chapter.
        tokio::time::sleep(EVERY * 5).await;
        self.kept()
    }

    async fn until_broken(&self) -> Result<(), Failure> {
        loop {
            self.kept()?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    fn strike(self) {
        for task in &self.tasks {
            task.abort();
        }
        self.operator().kill();
    }
}

/// Narrator and auditor look at the same moment, again and again.
async fn look_on(scenery: Arc<Scenery>, teller: Arc<Teller>, auditor: Arc<Mutex<Auditor>>) {
    let mut narrator = Narrator::default();
    loop {
        narrator.look(&scenery, &teller);
        auditor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .look(&scenery);
        tokio::time::sleep(EVERY).await;
    }
}
