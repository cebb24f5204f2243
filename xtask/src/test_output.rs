//! Counting tests while their output passes by.

use std::io::{BufRead, BufReader, Write};
use std::ops::AddAssign;
use std::process::{Command, Stdio};

use anyhow::Context;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl Count {
    /// What a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; …` says.
    fn in_line(line: &str) -> Option<Self> {
        let result = line.strip_prefix("test result: ")?;
        let (_, numbers) = result.split_once(". ")?;
        let mut count = Self::default();
        for part in numbers.split(';') {
            let mut words = part.split_whitespace();
            match (
                words.next().and_then(|number| number.parse().ok()),
                words.next(),
            ) {
                (Some(number), Some("passed")) => count.passed = number,
                (Some(number), Some("failed")) => count.failed = number,
                (Some(number), Some("ignored")) => count.ignored = number,
                _ => {}
            }
        }
        Some(count)
    }
}

/// Runs tests, passes its output on to `out` as it comes, and counts.
///
/// A run that ends badly without a failed test (it does not compile, or a test killed its process)
/// counts as one failure: `0 failed` must not stand under it.
pub(crate) fn run(mut tests: Command, out: &mut impl Write) -> anyhow::Result<Count> {
    let mut child = tests
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("running a test program")?;
    let output = BufReader::new(
        child
            .stdout
            .take()
            .context("the test program has no output")?,
    );
    let mut count = Count::default();
    // Bytes, because a test may print what is not UTF-8.
    for line in output.split(b'\n') {
        let line = line?;
        out.write_all(&line)?;
        out.write_all(b"\n")?;
        out.flush()?;
        if let Some(result) = Count::in_line(&String::from_utf8_lossy(&line)) {
            count += result;
        }
    }
    if !child.wait()?.success() && count.failed == 0 {
        count.failed = 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_is_counted() {
        let line = "test result: FAILED. 11 passed; 2 failed; 3 ignored; 0 measured; 0 filtered out; finished in 4.10s";
        assert_eq!(
            Count::in_line(line),
            Some(Count {
                passed: 11,
                failed: 2,
                ignored: 3
            })
        );
        assert_eq!(Count::in_line("test a_result ... ok"), None);
    }

    #[test]
    fn results_are_summed_and_a_run_that_breaks_off_is_a_failure() {
        let shell = |script: &str| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]);
            run(command, &mut std::io::sink()).expect("it runs")
        };
        let two = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored'; echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";
        assert_eq!(
            shell(two),
            Count {
                passed: 3,
                failed: 0,
                ignored: 0
            }
        );
        assert_eq!(
            shell(&format!("{two}; exit 101")),
            Count {
                passed: 3,
                failed: 1,
                ignored: 0
            }
        );
    }
}
