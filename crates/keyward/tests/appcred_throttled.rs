//! Keystone asks one user to wait. Others are not held up, and least of all their revokes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::{Cloud, NAME, named};
use testbed::keystone;
use testbed::proxy::Fault;

const OTHER: &str = "ac-cinder";

#[tokio::test]
async fn a_pause_that_another_user_was_asked_for_delays_no_revoke() {
    let cloud = Cloud::new().await;
    let operator = cloud.operator().await;
    cloud.create().await;
    let mut other = named(OTHER);
    other["spec"]["userName"] = "cinder".into();
    other["spec"]["passwordSelector"] = "CinderPassword".into();
    cloud.create_this(other).await;
    for name in [NAME, OTHER] {
        cloud.until("both are ready", || cloud.settled(name)).await;
    }

    cloud.faults().next(keystone::CREATE, Fault::Throttle(600));
    cloud
        .annotate_named(OTHER, "keyward.dev/rotate", "now")
        .await;
    cloud
        .until("the other user is asked to wait", || async {
            cloud
                .faults()
                .count_where(|asked| asked.status == Some(429))
                == 1
        })
        .await;
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty(), "revoked, not given up");
    assert!(cloud.is_ready(OTHER).await);
    operator.stop().await;
}
