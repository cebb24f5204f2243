//! The contract suite over the in-process API server, without and with a socket.

use testbed::{
    apiserver::{Options, Server},
    contract,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_in_process_server_keeps_the_contract() {
    let server = Server::in_process(Options::default());
    report(contract::run(server.client(), "").await.unwrap());
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
    report(contract::run(client, "").await.unwrap());
}

/// Prints which cases ran, and fails naming those that did not pass.
fn report(outcomes: Vec<contract::Outcome>) {
    let mut broken = Vec::new();
    for outcome in &outcomes {
        match &outcome.result {
            Ok(()) => println!("ok    {} ({:?})", outcome.name, outcome.took),
            Err(why) => {
                println!("FAIL  {}: {why:#}", outcome.name);
                broken.push(outcome.name);
            }
        }
    }
    println!("{} cases, {} broken", outcomes.len(), broken.len());
    assert!(outcomes.len() >= 40 && broken.is_empty(), "{broken:?}");
}
