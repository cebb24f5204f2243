//! The rules of the object gateway that Keyward relies on, each as one checked sentence over signed HTTP.
//!
//! One suite for two servers: the stand-in and the real radosgw must both pass, so that what is tested over the first
//! holds on the second. Both have two gateways.

mod accounts;
mod keys;
mod members;
mod rights;
mod users;
mod world;

use std::time::{Duration, Instant};

use futures::future::LocalBoxFuture;
use futures::{StreamExt as _, stream};

pub use crate::contract::{Outcome, Report};
use world::World;

/// One rule.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    run: fn(World) -> LocalBoxFuture<'static, anyhow::Result<()>>,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Lists the cases of a file by the names of their functions.
macro_rules! case_list {
    ($($name:ident),* $(,)?) => {
        pub(super) const CASES: &[crate::rgw::contract::Case] =
            &[$(crate::rgw::contract::Case {
                name: stringify!($name),
                run: |world| Box::pin($name(world)),
            }),*];
    };
}
use case_list;

/// All rules, in the order in which the files list them.
pub fn cases() -> Vec<Case> {
    [
        rights::CASES,
        keys::CASES,
        users::CASES,
        accounts::CASES,
        members::CASES,
    ]
    .concat()
}

const AT_ONCE: usize = 4;
const LIMIT: Duration = Duration::from_mins(1);

/// Runs every case whose name contains `filter` against the gateways at these addresses, each with a user of its own, some
/// at once.
pub async fn run(urls: &[String], filter: &str) -> Report {
    let chosen = cases()
        .into_iter()
        .filter(|case| case.name.contains(filter));
    let run = stream::iter(chosen).map(|case| async move {
        let started = Instant::now();
        let result = tokio::time::timeout(LIMIT, run_one(urls, case))
            .await
            .unwrap_or_else(|_| Err(anyhow::anyhow!("not done after {LIMIT:?}")));
        Outcome {
            name: case.name,
            result,
            took: started.elapsed(),
        }
    });
    Report(run.buffered(AT_ONCE).collect().await)
}

async fn run_one(urls: &[String], case: Case) -> anyhow::Result<()> {
    let world = World::new(urls).await?;
    (case.run)(world).await
}
