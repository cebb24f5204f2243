//! The real Keystone: the released Python program over `SQLite`, on a loopback port.
//!
//! Several can run at once. Each has a directory of its own and a keeper that removes it and the server when this process
//! is gone, however it went. The program and a database with the users in it come from the user's cache; see [`ready`].

mod install;
mod template;

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use http::Method;

use super::{Admin, Http};
pub use super::{Lockout, Options};
use crate::keeper::{self, Keeper};
use crate::python::Installed;

/// How long a start may take before it counts as failed. Quiet machines need two seconds.
const BOOT_DEADLINE: Duration = Duration::from_mins(1);
/// How long the worker may take to notice that the server is gone. It takes milliseconds.
const STOP_DEADLINE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(25);
const SERVER: &str = "keystone";

/// A running Keystone. Dropping it kills the server and removes its files.
#[derive(Debug)]
pub struct Keystone {
    keeper: Keeper,
    port: u16,
}

/// Installs Keystone into the user's cache and prepares a database, unless both are there. The first time takes half a
/// minute and says so on standard error. Says where it is.
///
/// Safe to repeat because each part counts only when it is marked as finished.
pub async fn ready() -> anyhow::Result<PathBuf> {
    let installed = install::ready().await?;
    template::ready(&installed).await?;
    Ok(installed.dir)
}

impl Keystone {
    /// Starts a Keystone that nobody has used yet, and returns when it answers.
    ///
    /// If this process dies here: the keeper sees its input end and removes everything.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let installed = install::ready().await?;
        let template = template::ready(&installed).await?;
        let mut attempt = 1;
        loop {
            let started = Self::from_template(&installed, &template, &options).await;
            match started {
                // A port that was free a moment ago can be taken by the time the server binds it.
                Err(trouble)
                    if attempt < 3
                        && options.port == 0
                        && format!("{trouble:#}").contains("in use") =>
                {
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    async fn from_template(
        installed: &Installed,
        template: &Path,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let keeper = Keeper::start("keystone")?;
        copy(template, keeper.dir())?;
        Self::boot(installed, keeper, options).await
    }

    /// Starts the server over the database that lies in the keeper's directory.
    async fn boot(
        installed: &Installed,
        keeper: Keeper,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let port = if options.port == 0 {
            let [free] = keeper::free_ports()?;
            free
        } else {
            options.port
        };
        write_settings(keeper.dir(), port, options)?;
        let flags = ["-m", "gunicorn", "-c"].map(str::to_owned);
        let settings = keeper.dir().join("gunicorn.conf.py").display().to_string();
        let flags = [&flags[..], &[settings, "wsgi:application".to_owned()]].concat();
        keeper.run(SERVER, &installed.python(), &flags)?;
        let keystone = Self { keeper, port };
        keystone.until_it_answers().await?;
        Ok(keystone)
    }

    /// `http://127.0.0.1:port`, without `/v3`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn admin(&self) -> Admin {
        Admin::new(&self.url())
    }

    /// The directory with the database, the settings and the logs. It disappears with the server.
    pub fn dir(&self) -> &Path {
        self.keeper.dir()
    }

    /// Stops the server in its tracks (SIGSTOP): connections are accepted and nothing is answered.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.signal_worker("STOP")
    }

    /// Lets a paused server go on.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.signal_worker("CONT")
    }

    fn signal_worker(&self, signal: &str) -> anyhow::Result<()> {
        let worker = fs::read_to_string(self.dir().join("worker.pid"))?;
        let status = std::process::Command::new("/bin/sh")
            .args(["-c", &format!("kill -{signal} {}", worker.trim())])
            .status()?;
        ensure!(status.success(), "sending SIG{signal}: {status}");
        Ok(())
    }

    /// Kills the server: new connections are refused. The database stays.
    pub async fn kill(&self) -> anyhow::Result<()> {
        self.keeper.kill(SERVER)?;
        let deadline = Instant::now() + STOP_DEADLINE;
        while self.is_listening() {
            ensure!(Instant::now() < deadline, "still there after SIGKILL");
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Starts a killed server again, on the same port and over the same database, and waits until it answers.
    pub async fn start_again(&self) -> anyhow::Result<()> {
        self.keeper.run_again(SERVER)?;
        self.until_it_answers().await
    }

    async fn until_it_answers(&self) -> anyhow::Result<()> {
        let http = Http::new(&self.url());
        let deadline = Instant::now() + BOOT_DEADLINE;
        loop {
            // Asked only once somebody listens: a refused connection costs nothing, an early one waits in line.
            if self.is_listening()
                && let Ok(reply) = http.send(Method::GET, "/v3", "", None).await
                && reply.status == 200
            {
                return Ok(());
            }
            if self.keeper.has_exited(SERVER) {
                bail!(
                    "Keystone ended by itself; its log ends with:\n{}",
                    self.keeper.log_tail(SERVER)
                );
            }
            if Instant::now() >= deadline {
                bail!(
                    "Keystone did not answer within {} s; its log ends with:\n{}",
                    BOOT_DEADLINE.as_secs(),
                    self.keeper.log_tail(SERVER)
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn is_listening(&self) -> bool {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
    }
}

impl Drop for Keystone {
    fn drop(&mut self) {
        // The worker goes a moment after the server it belongs to; before that it could still write into the directory
        // that the keeper removes. A failure here must not hide the one a test is failing with.
        let _ = self.resume();
        let _ = self.keeper.kill(SERVER);
        let deadline = Instant::now() + STOP_DEADLINE;
        while self.is_listening() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn write_settings(dir: &Path, port: u16, options: &Options) -> anyhow::Result<()> {
    let home = dir.display();
    let lockout = options.lockout.map_or_else(String::new, |lockout| {
        format!(
            "[security_compliance]\nlockout_failure_attempts = {}\nlockout_duration = {}\n",
            lockout.attempts,
            lockout.lasts.as_secs()
        )
    });
    let user_limit = options
        .user_limit
        .map_or_else(|| "-1".to_owned(), |limit| limit.to_string());
    // One worker, and the cache in its memory: with two, one still knows what the other has deleted, and SQLite answers
    // parallel writes with 500. Without a cache every request costs ten times as much.
    let keystone = format!(
        "[DEFAULT]\nlog_file = {home}/keystone-own.log\n\
         [database]\nconnection = sqlite:///{home}/keystone.db\n\
         [token]\nprovider = fernet\nexpiration = {expiration}\n\
         [fernet_tokens]\nkey_repository = {home}/fernet\n\
         [fernet_receipts]\nkey_repository = {home}/fernet\n\
         [credential]\nkey_repository = {home}/credential\n\
         [identity]\npassword_hash_rounds = 4\n\
         [cache]\nenabled = true\nbackend = dogpile.cache.memory\n\
         [oslo_middleware]\nenable_proxy_headers_parsing = true\n\
         [application_credential]\nuser_limit = {user_limit}\n{lockout}",
        expiration = options.token_lifetime.as_secs(),
    );
    fs::write(dir.join("keystone.conf"), keystone)?;
    fs::write(dir.join("wsgi.py"), include_str!("wsgi.py"))?;
    let gunicorn = format!(
        "home = {:?}\nbind = '127.0.0.1:{port}'\n{}",
        home.to_string(),
        include_str!("gunicorn.conf.py")
    );
    Ok(fs::write(dir.join("gunicorn.conf.py"), gunicorn)?)
}

/// Copies the files of a directory into another, with those below it.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            fs::set_permissions(&target, entry.metadata()?.permissions())?;
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
