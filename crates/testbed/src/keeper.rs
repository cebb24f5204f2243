//! The process that keeps the servers we start, and takes them away when we are gone.
//!
//! A process that is killed with SIGKILL can clean up nothing. So the servers are children of a
//! small shell, and this process holds the write end of the shell's standard input. The kernel
//! closes it when this process ends, in whatever way; the shell sees the end of its input, kills
//! the servers and removes the directory. It runs in its own process group, so that Ctrl-C in the
//! terminal ends the test and not the keeper.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

/// Reads `run NAME` and `kill NAME` until its input ends.
///
/// The subshell is the parent of the server, so that somebody collects it when it exits and
/// `NAME.exited` tells us. `run` is over only when the pid is on disk: if the input ends next, the
/// pid is known and the server is killed.
const SCRIPT: &str = r#"
dir=$1
trap : HUP INT TERM
run() {
    rm -f "$dir/$1.pid" "$dir/$1.exited"
    (
        /bin/sh "$dir/$1.run" </dev/null >>"$dir/$1.log" 2>&1 &
        server=$!
        echo "$server" >"$dir/$1.pid.new"
        mv "$dir/$1.pid.new" "$dir/$1.pid"
        wait "$server"
        echo "$?" >"$dir/$1.exited"
    ) &
    until [ -e "$dir/$1.pid" ]; do sleep 0.01; done
}
end() {
    [ -e "$dir/$1.exited" ] || kill -KILL "$(cat "$dir/$1.pid")"
}
while read -r verb name; do
    case $verb in
        run) run "$name" ;;
        kill) end "$name" ;;
    esac
done
for pid in "$dir"/*.pid; do
    [ -e "$pid" ] || continue
    name=${pid##*/}
    end "${name%.pid}"
done
wait
rm -rf "$dir"
"#;

/// How long the shell may take to write a pid. It takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// The shell, the directory it will remove, and the way to talk to it.
#[derive(Debug)]
pub(crate) struct Keeper {
    dir: PathBuf,
    shell: Child,
    /// `None` once the keeper was told to finish.
    orders: Mutex<Option<ChildStdin>>,
}

impl Keeper {
    /// Makes the directory, named after what it is for, and starts the shell.
    ///
    /// If it dies here: between the two lines an empty directory stays, nothing else.
    pub(crate) fn start(what: &str) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(&format!("keyward-{what}-"))
            .tempdir()?
            .keep();
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "keyward-keeper"])
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("starting /bin/sh as the keeper of the servers")?;
        let orders = Mutex::new(shell.stdin.take());
        Ok(Self { dir, shell, orders })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts `program` under `name`. Its output goes to `NAME.log`.
    pub(crate) fn run(&self, name: &str, program: &Path, flags: &[String]) -> anyhow::Result<()> {
        let program = program
            .to_str()
            .context("the path of a server is not UTF-8")?;
        let mut line = format!("exec {}", quoted(program));
        for flag in flags {
            line.push(' ');
            line.push_str(&quoted(flag));
        }
        fs::write(self.file(name, "run"), line)?;
        self.run_again(name)
    }

    /// Starts a server that was started before, in the same way.
    pub(crate) fn run_again(&self, name: &str) -> anyhow::Result<()> {
        // Removed here too: otherwise the marks of the last run could be read as those of this one.
        for mark in ["pid", "exited"] {
            let _ = fs::remove_file(self.file(name, mark));
        }
        self.order("run", name)?;
        self.pid(name).map(|_| ())
    }

    /// Kills a server with SIGKILL; [`Self::has_exited`] says when it is gone.
    pub(crate) fn kill(&self, name: &str) -> anyhow::Result<()> {
        self.order("kill", name)
    }

    pub(crate) fn has_exited(&self, name: &str) -> bool {
        self.file(name, "exited").exists()
    }

    pub(crate) fn pid(&self, name: &str) -> anyhow::Result<u32> {
        let file = self.file(name, "pid");
        let asked = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(&file) {
                return text
                    .trim()
                    .parse()
                    .with_context(|| format!("reading the pid of {name}"));
            }
            ensure!(asked.elapsed() < PATIENCE, "{name} was not started");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal by the shell's own `kill`: the only way without unsafe code or a dependency.
    pub(crate) fn signal(&self, name: &str, signal: &str) -> anyhow::Result<()> {
        let pid = self.pid(name)?;
        let status = Command::new("/bin/sh")
            .args(["-c", &format!("kill -{signal} {pid}")])
            .status()?;
        ensure!(status.success(), "sending SIG{signal} to {name}: {status}");
        Ok(())
    }

    /// The last lines of a server's log.
    pub(crate) fn log_tail(&self, name: &str) -> String {
        let log = fs::read(self.file(name, "log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// Ends the shell's input and waits for it: the servers and the directory are gone after this.
    ///
    /// Safe to repeat because a shell that has ended is only waited for.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        drop(
            self.orders
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        self.shell
            .wait()
            .context("waiting for the keeper of the servers")?;
        ensure!(
            !self.dir.exists(),
            "the keeper left {} behind",
            self.dir.display()
        );
        Ok(())
    }

    fn order(&self, verb: &str, name: &str) -> anyhow::Result<()> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = orders.as_mut().context("the servers were stopped")?;
        writeln!(orders, "{verb} {name}").context("the keeper of the servers is gone")
    }

    fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.dir.join(format!("{name}.{extension}"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // A failure here must not hide the one a test is failing with.
        let _ = self.finish();
    }
}

/// Runs a command to its end with `input` on its standard input.
pub(crate) fn run_with_input(mut command: Command, input: &[u8]) -> anyhow::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child
        .stdin
        .take()
        .context("the child has no standard input")?;
    stdin.write_all(input)?;
    drop(stdin);
    Ok(child.wait_with_output()?)
}

/// Ports of loopback that are free now. They lie below the range from which the kernel takes ports for
/// outgoing connections, so that a client started meanwhile cannot take one.
pub(crate) fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut found = Vec::new();
    for _ in 0..1000 {
        let port = rand::random_range(20_000..32_000);
        if !found.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            found.push(port);
        }
        if let Ok(ports) = <[u16; N]>::try_from(&found[..]) {
            return Ok(ports);
        }
    }
    bail!("no free port between 20000 and 32000 on 127.0.0.1")
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn alive(pid: u32) -> bool {
        let probe = Command::new("/bin/sh")
            .args(["-c", &format!("kill -0 {pid} 2>/dev/null")])
            .status();
        probe.expect("the shell runs").success()
    }

    fn sleeper(keeper: &Keeper, name: &str) -> u32 {
        keeper
            .run(name, Path::new("/bin/sleep"), &["600".to_owned()])
            .expect("the sleeper starts");
        keeper.pid(name).expect("a pid")
    }

    #[test]
    fn finishing_ends_the_servers_and_removes_the_directory() {
        let mut keeper = Keeper::start("test").expect("a keeper");
        let pids = [sleeper(&keeper, "one"), sleeper(&keeper, "two")];
        assert!(pids.iter().all(|pid| alive(*pid)));
        keeper.finish().expect("it finishes");
        assert!(!pids.iter().any(|pid| alive(*pid)));
        assert!(!keeper.dir().exists());
        keeper.finish().expect("and again");
    }

    #[test]
    fn a_killed_server_is_seen_to_exit_and_can_run_again() {
        let keeper = Keeper::start("test").expect("a keeper");
        let first = sleeper(&keeper, "one");
        assert!(!keeper.has_exited("one"));
        keeper.kill("one").expect("the order is taken");
        until("the server exits", || keeper.has_exited("one"));
        keeper.run_again("one").expect("it runs again");
        assert_ne!(keeper.pid("one").expect("a pid"), first);
        assert!(!keeper.has_exited("one"));
    }

    #[test]
    fn words_reach_a_server_as_they_are() {
        let keeper = Keeper::start("test").expect("a keeper");
        let words = ["it's", "a $HOME", "`id`", ""].map(str::to_owned);
        keeper
            .run(
                "say",
                Path::new("/usr/bin/printf"),
                &[&["<%s>".to_owned()][..], &words].concat(),
            )
            .expect("it runs");
        until("printf exits", || keeper.has_exited("say"));
        assert_eq!(keeper.log_tail("say"), "<it's><a $HOME><`id`><>");
    }
}
