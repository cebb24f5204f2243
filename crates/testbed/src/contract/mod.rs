//! The rules of a Kubernetes API server that Keyward relies on, each as one checked sentence.
//!
//! One suite for two servers: the in-process one and the real kube-apiserver must both pass, so that what is
//! tested over the first holds on the second.

mod applies;
mod collection;
mod custom;
mod definitions;
mod deletion;
mod patches;
mod reads;
mod status;
mod watches;
mod world;
mod writes;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::{StreamExt as _, future::BoxFuture, stream};
use serde_json::json;

pub use self::world::World;

/// One rule.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    run: fn(World) -> BoxFuture<'static, anyhow::Result<()>>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// How one rule fared.
#[derive(Debug)]
pub struct Outcome {
    pub name: &'static str,
    pub result: anyhow::Result<()>,
    pub took: Duration,
}

/// How all of them fared.
#[derive(Debug)]
pub struct Report(pub Vec<Outcome>);

impl Report {
    /// The names of the rules that were not kept.
    pub fn broken(&self) -> Vec<&'static str> {
        let broken = self.0.iter().filter(|o| o.result.is_err());
        broken.map(|o| o.name).collect()
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for outcome in &self.0 {
            match &outcome.result {
                Ok(()) => writeln!(f, "ok    {} ({:?})", outcome.name, outcome.took)?,
                Err(why) => writeln!(f, "FAIL  {}: {why:#}", outcome.name)?,
            }
        }
        let (cases, broken) = (self.0.len(), self.broken().len());
        write!(f, "{cases} cases, {broken} broken")
    }
}

/// Lists the cases of a file by the names of their functions.
macro_rules! case_list {
    ($($name:ident),* $(,)?) => {
        pub(super) const CASES: &[crate::contract::Case] = &[$(crate::contract::Case {
            name: stringify!($name),
            run: |world| Box::pin($name(world)),
        }),*];
    };
}
use case_list;

/// All rules, in the order in which the files list them.
pub fn cases() -> Vec<Case> {
    [
        writes::CASES,
        deletion::CASES,
        collection::CASES,
        patches::CASES,
        applies::CASES,
        reads::CASES,
        watches::CASES,
        definitions::CASES,
        custom::CASES,
        status::CASES,
    ]
    .concat()
}

const AT_ONCE: usize = 8;
const LIMIT: Duration = Duration::from_mins(1);

/// Runs every case whose name contains `filter`, each in a namespace of its own, some at once.
pub async fn run(client: kube::Client, filter: &str) -> anyhow::Result<Report> {
    definitions::install(&World::new(client.clone(), "default"))
        .await
        .context("installing the custom kinds of the suite")?;
    let chosen: Vec<Case> = cases()
        .into_iter()
        .filter(|case| case.name.contains(filter))
        .collect();
    let run = stream::iter(chosen.into_iter().enumerate().map(|(index, case)| {
        let client = client.clone();
        async move {
            let started = Instant::now();
            let result = run_one(client, index, case).await;
            Outcome {
                name: case.name,
                result,
                took: started.elapsed(),
            }
        }
    }));
    Ok(Report(run.buffered(AT_ONCE).collect().await))
}

async fn run_one(client: kube::Client, index: usize, case: Case) -> anyhow::Result<()> {
    let namespace = format!("contract-{index}-{:08x}", rand::random::<u32>());
    let world = World::new(client, &namespace);
    world
        .post(
            "/api/v1/namespaces",
            &json!({"metadata": {"name": namespace}}),
        )
        .await?
        .created()?;
    let result = tokio::time::timeout(LIMIT, (case.run)(world.clone()))
        .await
        .unwrap_or_else(|_| Err(anyhow::anyhow!("not done after {LIMIT:?}")));
    // The verdict is in; a namespace that stays behind goes with the server.
    drop(
        world
            .delete(&format!("/api/v1/namespaces/{namespace}"))
            .await,
    );
    result
}
