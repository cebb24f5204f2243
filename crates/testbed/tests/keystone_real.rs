//! The real Keystone starts, serves, comes and goes, and leaves nothing behind.

use std::time::{Duration, Instant};

use http::Method;
use testbed::keystone::real::{Keystone, Lockout, Options};
use testbed::keystone::{Admin, Http, SERVICE_USERS, contract, password_of, real, request_kind};
use testbed::proxy::{self, Proxy};

async fn started(options: Options) -> Keystone {
    // Whatever has to be installed is not part of what is measured.
    real::ready().await.expect("Keystone is installed");
    Keystone::start(options).await.expect("Keystone starts")
}

#[tokio::test]
async fn real_keystone_starts_within_seconds_with_the_users_of_the_services() {
    real::ready().await.expect("Keystone is installed");
    let begun = Instant::now();
    let keystone = Keystone::start(Options::default())
        .await
        .expect("Keystone starts");
    let start = begun.elapsed();
    let admin = keystone.admin();
    for user in SERVICE_USERS {
        let status = admin.log_in_with_password(user, &password_of(user)).await;
        assert_eq!(status.unwrap(), 201, "{user}");
        assert_eq!(admin.count(user).await.unwrap(), 0);
    }
    let dir = keystone.dir().to_owned();
    let stopped = Instant::now();
    drop(keystone);
    println!("start {start:?}, stop {:?}", stopped.elapsed());
    assert!(start < Duration::from_secs(30), "took {start:?}");
    assert!(!dir.exists());
}

#[tokio::test]
async fn real_keystones_know_nothing_of_each_other() {
    let (one, two) = tokio::join!(started(Options::default()), started(Options::default()));
    one.admin().set_password("nova", "another").await.unwrap();
    let status = two
        .admin()
        .log_in_with_password("nova", &password_of("nova"))
        .await;
    assert_eq!(status.unwrap(), 201);
    let status = one
        .admin()
        .log_in_with_password("nova", &password_of("nova"))
        .await;
    assert_eq!(status.unwrap(), 401);
}

#[tokio::test]
async fn real_keystone_behind_a_proxy_gives_links_that_lead_to_the_proxy() {
    let keystone = started(Options::default()).await;
    for tls in [false, true] {
        let options = proxy::Options {
            tls,
            kind: request_kind,
            ..proxy::Options::default()
        };
        let proxy = Proxy::start(&keystone.url(), options).unwrap();
        let http = Http::trusting(&proxy.url(), proxy.ca_pem().as_deref()).unwrap();
        let root = http.send(Method::GET, "/", "", None).await.unwrap();
        let link = root.text("/versions/values/0/links/0/href").unwrap();
        assert_eq!(link, format!("{}/v3/", proxy.url()));
        let admin = Admin::over(http);
        assert_eq!(admin.count("nova").await.unwrap(), 0);
    }
}

#[tokio::test]
async fn real_keystone_hangs_and_goes_on() {
    let keystone = started(Options::default()).await;
    let admin = keystone.admin();
    admin.token().await.unwrap();
    keystone.pause().unwrap();
    let asked = tokio::time::timeout(Duration::from_millis(500), admin.user_id("nova")).await;
    assert!(asked.is_err(), "a stopped server answered");
    keystone.resume().unwrap();
    admin.user_id("nova").await.unwrap();
}

#[tokio::test]
async fn real_keystone_killed_and_started_again_still_knows_everything() {
    let keystone = started(Options::default()).await;
    keystone
        .admin()
        .create_user("extra", "a password")
        .await
        .unwrap();
    keystone.kill().await.unwrap();
    assert!(keystone.admin().user_id("extra").await.is_err());
    keystone.start_again().await.unwrap();
    keystone.admin().user_id("extra").await.unwrap();
}

#[tokio::test]
async fn real_keystone_locks_an_account_only_where_it_was_told_to() {
    let lockout = Lockout {
        attempts: 2,
        lasts: Duration::from_mins(10),
    };
    let keystone = started(Options {
        lockout: Some(lockout),
        ..Options::default()
    })
    .await;
    let admin: Admin = keystone.admin();
    for _ in 0..2 {
        assert_eq!(
            admin.log_in_with_password("nova", "wrong").await.unwrap(),
            401
        );
    }
    let right = password_of("nova");
    assert_eq!(
        admin.log_in_with_password("nova", &right).await.unwrap(),
        401
    );
    let other = password_of("heat");
    assert_eq!(
        admin.log_in_with_password("heat", &other).await.unwrap(),
        201
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_keystone_keeps_the_contract() {
    let keystone = started(contract::options()).await;
    let report = contract::run(&keystone.url(), "").await;
    println!("{report}");
    assert!(report.broken().is_empty(), "{:?}", report.broken());
}
