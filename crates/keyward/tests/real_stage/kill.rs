//! kill -9 at every request of a life: where to strike, what strikes, and the verdict over all lives.

#![allow(clippy::print_stdout, reason = "figures are for people")]

use std::fmt::Display;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::StreamExt;
use testbed::faults::{Fault, Faults, Line};
use tokio::task::JoinHandle;

use super::leaks::Written;
use super::operator::{Launch, Operator};
use super::proxy::{Moment, Proxy, Strike};
use super::victim::Victim;
use super::{Credential, until};

/// Only lives whose name has this in it are lived, to look at one that failed. Then no number is demanded.
const ONLY: &str = "KEYWARD_ONLY";

/// How long a kill that has not come about by the end of a life is waited for.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

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

    /// If the kill is to happen at the issuer, it does: at the request with its number.
    pub(crate) fn strike_at<L: Line + Display>(&self, issuer: &Faults<L>) {
        let Some(kill) = self.kill.filter(|kill| kill.side == Side::Issuer) else {
            return;
        };
        let fault = match kill.moment {
            Moment::Before => Fault::CrashBefore,
            Moment::After => Fault::CrashAfter,
        };
        let strike = strike(&self.victim, &self.struck);
        issuer.at(kill.n, fault);
        issuer.on_crash(move |line| strike(&line.to_string()));
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
    ///
    /// A resource that is gone is looked after once more: the last requests, and so the last kills, come after its end.
    pub(crate) async fn end(&self, doomed: Doomed) -> (Launch, Option<Operator>) {
        if self.kill.is_some() {
            let killed = async || self.victim.was_killed();
            let _ = until("the kill comes about", LAST_REQUESTS, killed).await;
        }
        let operator = self.victim.end(doomed.supervisor).await;
        (doomed.launch, operator)
    }

    /// The life that was, with the number of requests that the issuer had.
    pub(crate) fn told(
        &self,
        name: String,
        issuer_asked: usize,
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
            asked: (self.proxy.asked(), issuer_asked as u64),
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

/// It rests at this serial, by its own word.
pub(crate) async fn settles(
    credential: &Credential,
    serial: u32,
    limit: Duration,
) -> Result<(), String> {
    let what = format!("lost: version {serial} settles");
    until(&what, limit, async || credential.settled(serial)).await
}

pub(crate) async fn has_one_secret(credential: &Credential, limit: Duration) -> Result<(), String> {
    let tidy = async || credential.secrets_of_ours().await.len() == 1;
    until("untidy: one Secret", limit, tidy).await
}

/// The end that was asked for comes.
pub(crate) async fn is_deleted(credential: &Credential, limit: Duration) -> Result<(), String> {
    credential.delete().await;
    let gone = async || credential.seen().is_none();
    until("untidy: the resource is gone", limit, gone).await
}

pub(crate) async fn leaves_no_secret(
    credential: &Credential,
    limit: Duration,
) -> Result<(), String> {
    let tidy = async || credential.secrets_of_ours().await.is_empty();
    until("untidy: no Secret is left after the end", limit, tidy).await
}

/// How many are alive changes by these steps; never may it be more than a rotation that is begun again needs.
pub(crate) fn never_too_many(steps: impl Iterator<Item = isize>) -> Result<(), String> {
    const MOST: isize = 4;
    let (mut alive, mut most) = (0_isize, 0);
    for step in steps {
        alive = (alive + step).max(0);
        most = most.max(alive);
    }
    if most > MOST {
        return Err(format!("orphan: {most} credentials were alive at once"));
    }
    Ok(())
}

/// A way to live, and on which sides it is worth killing.
pub(crate) struct Way<W> {
    pub(crate) name: &'static str,
    pub(crate) how: W,
    pub(crate) sides: &'static [Side],
}

pub(crate) const BOTH: &[Side] = &[Side::ApiServer, Side::Issuer];

/// A life to come: its name, its way, and when it is struck.
type Planned<W> = (String, W, Kill);

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
    let mut plan: Vec<Planned<W>> = Vec::new();
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
    println!("{:.1?}: {} kills planned", begun.elapsed(), plan.len());
    let mut lives = live_through(&plan, at_once, &live).await;
    let again: Vec<Planned<W>> = missed(&plan, &lives)
        .map(|((name, how, kill), _)| (format!("{name}-again"), *how, *kill))
        .collect();
    lives.extend(live_through(&again, at_once, &live).await);
    judge(&lives, begun);
    let missed: Vec<String> = missed(&again, &lives)
        .map(|((name, _, kill), life)| why_missed(name, *kill, life))
        .collect();
    println!(
        "{} missed at first, {} again: {missed:#?}",
        again.len(),
        missed.len()
    );
    assert!(
        only.is_some() || missed.len() * PLANNED_PER_MISS <= plan.len(),
        "{} of {} kills did not come about: {missed:#?}",
        missed.len(),
        plan.len()
    );
    lives
}

/// How many requests a life needs varies by a few, with what happens at the same time: what is done in one look in one
/// life takes two in another. So the last requests of the life that was counted may not come in the next. One kill in so
/// many may be missed twice.
const PLANNED_PER_MISS: usize = 100;

async fn live_through<W: Copy, F: Future<Output = Life>>(
    plan: &[Planned<W>],
    at_once: usize,
    live: &impl Fn(String, W, Option<Kill>) -> F,
) -> Vec<Life> {
    futures::stream::iter(plan)
        .map(|(name, how, kill)| live(name.clone(), *how, Some(*kill)))
        .buffer_unordered(at_once)
        .collect()
        .await
}

/// The lives in which nobody was killed. The request that came too late for that may stand behind a life's name.
fn missed<'a, W>(
    plan: &'a [Planned<W>],
    lives: &'a [Life],
) -> impl Iterator<Item = (&'a Planned<W>, &'a Life)> {
    plan.iter().filter_map(|planned| {
        let is_its = |life: &&Life| life.name.split(' ').next() == Some(&planned.0);
        let life = lives.iter().find(is_its)?;
        (!life.killed).then_some((planned, life))
    })
}

fn why_missed(name: &str, kill: Kill, life: &Life) -> String {
    let asked = match kill.side {
        Side::ApiServer => life.asked.0,
        Side::Issuer => life.asked.1,
    };
    if asked < kill.n {
        format!("{name}: there were only {asked} requests")
    } else {
        format!("{name}: it came when all was over")
    }
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

/// Prints the figures and fails with everything that was broken.
fn judge(lives: &[Life], begun: Instant) {
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
}
