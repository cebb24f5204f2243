//! Whether anything that the tests started still runs. Every test command is given a word in its environment that no other
//! run has; whatever it starts inherits the word, also after its parent is gone.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::summary::Outcome;

const NAME: &str = "KEYWARD_TEST_RUN";

/// A server that was told to end may take this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// One run of the test command.
pub(crate) struct ThisRun {
    word: String,
}

impl ThisRun {
    pub(crate) fn begin() -> Self {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let word = format!("{}-{}", std::process::id(), since.as_nanos());
        Self { word }
    }

    /// Marks a command, and with it everything that it starts.
    pub(crate) fn mark(&self, command: &mut Command) {
        command.env(NAME, &self.word);
    }

    /// Nothing of this run is left, or the step fails with what is.
    pub(crate) fn check(&self) -> anyhow::Result<Outcome> {
        let begun = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                return Ok(Outcome::Passed(String::new()));
            }
            if begun.elapsed() > PATIENCE {
                bail!(
                    "the tests are over, and these still run:\n  {}",
                    left.join("\n  ")
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Pid and command line of each. What ends while we look, or is somebody else's, cannot be read and is not ours.
    fn left(&self) -> Vec<String> {
        let marked = format!("{NAME}={}", self.word);
        let Ok(processes) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let ours = processes.filter_map(|process| {
            let dir = process.ok()?.path();
            let environment = fs::read(dir.join("environ")).ok()?;
            let is_marked = environment
                .split(|byte| *byte == 0)
                .any(|one| one == marked.as_bytes());
            let line = fs::read(dir.join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let pid = dir.file_name()?.to_string_lossy().into_owned();
            is_marked.then(|| format!("{pid} {}", line.trim()))
        });
        ours.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_left_running_is_named_and_what_others_run_is_not() {
        let (this, other) = (ThisRun::begin(), ThisRun::begin());
        let mut command = Command::new("sleep");
        command.arg("60");
        this.mark(&mut command);
        let mut left = command.spawn().unwrap();
        // For a moment after its start a process has neither environment nor command line.
        let begun = Instant::now();
        let mut found = this.left();
        while found.is_empty() && begun.elapsed() < PATIENCE {
            found = this.left();
        }
        let others = other.left();
        left.kill().unwrap();
        left.wait().unwrap();
        assert_eq!(found, [format!("{} sleep 60", left.id())]);
        assert!(others.is_empty(), "{others:?}");
        this.check().unwrap();
    }
}
