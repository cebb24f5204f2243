//! The stand-in object store: it keeps the contract of the real one, sources keep theirs on it, and what only the stand-in
//! can be made to do.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod on_rgw;

use std::sync::Arc;

use jiff::SignedDuration;
use lifecycle::{TroubleKind, Verdict, Version};
use on_rgw::{
    accounts, administrator, bench, fails_as, first, has, json, keys, keys_of, order, owner,
    settings, uid, user_with_keys, users,
};
use sources::http::Settings;
use sources::rgw::{Accounts, Administrator, Login, Store, Users};
use sources::{Proof, SecretValue, Source, ThingId, Things};
use testbed::canary::Canaries;
use testbed::proxy::{self, Fault, Proxy};
use testbed::rgw::standin::StandIn;
use testbed::rgw::{self, contract};

fn store() -> (StandIn, Vec<String>) {
    let store = StandIn::start().unwrap();
    let urls = store.urls();
    (store, urls)
}

#[tokio::test]
async fn the_stand_in_keeps_the_contract() {
    let (store, urls) = store();
    let report = contract::run(&urls, "").await;
    println!("{report}");
    assert!(
        report.0.len() >= 40 && report.broken().is_empty(),
        "{:?}",
        report.broken()
    );
    assert_eq!(store.faults().total(), 0, "auditors are not counted");
}

#[tokio::test]
async fn a_second_gateway_that_lives_in_the_past_is_found_to_break_the_contract() {
    let (store, urls) = store();
    store.leave_the_second_behind();
    let report = contract::run(&urls, "unknown_everywhere").await;
    assert_eq!(report.broken().len(), report.0.len());
}

#[tokio::test]
async fn keys_keep_the_contract_of_sources() {
    let (_store, urls) = store();
    bench::keys_keep_the_contract_of_sources(&urls).await;
}

#[tokio::test]
async fn the_gateway_makes_the_secret_and_asking_again_leaves_it() {
    let (_store, urls) = store();
    keys::the_gateway_makes_the_secret_and_asking_again_leaves_it(&urls).await;
}

#[tokio::test]
async fn a_key_is_deactivated_and_brought_back() {
    let (_store, urls) = store();
    keys::a_key_is_deactivated_and_brought_back(&urls).await;
}

#[tokio::test]
async fn a_user_of_somebody_elses_gets_no_key() {
    let (_store, urls) = store();
    keys::a_user_of_somebody_elses_gets_no_key(&urls).await;
}

#[tokio::test]
async fn keys_that_others_made_stay_as_they_are() {
    let (_store, urls) = store();
    keys::keys_that_others_made_stay_as_they_are(&urls).await;
}

#[tokio::test]
async fn keys_that_are_asked_for_at_once_are_had_in_the_end() {
    let (_store, urls) = store();
    keys::keys_that_are_asked_for_at_once_are_had_in_the_end(&urls).await;
}

#[tokio::test]
async fn a_key_of_a_suspended_user_does_not_work_and_is_not_gone() {
    let (_store, urls) = store();
    keys::a_key_of_a_suspended_user_does_not_work_and_is_not_gone(&urls).await;
}

#[tokio::test]
async fn a_user_becomes_what_is_wanted_and_rests() {
    let (_store, urls) = store();
    users::a_user_becomes_what_is_wanted_and_rests(&urls).await;
}

#[tokio::test]
async fn a_user_of_somebody_elses_is_left_alone() {
    let (_store, urls) = store();
    users::a_user_of_somebody_elses_is_left_alone(&urls).await;
}

#[tokio::test]
async fn buckets_keep_a_user() {
    let (_store, urls) = store();
    users::buckets_keep_a_user(&urls).await;
}

#[tokio::test]
async fn bad_names_of_users_are_not_sent() {
    let (_store, urls) = store();
    users::bad_names_of_users_are_not_sent(&urls).await;
}

#[tokio::test]
async fn an_account_becomes_what_is_wanted_and_rests() {
    let (_store, urls) = store();
    accounts::an_account_becomes_what_is_wanted_and_rests(&urls).await;
}

#[tokio::test]
async fn an_account_of_somebody_elses_is_left_alone() {
    let (_store, urls) = store();
    accounts::an_account_of_somebody_elses_is_left_alone(&urls).await;
}

#[tokio::test]
async fn a_taken_name_is_told() {
    let (_store, urls) = store();
    accounts::a_taken_name_is_told(&urls).await;
}

#[tokio::test]
async fn what_is_in_an_account_keeps_it() {
    let (_store, urls) = store();
    accounts::what_is_in_an_account_keeps_it(&urls).await;
}

#[tokio::test]
async fn without_a_root_user_the_gateway_says_what_is_in_the_way() {
    let (_store, urls) = store();
    accounts::without_a_root_user_the_gateway_says_what_is_in_the_way(&urls).await;
}

#[tokio::test]
async fn drift_is_repaired_or_told() {
    let (_store, urls) = store();
    accounts::drift_is_repaired_or_told(&urls).await;
}

#[tokio::test]
async fn bad_names_of_accounts_are_not_sent() {
    let (_store, urls) = store();
    accounts::bad_names_of_accounts_are_not_sent(&urls).await;
}

#[tokio::test]
async fn a_new_key_works_only_when_every_gateway_knows_it() {
    let (store, urls) = store();
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(&urls, &uid, &owner).await;
    store.leave_the_second_behind();
    let key = keys.mint(&order(first(&owner))).await.unwrap();
    assert_eq!(keys.verify(&key.values).await.unwrap(), Verdict::Refused);
    store.let_the_second_catch_up();
    assert_eq!(keys.verify(&key.values).await.unwrap(), Verdict::Works);
}

#[tokio::test]
async fn a_deleted_key_is_gone_only_when_every_gateway_refuses_it() {
    let (store, urls) = store();
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(&urls, &uid, &owner).await;
    let mark = first(&owner);
    let key = keys.mint(&order(mark.clone())).await.unwrap();
    store.leave_the_second_behind();
    keys.revoke(&Proof::by(&mark), &key.id).await.unwrap();
    assert!(!keys.gone(&key.id, None).await.unwrap());
    store.let_the_second_catch_up();
    assert!(keys.gone(&key.id, None).await.unwrap());
    store
        .faults_of_the_second()
        .every_where(|_| true, Fault::Error(503));
    let unknown = keys.gone(&key.id, None).await;
    fails_as(unknown, TroubleKind::Unreachable, "looking for a key");
}

#[tokio::test]
async fn a_change_at_the_same_moment_is_told_as_something_to_try_again() {
    let (store, urls) = store();
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(&urls, &uid, &owner).await;
    store.faults().next(rgw::PUT_KEY, Fault::Error(409));
    let order = order(first(&owner));
    let error = keys.mint(&order).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Throttled, "{error}");
    assert_eq!(error.wait, Some(SignedDuration::from_secs(1)));
    assert!(store.live().is_empty(), "nothing was done");
    keys.mint(&order).await.unwrap();
}

#[tokio::test]
async fn a_mint_whose_answer_was_lost_is_read_and_not_asked_for_again() {
    let (store, urls) = store();
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(&urls, &uid, &owner).await;
    let mark = first(&owner);
    store.faults().next(rgw::PUT_KEY, Fault::DropApplied);
    keys.mint(&order(mark.clone())).await.unwrap_err();
    let secret = |access_key: &str| {
        let login = store.login(access_key).unwrap();
        login.secret_key.reveal().to_owned()
    };
    let made = secret(&mark.to_string());
    let read = keys.read_back(&mark).await.unwrap().unwrap();
    assert_eq!(keys.verify(&read.values).await.unwrap(), Verdict::Works);
    let again = keys.mint(&order(mark.clone())).await.unwrap();
    assert_eq!(keys.verify(&again.values).await.unwrap(), Verdict::Works);
    assert_eq!(secret(&mark.to_string()), made, "nobody changed it");
    assert_eq!(store.faults().count(rgw::PUT_KEY), 1, "it was sent once");
}

#[tokio::test]
async fn a_delete_that_arrives_twice_is_told_from_a_bad_login() {
    let (store, urls) = store();
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(&urls, &uid, &owner).await;
    let mark = first(&owner);
    let key = keys.mint(&order(mark.clone())).await.unwrap();
    // The second answer says that the access key is unknown.
    store.faults().next(rgw::DELETE_KEY, Fault::Twice);
    keys.revoke(&Proof::by(&mark), &key.id).await.unwrap();
    assert!(keys.gone(&key.id, None).await.unwrap());
}

#[tokio::test]
async fn a_key_of_another_store_is_not_gone_because_this_one_does_not_know_it() {
    let (_there, of_the_old) = store();
    let (_here, of_the_new) = store();
    let uid = uid();
    let owner = owner(&uid);
    let there = user_with_keys(&of_the_old, &uid, &owner).await;
    let here = user_with_keys(&of_the_new, &uid, &owner).await;
    let mark = first(&owner);
    let key = there.mint(&order(mark.clone())).await.unwrap();
    for refused in [
        here.gone(&key.id, None).await.map(drop),
        here.revoke(&Proof::by(&mark), &key.id).await,
    ] {
        fails_as(refused, TroubleKind::Rejected, "another object store");
    }
    // The same store under another address is seen to know it, and may end it.
    let moved = keys_of(&of_the_old[1..], &uid, &owner);
    moved.revoke(&Proof::by(&mark), &key.id).await.unwrap();
    assert!(moved.gone(&key.id, None).await.unwrap());
}

#[tokio::test]
async fn a_missing_capability_is_named() {
    let (store, urls) = store();
    store.take_capability("accounts");
    let (uid, owner, id) = accounts::resource();
    let accounts = Accounts::new(administrator(&urls), &uid);
    let looked = accounts.look(&id, &owner).await;
    fails_as(looked, TroubleKind::Denied, "lacks accounts=*");
    store.take_capability("buckets");
    let blocked = Users::new(administrator(&urls)).blockers(&id, &owner).await;
    fails_as(blocked, TroubleKind::Denied, "lacks buckets=read");
}

#[tokio::test]
async fn a_gateway_with_tls_is_spoken_to_with_its_authority_and_not_without() {
    let store = StandIn::start_with_tls().unwrap();
    let urls = store.urls();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let users = |settings: &Settings| {
        let login = rgw::admin();
        let login = Login {
            access_key: login.access_key,
            secret_key: SecretValue::new(login.secret_key.reveal()),
        };
        let store = Arc::new(Store::new(&urls, settings).unwrap());
        Users::new(Administrator::new(store, login))
    };
    let trusting = Settings {
        ca_bundle: Some(store.ca_pems().into_bytes()),
        ..settings()
    };
    let (id, owner) = (ThingId::from("nobody"), owner("tls"));
    assert!(users(&trusting).look(&id, &owner).await.unwrap().is_none());
    let looked = users(&settings()).look(&id, &owner).await;
    fails_as(looked, TroubleKind::Unreachable, "");
}

/// A fault at each request of making, changing and removing an account, and then the same again: one account, one root user,
/// and in the end nothing.
#[tokio::test]
async fn an_account_survives_a_fault_at_every_request() {
    for given in [false, true] {
        for fault in [Fault::DropNotApplied, Fault::DropApplied, Fault::Error(503)] {
            let mut met = 0;
            for n in 1.. {
                let (_store, urls) = store();
                let proxy = Proxy::start(&urls[0], proxy::Options::default()).unwrap();
                let (uid, owner, derived) = accounts::resource();
                let id = if given { accounts::given_id() } else { derived };
                let faulty = Accounts::new(administrator(&[proxy.url()]), &uid);
                let seen = Accounts::new(administrator(&urls), &uid);
                let is_ours = async || {
                    let found = seen.look(&id, &owner).await.unwrap();
                    assert!(found.is_none_or(|found| found.ours), "request {n}");
                };
                proxy.faults().at(n, fault);
                let mut wanted = json(&accounts::wish("an account"));
                for name in ["an account", "another name"] {
                    wanted["name"] = name.into();
                    if faulty.put(&id, &owner, &wanted).await.is_err() {
                        is_ours().await;
                        faulty.put(&id, &owner, &wanted).await.unwrap();
                    }
                    let found = seen.look(&id, &owner).await.unwrap().unwrap();
                    assert!(found.ours && has(&found.state, &wanted));
                }
                if faulty.remove(&id, &owner).await.is_err() {
                    is_ours().await;
                    faulty.remove(&id, &owner).await.unwrap();
                }
                assert!(seen.look(&id, &owner).await.unwrap().is_none());
                let users = Users::new(administrator(&urls));
                let root = users.look(&uid.as_str().into(), &owner).await.unwrap();
                assert!(root.is_none(), "request {n}");
                if n > proxy.faults().total() as u64 {
                    break;
                }
                met += 1;
            }
            assert!(met > 10, "{met} requests");
        }
    }
}

#[tokio::test]
async fn neither_errors_nor_the_record_nor_a_debug_print_holds_a_value() {
    let (store, urls) = store();
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(&urls, &uid, &owner).await;
    let key = keys.mint(&order(first(&owner))).await.unwrap();
    keys.mint(&order(owner.mark(Version::new(2, 1))))
        .await
        .unwrap();
    let canaries = Canaries::new();
    for value in store.every_value() {
        canaries.add("a secret key", value.reveal());
    }
    assert!(canaries.len() >= 3);
    let told = format!(
        "{store:?} {:?} {:?} {keys:?} {key:?} {:?}",
        store.faults().log(),
        store.live(),
        administrator(&urls),
    );
    canaries.assert_absent("what is told", told.as_bytes());
}
