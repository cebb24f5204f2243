//! What a Keystone source ends: what bears the mark at the Keystone that made it, and what a predecessor left and proves.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod on_keystone;

use jiff::SignedDuration;
use lifecycle::{Issued, IssuedId, TroubleKind, Version};
use serde_json::json;
use sources::keystone::{AC_ID, AC_SECRET, Administrator, Keystone, credential_id};
use sources::{Proof, SecretValue, Source, Values};
use testbed::keystone::standin::StandIn;
use testbed::keystone::{self, Admin};
use testbed::proxy::{self, Proxy};

use on_keystone::{assert_kind, first, is_alive, mint, now, own, owner, server, session};

fn stand_in() -> StandIn {
    StandIn::start(keystone::Options::default()).unwrap()
}

/// By hand, as a user, with a life of one day.
async fn add(admin: &Admin, user: &str, name: &str) -> (IssuedId, Values) {
    let http = admin.http();
    let auth = json!({
        "identity": { "methods": ["password"], "password": { "user": {
            "name": user, "domain": { "name": "Default" }, "password": keystone::password_of(user) } } },
        "scope": { "project": { "name": "service", "domain": { "name": "Default" } } },
    });
    let login = http.log_in(&auth).await.unwrap();
    let id = login.text("/token/user/id").unwrap();
    let expires = now() + SignedDuration::from_hours(24);
    let wish = json!({ "application_credential": {
        "name": name, "expires_at": expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() } });
    let made = http
        .send(
            http::Method::POST,
            &format!("/v3/users/{id}/application_credentials"),
            &login.token().unwrap(),
            Some(&wish),
        )
        .await
        .unwrap();
    let text = |path| made.text(path).unwrap();
    let id = text("/application_credential/id");
    let values = Values::new()
        .with(AC_ID, SecretValue::new(id.as_str()))
        .with(
            AC_SECRET,
            SecretValue::new(text("/application_credential/secret")),
        );
    (IssuedId::from(id), values)
}

fn recorded(mark: &lifecycle::Mark) -> Proof<'_> {
    Proof {
        recorded: true,
        ..Proof::by(mark)
    }
}

/// Nobody can be using it: its value need not be known.
#[tokio::test]
async fn a_predecessors_that_has_expired_is_ended_without_its_value() {
    let standin = stand_in();
    let (server, admin) = (server(&standin.url()), Admin::new(&standin.url()));
    let (id, _) = add(&admin, "barbican", "ac-barbican-29090").await;
    let (source, mark) = (own(&server, "barbican"), first(&owner("heir")));
    let refused = source.revoke(&recorded(&mark), &id).await.unwrap_err();
    assert_kind(&refused, TroubleKind::Rejected);
    assert!(refused.detail.contains("delete it by hand"), "{refused}");
    standin.advance(SignedDuration::from_hours(25));
    let refused = source.revoke(&Proof::by(&mark), &id).await.unwrap_err();
    assert_kind(&refused, TroubleKind::Rejected);
    source.revoke(&recorded(&mark), &id).await.unwrap();
    assert!(source.gone(&id, None).await.unwrap());
}

/// An administrator could end it, and must not: it is not the login's own.
#[tokio::test]
async fn a_predecessors_of_another_user_is_not_ended_even_with_its_value() {
    let standin = stand_in();
    let (server, admin) = (server(&standin.url()), Admin::new(&standin.url()));
    let (id, values) = add(&admin, "cinder", "ac-cinder-29090").await;
    let cinder = admin.user_id("cinder").await.unwrap();
    let id = IssuedId::from(format!("{id}@{cinder}"));
    let mark = first(&owner("heir"));
    let proof = Proof {
        values: Some(&values),
        ..recorded(&mark)
    };
    let password = keystone::password_of("admin");
    let by_admin = session(&server, "admin", "admin", &password);
    let wrong = session(&server, "cinder", "service", "a-password-that-is-wrong");
    let stepping_in =
        Keystone::new(wrong, Vec::new()).with_administrator(Administrator::Is(by_admin.clone()));
    for source in [Keystone::new(by_admin, Vec::new()), stepping_in] {
        let refused = source.revoke(&proof, &id).await.unwrap_err();
        assert_kind(&refused, TroubleKind::Rejected);
        assert!(!source.gone(&id, None).await.unwrap());
    }
    own(&server, "cinder").revoke(&proof, &id).await.unwrap();
}

/// A record says less than the name.
#[tokio::test]
async fn what_is_recorded_is_listed_as_what_its_mark_says_or_not_at_all() {
    let standin = stand_in();
    let (server, admin) = (server(&standin.url()), Admin::new(&standin.url()));
    let source = own(&server, "barbican");
    let (ours, theirs) = (owner("ours"), owner("theirs"));
    let (own, of_others) = (mint(&source, &ours).await, mint(&source, &theirs).await);
    let (left, _) = add(&admin, "barbican", "ac-barbican-29090").await;
    let issued = |id: &IssuedId, version, marked| Issued {
        id: id.clone(),
        version,
        marked,
    };
    let two = Version::new(2, 1);
    let known = [&own.id, &of_others.id, &left].map(|id| issued(id, two, true));
    let mut listed = source.list(&ours, &known).await.unwrap();
    listed.sort_by_key(|issued| issued.version);
    let as_they_are = [
        issued(&own.id, Version::new(1, 1), true),
        issued(&left, two, false),
    ];
    assert_eq!(listed, as_they_are);
}

/// The KeystoneAPI was pointed to another Keystone: that one knows nothing, and has ended nothing.
#[tokio::test]
async fn a_keystone_does_not_say_that_a_credential_of_another_is_gone() {
    let (here, there) = (stand_in(), stand_in());
    let (resource, server) = (owner("some"), server(&there.url()));
    let minted = mint(
        &own(&on_keystone::server(&here.url()), "barbican"),
        &resource,
    )
    .await;
    let mark = first(&resource);
    let password = keystone::password_of("admin");
    let admin = session(&server, "admin", "admin", &password);
    let plain = own(&server, "barbican");
    let with_admin = plain.clone().with_administrator(Administrator::Is(admin));
    for source in [plain, with_admin] {
        let answers = [
            source.revoke(&Proof::by(&mark), &minted.id).await,
            source.gone(&minted.id, None).await.map(drop),
            source
                .gone(&minted.id, Some(&minted.values))
                .await
                .map(drop),
        ];
        for answer in answers {
            let refused = answer.unwrap_err();
            assert_kind(&refused, TroubleKind::Rejected);
            let address = here.address().to_string();
            let told = format!("made at Keystone {address}, and this one does not know it");
            assert!(refused.detail.contains(&told), "{refused}");
        }
        // What an earlier Keyward recorded does not say where it was made.
        let plain_id = IssuedId::from(credential_id(&minted.id));
        assert!(source.gone(&plain_id, Some(&minted.values)).await.unwrap());
    }
    assert!(is_alive(&Admin::new(&here.url()), &minted).await);
}

#[tokio::test]
async fn the_same_keystone_under_another_name_ends_what_it_knows_by_its_mark() {
    let standin = stand_in();
    let resource = owner("some");
    let minted = mint(&own(&server(&standin.url()), "barbican"), &resource).await;
    let proxy = Proxy::start(&standin.url(), proxy::Options::default()).unwrap();
    let renamed = own(&server(&proxy.url()), "barbican");
    let (mark, stranger) = (first(&resource), first(&owner("another")));
    let known = Issued {
        id: minted.id.clone(),
        version: mark.version(),
        marked: true,
    };
    let listed = renamed.list(&resource, std::slice::from_ref(&known)).await;
    assert_eq!(listed.unwrap(), [known], "under the id that is recorded");
    assert!(!renamed.gone(&minted.id, None).await.unwrap());
    let refused = renamed.revoke(&Proof::by(&stranger), &minted.id).await;
    assert_kind(&refused.unwrap_err(), TroubleKind::Rejected);
    for _ in 0..2 {
        let proof = Proof::by(&mark);
        renamed.revoke(&proof, &minted.id).await.unwrap();
        assert!(renamed.gone(&minted.id, None).await.unwrap());
        let values = Some(&minted.values);
        assert!(renamed.gone(&minted.id, values).await.unwrap());
    }
    // One that never saw it there cannot tell.
    let stranger = own(&server(&proxy.url()), "barbican");
    let unknown = stranger.gone(&minted.id, None).await.unwrap_err();
    assert_kind(&unknown, TroubleKind::Rejected);
}
