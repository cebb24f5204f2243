//! One run: a stage, an operator that is restarted whenever it dies, a consumer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keyward::engine::Options;
use testbed::issuer::Kind;

use crate::consumer::Consumer;
use crate::stage::{self, Running, Stage};

/// One run: a stage, an operator that is restarted when it dies, a consumer.
pub(crate) struct Run {
    pub(crate) stage: Stage,
    pub(crate) operator: Option<Running>,
    pub(crate) victim: Arc<Mutex<Option<tokio::task::AbortHandle>>>,
    pub(crate) crashed: Arc<AtomicBool>,
    pub(crate) broken: Arc<Mutex<Vec<String>>>,
    pub(crate) consumer: Option<tokio::task::JoinHandle<()>>,
    pub(crate) patience: Duration,
    /// The version to go back to.
    pub(crate) previous: String,
}

pub(crate) fn options() -> Options {
    Options {
        effect_timeout: Duration::from_millis(250),
        concurrency: 2,
        ..Options::default()
    }
}

impl Run {
    pub(crate) async fn new(kind: Kind, in_place: bool) -> Self {
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

    pub(crate) async fn start(&mut self) {
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
    pub(crate) async fn until<F: Future<Output = bool>>(
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
                && (self.stage.now_says("RootCredentialLost").into_inner()
                    || self.stage.now_says("RotationUnconfirmed").into_inner())
            {
                // The one loss nobody can prevent, and the one doubt; it is said, and a person puts a working value there.
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
    pub(crate) fn consume(&mut self) {
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

    pub(crate) fn stop_consuming(&mut self) {
        if let Some(consumer) = self.consumer.take() {
            consumer.abort();
        }
    }
}
