//! Who may only write the neighbour through which an issuer is found.

use testbed::keystone;

use crate::cloud::openings::ready;
use crate::cloud::{CONSUMER, Cloud, NAME, Running};

/// The example at rest and held, and its login as a consumer has it.
async fn held() -> (Cloud, Running, String, (String, String)) {
    let (cloud, operator, id) = ready().await;
    let secret = cloud.text("secretName").await;
    assert!(cloud.hold(&secret, CONSUMER).await);
    let login = cloud.handed_out().await;
    (cloud, operator, id, login)
}

#[tokio::test]
async fn whoever_may_only_write_the_keystone_api_gets_no_password_and_ends_nothing() {
    let (cloud, operator, id, login) = held().await;
    let his = keystone::standin::StandIn::start(keystone::Options::default()).unwrap();
    let urls = [
        his.url(),
        "https://keystone.example:5000".to_owned(),
        "http://169.254.169.254".to_owned(),
        String::new(),
    ];
    for url in urls {
        cloud.keystone_api_points_to(&url, true).await;
        cloud.until_looked_at().await;
        // Even a rotation that is asked for meanwhile goes nowhere else.
        cloud
            .annotate("keyward.dev/rotate", &format!("for {url}"))
            .await;
        for _ in 0..3 {
            cloud.clock.jump(301);
            operator.engine.world().queue.timers.notify_one();
            cloud.until_looked_at().await;
        }
        assert_eq!(cloud.log_in(&login).await, 201, "{url}");
        let live = cloud.live_ids().await;
        assert_eq!(live, std::slice::from_ref(&id), "{url}");
        assert_eq!(his.faults().log().len(), 0, "{url}: somebody came there");
    }
    cloud.remove_keystone_api().await;
    cloud.until_looked_at().await;
    assert_eq!(cloud.log_in(&login).await, 201);
    cloud.add_keystone_api(true).await;
    cloud
        .until("it goes on", || async {
            cloud.clock.jump(301);
            operator.engine.world().queue.timers.notify_one();
            cloud.is_ready(NAME).await && cloud.text("acID").await != id
        })
        .await;
    assert_eq!(cloud.log_in(&login).await, 201, "the old one is held");
}
