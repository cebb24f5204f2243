//! The contract suite over the real kube-apiserver.

use testbed::{contract, controlplane::ControlPlane};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_server_keeps_the_contract() {
    let plane = ControlPlane::start().await.unwrap();
    let report = contract::run(plane.client(), "").await.unwrap();
    println!("{report}");
    assert!(report.broken().is_empty(), "{:?}", report.broken());
}
