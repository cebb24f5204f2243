//! What the lines of the log say, and how often.

use serde_json::json;

use crate::health::{SERVING, forbid};
use crate::log::Log;
use crate::program::{self, Cluster, eventually};

/// The tries go on, and say nothing new.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_api_server_refuses_is_one_line_in_the_log_and_one_when_it_is_over() {
    let cluster = Cluster::start().await;
    forbid(&cluster, &["team-b"]);
    let all = [&["--namespaces", "team-b"][..], &SERVING].concat();
    let mut operator = cluster.operator(&all);
    let log = Log::of(&mut operator);
    eventually("several tries", || async {
        let log = cluster.server.faults().log();
        let refused = log.iter().filter(|logged| logged.status == Some(403));
        refused.count() >= 6
    })
    .await;
    cluster.server.faults().clear();
    eventually("that it is over", || async {
        log.with("the watch stands again").len() == 2
    })
    .await;
    let told = log.with("a watch is interrupted; it is tried again");
    assert_eq!(told.len(), 2, "{told:#?}");
    for line in &told {
        assert_eq!(line["namespace"], "team-b");
        assert_eq!(
            line["trouble"],
            "the API server refused (403 Forbidden); grant the operator list and watch on it"
        );
    }
    for line in log.lines() {
        assert!(!line.contains("Status {"), "{line}");
    }
}

/// Whoever reads logs looks for a resource, whichever part of the operator wrote the line.
#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_a_pass_says_whose_it_is() {
    let cluster = Cluster::start().await;
    let refused = testbed::issuer::Fault::Error(403);
    cluster
        .issuer
        .faults()
        .next(testbed::issuer::Verb::Mint, refused);
    let mut operator = cluster.operator(&["--log-format", "json"]);
    let log = Log::of(&mut operator);
    cluster.create(json!({})).await;
    let mut failed = log.until("failed").await;
    let mut drafted = log
        .with("done")
        .into_iter()
        .find(|done| done["step"] == "draft");
    for (line, level, rest) in [
        (
            &mut failed,
            "WARN",
            json!({ "message": "failed", "step": "mint" }),
        ),
        (
            drafted.as_mut().unwrap(),
            "INFO",
            json!({ "message": "done", "step": "draft" }),
        ),
    ] {
        let fields = line.as_object_mut().unwrap();
        assert!(fields.remove("timestamp").is_some());
        fields.remove("trouble");
        let mut wanted = json!({
            "level": level, "target": "keyward::rotation::pass",
            "kind": "DemoCredential", "namespace": program::NAMESPACE, "name": program::NAME,
            "version": "1.1", "reason": "FirstMint",
        });
        wanted
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        assert_eq!(*line, wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn as_text_and_with_warnings_only_it_says_so_as_well() {
    let cluster = Cluster::start().await;
    let refused = testbed::issuer::Fault::Error(403);
    cluster
        .issuer
        .faults()
        .next(testbed::issuer::Verb::Mint, refused);
    let mut operator = cluster.operator(&["--log-level", "warn"]);
    let log = Log::of(&mut operator);
    cluster.create(json!({})).await;
    eventually("the failure", || async {
        log.lines().iter().any(|line| line.contains("failed"))
    })
    .await;
    let lines = log.lines();
    let line = lines.iter().find(|line| line.contains("failed")).unwrap();
    for field in [
        r#"kind="DemoCredential""#,
        r#"namespace="team-a""#,
        r#"name="db""#,
        r#"step="mint""#,
        r#"version="1.1""#,
    ] {
        assert_eq!(line.matches(field).count(), 1, "{field}: {line}");
    }
}
