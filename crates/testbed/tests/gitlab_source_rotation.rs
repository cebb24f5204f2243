//! The personal token that replaces itself: one request, never with a value that is dead.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod on_gitlab;

use lifecycle::{IssuedId, TroubleKind, Verdict, Version};
use serde_json::json;
use sources::{Order, Proof};
use testbed::gitlab::{self, Settings, Use};
use testbed::proxy::Fault;

use on_gitlab::{OnGitLab, holding, mark, owner};

#[tokio::test]
async fn a_self_rotation_above_the_maximum_is_one_request_and_the_next_try_asks_for_less() {
    let settings = Settings {
        max_lifetime_days: 30,
        ..Settings::default()
    };
    let on = OnGitLab::new(settings);
    let by_hand = on
        .gitlab
        .add_token(on.owner, "by hand", &["self_rotate"], None);
    let source = on.personal(by_hand.value.reveal());
    let order = Order {
        present: Some(holding(by_hand.value.reveal())),
        wish: json!({ "lifetimeSeconds": 90 * 86_400 }),
        ..on.order(owner().mark(Version::new(1, 1)))
    };
    let refused = source.mint(&order).await.unwrap_err();
    assert_eq!(refused.kind, TroubleKind::Rejected);
    assert!(refused.detail.contains("30 days"), "{refused}");
    assert_eq!(on.asked(gitlab::ROTATE_SELF), 1);
    assert_eq!(
        on.gitlab.use_token(by_hand.value.reveal()),
        Use::Works,
        "a refusal has no effect"
    );
    let minted = source.mint(&order).await.unwrap();
    assert_eq!(on.asked(gitlab::ROTATE_SELF), 2);
    assert_eq!(source.verify(&minted.values).await.unwrap(), Verdict::Works);
}

#[tokio::test]
async fn a_prepared_self_rotation_is_the_only_request_and_prepared_once() {
    let on = OnGitLab::new(Settings::default());
    let by_hand = on.gitlab.add_token(on.owner, "by hand", &["api"], None);
    let source = on.personal(by_hand.value.reveal());
    let order = Order {
        present: Some(holding(by_hand.value.reveal())),
        wish: json!({ "lifetimeSeconds": 7200 }),
        ..on.order(owner().mark(Version::new(1, 1)))
    };
    source.prepare(&order).await.unwrap();
    let asked = on.gitlab.journal().len();
    assert_eq!(on.asked(gitlab::ROTATE_SELF), 0, "nothing was changed");
    source.mint(&order).await.unwrap();
    assert_eq!(on.gitlab.journal().len(), asked + 1);
    // What was learned is used up: a second rotation with the value, which is dead now, tries it first.
    let error = source.mint(&order).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Denied);
    assert_eq!(on.asked(gitlab::ROTATE_SELF), 1);
    let error = source.prepare(&order).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Denied);
}

#[tokio::test]
async fn a_gitlab_without_self_rotation_is_told_by_its_version() {
    let on = OnGitLab::new(Settings {
        version: gitlab::Version::new(16, 9, 2),
        ..Settings::default()
    });
    let source = on.personal(&on.login);
    let order = Order {
        present: Some(holding(&on.login)),
        wish: json!({ "lifetimeSeconds": 7200 }),
        ..on.order(owner().mark(Version::new(1, 1)))
    };
    let error = source.mint(&order).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Rejected);
    assert!(error.detail.contains("16.10"), "{error}");
    assert_eq!(on.asked(gitlab::ROTATE_SELF), 0);
}

#[tokio::test]
async fn a_self_rotation_is_one_request_with_an_end_and_the_same_endpoint_every_time() {
    let on = OnGitLab::new(Settings::default());
    on.gitlab
        .stop_clock("2026-11-16T10:00:00Z".parse().unwrap());
    let by_hand = on
        .gitlab
        .add_token(on.owner, "by hand", &["self_rotate", "read_api"], None);
    let source = on.personal(by_hand.value.reveal());
    let mut present = holding(&format!("{}\n", by_hand.value.reveal()));
    for round in 1..=3 {
        let order = Order {
            present: Some(present.clone()),
            wish: json!({ "lifetimeSeconds": 7200 }),
            ..on.order(owner().mark(Version::new(u32::try_from(round).unwrap(), 1)))
        };
        let minted = source.mint(&order).await.unwrap();
        assert_eq!(
            minted.expires,
            Some("2026-11-17T00:00:00Z".parse().unwrap())
        );
        assert_eq!(on.asked(gitlab::ROTATE_SELF), round);
        assert_eq!(source.verify(&minted.values).await.unwrap(), Verdict::Works);
        assert_eq!(source.verify(&present).await.unwrap(), Verdict::Refused);
        present = minted.values;
    }
}

#[tokio::test]
async fn a_lost_answer_of_a_self_rotation_is_not_asked_for_again_and_the_old_value_tells() {
    let on = OnGitLab::new(Settings::default());
    let by_hand = on
        .gitlab
        .add_token(on.owner, "by hand", &["self_rotate"], None);
    let present = holding(by_hand.value.reveal());
    let source = on.personal(by_hand.value.reveal());
    let order = Order {
        present: Some(present.clone()),
        wish: json!({ "lifetimeSeconds": 7200 }),
        ..on.order(owner().mark(Version::new(1, 1)))
    };
    // The request never arrived: the old value works, and another try is allowed.
    on.gitlab
        .faults()
        .next(gitlab::ROTATE_SELF, Fault::DropNotApplied);
    let lost = source.mint(&order).await.unwrap_err();
    assert_eq!(lost.kind, TroubleKind::Unreachable);
    assert_eq!(source.verify(&present).await.unwrap(), Verdict::Works);
    // Its answer was lost: the old value is dead.
    on.gitlab
        .faults()
        .next(gitlab::ROTATE_SELF, Fault::DropApplied);
    let lost = source.mint(&order).await.unwrap_err();
    assert_eq!(lost.kind, TroubleKind::Unreachable);
    assert_eq!(source.verify(&present).await.unwrap(), Verdict::Refused);
    assert_eq!(
        on.asked(gitlab::ROTATE_SELF),
        1,
        "what was lost was not sent again"
    );
    // Even asked to, nobody rotates with a dead value: that would end the successor too.
    let successor = on
        .gitlab
        .live()
        .into_iter()
        .find(|live| live.name == "by hand")
        .unwrap();
    let error = source.mint(&order).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Denied);
    assert_eq!(on.asked(gitlab::ROTATE_SELF), 1);
    assert!(
        on.gitlab.token(successor.id).unwrap().active,
        "its family lives"
    );
}

#[tokio::test]
async fn a_token_that_may_not_rotate_itself_is_told_before_it_is_tried() {
    let on = OnGitLab::new(Settings::default());
    let reader = on.gitlab.add_token(on.owner, "reader", &["read_api"], None);
    let source = on.personal(reader.value.reveal());
    let order = Order {
        present: Some(holding(reader.value.reveal())),
        wish: json!({ "lifetimeSeconds": 7200 }),
        ..on.order(owner().mark(Version::new(1, 1)))
    };
    let error = source.mint(&order).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Denied);
    assert!(error.detail.contains("self_rotate"), "{error}");
    assert_eq!(on.asked(gitlab::ROTATE_SELF), 0);
}

#[tokio::test]
async fn a_personal_token_ends_itself_and_a_newer_one_of_the_same_person_ends_it_too() {
    let on = OnGitLab::new(Settings::default());
    let (one, two) = (
        on.gitlab.add_token(on.owner, "one", &["self_rotate"], None),
        on.gitlab.add_token(on.owner, "two", &["api"], None),
    );
    let id = |id: u64| IssuedId::from(id.to_string());
    let mark = mark();
    let source = on.personal(one.value.reveal());
    let by_its_value = Proof::by(&mark);
    source.revoke(&by_its_value, &id(one.id)).await.unwrap();
    assert_eq!(on.gitlab.use_token(one.value.reveal()), Use::Revoked);
    let values = holding(one.value.reveal());
    assert!(source.gone(&id(one.id), Some(&values)).await.unwrap());
    let knowing = Proof {
        values: Some(&values),
        ..Proof::by(&mark)
    };
    source.revoke(&knowing, &id(one.id)).await.unwrap();

    let three = on
        .gitlab
        .add_token(on.owner, "three", &["self_rotate"], None);
    let newer = on.personal(two.value.reveal());
    let recorded = Proof {
        recorded: true,
        ..Proof::by(&mark)
    };
    newer.revoke(&recorded, &id(three.id)).await.unwrap();
    assert!(newer.gone(&id(three.id), None).await.unwrap());
    assert_eq!(on.gitlab.use_token(two.value.reveal()), Use::Works);
}

/// Its number may have been written into a record by anybody.
#[tokio::test]
async fn another_persons_token_is_never_ended_and_ones_own_only_if_it_is_recorded() {
    let on = OnGitLab::new(Settings::default());
    let add = |user, name| on.gitlab.add_token(user, name, &["api"], None);
    let (victim, own) = (add(on.owner, "olga's"), add(gitlab::ROOT, "root's other"));
    let admin = on.personal(add(gitlab::ROOT, "root's").value.reveal());
    let stranger = on.personal(&on.strangers_token());
    let (mark, id) = (mark(), |id: u64| IssuedId::from(id.to_string()));
    let proof = |recorded| Proof {
        recorded,
        ..Proof::by(&mark)
    };
    for recorded in [false, true] {
        for source in [&admin, &stranger] {
            let error = source
                .revoke(&proof(recorded), &id(victim.id))
                .await
                .unwrap_err();
            assert_eq!(error.kind, TroubleKind::Rejected, "{error}");
            assert!(error.detail.contains("another person's"), "{error}");
        }
    }
    assert_eq!(on.gitlab.use_token(victim.value.reveal()), Use::Works);
    let error = admin.revoke(&proof(false), &id(own.id)).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Rejected, "{error}");
    assert_eq!(on.gitlab.use_token(own.value.reveal()), Use::Works);
    admin.revoke(&proof(true), &id(own.id)).await.unwrap();
    assert_eq!(on.gitlab.use_token(own.value.reveal()), Use::Revoked);
}
