//! Counting requests where they arrive: at the API server, never in the operator.

use std::collections::BTreeMap;

use anyhow::Context;
use regex::Regex;

use crate::controlplane::{ControlPlane, Request};

/// What somebody asked of the API server, by verb and resource, such as `patch democredentials/status`.
/// Watches are not in it: there are a few per operator, whatever the number of credentials.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts(BTreeMap<String, u64>);

impl Counts {
    pub(super) fn add(&mut self, request: &Request) {
        let what = format!("{} {}", request.verb, request.resource);
        *self.0.entry(what.trim_end().to_owned()).or_default() += 1;
    }

    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub(super) fn writes(&self) -> u64 {
        self.sum(is_write)
    }

    pub(super) fn secret_writes(&self) -> u64 {
        self.sum(|what| is_write(what) && what.ends_with(" secrets"))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn sum(&self, counts: impl Fn(&str) -> bool) -> u64 {
        let those = self.0.iter().filter(|(what, _)| counts(what));
        those.map(|(_, count)| count).sum()
    }

    pub(super) fn by_request(&self) -> &BTreeMap<String, u64> {
        &self.0
    }
}

fn is_write(what: &str) -> bool {
    let reads = ["get ", "list ", "watch "];
    !reads.iter().any(|read| what.starts_with(read))
}

/// Follows the audit log.
#[derive(Debug)]
pub(super) struct AuditTail<'a> {
    plane: &'a ControlPlane,
    user: &'a str,
    mark: u64,
    /// Of every user, to compare with the API server's own metrics.
    pub(super) everybody: u64,
}

impl<'a> AuditTail<'a> {
    /// From now on.
    pub(super) fn begin(plane: &'a ControlPlane, user: &'a str) -> anyhow::Result<Self> {
        let mark = std::fs::metadata(plane.audit_log())
            .context("looking at the audit log")?
            .len();
        Ok(Self {
            plane,
            user,
            mark,
            everybody: 0,
        })
    }

    /// What the user asked since the last time, without watches.
    pub(super) fn news(&mut self) -> anyhow::Result<Vec<Request>> {
        let (mut requests, mark) = self.plane.requests_after(self.mark)?;
        self.mark = mark;
        requests.retain(|request| request.complete && request.verb != "watch");
        let resources = requests.iter().filter(|one| !one.resource.is_empty());
        self.everybody += resources.count() as u64;
        requests.retain(|request| request.user == self.user);
        Ok(requests)
    }
}

/// All requests for resources that the API server has answered to anybody, by its metric
/// `apiserver_request_total`; watches left out.
pub(super) async fn answered(plane: &ControlPlane) -> anyhow::Result<u64> {
    Ok(answered_in(&plane.metrics().await?))
}

fn answered_in(metrics: &str) -> u64 {
    let sample = Regex::new(r"(?m)^apiserver_request_total\{([^}]*)\} ([0-9.e+]+)$")
        .expect("a valid expression");
    let total: f64 = sample
        .captures_iter(metrics)
        .filter(|found| {
            let labels = &found[1];
            !labels.contains(r#"resource="",scope"#)
                && !labels.contains(r#",resource="","#)
                && !labels.contains(r#"verb="WATCH""#)
        })
        .filter_map(|found| found[2].parse::<f64>().ok())
        .sum();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter of whole requests"
    )]
    let total = total as u64;
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: &str, resource: &str) -> Request {
        Request {
            verb: verb.into(),
            user: "u".into(),
            user_agent: String::new(),
            uri: String::new(),
            resource: resource.into(),
            namespace: String::new(),
            name: String::new(),
            code: 200,
            complete: true,
        }
    }

    #[test]
    fn writes_are_told_from_reads() {
        let mut counts = Counts::default();
        for (verb, resource) in [
            ("get", "secrets"),
            ("list", "secrets"),
            ("create", "secrets"),
            ("delete", "secrets"),
            ("patch", "democredentials/status"),
        ] {
            counts.add(&request(verb, resource));
        }
        assert_eq!(counts.total(), 5);
        assert_eq!(counts.writes(), 3);
        assert_eq!(counts.secret_writes(), 2);
    }

    #[test]
    fn the_servers_own_count_leaves_out_watches_and_what_is_no_resource() {
        let metrics = r#"# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="GET",version="v1"} 3
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="POST",version="v1"} 1.2e+06
apiserver_request_total{code="0",component="apiserver",dry_run="",group="",resource="secrets",scope="cluster",subresource="",verb="WATCH",version="v1"} 7
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 9
"#;
        assert_eq!(answered_in(metrics), 1_200_003);
    }
}
