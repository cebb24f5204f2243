//! One run: load, mint, rotate, rest, restart.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::figures::{Figures, Phase, Planted};
use super::load::{Load, admit};
use super::operator::Operator;
use super::requests::{AuditTail, Counts, answered};
use super::{Plan, Progress};
use crate::controlplane::{ControlPlane, Options, Request};
use crate::issuer::{StandIn, Verb};

/// The operator's own user, by which the audit log tells its requests from all others.
const USER: &str = "keyward-bench";

/// At most so many are rotated.
const SAMPLE: u32 = 500;
const ROTATE: &str = "bench-1";
const AGAIN: &str = "bench-2";

const LOOK_EVERY: Duration = Duration::from_millis(100);
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Without a request for this long it may have come to rest; only what status says makes it so.
const QUIET: Duration = Duration::from_secs(2);

/// Without any progress for this long something is wrong, however busy the machine is.
const STUCK: Duration = Duration::from_mins(3);

struct Stage {
    plane: ControlPlane,
    issuer: StandIn,
    keyward: PathBuf,
    kubeconfig: PathBuf,
    progress: Progress,
}

pub(super) async fn measure(plan: &Plan, n: u32) -> anyhow::Result<Figures> {
    ensure!(n > 0, "there is nothing to measure with 0 credentials");
    let stage = Stage::set(plan, n).await?;
    let load = Load::new(stage.plane.client(), n, plan.namespaces);
    admit(&stage.plane.client(), USER).await?;
    load.prepare(&stage.issuer).await?;
    stage.load(&load).await?;

    let answered_before = answered(&stage.plane).await?;
    let mut tail = AuditTail::begin(&stage.plane, USER)?;
    let begun = Instant::now();
    let mut operator = stage.start("operator")?;
    let mint = stage
        .mint(&load, n, &mut operator, &mut tail, begun)
        .await?;
    let audited = tail.everybody;
    let answered = answered(&stage.plane).await? - answered_before;

    let rotated = n.min(SAMPLE);
    let rotation = stage.rotate(&load, rotated, &mut operator).await?;
    let rest = stage.rest(plan.rest_seconds, &mut operator).await?;
    let memory = operator.memory()?;
    let planted = match plan.planted {
        0 => None,
        number => Some(stage.plant(&load, number, &mut operator).await?),
    };
    operator.kill().await?;

    let mints_before = stage.issuer.faults().count(Verb::Mint);
    let (restart, restarted) = stage.restart(n).await?;
    let restart_mints = (stage.issuer.faults().count(Verb::Mint) - mints_before) as u64;
    let restart_rss_peak_mebibytes = restarted.memory()?.peak;
    restarted.kill().await?;
    stage.progress.say("done");
    stage.plane.stop().await?;
    Ok(Figures {
        n,
        mint,
        rotated,
        rotation,
        rest,
        restart,
        restart_mints,
        rss_mebibytes: memory.now,
        rss_peak_mebibytes: memory.peak,
        restart_rss_peak_mebibytes,
        planted,
        audited,
        answered,
    })
}

/// A control plane with the program's own definitions.
pub(super) async fn plane_for(keyward: &Path) -> anyhow::Result<ControlPlane> {
    let crds = tokio::process::Command::new(keyward)
        .arg("crds")
        .output()
        .await
        .with_context(|| format!("running {}", keyward.display()))?;
    ensure!(crds.status.success(), "keyward crds failed");
    ControlPlane::start_with(Options {
        crds: String::from_utf8(crds.stdout)?,
        ..Options::default()
    })
    .await
}

impl Stage {
    async fn set(plan: &Plan, n: u32) -> anyhow::Result<Self> {
        let progress = Progress {
            n,
            begun: Instant::now(),
        };
        let plane = plane_for(&plan.keyward).await?;
        let kubeconfig = plane.kubeconfig_for(USER, &[])?;
        progress.say("the control plane is up");
        Ok(Self {
            plane,
            issuer: StandIn::start()?,
            keyward: plan.keyward.clone(),
            kubeconfig,
            progress,
        })
    }

    /// Requests to the issuer after so many.
    fn issued_since(&self, before: usize) -> u64 {
        (self.issuer.faults().total() - before) as u64
    }

    fn start(&self, name: &str) -> anyhow::Result<Operator> {
        Operator::start(
            &self.keyward,
            &self.plane,
            &self.kubeconfig,
            name,
            "demo",
            &[],
        )
    }

    /// Before the operator runs, so that loading takes nothing away from what is measured.
    async fn load(&self, load: &Load) -> anyhow::Result<()> {
        let mut said = Instant::now();
        load.create(&self.issuer, |there| {
            if said.elapsed() >= SAY_EVERY {
                said = Instant::now();
                self.progress.say(&format!("{there} created"));
            }
        })
        .await?;
        self.progress.say("all created; starting the operator");
        Ok(())
    }

    async fn mint(
        &self,
        load: &Load,
        n: u32,
        operator: &mut Operator,
        tail: &mut AuditTail<'_>,
        begun: Instant,
    ) -> anyhow::Result<Phase> {
        let issued = self.issuer.faults().total();
        let mut watched = Watched::since(begun);
        loop {
            self.until_quiet(
                operator,
                tail,
                &mut watched,
                &format!("of {n} have a status"),
            )
            .await?;
            let ready = load.ready().await?;
            if ready == n {
                break;
            }
            self.progress.say(&format!("{ready} of {n} are Ready"));
            watched.must_move()?;
        }
        let phase = Phase {
            cpu_seconds: operator.cpu_seconds()?,
            issuer_requests: self.issued_since(issued),
            ..watched.phase()
        };
        self.progress.say(&format!(
            "all Ready after {:.1} s: {:.0} per second",
            phase.seconds,
            phase.rate(n)
        ));
        Ok(phase)
    }

    async fn rotate(
        &self,
        load: &Load,
        sample: u32,
        operator: &mut Operator,
    ) -> anyhow::Result<Phase> {
        let mut tail = AuditTail::begin(&self.plane, USER)?;
        let issued = self.issuer.faults().total();
        let cpu = operator.cpu_seconds()?;
        let mut watched = Watched::since(Instant::now());
        load.rotate(sample, ROTATE).await?;
        loop {
            let what = format!("of {sample} have a new status");
            self.until_quiet(operator, &mut tail, &mut watched, &what)
                .await?;
            let rotated = load.rotated(ROTATE).await?;
            if rotated == sample {
                break;
            }
            self.progress
                .say(&format!("{rotated} of {sample} are rotated"));
            watched.must_move()?;
        }
        let phase = Phase {
            cpu_seconds: operator.cpu_seconds()? - cpu,
            issuer_requests: self.issued_since(issued),
            ..watched.phase()
        };
        self.progress.say(&format!(
            "{sample} rotated, and their old versions revoked, after {:.1} s",
            phase.seconds
        ));
        Ok(phase)
    }

    /// Follows the operator's requests until there are none for a while.
    async fn until_quiet(
        &self,
        operator: &mut Operator,
        tail: &mut AuditTail<'_>,
        watched: &mut Watched,
        what: &str,
    ) -> anyhow::Result<()> {
        let mut said = Instant::now();
        let asked = Instant::now();
        loop {
            operator.must_live()?;
            for request in tail.news()? {
                watched.saw(&request);
            }
            if watched.last.max(asked).elapsed() >= QUIET && !watched.counts.is_empty() {
                return Ok(());
            }
            if watched.last.elapsed() >= STUCK {
                bail!(
                    "the operator asked for nothing in {} s; its log ends with:\n{}",
                    STUCK.as_secs(),
                    operator.log_tail()
                );
            }
            if said.elapsed() >= SAY_EVERY {
                said = Instant::now();
                self.progress
                    .say(&format!("{} {what}", watched.reported.len()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// How much more memory it ever had, with these Secrets beside a credential that is then rotated.
    async fn plant(
        &self,
        load: &Load,
        number: u32,
        operator: &mut Operator,
    ) -> anyhow::Result<Planted> {
        let before = operator.memory()?.peak;
        load.plant(number).await?;
        self.progress.say(&format!("{number} Secrets planted"));
        let mut tail = AuditTail::begin(&self.plane, USER)?;
        let mut watched = Watched::since(Instant::now());
        load.rotate(1, AGAIN).await?;
        self.until_quiet(operator, &mut tail, &mut watched, "rotated")
            .await?;
        ensure!(
            load.rotated(AGAIN).await? == 1,
            "what is known is not rotated"
        );
        let more_mebibytes = operator.memory()?.peak - before;
        Ok(Planted {
            number,
            more_mebibytes,
        })
    }

    async fn rest(&self, seconds: u64, operator: &mut Operator) -> anyhow::Result<Phase> {
        self.progress.say(&format!("resting for {seconds} s"));
        let mut tail = AuditTail::begin(&self.plane, USER)?;
        let issued = self.issuer.faults().total();
        let cpu = operator.cpu_seconds()?;
        let mut watched = Watched::since(Instant::now());
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        operator.must_live()?;
        for request in tail.news()? {
            watched.saw(&request);
        }
        Ok(Phase {
            cpu_seconds: operator.cpu_seconds()? - cpu,
            issuer_requests: self.issued_since(issued),
            seconds: watched.begun.elapsed().as_secs_f64(),
            ..watched.phase()
        })
    }

    /// Warm: ready by its own word, and every credential looked at once. Checks at the issuer are spread over the
    /// minutes after a start, so that there is no silence to wait for.
    async fn restart(&self, n: u32) -> anyhow::Result<(Phase, Operator)> {
        let mut tail = AuditTail::begin(&self.plane, USER)?;
        let issued = self.issuer.faults().total();
        let mut watched = Watched::since(Instant::now());
        let mut operator = self.start("operator-again")?;
        let mut said = Instant::now();
        let mut looked_at = HashSet::new();
        while looked_at.len() < n as usize || !operator.is_ready().await {
            operator.must_live()?;
            for request in tail.news()? {
                watched.saw(&request);
                if request.verb == "get" && request.resource == "democredentials" {
                    looked_at.insert((request.namespace, request.name));
                }
            }
            if watched.last.elapsed() >= STUCK {
                let log = operator.log_tail();
                bail!("the restarted operator does not get warm; its log ends with:\n{log}");
            }
            if said.elapsed() >= SAY_EVERY {
                said = Instant::now();
                self.progress
                    .say(&format!("restarted: {} of {n} looked at", looked_at.len()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let seconds = watched.begun.elapsed().as_secs_f64();
        self.progress
            .say(&format!("restarted, warm after {seconds:.1} s"));
        // What it set going may still end in a write.
        tokio::time::sleep(QUIET).await;
        for request in tail.news()? {
            watched.saw(&request);
        }
        let phase = Phase {
            cpu_seconds: operator.cpu_seconds()?,
            issuer_requests: self.issued_since(issued),
            seconds,
            ..watched.phase()
        };
        Ok((phase, operator))
    }
}

/// What the operator was seen to ask for since a moment.
struct Watched {
    begun: Instant,
    last: Instant,
    counts: Counts,
    /// Credentials whose status was written.
    reported: HashSet<(String, String)>,
    /// Requests when it was last found quiet but not done.
    quiet_at: u64,
    quiet_since: Instant,
}

impl Watched {
    fn since(begun: Instant) -> Self {
        Self {
            begun,
            last: begun,
            counts: Counts::default(),
            reported: HashSet::new(),
            quiet_at: 0,
            quiet_since: begun,
        }
    }

    fn saw(&mut self, request: &Request) {
        self.last = Instant::now();
        self.counts.add(request);
        if request.resource == "democredentials/status" {
            self.reported
                .insert((request.namespace.clone(), request.name.clone()));
        }
    }

    /// Quiet and not done is no trouble on a busy machine, unless it stays so.
    fn must_move(&mut self) -> anyhow::Result<()> {
        if self.counts.total() > self.quiet_at {
            self.quiet_at = self.counts.total();
            self.quiet_since = Instant::now();
        }
        ensure!(
            self.quiet_since.elapsed() < STUCK,
            "the operator is quiet and not done"
        );
        Ok(())
    }

    /// Up to the last request that was seen.
    fn phase(&self) -> Phase {
        let mut phase = Phase {
            seconds: (self.last - self.begun).as_secs_f64(),
            ..Phase::default()
        };
        phase.count(&self.counts);
        phase
    }
}
