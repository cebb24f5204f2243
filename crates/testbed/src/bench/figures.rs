//! What was measured.

use std::collections::BTreeMap;

use serde::Serialize;

use super::requests::Counts;

/// Everything measured with one number of credentials.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub n: u32,
    /// From the start of the operator until all were Ready.
    pub mint: Phase,
    /// How many were rotated, all at once.
    pub rotated: u32,
    /// From the first request for a rotation until all old versions were revoked.
    pub rotation: Phase,
    pub rest: Phase,
    /// From the start of the second process until it was ready and had looked at every credential.
    pub restart: Phase,
    /// `Mint` requests at the issuer during the restart.
    pub restart_mints: u64,
    /// Memory in MiB once all were Ready and rotated, at rest.
    pub rss_mebibytes: f64,
    /// The most memory the first process ever had.
    pub rss_peak_mebibytes: f64,
    /// The most memory the second process had until it was warm.
    pub restart_rss_peak_mebibytes: f64,
    /// Where Secrets were put beside one of them.
    pub planted: Option<Planted>,
    /// While minting, of all users: by the audit log, and by the API server's own metrics.
    pub audited: u64,
    pub answered: u64,
}

/// Secrets of a megabyte with a forged label, beside a credential that was then rotated.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Planted {
    pub number: u32,
    /// By how much the most memory that the process ever had grew.
    pub more_mebibytes: f64,
}

/// A stretch of time, and what the operator asked for in it.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Phase {
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Requests to the API server, watches left out.
    pub api_requests: u64,
    pub api_writes: u64,
    pub secret_writes: u64,
    pub issuer_requests: u64,
    /// The same requests to the API server, by verb and resource.
    pub by_request: BTreeMap<String, u64>,
}

impl Phase {
    pub(super) fn count(&mut self, counts: &Counts) {
        self.api_requests = counts.total();
        self.api_writes = counts.writes();
        self.secret_writes = counts.secret_writes();
        self.by_request.clone_from(counts.by_request());
    }

    pub(super) fn api_per(&self, credentials: u32) -> f64 {
        ratio(self.api_requests, credentials)
    }

    pub(super) fn issuer_per(&self, credentials: u32) -> f64 {
        ratio(self.issuer_requests, credentials)
    }

    pub(super) fn cpu_milliseconds_per(&self, credentials: u32) -> f64 {
        self.cpu_seconds * 1000.0 / f64::from(credentials.max(1))
    }

    pub(super) fn rate(&self, credentials: u32) -> f64 {
        f64::from(credentials) / self.seconds.max(0.001)
    }

    /// Each kind of request, per credential, the most frequent first; what is asked only now and then is left out.
    pub(super) fn breakdown(&self, credentials: u32) -> String {
        let mut parts: Vec<_> = self
            .by_request
            .iter()
            .map(|(what, count)| (ratio(*count, credentials), what))
            .filter(|(each, _)| *each >= 0.01)
            .collect();
        parts.sort_by(|one, other| other.0.total_cmp(&one.0));
        let parts: Vec<_> = parts
            .iter()
            .map(|(each, what)| format!("{each:.2} {what}"))
            .collect();
        parts.join(", ")
    }
}

fn ratio(count: u64, credentials: u32) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "requests of one run are far fewer than 2^52"
    )]
    let count = count as f64;
    count / f64::from(credentials.max(1))
}
