//! What was hoped for, and whether it is so.

use serde::Serialize;

use super::figures::Figures;

const MINT_API: f64 = 10.0;
const MINT_ISSUER: f64 = 3.0;
const ROTATION_API: f64 = 16.0;
const ROTATION_ISSUER: f64 = 6.0;
const RSS_MEBIBYTES: f64 = 150.0;
/// "Flat": CPU per credential at the largest size against the smallest.
const GROWTH: f64 = 1.25;
/// The same for the time that one of many rotations at once takes.
const DEARER: f64 = 1.3;
const PLANTED_MEBIBYTES: f64 = 20.0;
/// The two ways of counting may differ by what is under way at the moment of looking.
const DISAGREEMENT_PERCENT: f64 = 1.0;
/// Reading a login once per namespace and the like: shared by all, and no part of a mint.
const SHARED: f64 = 0.005;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    Missed,
    /// There is no target for this one.
    Told,
}

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub struct Judged {
    /// `None`: over all sizes.
    pub n: Option<u32>,
    pub what: String,
    pub target: Option<f64>,
    pub measured: f64,
    pub verdict: Verdict,
    #[serde(skip)]
    digits: usize,
}

/// Figures of one size, being written down.
pub(super) struct Sheet {
    n: Option<u32>,
    pub(super) lines: Vec<Judged>,
}

impl Sheet {
    pub(super) fn new(n: Option<u32>) -> Self {
        Self {
            n,
            lines: Vec::new(),
        }
    }

    pub(super) fn tell(&mut self, what: &str, measured: f64, digits: usize) {
        self.put(what, measured, None, digits);
    }

    pub(super) fn at_most(&mut self, what: &str, measured: f64, target: f64, digits: usize) {
        self.put(what, measured, Some(target), digits);
    }

    fn put(&mut self, what: &str, measured: f64, target: Option<f64>, digits: usize) {
        let verdict = match target {
            None => Verdict::Told,
            Some(target) if measured <= target + SHARED => Verdict::Ok,
            Some(_) => Verdict::Missed,
        };
        self.lines.push(Judged {
            n: self.n,
            what: what.to_owned(),
            target,
            measured,
            verdict,
            digits,
        });
    }
}

/// Every figure beside its target.
pub fn judge(all: &[Figures]) -> Vec<Judged> {
    let mut lines: Vec<_> = all.iter().flat_map(of_one_size).collect();
    if let (Some(small), Some(large)) = (all.first(), all.last())
        && small.n < large.n
    {
        let each = |figures: &Figures| figures.mint.cpu_milliseconds_per(figures.n);
        let mut sheet = Sheet::new(None);
        let what = format!("CPU per credential, {} against {} (×)", large.n, small.n);
        sheet.at_most(&what, each(large) / each(small).max(0.001), GROWTH, 2);
        let each = |figures: &Figures| figures.rotation.seconds / f64::from(figures.rotated.max(1));
        let what = format!("time per rotation, {} against {} (×)", large.n, small.n);
        sheet.at_most(&what, each(large) / each(small).max(0.001), DEARER, 2);
        lines.append(&mut sheet.lines);
    }
    lines
}

#[expect(
    clippy::cast_precision_loss,
    reason = "requests of one run are far fewer than 2^52"
)]
fn of_one_size(figures: &Figures) -> Vec<Judged> {
    let (n, rotated) = (figures.n, figures.rotated);
    let mut s = Sheet::new(Some(n));
    let (mint, rotation) = (&figures.mint, &figures.rotation);
    s.tell("until all are Ready (s)", mint.seconds, 1);
    s.tell("rate to Ready (per s)", mint.rate(n), 0);
    s.at_most(
        "first mint, API-server requests",
        mint.api_per(n),
        MINT_API,
        2,
    );
    s.at_most(
        "first mint, issuer requests",
        mint.issuer_per(n),
        MINT_ISSUER,
        2,
    );
    s.at_most(
        "rotation with retirement, API-server requests",
        rotation.api_per(rotated),
        ROTATION_API,
        2,
    );
    s.at_most(
        "rotation with retirement, issuer requests",
        rotation.issuer_per(rotated),
        ROTATION_ISSUER,
        2,
    );
    s.tell(
        "of them for the retirement, API server (rotation less mint)",
        rotation.api_per(rotated) - mint.api_per(n),
        2,
    );
    s.tell(
        "of them for the retirement, issuer (rotation less mint)",
        rotation.issuer_per(rotated) - mint.issuer_per(n),
        2,
    );
    s.tell("credentials rotated at once", rotated.into(), 0);
    s.tell("until all are rotated (s)", rotation.seconds, 1);
    s.tell("CPU per first mint (ms)", mint.cpu_milliseconds_per(n), 2);
    s.tell(
        "CPU per rotation (ms)",
        rotation.cpu_milliseconds_per(rotated),
        2,
    );
    s.at_most(
        "memory at rest, RSS (MiB)",
        figures.rss_mebibytes,
        RSS_MEBIBYTES,
        1,
    );
    s.at_most(
        "memory at its peak (MiB)",
        figures.rss_peak_mebibytes,
        RSS_MEBIBYTES,
        1,
    );
    let rest = &figures.rest;
    s.tell("at rest: observed for (s)", rest.seconds, 0);
    s.at_most(
        "at rest: issuer requests",
        rest.issuer_requests as f64,
        0.0,
        0,
    );
    s.at_most("at rest: API-server writes", rest.api_writes as f64, 0.0, 0);
    s.tell("at rest: API-server requests", rest.api_requests as f64, 0);
    s.tell("at rest: CPU (ms)", rest.cpu_seconds * 1000.0, 0);
    let restart = &figures.restart;
    s.tell("restart: until warm (s)", restart.seconds, 1);
    s.at_most("restart: mints", figures.restart_mints as f64, 0.0, 0);
    s.at_most(
        "restart: Secret writes",
        restart.secret_writes as f64,
        0.0,
        0,
    );
    s.at_most(
        "restart: all API-server writes",
        restart.api_writes as f64,
        0.0,
        0,
    );
    s.tell(
        "restart: API-server requests per credential",
        restart.api_per(n),
        2,
    );
    s.tell(
        "restart: issuer requests (checks, spread over 10 minutes)",
        restart.issuer_requests as f64,
        0,
    );
    s.tell(
        "restart: CPU per credential (ms)",
        restart.cpu_milliseconds_per(n),
        2,
    );
    s.at_most(
        "restart: memory at its peak (MiB)",
        figures.restart_rss_peak_mebibytes,
        RSS_MEBIBYTES,
        1,
    );
    if let Some(planted) = figures.planted {
        let what = format!(
            "{} planted Secrets of 1 MB: more memory (MiB)",
            planted.number
        );
        s.at_most(&what, planted.more_mebibytes, PLANTED_MEBIBYTES, 1);
    }
    let (audited, answered) = (figures.audited as f64, figures.answered as f64);
    s.at_most(
        "audit log against apiserver_request_total, apart by (%)",
        (audited - answered).abs() * 100.0 / answered.max(1.0),
        DISAGREEMENT_PERCENT,
        2,
    );
    s.lines
}

/// For people.
pub fn table(all: &[Figures], judged: &[Judged]) -> String {
    use std::fmt::Write;
    let mut text = columns(judged);
    let mut put = |line: std::fmt::Arguments<'_>| {
        // Writing into a String does not fail.
        let _ = writeln!(text, "{line}");
    };
    put(format_args!(
        "\nRequests are the operator's own, by the API server's audit log; watches are not counted."
    ));
    for figures in all {
        put(format_args!(
            "n = {}, per first mint: {}",
            figures.n,
            figures.mint.breakdown(figures.n)
        ));
        put(format_args!(
            "n = {}, per rotation: {}",
            figures.n,
            figures.rotation.breakdown(figures.rotated)
        ));
        put(format_args!(
            "n = {}, while minting, all users: {} by the audit log, {} by apiserver_request_total",
            figures.n, figures.audited, figures.answered
        ));
    }
    text + &sum(judged)
}

/// A line for each figure, beside its target.
pub(super) fn columns(judged: &[Judged]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    let mut heading = None;
    let mut put = |line: std::fmt::Arguments<'_>| {
        // Writing into a String does not fail.
        let _ = writeln!(text, "{line}");
    };
    for line in judged {
        if heading != Some(line.n) {
            heading = Some(line.n);
            let title = line.n.map_or("over all".to_owned(), |n| format!("n = {n}"));
            put(format_args!(
                "\n{title:<62} {:>10} {:>10}",
                "target", "measured"
            ));
        }
        let digits = line.digits;
        let target = line
            .target
            .map_or(String::new(), |target| format!("≤ {target}"));
        let verdict = match line.verdict {
            Verdict::Ok => "ok",
            Verdict::Missed => "MISSED",
            Verdict::Told => "",
        };
        put(format_args!(
            "  {:<60} {target:>10} {:>10.digits$}  {verdict}",
            line.what, line.measured
        ));
    }
    text
}

/// How many targets were met.
pub(super) fn sum(judged: &[Judged]) -> String {
    let count = |verdict| judged.iter().filter(|line| line.verdict == verdict).count();
    let (met, missed) = (count(Verdict::Ok), count(Verdict::Missed));
    format!("{met} of {} targets met\n", met + missed)
}

#[cfg(test)]
pub(super) fn names_of_missed(judged: Vec<Judged>) -> Vec<String> {
    let judged = judged.into_iter();
    let missed = judged.filter(|line| line.verdict == Verdict::Missed);
    missed.map(|line| line.what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Phase;

    fn figures(n: u32, cpu_seconds: f64) -> Figures {
        let phase = |requests: u64| Phase {
            seconds: 1.0,
            cpu_seconds,
            api_requests: requests,
            ..Phase::default()
        };
        Figures {
            n,
            mint: phase(u64::from(n) * 9),
            rotated: n,
            rotation: phase(u64::from(n) * 17),
            rest: phase(0),
            restart: phase(0),
            restart_mints: 0,
            rss_mebibytes: 40.0,
            rss_peak_mebibytes: 50.0,
            restart_rss_peak_mebibytes: 30.0,
            planted: None,
            audited: 1000,
            answered: 1001,
        }
    }

    fn missed(all: &[Figures]) -> Vec<String> {
        names_of_missed(judge(all))
    }

    #[test]
    fn a_missed_target_is_named() {
        let one = [figures(10, 0.1)];
        assert_eq!(
            missed(&one),
            ["rotation with retirement, API-server requests"]
        );
        assert!(table(&one, &judge(&one)).contains("MISSED"));
    }

    #[test]
    fn growth_is_judged_between_the_smallest_and_the_largest() {
        let flat = [figures(10, 0.1), figures(100, 1.2)];
        assert_eq!(missed(&flat).len(), 2, "only the rotations");
        let steep = [figures(10, 0.1), figures(100, 1.5)];
        assert!(
            missed(&steep)
                .iter()
                .any(|what| what.starts_with("CPU per credential"))
        );
    }
}
