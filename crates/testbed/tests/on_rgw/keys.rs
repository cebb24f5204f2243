//! What holds of a user's keys, beyond the contract of all sources.

use lifecycle::{TroubleKind, Verdict, Version};
use sources::rgw::{ACCESS_KEY, ENDPOINT, SECRET_KEY};
use sources::{Proof, Source};

use super::{by_hand, fails_as, first, keys_of, order, owner, text, uid, user_with_keys};

/// The access key is the mark; the secret key is the gateway's, and asking again leaves it as it is.
pub(crate) async fn the_gateway_makes_the_secret_and_asking_again_leaves_it(urls: &[String]) {
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(urls, &uid, &owner).await;
    let mark = first(&owner);
    let one = keys.mint(&order(mark.clone())).await.unwrap();
    assert_eq!(text(&one.values, ACCESS_KEY), mark.to_string());
    assert_eq!(text(&one.values, SECRET_KEY).len(), 40);
    assert_eq!(text(&one.values, ENDPOINT), urls[0]);
    let again = keys.mint(&order(mark.clone())).await.unwrap();
    let read = keys.read_back(&mark).await.unwrap().unwrap();
    for other in [again, read] {
        assert_eq!(
            text(&other.values, SECRET_KEY),
            text(&one.values, SECRET_KEY)
        );
    }
    assert_eq!(keys.verify(&one.values).await.unwrap(), Verdict::Works);
}

/// Deactivated it is unknown and not gone; activated again it is as it was; another version's mark moves nothing.
pub(crate) async fn a_key_is_deactivated_and_brought_back(urls: &[String]) {
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(urls, &uid, &owner).await;
    let mark = first(&owner);
    let key = keys.mint(&order(mark.clone())).await.unwrap();
    let other = owner.mark(Version::new(2, 1));
    let touched = keys.deactivate(&other, &key.id).await;
    fails_as(touched, TroubleKind::Rejected, "not the mark");
    for _ in 0..2 {
        keys.deactivate(&mark, &key.id).await.unwrap();
        assert_eq!(keys.verify(&key.values).await.unwrap(), Verdict::Refused);
        assert!(!keys.gone(&key.id, None).await.unwrap(), "it can come back");
        assert_eq!(keys.list(&owner, &[]).await.unwrap().len(), 1);
    }
    keys.activate(&mark, &key.id).await.unwrap();
    assert_eq!(keys.verify(&key.values).await.unwrap(), Verdict::Works);
    keys.revoke(&Proof::by(&mark), &key.id).await.unwrap();
    assert!(keys.gone(&key.id, None).await.unwrap());
    let gone = keys.activate(&mark, &key.id).await;
    fails_as(gone, TroubleKind::Rejected, "no such key");
}

/// Whoever calls a resource like somebody's user gets none of its keys, and takes none away.
pub(crate) async fn a_user_of_somebody_elses_gets_no_key(urls: &[String]) {
    let uid = uid();
    let query = [("uid", uid.as_str()), ("display-name", "a person's own")];
    by_hand(urls, "PUT", "user", &query)
        .await
        .expect("by hand", 200)
        .unwrap();
    for uid in [uid.as_str(), "admin"] {
        let attacker = owner("attacker");
        let keys = keys_of(urls, uid, &attacker);
        let minted = keys.mint(&order(first(&attacker))).await;
        fails_as(minted, TroubleKind::Rejected, "not this resource's");
        assert!(keys.list(&attacker, &[]).await.unwrap().is_empty());
        assert!(keys.read_back(&first(&attacker)).await.unwrap().is_none());
    }
    let nobody = keys_of(urls, "nobody-at-all", &owner("attacker"));
    let minted = nobody.mint(&order(first(&owner("attacker")))).await;
    fails_as(minted, TroubleKind::Rejected, "no such user");
}

/// Keys that others gave the same user are neither listed nor touched.
pub(crate) async fn keys_that_others_made_stay_as_they_are(urls: &[String]) {
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(urls, &uid, &owner).await;
    // It sorts before ours.
    let query = [
        ("key", ""),
        ("uid", &uid),
        ("access-key", &format!("A{uid}")),
    ];
    by_hand(urls, "PUT", "user", &query)
        .await
        .expect("by hand", 200)
        .unwrap();
    let mark = first(&owner);
    let key = keys.mint(&order(mark.clone())).await.unwrap();
    assert_eq!(text(&key.values, ACCESS_KEY), mark.to_string());
    let listed = keys.list(&owner, &[]).await.unwrap();
    assert_eq!(listed.len(), 1);
    keys.revoke(&Proof::by(&mark), &key.id).await.unwrap();
    let shown = by_hand(urls, "GET", "user", &[("uid", &uid)]).await.json();
    assert_eq!(shown["keys"].as_array().unwrap().len(), 1);
    assert_eq!(shown["keys"][0]["access_key"], format!("A{uid}"));
}

/// A key of a suspended user is there, and lets nobody in.
pub(crate) async fn a_key_of_a_suspended_user_does_not_work_and_is_not_gone(urls: &[String]) {
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(urls, &uid, &owner).await;
    let key = keys.mint(&order(first(&owner))).await.unwrap();
    let suspend = [("uid", uid.as_str()), ("suspended", "true")];
    let suspended = by_hand(urls, "POST", "user", &suspend).await;
    suspended.expect("by hand", 200).unwrap();
    assert_eq!(keys.verify(&key.values).await.unwrap(), Verdict::Refused);
    assert!(!keys.gone(&key.id, None).await.unwrap());
}

/// Of keys that are asked for at once a gateway may refuse some: nothing was done then, and they are had in the end.
pub(crate) async fn keys_that_are_asked_for_at_once_are_had_in_the_end(urls: &[String]) {
    let uid = uid();
    let owner = owner(&uid);
    let keys = user_with_keys(urls, &uid, &owner).await;
    let mint = async |serial| {
        let mark = owner.mark(Version::new(serial, 1));
        for _ in 0..100 {
            match keys.mint(&order(mark.clone())).await {
                Err(error) if error.kind == TroubleKind::Throttled => {
                    assert!(keys.read_back(&mark).await.unwrap().is_none());
                }
                minted => return minted.unwrap(),
            }
        }
        panic!("refused a hundred times");
    };
    let minted = futures::future::join_all((1..=8).map(mint)).await;
    for key in &minted {
        assert_eq!(keys.verify(&key.values).await.unwrap(), Verdict::Works);
    }
    assert_eq!(keys.list(&owner, &[]).await.unwrap().len(), 8);
}
