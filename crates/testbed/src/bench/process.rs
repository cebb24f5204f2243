//! What the kernel says of a process.

use std::fs;
use std::thread::available_parallelism;

use anyhow::Context;
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

/// Linux counts CPU time for user space in hundredths of a second on everything Keyward is built for.
const TICKS_PER_SECOND: f64 = 100.0;

/// Memory in MiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) now: f64,
    pub(super) peak: f64,
}

/// CPU time so far, in seconds: its own and the kernel's on its behalf.
pub(super) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    cpu_seconds_in(&proc_file(pid, "stat")?).context("/proc/PID/stat is not as expected")
}

pub(super) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let status = proc_file(pid, "status")?;
    let mebibytes =
        |field| mebibytes_in(&status, field).context("/proc/PID/status is not as expected");
    Ok(Memory {
        now: mebibytes("VmRSS:")?,
        peak: mebibytes("VmHWM:")?,
    })
}

/// This program, and all that it starts from now on, stays off the first core, which [`Cores::first_for`] then gives to the
/// server that is measured. So it is told how much is asked of that server, and not how two cores are shared out among
/// programs that would not be on one machine. To be asked for once: afterwards the first core can no longer be seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cores {
    number: usize,
}

impl Cores {
    pub(super) fn leave_the_first() -> anyhow::Result<Self> {
        let number = available_parallelism()?.get();
        if number >= 2 {
            run_on(std::process::id(), 1..number)?;
        }
        Ok(Self { number })
    }

    /// As they come: nobody is bound to any.
    pub(super) fn for_everybody() -> Self {
        Self { number: 1 }
    }

    /// Where there is only one core, everybody shares it.
    pub(super) fn first_for(self, pid: u32) -> anyhow::Result<()> {
        if self.number >= 2 {
            run_on(pid, 0..1)?;
        }
        Ok(())
    }
}

fn run_on(pid: u32, cores: std::ops::Range<usize>) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(core);
    }
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread: i32 = thread?.file_name().to_string_lossy().parse()?;
        match sched_setaffinity(Pid::from_raw(thread), &set) {
            // One that has ended meanwhile needs no core.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => {
                return Err(error).context("giving a server a core of its own");
            }
        }
    }
    Ok(())
}

fn proc_file(pid: u32, name: &str) -> anyhow::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/{name}"))
        .with_context(|| format!("reading /proc/{pid}/{name} (the bench needs Linux)"))
}

fn cpu_seconds_in(stat: &str) -> Option<f64> {
    // The program's name may hold anything; the fields after it start behind the last bracket.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

fn mebibytes_in(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_understood() {
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 5 0";
        assert_eq!(cpu_seconds_in(stat), Some(2.0));
        let status = "Name:\tkeyward\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(mebibytes_in(status, "VmRSS:"), Some(1.0));
        assert_eq!(mebibytes_in(status, "VmHWM:"), Some(2.0));
    }
}
