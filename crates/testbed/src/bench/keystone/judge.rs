//! What was hoped for, and whether it is so.

use std::collections::BTreeMap;

use super::super::judge::{Judged, Sheet, columns, sum};
use super::figures::{Figures, Round, Sample, count};
use crate::keystone::{CREATE, DELETE, LIST, LOGIN_BY_APPLICATION_CREDENTIAL, LOGIN_BY_PASSWORD};

/// The ratios are judged from here on; below, the start of a process is a part of them.
const LARGE: u32 = 1000;
const OF_VERIFYING: f64 = 1.2;
const OF_BARE: f64 = 1.8;
/// A floor that takes longer than what stands on it was measured while the machine was busy with something else.
const FLOOR_ABOVE: f64 = 1.05;
/// Beyond the login that all of a user share.
const MINT_KEYSTONE: f64 = 3.0;
const MINT_API: f64 = 12.0;

/// Every figure beside its target.
pub fn judge(all: &[Figures]) -> Vec<Judged> {
    all.iter().flat_map(of_one_size).collect()
}

/// One of the four stretches of a round.
type Stretch = fn(&Round) -> &Sample;
const BARE: Stretch = |round| &round.bare;
const VERIFYING: Stretch = |round| &round.verifying;
const MINT: Stretch = |round| &round.mint;
const ROTATION: Stretch = |round| &round.rotation;

/// What a stretch took.
type Took = fn(&Sample) -> f64;
const SECONDS: Took = |one| one.seconds;
const KEYSTONE_CPU: Took = |one| one.keystone_cpu_seconds;
const OPERATOR_CPU: Took = |one| one.operator_cpu_seconds;

fn of_one_size(figures: &Figures) -> Vec<Judged> {
    let mut s = Sheet::new(Some(figures.n));
    s.tell("rounds", count(figures.rounds.len() as u64), 0);
    times(&mut s, figures);
    ratios(&mut s, figures);
    cpu(&mut s, figures);
    s.tell(
        "rotation of all, until the old are revoked (s)",
        middle(figures, ROTATION, SECONDS),
        1,
    );
    requests(&mut s, figures);
    s.lines
}

fn middle(figures: &Figures, stretch: Stretch, took: Took) -> f64 {
    figures.middle(|round| took(stretch(round)))
}

fn times(s: &mut Sheet, figures: &Figures) {
    for (what, stretch) in [
        ("bare floor, until all are Ready (s)", BARE),
        ("verifying floor, until all are Ready (s)", VERIFYING),
        ("operator, until all are Ready (s)", MINT),
    ] {
        s.tell(what, middle(figures, stretch, SECONDS), 1);
    }
}

/// They are taken within a round, whose runs are minutes apart, and not between rounds.
fn ratios(s: &mut Sheet, figures: &Figures) {
    let large = figures.n >= LARGE;
    let mut ratio = |what: &str, took: Took, [one, other]: [Stretch; 2], target: Option<f64>| {
        let ratio = figures.middle(|round| took(one(round)) / took(other(round)));
        match target.filter(|_| large) {
            Some(target) => s.at_most(what, ratio, target, 2),
            None => s.tell(what, ratio, 2),
        }
    };
    ratio(
        "operator / verifying floor",
        SECONDS,
        [MINT, VERIFYING],
        Some(OF_VERIFYING),
    );
    ratio(
        "operator / bare floor",
        SECONDS,
        [MINT, BARE],
        Some(OF_BARE),
    );
    if large {
        ratio(
            "verifying floor / operator (more: too busy to tell)",
            SECONDS,
            [VERIFYING, MINT],
            Some(FLOOR_ABOVE),
        );
        ratio(
            "bare floor / verifying floor (more: too busy to tell)",
            SECONDS,
            [BARE, VERIFYING],
            Some(FLOOR_ABOVE),
        );
    }
    ratio(
        "Keystone's CPU, operator / verifying floor",
        KEYSTONE_CPU,
        [MINT, VERIFYING],
        Some(OF_VERIFYING),
    );
    ratio(
        "Keystone's CPU, operator / bare floor",
        KEYSTONE_CPU,
        [MINT, BARE],
        None,
    );
}

fn cpu(s: &mut Sheet, figures: &Figures) {
    let each = 1e3 / f64::from(figures.n.max(1));
    for (what, stretch, of) in [
        ("Keystone's CPU, bare floor (ms each)", BARE, KEYSTONE_CPU),
        (
            "Keystone's CPU, verifying floor (ms each)",
            VERIFYING,
            KEYSTONE_CPU,
        ),
        ("Keystone's CPU, operator (ms each)", MINT, KEYSTONE_CPU),
        ("Keystone's CPU, rotation (ms each)", ROTATION, KEYSTONE_CPU),
        (
            "operator's own CPU, first mint (ms each)",
            MINT,
            OPERATOR_CPU,
        ),
    ] {
        s.tell(what, middle(figures, stretch, of) * each, 2);
    }
}

fn requests(s: &mut Sheet, figures: &Figures) {
    let of_kind = |stretch: Stretch, kind: &str| {
        figures.most_each(stretch, |one: &Sample| one.at_keystone_for(kind))
    };
    s.at_most(
        "first mint, Keystone requests beyond the shared login",
        figures.most_each(MINT, |one| {
            one.at_keystone() - one.at_keystone_for(LOGIN_BY_PASSWORD)
        }),
        MINT_KEYSTONE,
        2,
    );
    s.tell("of them lists", of_kind(MINT, LIST), 3);
    s.tell(
        "logins by password, in all",
        of_kind(MINT, LOGIN_BY_PASSWORD) * f64::from(figures.n.max(1)),
        0,
    );
    s.at_most(
        "first mint, API-server requests",
        figures.most_each(MINT, |one| one.api_requests),
        MINT_API,
        2,
    );
    s.tell(
        "rotation with retirement, Keystone requests",
        figures.most_each(ROTATION, Sample::at_keystone),
        2,
    );
    for (what, kind) in [
        ("of them lists", LIST),
        ("of them creates", CREATE),
        (
            "of them logins by application credential",
            LOGIN_BY_APPLICATION_CREDENTIAL,
        ),
        ("of them deletes", DELETE),
    ] {
        s.tell(what, of_kind(ROTATION, kind), 3);
    }
    s.tell(
        "rotation with retirement, API-server requests",
        figures.most_each(ROTATION, |one| one.api_requests),
        2,
    );
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
        "\nTimes, CPU and ratios are the middle one of the rounds, counts the most. Each round, in seconds (Keystone's CPU):"
    ));
    for figures in all {
        for round in &figures.rounds {
            let one =
                |one: &Sample| format!("{:.1} ({:.1})", one.seconds, one.keystone_cpu_seconds);
            put(format_args!(
                "n = {}: bare {}, verifying {}, operator {}, rotation {}",
                figures.n,
                one(&round.bare),
                one(&round.verifying),
                one(&round.mint),
                one(&round.rotation)
            ));
        }
        let Some(last) = figures.rounds.last() else {
            continue;
        };
        for (what, one) in [
            ("bare floor", &last.bare),
            ("verifying floor", &last.verifying),
            ("first mint", &last.mint),
            ("rotation", &last.rotation),
        ] {
            let n = figures.n;
            let keystone = breakdown(&one.keystone_requests, n);
            let api = breakdown(&one.api_by_request, n);
            put(format_args!("n = {n}, {what}, at Keystone: {keystone}"));
            put(format_args!("n = {n}, {what}, at the API server: {api}"));
        }
    }
    text + &sum(judged)
}

/// Each kind of request, per credential, the most frequent first.
fn breakdown(requests: &BTreeMap<String, u64>, n: u32) -> String {
    let mut parts: Vec<_> = requests
        .iter()
        .map(|(what, requests)| (count(*requests) / f64::from(n.max(1)), what))
        .collect();
    parts.sort_by(|one, other| other.0.total_cmp(&one.0));
    let parts: Vec<_> = parts
        .iter()
        .map(|(each, what)| format!("{each:.3} {what}"))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::super::judge::names_of_missed;
    use super::*;

    fn figures(n: u32, seconds: [f64; 3]) -> Figures {
        let sample = |seconds, each: &[(&str, u32)]| Sample {
            seconds,
            keystone_cpu_seconds: seconds,
            keystone_requests: each
                .iter()
                .map(|(kind, each)| ((*kind).to_owned(), u64::from(each * n)))
                .collect(),
            api_requests: u64::from(n) * 11,
            ..Sample::default()
        };
        let mint = [
            (CREATE, 1),
            (LOGIN_BY_APPLICATION_CREDENTIAL, 1),
            (LOGIN_BY_PASSWORD, 5),
        ];
        Figures {
            n,
            users: 5,
            rounds: vec![Round {
                bare: sample(seconds[0], &[(CREATE, 1)]),
                verifying: sample(seconds[1], &[(CREATE, 1)]),
                mint: sample(seconds[2], &mint),
                rotation: sample(seconds[2], &mint),
            }],
        }
    }

    fn missed(all: &[Figures]) -> Vec<String> {
        names_of_missed(judge(all))
    }

    #[test]
    fn the_ratios_are_judged_where_they_mean_something() {
        assert!(missed(&[figures(50, [1.0, 1.0, 9.0])]).is_empty());
        assert!(missed(&[figures(1000, [20.0, 30.0, 35.0])]).is_empty());
        assert_eq!(
            missed(&[figures(1000, [20.0, 30.0, 37.0])]),
            [
                "operator / verifying floor",
                "operator / bare floor",
                "Keystone's CPU, operator / verifying floor"
            ]
        );
    }

    #[test]
    fn one_lucky_round_decides_nothing() {
        let mut all = figures(1000, [20.0, 30.0, 35.0]);
        let lucky = figures(1000, [13.0, 30.0, 35.0]).rounds.remove(0);
        all.rounds = vec![lucky, all.rounds[0].clone(), all.rounds[0].clone()];
        assert!(missed(&[all.clone()]).is_empty());
        all.rounds.remove(2);
        assert_eq!(
            missed(&[all]),
            ["operator / bare floor"],
            "of two the worse"
        );
    }

    #[test]
    fn what_is_faster_than_its_floor_was_not_measured_at_all() {
        assert_eq!(
            missed(&[figures(1000, [20.0, 30.0, 25.0])]),
            ["verifying floor / operator (more: too busy to tell)"]
        );
        assert_eq!(
            missed(&[figures(1000, [65.5, 54.8, 63.9])]),
            ["bare floor / verifying floor (more: too busy to tell)"]
        );
    }

    #[test]
    fn logins_by_password_are_shared_and_no_part_of_a_mint() {
        let all = [figures(50, [1.0, 1.0, 1.0])];
        let judged = judge(&all);
        let beyond = judged
            .iter()
            .find(|line| line.what.starts_with("first mint, Keystone"));
        assert!(beyond.is_some_and(|line| (line.measured - 2.0).abs() < 1e-9));
        assert!(table(&all, &judged).contains("1.000 POST"));
    }
}
