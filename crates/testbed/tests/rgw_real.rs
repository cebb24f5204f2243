//! The real radosgw keeps the contract, sources keep theirs on it, and it starts, stops and recovers as tests need it.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod on_rgw;

use std::time::{Duration, Instant};

use http::Method;
use lifecycle::{TroubleKind, Verdict, Version};
use on_rgw::{
    accounts, bench, boto3, fails_as, first, keys, order, owner, text, uid, user_with_keys, users,
};
use sources::rgw::SECRET_KEY;
use sources::{Proof, Source};
use testbed::canary::Canaries;
use testbed::rgw::real::{Gateway, Gateways};
use testbed::rgw::standin::StandIn;
use testbed::rgw::{Http, admin, contract};

#[tokio::test]
async fn real_radosgw_keeps_the_contract() {
    let store = Gateways::start().await.unwrap();
    let report = contract::run(&store.urls(), "").await;
    println!("{report}");
    assert!(
        report.0.len() >= 40 && report.broken().is_empty(),
        "{:?}",
        report.broken()
    );
}

#[tokio::test]
async fn real_keys_users_and_accounts_are_as_on_the_stand_in() {
    let store = Gateways::start().await.unwrap();
    let urls = store.urls();
    bench::keys_keep_the_contract_of_sources(&urls).await;
    keys::the_gateway_makes_the_secret_and_asking_again_leaves_it(&urls).await;
    keys::a_key_is_deactivated_and_brought_back(&urls).await;
    keys::a_user_of_somebody_elses_gets_no_key(&urls).await;
    keys::keys_that_others_made_stay_as_they_are(&urls).await;
    keys::keys_that_are_asked_for_at_once_are_had_in_the_end(&urls).await;
    keys::a_key_of_a_suspended_user_does_not_work_and_is_not_gone(&urls).await;
    users::a_user_becomes_what_is_wanted_and_rests(&urls).await;
    users::a_user_of_somebody_elses_is_left_alone(&urls).await;
    users::buckets_keep_a_user(&urls).await;
    users::bad_names_of_users_are_not_sent(&urls).await;
    accounts::an_account_becomes_what_is_wanted_and_rests(&urls).await;
    accounts::an_account_of_somebody_elses_is_left_alone(&urls).await;
    accounts::a_taken_name_is_told(&urls).await;
    accounts::what_is_in_an_account_keeps_it(&urls).await;
    accounts::without_a_root_user_the_gateway_says_what_is_in_the_way(&urls).await;
    accounts::drift_is_repaired_or_told(&urls).await;
    accounts::bad_names_of_accounts_are_not_sent(&urls).await;
}

#[tokio::test]
async fn real_boto3_is_content_with_the_real_one_and_with_the_stand_in() {
    let real = Gateways::start().await.unwrap();
    boto3::boto3_is_content_with_root_and_member(&real.urls()).await;
    let stand_in = StandIn::start().unwrap();
    boto3::boto3_is_content_with_root_and_member(&stand_in.urls()).await;
}

/// Gateways write down every address that they are asked at.
#[tokio::test]
async fn real_no_secret_key_is_in_what_the_gateways_write_down() {
    let store = Gateways::start().await.unwrap();
    let urls = store.urls();
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(&urls, &uid, &owner).await;
    let mark = first(&owner);
    let key = keys.mint(&order(mark.clone())).await.unwrap();
    keys.deactivate(&mark, &key.id).await.unwrap();
    keys.activate(&mark, &key.id).await.unwrap();
    keys.verify(&key.values).await.unwrap();
    keys.revoke(&Proof::by(&mark), &key.id).await.unwrap();
    let deleted = format!("DELETE /admin/user?key&uid={uid}&access-key={mark}");
    let deadline = Instant::now() + Duration::from_secs(20);
    let written = loop {
        let written = store.logs().unwrap();
        if String::from_utf8_lossy(&written).contains(&deleted) {
            break written;
        }
        assert!(Instant::now() < deadline, "it is not written down");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let canaries = Canaries::new();
    canaries.add("a secret key", text(&key.values, SECRET_KEY));
    canaries.add("the administrator's", admin().secret_key.reveal());
    canaries.assert_absent("what the gateways write down", &written);
}

#[tokio::test]
async fn real_while_a_gateway_is_away_a_key_is_neither_seen_to_work_nor_to_be_gone() {
    let store = Gateways::start().await.unwrap();
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(&store.urls(), &uid, &owner).await;
    let mark = first(&owner);
    let key = keys.mint(&order(mark)).await.unwrap();
    let old = owner.mark(Version::new(2, 1));
    let ended = keys.mint(&order(old.clone())).await.unwrap();
    keys.revoke(&Proof::by(&old), &ended.id).await.unwrap();
    // Before it is killed: for a while after that, a write at the other one waits for it.
    store.kill(Gateway::Two).await.unwrap();
    let verdict = keys.verify(&key.values).await;
    fails_as(verdict, TroubleKind::Unreachable, "trying a key");
    let gone = keys.gone(&ended.id, None).await;
    fails_as(gone, TroubleKind::Unreachable, "looking for a key");
    store.start_again(Gateway::Two).await.unwrap();
    assert!(keys.gone(&ended.id, None).await.unwrap());
    assert_eq!(keys.verify(&key.values).await.unwrap(), Verdict::Works);
}

#[tokio::test]
async fn real_a_killed_gateway_is_missed_by_nobody_at_the_other_and_comes_back() {
    let store = Gateways::start().await.unwrap();
    let ask = async |gateway| {
        let http = Http::new(&store.url(gateway));
        let asked = http
            .admin_ops(&admin(), Method::GET, "user", &[("uid", "admin")])
            .await;
        asked.map(|reply| reply.status)
    };
    store.kill(Gateway::One).await.unwrap();
    assert!(ask(Gateway::One).await.is_err());
    assert_eq!(ask(Gateway::Two).await.unwrap(), 200);
    store.start_again(Gateway::One).await.unwrap();
    assert_eq!(ask(Gateway::One).await.unwrap(), 200);
}
