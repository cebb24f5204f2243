//! The rules of Keystone that Keyward relies on, each as one checked sentence over plain HTTP.
//!
//! One suite for two servers: the stand-in and the real Keystone must both pass, so that what is tested over the first
//! holds on the second. Both have to be started with [`options`].

mod creates;
mod domains;
mod ends;
mod logins;
mod owners;
mod rules;
mod world;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::LocalBoxFuture;
use futures::{StreamExt as _, stream};

use super::{Admin, Http, Lockout, Options};
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
        pub(super) const CASES: &[crate::keystone::contract::Case] =
            &[$(crate::keystone::contract::Case {
                name: stringify!($name),
                run: |world| Box::pin($name(world)),
            }),*];
    };
}
use case_list;

/// All rules, in the order in which the files list them.
pub fn cases() -> Vec<Case> {
    [
        logins::CASES,
        domains::CASES,
        creates::CASES,
        owners::CASES,
        rules::CASES,
        ends::CASES,
    ]
    .concat()
}

const USER_LIMIT: u32 = 8;
const LOCKOUT: Lockout = Lockout {
    attempts: 5,
    lasts: Duration::from_secs(2),
};

/// What the rules about limits and locks are written for.
pub fn options() -> Options {
    Options {
        user_limit: Some(USER_LIMIT),
        lockout: Some(LOCKOUT),
        ..Options::default()
    }
}

const AT_ONCE: usize = 4;
const LIMIT: Duration = Duration::from_mins(1);

/// Runs every case whose name contains `filter` against the Keystone at this address (without `/v3`), each with a user,
/// a project and a role of its own, some at once.
pub async fn run(url: &str, filter: &str) -> Report {
    run_over(Http::new(url), filter).await
}

/// As [`run`], over a connection of the caller's making.
pub async fn run_over(http: Http, filter: &str) -> Report {
    let chosen = cases()
        .into_iter()
        .filter(|case| case.name.contains(filter));
    let admin = Arc::new(Admin::over(http));
    let run = stream::iter(chosen.map(|case| (case, Arc::clone(&admin))));
    let run = run.map(|(case, admin)| async move {
        let started = Instant::now();
        let result = tokio::time::timeout(LIMIT, run_one(admin, case))
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

async fn run_one(admin: Arc<Admin>, case: Case) -> anyhow::Result<()> {
    let world = World::new(admin).await?;
    (case.run)(world).await
}
