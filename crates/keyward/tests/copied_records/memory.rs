//! Whoever may create Secrets must not be able to fill the operator's memory.

use serde_json::json;
use testbed::apiserver::Verb;
use testbed::issuer::Kind;

use crate::people::at_rest;
use crate::stage::{NAME, NAMESPACE, OPERATOR, Stage};

const PLANTED: usize = 100;
const MEBIBYTE: usize = 1024 * 1024;

fn reads_of_planted(stage: &Stage) -> usize {
    let log = stage.server.faults().log();
    log.iter()
        .filter(|logged| {
            let line = &logged.line;
            line.user_agent == OPERATOR
                && line.verb == Verb::Get
                && line.resource == "secrets"
                && line.name.starts_with("planted-")
        })
        .count()
}

/// The most memory that this process ever had, in MiB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1));
    kibibytes.unwrap().parse::<usize>().unwrap() / 1024
}

#[tokio::test]
async fn of_many_large_secrets_with_its_label_only_the_metadata_is_read() {
    let (stage, operator, id) = at_rest(Kind::Chosen, false).await;
    let uid = stage.stored_as(NAME).unwrap()["metadata"]["uid"].clone();
    let large = "x".repeat(MEBIBYTE - 1024);
    operator.stop().await;
    for nth in 0..PLANTED {
        // Half of them say nothing of themselves, half that they are somewhere else.
        let source = json!({ "spec": {}, "namespace": "elsewhere" }).to_string();
        let annotations = if nth % 2 == 0 {
            json!({ "keyward.dev/version": format!("{}.1", 100 + nth) })
        } else {
            json!({ "keyward.dev/source": source })
        };
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": format!("planted-{nth}"),
                "labels": { "keyward.dev/owner-uid": uid, "keyward.dev/role": "final" },
                "annotations": annotations,
            },
            "immutable": true,
            "stringData": { "large": large },
        });
        stage.create_secret(NAMESPACE, secret).await;
    }
    // The peak is counted from here on.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak();
    let operator = stage.started_anew().await;
    stage
        .until("it has looked at what bears its label", || async {
            stage.clock.jump(3601);
            operator.engine.world().queue.timers.notify_one();
            let status = stage.stored_as(NAME).unwrap()["status"].to_string();
            status.contains("TooManySecrets")
        })
        .await;
    stage.live_on(&operator).await;
    let more = peak().saturating_sub(before);
    println!("{PLANTED} Secrets of 1 MiB: the peak rose by {more} MiB");
    assert!(more < PLANTED / 2, "the peak rose by {more} MiB");
    assert_eq!(reads_of_planted(&stage), 0, "read whole");
    assert!(stage.is_alive(&id));
    assert_eq!(stage.minted(), 1);
}
