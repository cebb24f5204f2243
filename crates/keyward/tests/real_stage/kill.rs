//! kill -9 at every request of a life: where to strike, what strikes, and the verdict over all lives.

#![allow(clippy::print_stdout, reason = "figures are for people")]

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures::StreamExt;
use testbed::proxy::Fault;
use tokio::task::JoinHandle;

use super::leaks::Written;
use super::operator::{Launch, Operator};
use super::proxy::{Moment, Proxy, Strike};
use super::victim::Victim;

/// Only lives whose name has this in it are lived, to look at one that failed. Then no number is demanded.
const ONLY: &str = "KEYWARD_ONLY";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    ApiServer,
    Issuer,
}

/// At which request the operator is killed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kill {
    pub(crate) side: Side,
    pub(crate) n: u64,
    pub(crate) moment: Moment,
}

/// How one life went.
pub(crate) struct Life {
    pub(crate) name: String,
    pub(crate) killed: bool,
    /// Requests made, to the API server and to the issuer.
    pub(crate) asked: (u64, u64),
    /// Each begins with what it is: `orphan`, `lost`, `early revoke`, `untidy`, `leak`.
    pub(crate) broken: Vec<String>,
    pub(crate) scanned: usize,
}

/// Waits for the chosen request, and kills the operator at it. The operator is started again.
pub(crate) struct Killer {
    kill: Option<Kill>,
    victim: Arc<Victim>,
    /// The request at which it was killed.
    struck: Arc<OnceLock<String>>,
    proxy: Proxy,
}

/// An operator that is started again whenever it ends.
pub(crate) struct Doomed {
    pub(crate) launch: Launch,
    supervisor: JoinHandle<()>,
}

impl Killer {
    pub(crate) async fn new(upstream: kube::Client, kill: Option<Kill>) -> Self {
        let victim = Arc::new(Victim::default());
        let struck = Arc::new(OnceLock::new());
        let at = kill.filter(|kill| kill.side == Side::ApiServer);
        let at = at.map(|kill| (kill.n, kill.moment));
        let proxy = Proxy::start(upstream, at, strike(&victim, &struck)).await;
        Self {
            kill,
            victim,
            struck,
            proxy,
        }
    }

    /// Where the operator finds the API server.
    pub(crate) fn api_server(&self) -> &str {
        self.proxy.url()
    }

    /// What must happen at the issuer: a crash at the request with this number, and what a crash does.
    pub(crate) fn at_issuer(&self) -> Option<(u64, Fault, Strike)> {
        let kill = self.kill.filter(|kill| kill.side == Side::Issuer)?;
        let fault = match kill.moment {
            Moment::Before => Fault::CrashBefore,
            Moment::After => Fault::CrashAfter,
        };
        Some((kill.n, fault, strike(&self.victim, &self.struck)))
    }

    pub(crate) fn start(&self, launch: Launch) -> Doomed {
        Doomed {
            supervisor: self.victim.start(launch.clone()),
            launch,
        }
    }

    /// The request at which the operator was killed, if it was; and when, seen from the request.
    pub(crate) fn struck(&self) -> Option<(&str, Moment)> {
        Some((self.struck.get()?, self.kill?.moment))
    }

    /// Ends the supervision; the operator that runs by then is the caller's.
    pub(crate) async fn end(&self, doomed: Doomed) -> (Launch, Option<Operator>) {
        let operator = self.victim.end(doomed.supervisor).await;
        (doomed.launch, operator)
    }

    /// The life that was, with the number of requests that the issuer had.
    pub(crate) fn told(
        &self,
        name: String,
        issuer_asked: u64,
        mut broken: Vec<String>,
        written: &Written,
    ) -> Life {
        if self.victim.ended_by_itself() {
            broken.push("the operator ended by itself".to_owned());
        }
        let name = match self.struck.get() {
            Some(request) => format!("{name} ({request})"),
            None => name,
        };
        Life {
            killed: self.victim.was_killed(),
            asked: (self.proxy.asked(), issuer_asked),
            broken,
            scanned: written.bytes(),
            name,
        }
    }
}

fn strike(victim: &Arc<Victim>, struck: &Arc<OnceLock<String>>) -> Strike {
    let (victim, struck) = (victim.clone(), struck.clone());
    Arc::new(move |request| {
        let _ = struck.set(request.to_owned());
        victim.kill();
    })
}

/// A way to live, and on which sides it is worth killing.
pub(crate) struct Way<W> {
    pub(crate) name: &'static str,
    pub(crate) how: W,
    pub(crate) sides: &'static [Side],
}

pub(crate) const BOTH: &[Side] = &[Side::ApiServer, Side::Issuer];

/// Lives every way undisturbed, then once for each moment of each of its requests, some at once. Fails if a promise was
/// broken in any of these lives, or if too few kills came about.
pub(crate) async fn at_every_request<W: Copy, F: Future<Output = Life>>(
    begun: Instant,
    at_once: usize,
    ways: &[Way<W>],
    live: impl Fn(String, W, Option<Kill>) -> F,
) -> Vec<Life> {
    let undisturbed = ways
        .iter()
        .map(|way| live(way.name.to_owned(), way.how, None));
    let undisturbed = futures::future::join_all(undisturbed).await;
    let mut plan = Vec::new();
    for (life, way) in undisturbed.iter().zip(ways) {
        assert!(life.broken.is_empty(), "{}: {:#?}", way.name, life.broken);
        println!(
            "{}: {} requests to the API server, {} to the issuer",
            way.name, life.asked.0, life.asked.1
        );
        for kill in kills(way.sides, life.asked) {
            let name = format!("{}-{:?}-{}-{:?}", way.name, kill.side, kill.n, kill.moment);
            plan.push((name.to_lowercase(), way.how, kill));
        }
    }
    let only = std::env::var(ONLY).ok();
    if let Some(only) = &only {
        plan.retain(|(name, _, _)| name.contains(only.as_str()));
    }
    let planned = plan.len();
    println!("{:.1?}: {planned} kills planned", begun.elapsed());
    let lives: Vec<Life> = futures::stream::iter(plan)
        .map(|(name, how, kill)| live(name, how, Some(kill)))
        .buffer_unordered(at_once)
        .collect()
        .await;
    let kills = judge(&lives, begun);
    assert!(
        only.is_some() || kills * 100 >= planned * 95,
        "only {kills} of {planned} kills came about"
    );
    lives
}

fn kills(sides: &[Side], asked: (u64, u64)) -> Vec<Kill> {
    let mut kills = Vec::new();
    for side in sides {
        let requests = match side {
            Side::ApiServer => asked.0,
            Side::Issuer => asked.1,
        };
        for n in 1..=requests {
            kills.extend([Moment::Before, Moment::After].map(|moment| Kill {
                side: *side,
                n,
                moment,
            }));
        }
    }
    kills
}

/// Prints the figures and fails with everything that was broken; says how many kills there were.
fn judge(lives: &[Life], begun: Instant) -> usize {
    let kills = lives.iter().filter(|life| life.killed).count();
    let broken = |what: &str| {
        let all = lives.iter().flat_map(|life| &life.broken);
        all.filter(|text| text.starts_with(what)).count()
    };
    let scanned: usize = lives.iter().map(|life| life.scanned).sum();
    println!(
        "kill -9: {kills} kills, {} orphans, {} lost, {} early revokes, {} untidy, {} leaks in {} MiB ({:.0?})",
        broken("orphan"),
        broken("lost"),
        broken("early revoke"),
        broken("untidy"),
        broken("leak"),
        scanned >> 20,
        begun.elapsed()
    );
    let all = lives
        .iter()
        .flat_map(|life| life.broken.iter().map(|text| (&life.name, text)));
    let failed: Vec<String> = all.map(|(name, text)| format!("{name}: {text}")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    kills
}
