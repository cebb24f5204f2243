//! Keys: made once the user is there, rotated with an overlap, dead at every gateway afterwards.

use serde_json::{Value, json};

use super::stage::{ACCOUNT, ANNS_SECRET, ROOT_SECRET, Running, Stage, USER, hours, minutes};

async fn ann(spec: Value) -> (Stage, Running) {
    let stage = Stage::new().await;
    let operator = stage.operator().await;
    stage.create(USER, "ann", spec).await;
    stage.until_ready(USER, "ann").await;
    (stage, operator)
}

/// RGW33, RGW39: both work while they overlap, the Secret always has one that does, and the old one dies on time.
#[tokio::test]
async fn keys_overlap_and_the_old_one_dies() {
    let (stage, operator) =
        ann(json!({ "keyRotation": { "every": "24h", "overlap": "2h" } })).await;
    let mut old = stage.login(ANNS_SECRET).await;
    for _ in 0..2 {
        stage.live_through(&operator, hours(20)).await;
        assert_eq!(stage.live("ann"), [old.access_key.clone()]);
        stage.live_through(&operator, hours(4) + minutes(6)).await;
        stage
            .until("there is a new key", || async {
                stage.login(ANNS_SECRET).await.access_key != old.access_key
            })
            .await;
        stage.until_ready(USER, "ann").await;
        let new = stage.login(ANNS_SECRET).await;
        assert_eq!(stage.live("ann").len(), 2);
        for login in [&old, &new] {
            assert_eq!(stage.try_login(login).await, [200, 200]);
        }
        let status = stage.status(USER, "ann").await;
        assert_eq!(status["key"]["accessKey"], new.access_key);
        assert_eq!(status["key"]["previousAccessKey"], old.access_key);
        stage.live_through(&operator, hours(1) + minutes(50)).await;
        assert_eq!(stage.live("ann").len(), 2, "the overlap is not over");
        stage.live_through(&operator, minutes(11)).await;
        stage
            .until("the old key is dead", || async {
                stage.try_login(&old).await == [403, 403]
            })
            .await;
        assert_eq!(stage.live("ann"), std::slice::from_ref(&new.access_key));
        old = new;
        stage
            .annotate(USER, "ann", "keyward.dev/rotate", &old.access_key)
            .await;
        stage
            .until("it is rotated on demand", || async {
                stage.login(ANNS_SECRET).await.access_key != old.access_key
            })
            .await;
        stage.until_ready(USER, "ann").await;
        stage.live_through(&operator, hours(2) + minutes(1)).await;
        stage
            .until("one is left", || async { stage.live("ann").len() == 1 })
            .await;
        old = stage.login(ANNS_SECRET).await;
    }
    stage.assert_no_leak();
}

/// Where the installed definition has no `keyRotation`, annotations say the same.
#[tokio::test]
async fn annotations_rotate_where_the_definition_knows_no_field() {
    let (stage, operator) = ann(json!({})).await;
    let first = stage.login(ANNS_SECRET).await;
    stage.live_through(&operator, hours(2000)).await;
    assert_eq!(
        stage.login(ANNS_SECRET).await.access_key,
        first.access_key,
        "on demand only"
    );
    stage
        .annotate(USER, "ann", "keyward.dev/key-overlap", "1h")
        .await;
    stage
        .annotate(USER, "ann", "keyward.dev/key-every", "24h")
        .await;
    stage
        .until("it is rotated", || async {
            stage.login(ANNS_SECRET).await.access_key != first.access_key
        })
        .await;
    stage
        .annotate(USER, "ann", "keyward.dev/key-every", "a while")
        .await;
    stage
        .until("it is told", || async {
            stage.condition(USER, "ann", "KeysReady").await["reason"] == "InvalidSpec"
        })
        .await;
}

/// RGW21: a key that somebody else made, and that sorts before ours, is neither used nor removed.
#[tokio::test]
async fn a_key_of_somebody_elses_is_neither_used_nor_removed() {
    let (stage, operator) = ann(json!({ "keyRotation": { "overlap": "0s" } })).await;
    let ours = stage.login(ANNS_SECRET).await;
    let theirs = [
        ("key", ""),
        ("uid", "ann"),
        ("access-key", "AAAA"),
        ("secret-key", "theirs"),
    ];
    stage
        .by_hand("PUT", "user", &theirs)
        .await
        .expect("a key", 200)
        .unwrap();
    stage.live_through(&operator, hours(7)).await;
    assert_eq!(stage.login(ANNS_SECRET).await.access_key, ours.access_key);
    stage
        .annotate(USER, "ann", "keyward.dev/rotate", "now")
        .await;
    stage
        .until("it is rotated", || async {
            stage.login(ANNS_SECRET).await.access_key != ours.access_key
        })
        .await;
    stage
        .until("ours is gone", || async {
            !stage.live("ann").contains(&ours.access_key)
        })
        .await;
    assert!(stage.live("ann").contains(&"AAAA".to_owned()));
}

/// RGW31: all keys were removed; there is a new one.
#[tokio::test]
async fn a_user_that_lost_its_keys_gets_one() {
    let (stage, operator) = ann(json!({})).await;
    let ours = stage.login(ANNS_SECRET).await;
    let gone = [
        ("key", ""),
        ("uid", "ann"),
        ("access-key", ours.access_key.as_str()),
    ];
    stage
        .by_hand("DELETE", "user", &gone)
        .await
        .expect("no key", 200)
        .unwrap();
    stage.live_through(&operator, hours(7)).await;
    stage
        .until("a key that works is in the Secret", || async {
            stage.try_login(&stage.login(ANNS_SECRET).await).await == [200, 200]
        })
        .await;
}

/// RGW41: two operators at once, and one key of each serial.
#[tokio::test]
async fn two_operators_make_one_key() {
    let stage = Stage::new().await;
    let (one, two) = (stage.operator().await, stage.operator().await);
    for name in ["a", "b", "c", "d"] {
        stage.create(USER, name, json!({})).await;
    }
    stage.create(ACCOUNT, "acme", json!({})).await;
    for name in ["a", "b", "c", "d"] {
        stage.until_ready(USER, name).await;
    }
    stage.until_ready(ACCOUNT, "acme").await;
    // What the slower of the two may have made is recorded nowhere, and swept.
    stage.live_through(&one, minutes(15)).await;
    stage.live_through(&two, minutes(15)).await;
    for name in ["a", "b", "c", "d"] {
        let secret = format!("rook-ceph-object-user-my-store-{name}");
        let current = stage.login(&secret).await.access_key;
        stage
            .until("one key is left", || async {
                stage.live(name) == [current.clone()]
            })
            .await;
    }
    assert_eq!(
        stage.try_login(&stage.login(ROOT_SECRET).await).await,
        [200, 200]
    );
    assert_eq!(stage.store.live().len(), 5);
}

/// A restored resource: the same name and annotations, another uid. It touches nothing of the original's.
#[tokio::test]
async fn a_copy_touches_nothing_of_the_originals() {
    let (stage, operator) = ann(json!({})).await;
    stage.create(ACCOUNT, "acme", json!({})).await;
    stage.until_ready(ACCOUNT, "acme").await;
    let before = stage.store.live();
    let account = stage.status(ACCOUNT, "acme").await["accountID"]
        .as_str()
        .unwrap()
        .to_owned();
    for (kind, name) in [(ACCOUNT, "acme"), (USER, "ann")] {
        let original = stage.object(kind, name).await.unwrap();
        let annotations = original.metadata.annotations.clone().unwrap();
        let finalizers = original.metadata.finalizers.clone().unwrap();
        let copy = format!("{name}-copy");
        stage.create(kind, &copy, json!({})).await;
        let patch = json!({ "metadata": { "annotations": annotations, "finalizers": finalizers } });
        stage.patch(kind, &copy, patch).await;
        stage.until_ready(kind, &copy).await;
        stage.delete(kind, &copy).await;
        stage.until_gone(kind, &copy).await;
    }
    stage.calm(&operator).await;
    assert_eq!(stage.store.live(), before);
    assert!(stage.account(&account).await.is_some());
    assert!(stage.user("ann").await.is_some());
    assert_eq!(
        stage.try_login(&stage.login(ANNS_SECRET).await).await,
        [200, 200]
    );
}
