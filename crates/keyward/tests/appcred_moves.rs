//! A KeystoneAPI that is pointed elsewhere: to another Keystone, or to the same one under another name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::{Cloud, Issuer, NAME, Running};
use keyward::controllers::addresses::Allowed;
use keyward::engine::Options;
use testbed::keystone::{self, standin::StandIn};
use testbed::proxy::{self, Proxy};

/// An operator that may speak to whatever Keystone the KeystoneAPI points to.
async fn anywhere(cloud: &Cloud) -> Running {
    cloud
        .operator_reaching(Allowed::Any, Options::default())
        .await
}

/// The other one does not know the credential, which is no proof of anything.
#[tokio::test]
async fn what_another_keystone_made_is_not_said_to_be_revoked() {
    let cloud = Cloud::new().await;
    let _operator = anywhere(&cloud).await;
    cloud.create().await;
    cloud.until_ready().await;
    let first = cloud.handed_out().await;
    let other = StandIn::start(keystone::Options::default()).unwrap();
    cloud.keystone_api_points_to(&other.url(), true).await;
    cloud.delete(NAME).await;
    cloud
        .until("it is told", || {
            cloud.says(NAME, "Ready", "it was made at Keystone")
        })
        .await;
    assert_eq!(cloud.log_in(&first).await, 201);

    cloud.keystone_api_says(true).await;
    cloud.until_gone(NAME).await;
    assert_eq!(cloud.log_in(&first).await, 404);
}

#[tokio::test]
async fn a_keystone_under_another_name_ends_what_it_made_before() {
    let cloud = Cloud::new().await;
    let _operator = anywhere(&cloud).await;
    cloud.create().await;
    cloud.until_ready().await;
    let first = cloud.handed_out().await;
    let Issuer::StandIn(keystone) = &cloud.issuer else {
        panic!("it was set up so");
    };
    let renamed = Proxy::start(&keystone.url(), proxy::Options::default()).unwrap();
    cloud.keystone_api_points_to(&renamed.url(), true).await;
    cloud.annotate("keyward.dev/rotate", "1").await;
    let second = cloud.until_rotated_from(&first.0).await;
    cloud.until_ready().await;
    assert_eq!(cloud.log_in(&first).await, 404);
    assert_eq!(cloud.live_ids().await, [second]);
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}
