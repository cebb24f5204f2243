//! `/livez`, `/readyz`, `/metrics`.

use serde_json::json;
use testbed::apiserver::{Fault, Verb};

use crate::log::Log;
use crate::program::{Cluster, eventually};

pub(crate) const SERVING: [&str; 4] = ["--listen", "127.0.0.1:0", "--log-format", "json"];

async fn get(address: &str, path: &str) -> (u16, String) {
    sources::http::install_crypto();
    let client = reqwest::Client::builder()
        .tls_certs_only([])
        .build()
        .unwrap();
    let request = client.get(format!("http://{address}{path}"));
    let reply = request.send().await.unwrap();
    (reply.status().as_u16(), reply.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_are_served() {
    let cluster = Cluster::start().await;
    let mut operator = cluster.operator(&SERVING);
    let address = Log::of(&mut operator).address().await;
    assert_eq!(get(&address, "/livez").await, (200, "ok".to_owned()));
    eventually("readiness", || async {
        get(&address, "/readyz").await == (200, "ok".to_owned())
    })
    .await;
    cluster.create(json!({})).await;
    cluster.until_version("1.1").await;
    let metrics = get(&address, "/metrics").await.1;
    assert!(metrics.contains(r#"step="mint""#), "{metrics}");
}

/// The API server refuses to list in these namespaces.
pub(crate) fn forbid(cluster: &Cluster, namespaces: &'static [&'static str]) {
    cluster.server.faults().plan(move |line| {
        let forbidden = line.verb == Verb::List && namespaces.contains(&line.namespace.as_str());
        if forbidden {
            Fault::Error(403)
        } else {
            Fault::Pass
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_may_not_be_watched_is_named_and_takes_nothing_from_the_others() {
    let cluster = Cluster::start().await;
    forbid(&cluster, &["team-a", "team-b"]);
    let all = [&["--namespaces", "team-a,team-b"][..], &SERVING].concat();
    let mut operator = cluster.operator(&all);
    let log = Log::of(&mut operator);
    let address = log.address().await;
    eventually("that nothing can be done", || async {
        let (code, said) = get(&address, "/readyz").await;
        code == 503 && said.lines().count() == 5
    })
    .await;

    forbid(&cluster, &["team-b"]);
    let refused = "the API server refused (403 Forbidden); grant the operator list and watch on it";
    let wanted = format!(
        "ok, but not everywhere. Not watched:\n  democredentials in namespace team-b: {refused}\n  secrets in namespace team-b: {refused}\n"
    );
    eventually("that one namespace is looked after", || async {
        get(&address, "/readyz").await == (200, wanted.clone())
    })
    .await;
    cluster.create(json!({})).await;
    cluster.until_version("1.1").await;
    let shown = get(&address, "/metrics").await.1;
    let up = |watch: &str, namespace: &str| {
        let labels = format!(
            r#"keyward_watch_up{{namespace="{namespace}",watch="{watch}",otel_scope_name="keyward"}} "#
        );
        let line = shown.lines().find_map(|line| line.strip_prefix(&labels));
        line.map(str::to_owned)
    };
    for watch in ["democredentials", "secrets"] {
        assert_eq!(up(watch, "team-a").as_deref(), Some("1"), "{shown}");
        assert_eq!(up(watch, "team-b").as_deref(), Some("0"), "{shown}");
    }

    cluster.server.faults().clear();
    eventually("that all is well", || async {
        get(&address, "/readyz").await == (200, "ok".to_owned())
    })
    .await;
}

/// A Deployment waits for the new replica before it ends the old one, which has the lease.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_the_lease_is_ready_to_take_it() {
    let cluster = Cluster::start().await;
    let lease = ["--lease", "on", "--lease-namespace", "kube-system"];
    let all = [&lease[..], &SERVING].concat();
    let mut first = cluster.operator(&all);
    let first_log = Log::of(&mut first);
    first_log.until("leading").await;
    let mut second = cluster.operator(&all);
    let address = Log::of(&mut second).address().await;
    let standing_by = (200, "ok: another replica has the lease".to_owned());
    eventually("that it stands by", || async {
        get(&address, "/readyz").await == standing_by
    })
    .await;

    // Who may not even ask for it is of no use to anybody.
    cluster.server.faults().plan(|line| {
        if line.resource == "leases" {
            Fault::Error(403)
        } else {
            Fault::Pass
        }
    });
    let mut third = cluster.operator(&all);
    let log = Log::of(&mut third);
    let address = log.address().await;
    let refused = "the API server answered 403";
    eventually("that it cannot", || async {
        get(&address, "/readyz").await == (503, format!("the lease cannot be acquired: {refused}"))
    })
    .await;
    let told = log.with("lease not renewed");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["trouble"], refused);
}
