//! The operator is killed with SIGKILL again and again while versions are handed over.

use std::time::{Duration, Instant};

use keyward::workloads::Sort;
use serde_json::json;
use testbed::controlplane::node::{LINGERS, READY_AFTER};

use crate::scene::Scene;

#[tokio::test]
async fn real_an_operator_that_is_killed_again_and_again_hands_over_all_the_same() {
    let mut scene = Scene::begin("follow-kill", &json!({})).await;
    let slow = json!({ READY_AFTER: "300", LINGERS: "300" });
    let sorts = [Sort::Deployment, Sort::StatefulSet, Sort::DaemonSet];
    for sort in sorts {
        scene.create(sort, sort.word(), &slow, &json!({})).await;
    }
    for sort in sorts {
        scene.until_at(sort, sort.word(), 1).await;
    }
    let mut kills = 0;
    for serial in 2..5u32 {
        scene.credential.rotate(&format!("to-{serial}")).await;
        let deadline = Instant::now() + Duration::from_mins(3);
        // Every pause is longer than the one before: it dies at another point each time, and comes to an end on any machine.
        let mut pause = Duration::from_millis(350 + u64::from(serial) * 37);
        loop {
            tokio::time::sleep(pause).await;
            let mut there = true;
            for sort in sorts {
                there &= scene.is_at(sort, sort.word(), serial).await;
            }
            if there {
                break;
            }
            assert!(Instant::now() < deadline, "no end of version {serial}");
            let mut operator = scene.operator.take().unwrap();
            operator.kill();
            kills += 1;
            scene.operator = Some(scene.launch.start());
            pause = pause.mul_f64(1.3);
        }
    }
    scene.until_alone(4).await;
    assert_eq!(scene.holders(4).await.len(), 3);
    assert!(kills >= 3, "{kills} kills");
    scene.assert_all_was_well();
}
