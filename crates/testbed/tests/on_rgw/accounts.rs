//! What holds of accounts and their root users.

use lifecycle::{Holder, Owner, TroubleKind};
use sources::rgw::{
    ACCESS_KEY, AccountWish, Accounts, Quota, RootUser, SECRET_KEY, UserWish, Users,
    derived_account_id,
};
use sources::{Source, ThingId, Things};
use testbed::proxy::{self, Proxy};
use testbed::rgw::{Http, Login};

use super::{
    administrator, by_hand, fails_as, first, has, json, keys_of, order, owner, plain_user, text,
    uid,
};

pub(crate) fn wish(name: &str) -> AccountWish {
    AccountWish {
        name: name.into(),
        email: None,
        max_users: None,
        max_roles: None,
        max_groups: None,
        max_buckets: None,
        max_access_keys: None,
        quota: None,
        bucket_quota: None,
        root_user: Some(RootUser {
            display_name: "root-a".into(),
        }),
    }
}

/// An account resource: its uid, its owner, the id that follows from it.
pub(crate) fn resource() -> (String, Owner, ThingId) {
    let uid = uid();
    let id = derived_account_id(&uid).unwrap();
    (uid.clone(), owner(&uid), ThingId::from(id))
}

pub(crate) fn given_id() -> ThingId {
    ThingId::from(format!("RGW{:017}", rand::random_range(0..10_u64.pow(17))))
}

/// Made as wanted in every respect, changed in every respect, and left alone when nothing is to change; with an id that follows
/// from the uid, and with one that a person gave.
pub(crate) async fn an_account_becomes_what_is_wanted_and_rests(urls: &[String]) {
    let proxy = Proxy::start(&urls[0], proxy::Options::default()).unwrap();
    let (uid, owner, derived) = resource();
    for id in [derived, given_id()] {
        let accounts = Accounts::new(administrator(&[proxy.url()]), &uid);
        assert!(accounts.look(&id, &owner).await.unwrap().is_none());
        let name = format!("name {}", id.as_str());
        let plain = wish(&name);
        let mut rich = wish(&format!("another {}", id.as_str()));
        rich.email = Some(format!("a+b@{}.io", id.as_str().to_lowercase()));
        rich.max_users = Some(5);
        rich.max_buckets = Some(0);
        rich.max_access_keys = Some(3);
        rich.quota = Some(Quota {
            enabled: true,
            max_size: 1_048_576,
            max_objects: 7,
        });
        rich.root_user = Some(RootUser {
            display_name: "root+=,.@-_b".into(),
        });
        let mut without_root = plain.clone();
        without_root.root_user = None;
        for wish in [&plain, &rich, &without_root, &plain] {
            let wanted = json(wish);
            accounts.put(&id, &owner, &wanted).await.unwrap();
            let found = accounts.look(&id, &owner).await.unwrap().unwrap();
            assert!(found.ours && has(&found.state, &wanted), "{}", found.state);
            let writes = || {
                let faults = proxy.faults();
                faults.count_where(|recorded| recorded.line.method != "GET")
            };
            let before = writes();
            accounts.put(&id, &owner, &wanted).await.unwrap();
            assert_eq!(writes(), before, "nothing changed, nothing is written");
        }
        let root = by_hand(urls, "GET", "user", &[("uid", &uid)]).await.json();
        assert_eq!(
            (root["type"].as_str(), root["account_id"].as_str()),
            (Some("root"), Some(id.as_str()))
        );
        assert!(accounts.blockers(&id, &owner).await.unwrap().is_empty());
        accounts.remove(&id, &owner).await.unwrap();
        assert!(accounts.look(&id, &owner).await.unwrap().is_none());
        let root = by_hand(urls, "GET", "user", &[("uid", &uid)]).await;
        assert_eq!(root.status, 404, "its root user went with it");
        accounts.remove(&id, &owner).await.unwrap();
    }
}

/// An account that is there without the owner's mark is neither changed nor removed, whatever is recorded of it.
pub(crate) async fn an_account_of_somebody_elses_is_left_alone(urls: &[String]) {
    let (uid, ours, _) = resource();
    let accounts = Accounts::new(administrator(urls), &uid);
    let (their_uid, theirs, derived) = resource();
    let their_accounts = Accounts::new(administrator(urls), &their_uid);
    let given = given_id();
    for id in [&derived, &given] {
        let wanted = json(&wish(id.as_str()));
        their_accounts.put(id, &theirs, &wanted).await.unwrap();
        let found = accounts.look(id, &ours).await.unwrap().unwrap();
        assert!(!found.ours);
        let put = accounts.put(id, &ours, &json(&wish("mine now"))).await;
        fails_as(put, TroubleKind::Rejected, "not this resource's");
        let removed = accounts.remove(id, &ours).await;
        fails_as(removed, TroubleKind::Rejected, "not this resource's");
        let found = their_accounts.look(id, &theirs).await.unwrap().unwrap();
        assert!(found.ours && has(&found.state, &wanted));
        their_accounts.remove(id, &theirs).await.unwrap();
    }
    let by_a_person = given_id();
    let query = [("id", by_a_person.as_str()), ("name", by_a_person.as_str())];
    by_hand(urls, "POST", "account", &query)
        .await
        .expect("by hand", 200)
        .unwrap();
    let found = accounts.look(&by_a_person, &ours).await.unwrap().unwrap();
    assert!(!found.ours, "made elsewhere, and not taken over");
}

/// A name that another account has is told, and nothing is changed.
pub(crate) async fn a_taken_name_is_told(urls: &[String]) {
    let (uid, owner, id) = resource();
    let accounts = Accounts::new(administrator(urls), &uid);
    let (other_uid, other_owner, other) = resource();
    let others = Accounts::new(administrator(urls), &other_uid);
    let name = format!("taken {}", other.as_str());
    others
        .put(&other, &other_owner, &json(&wish(&name)))
        .await
        .unwrap();
    let put = accounts.put(&id, &owner, &json(&wish(&name))).await;
    fails_as(put, TroubleKind::Conflict, "another account");
    let own = json(&wish(id.as_str()));
    accounts.put(&id, &owner, &own).await.unwrap();
    let put = accounts.put(&id, &owner, &json(&wish(&name))).await;
    fails_as(put, TroubleKind::Conflict, "another account");
    let found = accounts.look(&id, &owner).await.unwrap().unwrap();
    assert!(has(&found.state, &own));
}

/// What is in an account keeps it, is told by kind and count, and costs neither the root user nor its key.
pub(crate) async fn what_is_in_an_account_keeps_it(urls: &[String]) {
    let (uid, owner, id) = resource();
    let accounts = Accounts::new(administrator(urls), &uid);
    accounts
        .put(&id, &owner, &json(&wish(id.as_str())))
        .await
        .unwrap();
    let root_keys = keys_of(urls, &uid, &owner);
    let key = root_keys.mint(&order(first(&owner))).await.unwrap();
    let login = Login::new(
        &text(&key.values, ACCESS_KEY),
        &text(&key.values, SECRET_KEY),
    );
    assert!(
        accounts.blockers(&id, &owner).await.unwrap().is_empty(),
        "its root user is not in the way"
    );
    let users = Users::new(administrator(urls));
    let members: Vec<ThingId> = (0..2)
        .map(|n| ThingId::from(format!("{n}-{uid}")))
        .collect();
    for member in &members {
        let wish = UserWish {
            display_name: member.as_str().into(),
            account_id: id.as_str().into(),
            ..plain_user()
        };
        users.put(member, &owner, &json(&wish)).await.unwrap();
    }
    let http = Http::new(&urls[0]);
    let bucket = format!("/bucket-{uid}");
    let policy = r#"{"Version":"2012-10-17","Statement":[]}"#;
    let role = [("RoleName", "reader"), ("AssumeRolePolicyDocument", policy)];
    let group = [("GroupName", "readers")];
    http.s3(&login, http::Method::PUT, &bucket)
        .await
        .unwrap()
        .expect("a bucket", 200)
        .unwrap();
    http.iam(&login, "CreateRole", &role)
        .await
        .unwrap()
        .expect("a role", 200)
        .unwrap();
    http.iam(&login, "CreateGroup", &group)
        .await
        .unwrap()
        .expect("a group", 200)
        .unwrap();
    let blockers = accounts.blockers(&id, &owner).await.unwrap();
    let all = ["1 bucket", "2 users", "1 role", "1 group"].map(Holder::from);
    assert_eq!(blockers, all);
    let removed = accounts.remove(&id, &owner).await;
    fails_as(
        removed,
        TroubleKind::Rejected,
        "1 bucket, 2 users, 1 role, 1 group",
    );
    let works = root_keys.verify(&key.values).await.unwrap();
    assert_eq!(
        works,
        lifecycle::Verdict::Works,
        "the root user and its key stay"
    );
    for member in &members {
        users.remove(member, &owner).await.unwrap();
    }
    http.s3(&login, http::Method::DELETE, &bucket)
        .await
        .unwrap()
        .expect("no bucket", 204)
        .unwrap();
    http.iam(&login, "DeleteRole", &role[..1])
        .await
        .unwrap()
        .expect("no role", 200)
        .unwrap();
    http.iam(&login, "DeleteGroup", &group)
        .await
        .unwrap()
        .expect("no group", 200)
        .unwrap();
    assert!(accounts.blockers(&id, &owner).await.unwrap().is_empty());
    accounts.remove(&id, &owner).await.unwrap();
    assert!(accounts.look(&id, &owner).await.unwrap().is_none());
}

/// Of an account without a root user the gateway itself says what is in it.
pub(crate) async fn without_a_root_user_the_gateway_says_what_is_in_the_way(urls: &[String]) {
    let (uid, owner, id) = resource();
    let accounts = Accounts::new(administrator(urls), &uid);
    let mut wish = wish(id.as_str());
    wish.root_user = None;
    accounts.put(&id, &owner, &json(&wish)).await.unwrap();
    let users = Users::new(administrator(urls));
    let member = ThingId::from(format!("member-{uid}"));
    let in_it = UserWish {
        display_name: "member".into(),
        account_id: id.as_str().into(),
        ..plain_user()
    };
    users.put(&member, &owner, &json(&in_it)).await.unwrap();
    let removed = accounts.remove(&id, &owner).await;
    fails_as(removed, TroubleKind::Rejected, "still has users");
    users.remove(&member, &owner).await.unwrap();
    accounts.remove(&id, &owner).await.unwrap();
}

/// What somebody took from the root user is given back; a user that moved to another account is told and left.
pub(crate) async fn drift_is_repaired_or_told(urls: &[String]) {
    let (uid, owner, id) = resource();
    let accounts = Accounts::new(administrator(urls), &uid);
    let wanted = json(&wish(id.as_str()));
    accounts.put(&id, &owner, &wanted).await.unwrap();
    let drifts: [(&str, &[(&str, &str)]); 2] = [
        ("POST", &[("uid", &uid), ("account-root", "false")]),
        ("DELETE", &[("uid", &uid)]),
    ];
    for (method, query) in drifts {
        by_hand(urls, method, "user", query)
            .await
            .expect("by hand", 200)
            .unwrap();
        let found = accounts.look(&id, &owner).await.unwrap().unwrap();
        assert!(!has(&found.state, &wanted), "it is noticed");
        accounts.put(&id, &owner, &wanted).await.unwrap();
        let found = accounts.look(&id, &owner).await.unwrap().unwrap();
        assert!(has(&found.state, &wanted), "{}", found.state);
    }
    let users = Users::new(administrator(urls));
    let member = ThingId::from(format!("member-{uid}"));
    let alone = UserWish {
        display_name: "member".into(),
        ..plain_user()
    };
    users.put(&member, &owner, &json(&alone)).await.unwrap();
    let in_it = UserWish {
        account_id: id.as_str().into(),
        ..alone
    };
    let moved = users.put(&member, &owner, &json(&in_it)).await;
    fails_as(moved, TroubleKind::Rejected, "never moved");
}

/// Names and ids that nobody could use are not sent.
pub(crate) async fn bad_names_of_accounts_are_not_sent(urls: &[String]) {
    let proxy = Proxy::start(&urls[0], proxy::Options::default()).unwrap();
    let (uid, owner, id) = resource();
    let accounts = Accounts::new(administrator(&[proxy.url()]), &uid);
    let mut bad_root = wish("fine");
    bad_root.root_user = Some(RootUser {
        display_name: "Root User".into(),
    });
    let mut no_email = wish("fine");
    no_email.email = Some(String::new());
    for (id, wish, word) in [
        (ThingId::from("RGW1"), wish("fine"), "17 digits"),
        (id.clone(), wish(""), "name"),
        (id.clone(), wish("a$b"), "name"),
        (id.clone(), bad_root, "display name"),
        (id, no_email, "email"),
    ] {
        let put = accounts.put(&id, &owner, &json(&wish)).await;
        fails_as(put, TroubleKind::Rejected, word);
    }
    assert_eq!(proxy.faults().total(), 0);
}
