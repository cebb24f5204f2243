//! `keyward demo`: one credential's whole life, live, with nothing but this program.
//!
//! An API server and a stand-in Keystone in process, the real operator, two programs that use the credential, and an
//! auditor who holds everything against the promises.

mod access_log;
mod auditor;
mod consumer;
mod narrator;
mod operator;
mod output;
mod scenery;
mod story;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use sources::SecretValue;
use sources::http::Settings;
use sources::keystone::{self, Keystone, Password, Server, Session};
use tokio::signal::unix::{SignalKind, signal};

use super::exit::{Exit, Failure};
use crate::engine::names;
use auditor::Auditor;
use consumer::Consumer;
use narrator::Narrator;
use operator::Operator;
use output::{Output, Who};
use scenery::Scenery;

const NAMESPACE: &str = "openstack";
const NAME: &str = "ac-barbican";
/// The user at Keystone.
const USER: &str = "barbican";

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
    /// Revoke a credential behind everybody's back, to see whether the auditor notices
    #[arg(long, hide = true)]
    sabotage: bool,
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
        stage.tell(args.sabotage).await?;
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
    output: Arc<Output>,
    auditor: Arc<Mutex<Auditor>>,
    operator: Mutex<Operator>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Stage {
    async fn set(speed: f64) -> Result<Self, Failure> {
        let scenery = Arc::new(Scenery::start().await?);
        let output = Arc::new(Output::new(speed));
        let auditor = Arc::new(Mutex::new(Auditor::default()));
        let operator = Operator::start(scenery.config()?, &scenery.keystone_url())?;
        let mut tasks = Vec::new();
        for (who, lingers) in [(Who::Api, 0), (Who::Worker, 3500)] {
            let consumer = Consumer {
                who,
                lingers: output.scaled(Duration::from_millis(lingers)),
                client: scenery.client()?,
                keystone: keystone_at(&scenery.access_log.url_for(who))?,
                output: output.clone(),
                usage: scenery.usage.clone(),
            };
            tasks.push(tokio::spawn(consumer.run()));
        }
        let narrator = Narrator::default();
        let changes = narrator.untold.clone();
        tasks.push(tokio::spawn(narrator::follow(scenery.client()?, changes)));
        let drafts = narrator.drafts.clone();
        tasks.push(tokio::spawn(narrator::follow_drafts(
            scenery.client()?,
            drafts,
        )));
        tasks.push(tokio::spawn(look_on(
            narrator,
            scenery.clone(),
            output.clone(),
            auditor.clone(),
        )));
        Ok(Self {
            scenery,
            output,
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

    async fn create(&self) -> Result<(), Failure> {
        self.output.line(
            Who::Person,
            &format!("kubectl apply: KeystoneApplicationCredential {NAME}"),
        );
        let object = serde_json::from_value(Scenery::manifest())
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        self.scenery
            .resources()?
            .create(&PostParams::default(), &object)
            .await
            .map(|_| ())
            .map_err(|error| Failure::of_request("creating the resource", &error))
    }

    async fn ask_for_rotation(&self, token: &str) -> Result<(), Failure> {
        self.output
            .line(Who::Person, &format!("keyward rotate appcred/{NAME}"));
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
        Some(keystone::credential_id(&ledger.current?.id).to_owned())
    }

    fn held_by_both(&self) -> bool {
        let current = self.scenery.ledger().and_then(|ledger| ledger.current);
        current.is_some_and(|current| self.scenery.holders(current.secret.as_str()).len() == 2)
    }

    fn old_is_held_by_the_worker_alone(&self) -> bool {
        let Some(ledger) = self.scenery.ledger() else {
            return false;
        };
        ledger
            .retiring
            .iter()
            .any(|old| self.scenery.holders(old.secret.as_str()) == [Who::Worker])
    }

    fn tell_how_soon(&self, id: Option<&String>) {
        let events = self.scenery.access_log.since(0);
        let soon = id.and_then(|id| auditor::revoked_after(&self.scenery.usage, &events, id));
        if let Some(soon) = soon {
            self.output.line(
                Who::Auditor,
                &format!(
                    "the old one was revoked {} ms after its last user was done",
                    soon.as_millis()
                ),
            );
        }
    }

    fn show(&self, title: &str) {
        self.output.table(title, &self.scenery.live_table());
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
            self.output.line(Who::Crash, promise);
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

/// For a program that has a credential and no password.
fn keystone_at(url: &str) -> Result<Keystone, Failure> {
    let server = Server::new(url, &Settings::default())
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    let nobody = keystone::Who {
        user: String::new(),
        user_domain: String::new(),
        project: String::new(),
        project_domain: String::new(),
    };
    let none = Password {
        value: SecretValue::new(""),
        version: String::new(),
    };
    let session = Session::new(Arc::new(server), nobody, none);
    Ok(Keystone::new(Arc::new(session), Vec::new()))
}

/// Narrator and auditor look at the same moment, again and again.
async fn look_on(
    mut narrator: Narrator,
    scenery: Arc<Scenery>,
    output: Arc<Output>,
    auditor: Arc<Mutex<Auditor>>,
) {
    loop {
        narrator.look(&scenery, &output);
        auditor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .look(&scenery);
        tokio::time::sleep(EVERY).await;
    }
}
