//! What annotations settle is part of what was asked for: it holds for a version as long as that lives, wherever the
//! resource points by then, and also when the resource is gone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::{Cloud, NAME};
use kube::api::{Patch, PatchParams};
use serde_json::json;

/// Somebody takes the finalizers off and deletes it: nothing of ours is asked any more.
async fn remove_by_force(cloud: &Cloud) {
    cloud.delete(NAME).await;
    let strip = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    // The operator may have come to the end of it in the meantime.
    let _ = cloud
        .appcreds()
        .patch(NAME, &PatchParams::default(), &strip)
        .await;
}

/// Every look at the remains of a resource, until it is forgotten.
async fn until_forgotten(cloud: &Cloud, operator: &cloud::Running) {
    let world = operator.engine.world();
    cloud
        .until("its Secrets were seen", || async {
            world.ready.missing() == 0
        })
        .await;
    let queue = &world.queue;
    cloud
        .until("nothing is left to look at", || async {
            cloud.clock.jump(60);
            queue.timers.notify_one();
            queue.load().0 == 0
        })
        .await;
}

#[tokio::test]
async fn what_was_to_be_kept_is_kept_after_a_removal_by_force_too() {
    for policy in ["Retain", "Orphan", "Revoke"] {
        let cloud = Cloud::new().await;
        let operator = cloud.operator().await;
        let mut object = cloud::example();
        object["metadata"]["annotations"]["keyward.dev/deletion-policy"] = policy.into();
        cloud.create_this(object).await;
        cloud.until_ready().await;
        // As when the whole operator is away: nobody sees the resource leave.
        operator.stop().await;
        remove_by_force(&cloud).await;
        cloud.until_gone(NAME).await;
        let operator = cloud.operator().await;
        until_forgotten(&cloud, &operator).await;
        let left = cloud.live().await.len();
        assert_eq!(left, usize::from(policy != "Revoke"), "{policy}");
    }
}
