//! The contract suite over the in-process API server, without and with a socket.

use testbed::{
    apiserver::{Options, Server},
    contract,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_in_process_server_keeps_the_contract() {
    let server = Server::in_process(Options::default());
    let report = contract::run(server.client(), "").await.unwrap();
    println!("{report}");
    assert!(
        report.0.len() >= 100 && report.broken().is_empty(),
        "{:?}",
        report.broken()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_over_https() {
    let server = Server::start(Options {
        tls: true,
        ..Options::default()
    })
    .await
    .unwrap();
    let client = kube::Client::try_from(server.kube_config().unwrap()).unwrap();
    let report = contract::run(client, "").await.unwrap();
    println!("{report}");
    assert!(report.broken().is_empty(), "{:?}", report.broken());
}
