//! The steps of a run: a header for each, and one table at the end.

use std::time::{Duration, Instant};

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed(String),
    /// It could not be done here, and the reader must know.
    NotChecked(String),
    Failed(String),
}

struct Step {
    name: String,
    outcome: Outcome,
    took: Duration,
}

/// What has been done so far.
pub(crate) struct Summary {
    begun: Instant,
    steps: Vec<Step>,
}

impl Summary {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            steps: Vec::new(),
        }
    }

    /// Does one step. An error is a failed step, and the next steps are still done: a reader wants
    /// to know everything that is wrong.
    pub(crate) fn step(&mut self, name: &str, act: impl FnOnce() -> anyhow::Result<Outcome>) {
        println!("\n=== {name} (at {})", seconds(self.begun.elapsed()));
        let begun = Instant::now();
        let outcome = act().unwrap_or_else(|trouble| {
            println!("{trouble:#}");
            let text = format!("{trouble:#}");
            Outcome::Failed(text.lines().next().unwrap_or_default().to_owned())
        });
        let took = begun.elapsed();
        println!("--- {name}: {} in {}", word(&outcome), seconds(took));
        self.steps.push(Step {
            name: name.to_owned(),
            outcome,
            took,
        });
    }

    pub(crate) fn any_failed(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step.outcome, Outcome::Failed(_)))
    }

    pub(crate) fn table(&self) -> String {
        let width = self
            .steps
            .iter()
            .map(|step| step.name.len())
            .max()
            .unwrap_or(0);
        let mut table = String::from("\n=== Summary\n");
        for Step {
            name,
            outcome,
            took,
        } in &self.steps
        {
            let note = match outcome {
                Outcome::Passed(note) | Outcome::NotChecked(note) | Outcome::Failed(note) => note,
            };
            let line = format!(
                "{:<11} {name:<width$} {:>8}  {note}",
                word(outcome),
                seconds(*took)
            );
            table.push_str(line.trim_end());
            table.push('\n');
        }
        let total = seconds(self.begun.elapsed());
        table
            + &format!(
                "{:<11} {:<width$} {total:>8}
",
                "", "in all"
            )
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed(_) => "ok",
        Outcome::NotChecked(_) => "NOT CHECKED",
        Outcome::Failed(_) => "FAILED",
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_does_not_keep_the_next_from_being_done() {
        let mut summary = Summary::new();
        summary.step("first", || anyhow::bail!("it broke\nin detail"));
        summary.step("second", || Ok(Outcome::Passed("3 things".into())));
        assert!(summary.any_failed());
        let table = summary.table();
        assert!(table.contains("FAILED      first"), "{table}");
        assert!(table.contains("it broke\n"), "{table}");
        assert!(table.contains("3 things"), "{table}");
    }

    #[test]
    fn what_was_not_checked_is_loud_but_no_failure() {
        let mut summary = Summary::new();
        summary.step("advisories", || {
            Ok(Outcome::NotChecked("database unreachable".into()))
        });
        assert!(!summary.any_failed());
        assert!(summary.table().contains("NOT CHECKED advisories"));
    }
}
