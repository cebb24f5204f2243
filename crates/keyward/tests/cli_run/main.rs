//! `keyward run` as a process: start, health, logs, the end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod health;
mod lines;
mod log;
#[path = "../program/mod.rs"]
mod program;

use std::time::{Duration, Instant};

use log::log_until;
use program::{Cluster, eventually, run, signal};
use serde_json::{Value, json};
use testbed::canary::Canaries;
use tokio::io::AsyncReadExt;

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_leaves_no_core_file() {
    let cluster = Cluster::start().await;
    let mut operator = cluster.operator(&["--log-format", "json"]);
    log_until(&mut operator, "starting").await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", operator.id().unwrap()));
    let limits = limits.unwrap();
    let core = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max core file size"));
    let words: Vec<&str> = core.unwrap().split_whitespace().collect();
    assert_eq!(words, ["0", "0", "bytes"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_log_level_shows_a_value() {
    let cluster = Cluster::start().await;
    let level = "trace,hyper=trace,h2=trace,kube=trace,rustls=trace,reqwest=trace";
    let mut operator = cluster.operator(&["--log-level", level]);
    let mut pipe = operator.stderr.take().expect("stderr is piped");
    let reading = tokio::spawn(async move {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).await.map(|_| text)
    });
    cluster.create(json!({})).await;
    cluster.until_version("1.1").await;
    let rotated = cluster
        .keyward(&["rotate", "democred/db", "-n", program::NAMESPACE, "--wait"])
        .await;
    assert_eq!(rotated.code, 0, "{}", rotated.err);
    let explained = cluster
        .keyward(&[
            "explain",
            "democred/db",
            "-n",
            program::NAMESPACE,
            "-o",
            "json",
        ])
        .await;
    cluster.delete().await;
    eventually("its end", || async {
        cluster.issuer.live("realm").is_empty()
    })
    .await;
    signal(&operator, "-TERM").await;
    assert!(operator.wait().await.unwrap().success());
    let log = reading.await.unwrap().unwrap();

    let canaries = Canaries::new();
    for (index, value) in cluster.issuer.every_value().iter().enumerate() {
        canaries.add(&format!("value {index}"), value.reveal());
    }
    assert!(canaries.len() >= 3, "two versions and a login");
    assert!(log.len() > 1000, "{} bytes", log.len());
    canaries.assert_absent("the log", &log);
    canaries.assert_absent("explain", explained.out.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_installed_is_named_and_taken_up_when_it_comes() {
    let cluster = Cluster::bare().await;
    let mut operator = cluster.operator(&["--log-format", "json"]);
    let missing = "this kind is not installed; `keyward crds | kubectl apply --server-side -f -` installs it, and it is then taken up";
    let log = log_until(&mut operator, missing).await;
    assert_eq!(log.last().unwrap()["kind"], "DemoCredential");
    cluster.furnish().await;
    cluster.create(json!({})).await;
    cluster.until_version("1.1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_signal_ends_it_in_order() {
    let cluster = Cluster::start().await;
    for name in ["-TERM", "-INT"] {
        let mut operator = cluster.operator(&["--log-format", "json"]);
        log_until(&mut operator, "starting").await;
        eventually("the first request", || async {
            cluster.server.faults().log().iter().any(|logged| {
                logged.line.user_agent.starts_with("keyward/") && logged.line.resource == "secrets"
            })
        })
        .await;
        signal(&operator, name).await;
        let begun = Instant::now();
        let status = tokio::time::timeout(Duration::from_secs(10), operator.wait()).await;
        assert_eq!(status.unwrap().unwrap().code(), Some(0), "{name}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_lease_it_leads_and_gives_the_lease_back() {
    let cluster = Cluster::start().await;
    let mut operator = cluster.operator(&["--lease", "on", "--lease-namespace", "kube-system"]);
    cluster.create(json!({})).await;
    cluster.until_version("1.1").await;
    let holder = || {
        let leases = cluster.server.objects("leases.coordination.k8s.io");
        leases
            .first()
            .map(|lease| lease["spec"]["holderIdentity"].clone())
    };
    assert!(holder().is_some_and(|holder| holder.is_string()));
    signal(&operator, "-TERM").await;
    assert!(operator.wait().await.unwrap().success());
    assert_eq!(holder(), Some(Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_namespaces_are_left_alone() {
    let cluster = Cluster::start().await;
    let _operator = cluster.operator(&["--namespaces", "default,team-b"]);
    cluster.create(json!({})).await;
    eventually("its watches", || async {
        let log = cluster.server.faults().log();
        log.iter()
            .filter(|logged| logged.line.namespace == "team-b")
            .count()
            > 0
    })
    .await;
    assert_eq!(cluster.version().await, None);
    let log = cluster.server.faults().log();
    let ours = log
        .iter()
        .filter(|logged| logged.line.user_agent.starts_with("keyward/"));
    for logged in ours {
        assert_ne!(logged.line.namespace, program::NAMESPACE, "{}", logged.line);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_never_answers_is_given_up_in_the_end() {
    let cluster = Cluster::start().await;
    cluster.server.stop();
    let ended = cluster
        .keyward(&[
            "run",
            "--controllers",
            "demo",
            "--start-timeout",
            "1s",
            "--listen",
            "off",
        ])
        .await;
    assert_eq!(ended.code, 6, "{}", ended.err);
    assert!(
        ended
            .err
            .contains("the API server cannot be used yet; trying again"),
        "{}",
        ended.err
    );
    assert!(
        ended.err.contains("error: gave up after 1s: "),
        "{}",
        ended.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_comes_late_is_waited_for() {
    let cluster = Cluster::start().await;
    cluster.server.stop();
    let mut operator = cluster.operator(&["--log-format", "json"]);
    log_until(
        &mut operator,
        "the API server cannot be used yet; trying again",
    )
    .await;
    cluster.server.restart().await.unwrap();
    cluster.create(json!({})).await;
    cluster.until_version("1.1").await;
}

#[tokio::test]
async fn an_unknown_controller_or_log_level_is_a_wrong_usage() {
    let ended = run(None, &["run", "--controllers", "demo,nope"]).await;
    assert_eq!(
        (ended.code, ended.err.as_str()),
        (
            2,
            "error: there is no controller named nope; there are: appcred, controlplane, nodeset, gitlab, ceph, credentialsrequest, demo, follow\n"
        )
    );
    let ended = run(
        None,
        &[
            "run",
            "--controllers",
            "demo",
            "--log-level",
            "keyward=loud",
        ],
    )
    .await;
    assert_eq!(ended.code, 2, "{}", ended.err);
    let ended = run(None, &["run", "--listen", "everywhere"]).await;
    assert_eq!(ended.code, 2, "{}", ended.err);
}
