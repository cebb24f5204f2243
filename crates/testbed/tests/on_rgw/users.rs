//! What holds of users.

use lifecycle::{Holder, TroubleKind};
use sources::rgw::{Quota, UserWish, Users};
use sources::{ThingId, Things};
use testbed::proxy::{self, Proxy};
use testbed::rgw::{Http, Login};

use super::{
    administrator, by_hand, fails_as, first, has, json, keys_of, order, owner, plain_user, text,
    uid,
};
use sources::Source;
use sources::rgw::{ACCESS_KEY, SECRET_KEY};

fn wish() -> UserWish {
    UserWish {
        display_name: "Ann + Bob, 50% each/both".into(),
        capabilities: Some(["buckets=*".to_owned(), "users=read".to_owned()].into()),
        op_mask: Some(UserWish::operations(&["read", "write"])),
        max_buckets: Some(7),
        quota: Some(Quota {
            enabled: true,
            max_size: 4096,
            max_objects: 9,
        }),
        ..plain_user()
    }
}

/// Made as wanted in every respect, changed in every respect, and left alone when nothing is to change.
pub(crate) async fn a_user_becomes_what_is_wanted_and_rests(urls: &[String]) {
    let proxy = Proxy::start(&urls[0], proxy::Options::default()).unwrap();
    let users = Users::new(administrator(&[proxy.url()]));
    let uid = format!("ann+{}@50%", uid());
    let (id, owner) = (ThingId::from(uid.as_str()), owner(&uid));
    assert!(users.look(&id, &owner).await.unwrap().is_none());
    let narrower = UserWish {
        display_name: "Ann".into(),
        capabilities: Some(["buckets=read".to_owned()].into()),
        op_mask: Some(UserWish::operations(&[])),
        max_buckets: Some(0),
        quota: Some(Quota {
            enabled: false,
            max_size: -1,
            max_objects: -1,
        }),
        ..plain_user()
    };
    for wish in [wish(), narrower, wish()] {
        let wanted = json(&wish);
        users.put(&id, &owner, &wanted).await.unwrap();
        let found = users.look(&id, &owner).await.unwrap().unwrap();
        assert!(found.ours && has(&found.state, &wanted), "{}", found.state);
        let writes = || {
            let faults = proxy.faults();
            faults.count_where(|recorded| recorded.line.method != "GET")
        };
        let before = writes();
        users.put(&id, &owner, &wanted).await.unwrap();
        assert_eq!(writes(), before, "nothing changed, nothing is written");
    }
    let shown = by_hand(
        urls,
        "GET",
        "user",
        &[("uid", &uid.replace('%', "%25").replace('+', "%2B"))],
    )
    .await;
    assert_eq!(shown.json()["user_id"], uid, "every sign arrived");
    users.remove(&id, &owner).await.unwrap();
    assert!(users.look(&id, &owner).await.unwrap().is_none());
    users.remove(&id, &owner).await.unwrap();
}

/// A user that is there without the owner's tag is neither changed nor removed.
pub(crate) async fn a_user_of_somebody_elses_is_left_alone(urls: &[String]) {
    let users = Users::new(administrator(urls));
    let uid = uid();
    let (id, theirs) = (ThingId::from(uid.as_str()), owner("the first namespace"));
    users.put(&id, &theirs, &json(&plain_user())).await.unwrap();
    let ours = owner("the second namespace");
    for id in [&id, &ThingId::from("admin")] {
        let found = users.look(id, &ours).await.unwrap().unwrap();
        assert!(!found.ours);
        let put = users.put(id, &ours, &json(&wish())).await;
        fails_as(put, TroubleKind::Rejected, "not this resource's");
        let removed = users.remove(id, &ours).await;
        fails_as(removed, TroubleKind::Rejected, "not this resource's");
    }
    let found = users.look(&id, &theirs).await.unwrap().unwrap();
    assert!(found.ours && has(&found.state, &json(&plain_user())));
}

/// Buckets keep a user; they are counted before anything is tried, and it goes when they are gone.
pub(crate) async fn buckets_keep_a_user(urls: &[String]) {
    let users = Users::new(administrator(urls));
    let uid = uid();
    let (id, owner) = (ThingId::from(uid.as_str()), owner(&uid));
    users.put(&id, &owner, &json(&plain_user())).await.unwrap();
    let key = keys_of(urls, &uid, &owner)
        .mint(&order(first(&owner)))
        .await
        .unwrap();
    let login = Login::new(
        &text(&key.values, ACCESS_KEY),
        &text(&key.values, SECRET_KEY),
    );
    let http = Http::new(&urls[0]);
    let buckets = [format!("/one-{uid}"), format!("/two-{uid}")];
    for bucket in &buckets {
        let made = http.s3(&login, http::Method::PUT, bucket).await.unwrap();
        made.expect("a bucket", 200).unwrap();
    }
    let blockers = users.blockers(&id, &owner).await.unwrap();
    assert_eq!(blockers, [Holder::from("2 buckets")]);
    let removed = users.remove(&id, &owner).await;
    fails_as(removed, TroubleKind::Rejected, "has buckets");
    for bucket in &buckets {
        let gone = http.s3(&login, http::Method::DELETE, bucket).await.unwrap();
        gone.expect("no bucket", 204).unwrap();
    }
    assert!(users.blockers(&id, &owner).await.unwrap().is_empty());
    users.remove(&id, &owner).await.unwrap();
}

/// What a gateway would refuse without a word, or keep as something else, is not sent.
pub(crate) async fn bad_names_of_users_are_not_sent(urls: &[String]) {
    let proxy = Proxy::start(&urls[0], proxy::Options::default()).unwrap();
    let users = Users::new(administrator(&[proxy.url()]));
    let (id, owner) = (ThingId::from("bad"), owner("bad"));
    let in_account = |name: &str, account: &str| UserWish {
        display_name: name.into(),
        account_id: account.into(),
        ..plain_user()
    };
    let account = "RGW00000000000000001";
    let long = "x".repeat(65);
    for (wish, word) in [
        (in_account("two words", account), "display name"),
        (in_account(&long, account), "display name"),
        (in_account("fine", "RGW1"), "RGW"),
        (in_account("", ""), "empty"),
    ] {
        let put = users.put(&id, &owner, &json(&wish)).await;
        fails_as(put, TroubleKind::Rejected, word);
    }
    assert_eq!(proxy.faults().total(), 0);
}
