//! An API server, controllers that are restarted whenever they die, and whoever else has a part in it.
#![allow(dead_code, reason = "every test file uses its own part of it")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keyward::engine::horizon::{Horizon, OwnersNamed};
use keyward::engine::{Context, Controller, Key, Options};
use serde_json::{Value, json};
use testbed::apiserver::Fault;

use crate::cluster::{Cluster, OPERATOR, Running};

/// Every kind of fault at the API server.
pub(crate) const FAULTS: [Fault; 8] = [
    Fault::CrashBefore,
    Fault::CrashAfter,
    Fault::Error(500),
    Fault::TimeoutNotApplied,
    Fault::TimeoutApplied,
    Fault::Conflict,
    Fault::StaleRead(1),
    Fault::DeliveredTwice,
];

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) type Made = Arc<dyn Fn() -> Vec<Arc<dyn Controller>> + Send + Sync>;

pub(crate) struct Run {
    pub(crate) cluster: Cluster,
    operator: Option<Running>,
    controllers: Made,
    victim: Arc<Mutex<Option<tokio::task::AbortHandle>>>,
    crashed: Arc<AtomicBool>,
    round: u32,
}

impl Run {
    pub(crate) fn over(cluster: Cluster, controllers: Made) -> Self {
        let victim: Arc<Mutex<Option<tokio::task::AbortHandle>>> = Arc::default();
        let crashed = Arc::new(AtomicBool::new(false));
        let run = Self {
            cluster,
            operator: None,
            controllers,
            victim,
            crashed,
            round: 0,
        };
        let die = run.killer();
        run.cluster.server.faults().on_crash(move |_| die());
        run
    }

    /// Kills whatever operator is there.
    pub(crate) fn killer(&self) -> impl Fn() + Clone + Send + Sync + 'static {
        let (victim, crashed) = (self.victim.clone(), self.crashed.clone());
        move || {
            if let Some(victim) = victim.lock().unwrap().take() {
                victim.abort();
            }
            crashed.store(true, Ordering::SeqCst);
        }
    }

    pub(crate) async fn start(&mut self) {
        let options = Options {
            effect_timeout: Duration::from_millis(250),
            ..Options::default()
        };
        for _ in 0..50 {
            self.crashed.store(false, Ordering::SeqCst);
            let started = self
                .cluster
                .try_start_controllers((self.controllers)(), options.clone());
            let started = tokio::time::timeout(Duration::from_secs(2), started).await;
            if let Ok(Some(running)) = started {
                *self.victim.lock().unwrap() = Some(running.killer());
                self.operator = Some(running);
                return;
            }
        }
        panic!("the operator cannot be started");
    }

    /// Lets time pass until this is so; restarts the operator whenever it has died. Everybody else moves meanwhile.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        mut is: impl AsyncFnMut(&Cluster) -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !is(&self.cluster).await {
            self.go_on(what, deadline).await?;
        }
        Ok(())
    }

    /// The same, where nobody else moves.
    pub(crate) async fn until_so(
        &mut self,
        what: &str,
        is: impl Fn(&Cluster) -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !is(&self.cluster) {
            self.go_on(what, deadline).await?;
        }
        Ok(())
    }

    async fn go_on(&mut self, what: &str, deadline: Instant) -> Result<(), String> {
        if self.crashed.load(Ordering::SeqCst) {
            self.operator = None;
            self.start().await;
        }
        if Instant::now() > deadline {
            return Err(format!("waited in vain for {what}"));
        }
        self.round += 1;
        if self.round.is_multiple_of(16) {
            self.cluster.clock.jump(61);
            if let Some(operator) = &self.operator {
                operator.engine.world().queue.timers.notify_one();
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(())
    }

    pub(crate) fn requests(&self) -> u64 {
        self.cluster.server.faults().count_of(OPERATOR)
    }

    pub(crate) fn place(&self, nth: u64, fault: Fault) {
        let faults = self.cluster.server.faults();
        faults.at_each(OPERATOR, vec![(self.requests() + nth, fault)]);
    }

    /// What the one controller sees in a resource and would do next, without what differs from run to run.
    pub(crate) async fn thought(&self, namespace: &str, name: &str) -> Value {
        let running = self.operator.as_ref().unwrap();
        let mut context = Context {
            world: running.engine.world(),
            key: &Key {
                controller: 0,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                departed: None,
            },
            horizon: &mut Horizon::default(),
            surprised: false,
            named: &OwnersNamed::None,
        };
        let controller = (self.controllers)().remove(0);
        let thought = controller.explain(&mut context).await.unwrap();
        without_chance(json!(thought))
    }
}

fn without_chance(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let shown = |(key, value): (String, Value)| {
                let by_chance = ["uid", "resourceVersion", "digests", "id"].contains(&key.as_str());
                let value = if by_chance && !value.is_null() {
                    json!("…")
                } else {
                    without_chance(value)
                };
                (key, value)
            };
            Value::Object(fields.into_iter().map(shown).collect())
        }
        Value::Array(items) => items.into_iter().map(without_chance).collect(),
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => value,
    }
}

/// An object as it is stored, without a request.
pub(crate) fn stored(cluster: &Cluster, plural: &str, namespace: &str, name: &str) -> Value {
    let all = cluster.server.objects(plural);
    let found = all.iter().find(|object| {
        object["metadata"]["name"] == name && object["metadata"]["namespace"] == namespace
    });
    found.map_or(Value::Null, |object| (**object).clone())
}
