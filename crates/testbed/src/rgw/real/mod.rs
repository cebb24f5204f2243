//! The real radosgw: two gateways of one object store on loopback ports, over a store in memory.
//!
//! Several can run at once. Each has a directory of its own and a keeper that removes it and the servers when this process
//! is gone, however it went. The programs come from the user's cache; see [`ready`].

mod install;
mod settings;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::{Http, Login, admin};
use crate::keeper::{self, Keeper};
use install::Installed;
use settings::Ports;

/// How long a start may take before it counts as failed. Usually it takes two seconds; with cold files, half a minute.
const BOOT_DEADLINE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(25);

/// What the login of the tests may do.
const CAPS: &str = "accounts=*;users=*;buckets=*;usage=read;metadata=read;zone=read";

/// One of the two gateways. Either shows at once what was done at the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gateway {
    One,
    Two,
}

impl Gateway {
    pub const BOTH: [Self; 2] = [Self::One, Self::Two];

    fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Two => "two",
        }
    }
}

/// A running object store. Dropping it kills the servers and removes their files.
#[derive(Debug)]
pub struct Gateways {
    keeper: Keeper,
    ports: Ports,
}

/// Brings radosgw into the user's cache, unless it is there. Says where it is.
pub async fn ready() -> anyhow::Result<PathBuf> {
    Ok(install::ready().await?.dir)
}

impl Gateways {
    /// Starts an object store that nobody has used yet, and returns when both gateways answer.
    ///
    /// If this process dies here: the keeper sees its input end and removes everything.
    pub async fn start() -> anyhow::Result<Self> {
        let installed = install::ready().await?;
        let mut attempt = 1;
        loop {
            match Self::boot(&installed).await {
                // A port that was free a moment ago can be taken by the time a server binds it.
                Err(trouble) if attempt < 3 && format!("{trouble:#}").contains("in use") => {
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    async fn boot(installed: &Installed) -> anyhow::Result<Self> {
        let store = Self {
            keeper: Keeper::start("radosgw")?,
            ports: Ports::free()?,
        };
        let dir = store.keeper.dir();
        for name in ["mon", "osd", "rgw", "run"] {
            fs::create_dir(dir.join(name))?;
        }
        let conf = dir.join("ceph.conf");
        let fsid = uuid();
        fs::write(&conf, settings::text(installed, dir, &store.ports, &fsid))?;
        let path = |name: &str| dir.join(name).display().to_string();
        let (monmap, osdmap) = (path("monmap"), path("osdmap"));
        let monitor = format!("[v2:127.0.0.1:{}]", store.ports.monitor);
        let make_maps = [
            "--create", "--fsid", &fsid, "--addv", "a", &monitor, &monmap,
        ];
        store.run(installed, "monmaptool", &make_maps).await?;
        let one_disk = ["--createsimple", "1", "--clobber", &osdmap];
        store.run(installed, "osdmaptool", &one_disk).await?;
        let make = [
            "-i", "a", "--mkfs", "--monmap", &monmap, "--osdmap", &osdmap,
        ];
        store.run(installed, "ceph-mon", &make).await?;
        store.serve(installed, "mon", "ceph-mon", &["-i", "a", "-f"])?;
        let make = [
            "-i",
            "0",
            "--mkfs",
            "--osd-uuid",
            &uuid(),
            "--no-mon-config",
        ];
        store.run(installed, "ceph-osd", &make).await?;
        store.serve(installed, "osd", "ceph-osd", &["-i", "0", "-f"])?;
        let Login {
            access_key,
            secret_key,
        } = admin();
        let login = [
            "user",
            "create",
            "--uid=admin",
            "--display-name=admin",
            &format!("--access-key={access_key}"),
            &format!("--secret-key={}", secret_key.reveal()),
            &format!("--caps={CAPS}"),
        ];
        store.run(installed, "radosgw-admin", &login).await?;
        for gateway in Gateway::BOTH {
            let name = format!("client.{}", gateway.name());
            store.serve(installed, gateway.name(), "radosgw", &["-n", &name, "-f"])?;
        }
        for gateway in Gateway::BOTH {
            store.until_it_answers(gateway).await?;
        }
        Ok(store)
    }

    /// Runs a program of the packages to its end.
    async fn run(&self, installed: &Installed, name: &str, flags: &[&str]) -> anyhow::Result<()> {
        let (program, words) = self.line(installed, name, flags);
        let mut command = Command::new(program);
        command.args(words);
        // One that waits for a server that ended would wait for ever.
        let limit = BOOT_DEADLINE;
        let mut command = tokio::process::Command::from(command);
        let ended = command.kill_on_drop(true).output();
        let output = tokio::time::timeout(limit, ended).await;
        let output = output
            .with_context(|| format!("{name} was not done within {} s", limit.as_secs()))?
            .with_context(|| format!("running {name}"))?;
        ensure!(
            output.status.success(),
            "{name} ended with {}:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Starts a program of the packages that stays.
    fn serve(
        &self,
        installed: &Installed,
        server: &str,
        name: &str,
        flags: &[&str],
    ) -> anyhow::Result<()> {
        let (program, words) = self.line(installed, name, flags);
        self.keeper.run(server, &program, &words)
    }

    fn line(&self, installed: &Installed, name: &str, flags: &[&str]) -> (PathBuf, Vec<String>) {
        let (program, mut words) = installed.program(name);
        words.push("-c".to_owned());
        words.push(self.keeper.dir().join("ceph.conf").display().to_string());
        words.extend(flags.iter().map(|flag| (*flag).to_owned()));
        (program, words)
    }

    /// `http://127.0.0.1:port`
    pub fn url(&self, gateway: Gateway) -> String {
        format!("http://127.0.0.1:{}", self.ports.of(gateway))
    }

    pub fn urls(&self) -> Vec<String> {
        Gateway::BOTH.map(|gateway| self.url(gateway)).to_vec()
    }

    /// Everything that the servers wrote down so far, with every address that they were asked at.
    pub fn logs(&self) -> anyhow::Result<Vec<u8>> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.keeper.dir())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                all.extend(fs::read(path)?);
            }
        }
        Ok(all)
    }

    /// Stops a gateway in its tracks (SIGSTOP): connections are accepted and nothing is answered.
    pub fn pause(&self, gateway: Gateway) -> anyhow::Result<()> {
        self.keeper.signal(gateway.name(), "STOP")
    }

    /// Lets a paused gateway go on.
    pub fn resume(&self, gateway: Gateway) -> anyhow::Result<()> {
        self.keeper.signal(gateway.name(), "CONT")
    }

    /// Kills a gateway: new connections are refused. What is stored stays.
    pub async fn kill(&self, gateway: Gateway) -> anyhow::Result<()> {
        self.keeper.kill(gateway.name())?;
        let deadline = Instant::now() + BOOT_DEADLINE;
        while !self.keeper.has_exited(gateway.name()) {
            ensure!(Instant::now() < deadline, "still there after SIGKILL");
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Starts a killed gateway again, on the same port, and waits until it answers.
    pub async fn start_again(&self, gateway: Gateway) -> anyhow::Result<()> {
        self.keeper.run_again(gateway.name())?;
        self.until_it_answers(gateway).await
    }

    async fn until_it_answers(&self, gateway: Gateway) -> anyhow::Result<()> {
        let deadline = Instant::now() + BOOT_DEADLINE;
        let http = Http::new(&self.url(gateway));
        loop {
            if http.answers().await {
                return Ok(());
            }
            for server in ["mon", "osd", gateway.name()] {
                if self.keeper.has_exited(server) {
                    bail!(
                        "{server} ended by itself; its log ends with:\n{}",
                        self.keeper.log_tail(server)
                    );
                }
            }
            if Instant::now() >= deadline {
                bail!(
                    "radosgw did not answer within {} s; its log ends with:\n{}",
                    BOOT_DEADLINE.as_secs(),
                    self.keeper.log_tail(gateway.name())
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

fn uuid() -> String {
    let hex = format!("{:032x}", rand::random::<u128>());
    format!(
        "{}-{}-4{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
}

impl Ports {
    fn free() -> anyhow::Result<Self> {
        let [monitor, disk, one, two] = keeper::free_ports()?;
        Ok(Self {
            monitor,
            disk,
            one,
            two,
        })
    }
}
