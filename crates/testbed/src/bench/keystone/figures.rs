//! What was measured.

use std::collections::BTreeMap;

use serde::Serialize;

/// Everything measured with one number of credentials.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub n: u32,
    /// Over so many users of Keystone.
    pub users: usize,
    pub rounds: Vec<Round>,
}

/// Each of the three once, and a rotation of everything by the operator.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    pub bare: Sample,
    pub verifying: Sample,
    pub mint: Sample,
    pub rotation: Sample,
}

/// One stretch of work.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// From its beginning until all were Ready.
    pub seconds: f64,
    /// Of Keystone's one worker: what it cost the issuer, however busy the machine was.
    pub keystone_cpu_seconds: f64,
    /// Of the operator; a floor has none of its own.
    pub operator_cpu_seconds: f64,
    pub keystone_requests: BTreeMap<String, u64>,
    /// Watches left out.
    pub api_requests: u64,
    pub api_by_request: BTreeMap<String, u64>,
}

impl Sample {
    pub(super) fn at_keystone(&self) -> u64 {
        self.keystone_requests.values().sum()
    }

    pub(super) fn at_keystone_for(&self, kind: &str) -> u64 {
        self.keystone_requests
            .get(kind)
            .copied()
            .unwrap_or_default()
    }
}

impl Figures {
    /// The middle one of the rounds. A machine among others is faster at one time and slower at another, so that the least
    /// of each would compare the luck of one with that of the other.
    pub(super) fn middle(&self, what: impl Fn(&Round) -> f64) -> f64 {
        let mut all: Vec<f64> = self.rounds.iter().map(what).collect();
        all.sort_by(f64::total_cmp);
        // Of an even number the worse one of the two.
        all.get(all.len() / 2).copied().unwrap_or(f64::INFINITY)
    }

    /// The most requests per credential over the rounds: what a count must never exceed.
    pub(super) fn most_each(
        &self,
        of: impl Fn(&Round) -> &Sample,
        requests: impl Fn(&Sample) -> u64,
    ) -> f64 {
        let all = self.rounds.iter().map(|round| requests(of(round)));
        count(all.max().unwrap_or_default()) / f64::from(self.n.max(1))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "requests of one run are far fewer than 2^52"
)]
pub(super) fn count(requests: u64) -> f64 {
    requests as f64
}
