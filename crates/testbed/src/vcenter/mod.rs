//! vCenter's simulator on a loopback port, with an authorization of ours: it answers from the roles and permissions that
//! were made in it (the simulator alone grants everything to everybody), locks users out, and tells who came.

pub mod programs;

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::ensure;
use rcgen::{CertificateParams, KeyPair, SanType};
use serde_json::json;

use crate::keeper::{self, Keeper};
use programs::Programs;

/// How long a start may take before it counts as failed. Quiet machines need a second.
const BOOT_DEADLINE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(20);
const SERVER: &str = "vcsim";

pub const ADMINISTRATOR: &str = "administrator@vsphere.local";
pub const ADMINISTRATORS_PASSWORD: &str = "Adm1n!";

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// An address of loopback, so that several have names of their own; 127.0.0.1 where none is given.
    pub host: Option<Ipv4Addr>,
    /// Failed logins of one user after which it is locked out; 0 is never.
    pub lock_out_after: u32,
    /// How long each question for privileges takes.
    pub slow: Duration,
    /// So many questions for privileges find their session gone.
    pub dropped_sessions: u32,
}

/// A running vCenter. Dropping it kills the server and removes its files.
#[derive(Debug)]
pub struct VCenter {
    keeper: Keeper,
    programs: Programs,
    host: Ipv4Addr,
    port: u16,
    certificate: String,
}

impl VCenter {
    /// Starts one with the simulator's usual inventory (`DC0`, `DC0_C0`, `LocalDS_0`, …), and returns when it answers.
    ///
    /// If this process dies here: the keeper sees its input end and removes everything.
    pub async fn start(options: &Options) -> anyhow::Result<Self> {
        let programs = programs::ready().await?;
        let keeper = Keeper::start("vcenter")?;
        let host = options.host.unwrap_or(Ipv4Addr::LOCALHOST);
        let [port] = keeper::free_ports()?;
        let dir = keeper.dir();
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params
            .subject_alt_names
            .push(SanType::IpAddress(host.into()));
        let certificate = params.self_signed(&key)?.pem();
        fs::write(dir.join("cert.pem"), &certificate)?;
        fs::write(dir.join("key.pem"), key.serialize_pem())?;
        let settings = json!({
            "listen": format!("{host}:{port}"),
            "cert": dir.join("cert.pem"), "key": dir.join("key.pem"),
            "users": [{ "name": ADMINISTRATOR, "password": ADMINISTRATORS_PASSWORD }],
            "lockOutAfter": options.lock_out_after,
            "slowMillis": u64::try_from(options.slow.as_millis())?,
            "dropSessions": options.dropped_sessions,
        });
        let settings_file = dir.join("settings.json");
        fs::write(&settings_file, settings.to_string())?;
        let flags = [settings_file.display().to_string()];
        keeper.run(SERVER, &programs.vcsim(), &flags)?;
        let vcenter = Self {
            keeper,
            programs,
            host,
            port,
            certificate,
        };
        vcenter.until_it_answers().await?;
        Ok(vcenter)
    }

    async fn until_it_answers(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let answers = || TcpStream::connect((self.host, self.port)).is_ok();
        while !self.journal().iter().any(|line| line == "listening") || !answers() {
            ensure!(
                !self.keeper.has_exited(SERVER) && begun.elapsed() < BOOT_DEADLINE,
                "vcsim does not answer:\n{}",
                self.keeper.log_tail(SERVER)
            );
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Its address, without the port.
    pub fn server(&self) -> String {
        self.host.to_string()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate to trust, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    pub fn certificate_file(&self) -> PathBuf {
        self.keeper.dir().join("cert.pem")
    }

    /// What happened, line by line: `login NAME accepted`, `login NAME refused`, `login NAME locked`, `logout NAME`,
    /// `permission …`.
    pub fn journal(&self) -> Vec<String> {
        let log = fs::read_to_string(self.keeper.dir().join("vcsim.log")).unwrap_or_default();
        log.lines()
            .filter_map(|line| line.strip_prefix("journal: "))
            .map(str::to_owned)
            .collect()
    }

    /// The same, but for the administrator's coming and going.
    pub fn journal_of_others(&self) -> Vec<String> {
        let all = self.journal().into_iter();
        all.filter(|line| line != "listening" && !line.contains(ADMINISTRATOR))
            .collect()
    }

    /// The environment in which govc, or a script that calls it, is the administrator.
    pub fn administration(&self) -> Vec<(&'static str, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        vec![
            ("GOVC_URL", format!("https://{}:{}", self.host, self.port)),
            ("GOVC_USERNAME", ADMINISTRATOR.to_owned()),
            ("GOVC_PASSWORD", ADMINISTRATORS_PASSWORD.to_owned()),
            (
                "GOVC_TLS_CA_CERTS",
                self.certificate_file().display().to_string(),
            ),
            ("GOVC_PERSIST_SESSION", "false".to_owned()),
            ("HOME", self.keeper.dir().display().to_string()),
            ("PATH", format!("{}:{path}", self.programs.dir().display())),
        ]
    }

    /// Runs govc as the administrator.
    pub fn govc(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(self.programs.govc());
        succeeded(&command.args(args).envs(self.administration()).output()?)
    }

    /// Runs a script as the administrator, with govc on its path.
    pub fn bash(&self, script: &Path, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("bash");
        command.arg(script).args(args).envs(self.administration());
        succeeded(&command.output()?)
    }

    pub fn create_user(&self, name: &str, password: &str) -> anyhow::Result<()> {
        let name = name.trim_end_matches("@vsphere.local");
        self.govc(&["sso.user.create", "-p", password, name])?;
        Ok(())
    }

    /// The simulator cannot change a password: the user is made anew.
    pub fn change_password(&self, name: &str, password: &str) -> anyhow::Result<()> {
        self.govc(&["sso.user.rm", name.trim_end_matches("@vsphere.local")])?;
        self.create_user(name, password)
    }
}

fn succeeded(output: &Output) -> anyhow::Result<String> {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {out}{err}", output.status);
    Ok(out)
}
