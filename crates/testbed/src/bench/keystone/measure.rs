//! One round: the two floors and the operator, in an order that changes from round to round.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::super::load::admit;
use super::super::measure::plane_for;
use super::super::operator::Operator;
use super::super::requests::{AuditTail, Counts};
use super::super::{Progress, process};
use super::Plan;
use super::cloud::{Cloud, USERS, is_ready, is_rotated};
use super::figures::{Figures, Round, Sample};
use super::floor::Floor;
use crate::controlplane::ControlPlane;
use crate::keystone::real::{Keystone, Options};
use crate::keystone::{SERVICE_USERS, request_kind};
use crate::proxy::{self, Proxy};

/// Users of the API server, by whom the audit log tells the requests of each.
const OPERATOR: &str = "keyward-bench";
const FLOOR: &str = "floor-bench";

const ROTATE: &str = "bench-1";
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Without a request for this long, what was set going has come to its end.
const QUIET: Duration = Duration::from_secs(2);

struct Stage<'a> {
    plan: &'a Plan,
    plane: ControlPlane,
    kubeconfig: PathBuf,
    floor: kube::Client,
    n: u32,
    progress: Progress,
    cores: process::Cores,
}

/// Where one run takes place: a Keystone that nobody has used yet, and a namespace of its own.
struct Ground {
    keystone: Keystone,
    proxy: Proxy,
    cloud: Cloud,
}

pub(super) async fn measure(plan: &Plan, cores: process::Cores, n: u32) -> anyhow::Result<Figures> {
    ensure!(n > 0, "there is nothing to measure with 0 credentials");
    let progress = Progress {
        n,
        begun: Instant::now(),
    };
    let plane = plane_for(&plan.keyward).await?;
    for user in [OPERATOR, FLOOR] {
        admit(&plane.client(), user).await?;
    }
    let stage = Stage {
        plan,
        kubeconfig: plane.kubeconfig_for(OPERATOR, &[])?,
        floor: plane.client_for(FLOOR, &[]).await?,
        plane,
        n,
        progress,
        cores,
    };
    let mut rounds = Vec::new();
    for number in 0..plan.rounds.unwrap_or(super::ROUNDS).max(1) {
        rounds.push(stage.round(number).await?);
    }
    stage.progress.say("done");
    stage.plane.stop().await?;
    Ok(Figures {
        n,
        users: USERS,
        rounds,
    })
}

impl Stage<'_> {
    async fn round(&self, number: u32) -> anyhow::Result<Round> {
        let (mut bare, mut verifying, mut operator) = (None, None, None);
        for round in 0..3 {
            // Whoever comes first in one round comes last in the next.
            match (number + round) % 3 {
                0 => bare = Some(self.floor(number, false).await?),
                1 => verifying = Some(self.floor(number, true).await?),
                _two => operator = Some(self.operator(number).await?),
            }
        }
        let (mint, rotation) = operator.context("no run of the operator")?;
        Ok(Round {
            bare: bare.context("no run of the bare floor")?,
            verifying: verifying.context("no run of the verifying floor")?,
            mint,
            rotation,
        })
    }

    async fn ground(&self, name: &str) -> anyhow::Result<Ground> {
        let keystone = Keystone::start(Options::default()).await?;
        let options = proxy::Options {
            kind: request_kind,
            ..proxy::Options::default()
        };
        let proxy = Proxy::start(&keystone.url(), options)?;
        let cloud = Cloud::make(self.plane.client(), name, self.n, &proxy.url()).await?;
        let ground = Ground {
            keystone,
            proxy,
            cloud,
        };
        self.cores.first_for(ground.keystone_pid()?)?;
        Ok(ground)
    }

    async fn floor(&self, number: u32, verifies: bool) -> anyhow::Result<Sample> {
        let what = if verifies { "verifying" } else { "bare" };
        let namespace = format!("{what}-{number}");
        let ground = self.ground(&namespace).await?;
        let floor = Floor::new(
            &ground.proxy.url(),
            self.floor.clone(),
            &namespace,
            verifies,
        )?;
        let mut tail = AuditTail::begin(&self.plane, FLOOR)?;
        let cpu = ground.keystone_cpu_seconds()?;
        let begun = Instant::now();
        let (ready, ()) =
            tokio::try_join!(ground.cloud.until_all(is_ready, |_| ()), floor.run(self.n))?;
        let keystone_cpu_seconds = ground.keystone_cpu_seconds()? - cpu;
        let mut counts = Counts::default();
        self.until_quiet(&mut tail, &mut counts).await?;
        let sample = Sample {
            seconds: (ready - begun).as_secs_f64(),
            keystone_cpu_seconds,
            ..ground.sample(&counts)
        };
        ground.must_have_exactly(self.n).await?;
        self.tell(&format!("{what} floor"), &sample);
        Ok(sample)
    }

    /// The first mint of all, then a rotation of all.
    async fn operator(&self, number: u32) -> anyhow::Result<(Sample, Sample)> {
        let namespace = format!("operator-{number}");
        let ground = self.ground(&namespace).await?;
        let mut flags = vec!["--namespaces".to_owned(), namespace.clone()];
        flags.extend(["--allow-keystone-url".to_owned(), ground.proxy.url()]);
        flags.extend(self.plan.flags.iter().cloned());
        let mut tail = AuditTail::begin(&self.plane, OPERATOR)?;
        let cpu = ground.keystone_cpu_seconds()?;
        let begun = Instant::now();
        let mut operator = Operator::start(
            &self.plan.keyward,
            &self.plane,
            &self.kubeconfig,
            &namespace,
            "appcred",
            &flags,
        )?;
        let say = |what| move |done| self.progress.say(&format!("{done} of {} {what}", self.n));
        let ready = ground.cloud.until_all(is_ready, say("are Ready")).await;
        let ready =
            ready.with_context(|| format!("the operator's log: {}", operator.log_tail()))?;
        let mint = self
            .end(&ground, &mut operator, &mut tail, begun, ready, (cpu, 0.0))
            .await?;
        ground.must_have_exactly(self.n).await?;
        self.tell("operator", &mint);

        ground.proxy.faults().reset();
        let cpu = (ground.keystone_cpu_seconds()?, operator.cpu_seconds()?);
        let begun = Instant::now();
        let (rotated, ()) = tokio::try_join!(
            ground
                .cloud
                .until_all(|status| is_rotated(status, ROTATE), say("are rotated")),
            ground.cloud.rotate(ROTATE)
        )
        .with_context(|| format!("the operator's log: {}", operator.log_tail()))?;
        let rotation = self
            .end(&ground, &mut operator, &mut tail, begun, rotated, cpu)
            .await?;
        operator.kill().await?;
        ground.must_have_exactly(self.n).await?;
        self.tell("rotation of all", &rotation);
        Ok((mint, rotation))
    }

    /// Waits for the operator to come to rest, and counts what it did.
    async fn end(
        &self,
        ground: &Ground,
        operator: &mut Operator,
        tail: &mut AuditTail<'_>,
        begun: Instant,
        done: Instant,
        cpu_before: (f64, f64),
    ) -> anyhow::Result<Sample> {
        let keystone_cpu_seconds = ground.keystone_cpu_seconds()? - cpu_before.0;
        let mut counts = Counts::default();
        self.until_quiet(tail, &mut counts).await?;
        operator.must_live()?;
        Ok(Sample {
            seconds: (done - begun).as_secs_f64(),
            keystone_cpu_seconds,
            operator_cpu_seconds: operator.cpu_seconds()? - cpu_before.1,
            ..ground.sample(&counts)
        })
    }

    async fn until_quiet(
        &self,
        tail: &mut AuditTail<'_>,
        counts: &mut Counts,
    ) -> anyhow::Result<()> {
        let mut last = Instant::now();
        while last.elapsed() < QUIET {
            for request in tail.news()? {
                last = Instant::now();
                counts.add(&request);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    fn tell(&self, what: &str, sample: &Sample) {
        self.progress.say(&format!(
            "{what}: {:.1} s, of them {:.1} s of Keystone's CPU",
            sample.seconds, sample.keystone_cpu_seconds
        ));
    }
}

impl Ground {
    fn keystone_pid(&self) -> anyhow::Result<u32> {
        let pid = std::fs::read_to_string(self.keystone.dir().join("worker.pid"))?;
        Ok(pid.trim().parse()?)
    }

    fn keystone_cpu_seconds(&self) -> anyhow::Result<f64> {
        process::cpu_seconds(self.keystone_pid()?)
    }

    fn sample(&self, counts: &Counts) -> Sample {
        let at_keystone = self.proxy.faults().counts();
        let at_keystone = at_keystone.into_iter();
        Sample {
            keystone_requests: at_keystone
                .map(|(kind, requests)| (kind, requests as u64))
                .collect(),
            api_requests: counts.total(),
            api_by_request: counts.by_request().clone(),
            ..Sample::default()
        }
    }

    /// Speed that leaves something behind, or undone, is none. Asked behind the proxy, which counts only what is measured.
    async fn must_have_exactly(&self, n: u32) -> anyhow::Result<()> {
        let admin = self.keystone.admin();
        let mut live = 0;
        for user in &SERVICE_USERS[..USERS] {
            live += admin.count(user).await?;
        }
        ensure!(
            live == n as usize,
            "Keystone has {live} application credentials, and there should be {n}"
        );
        Ok(())
    }
}
