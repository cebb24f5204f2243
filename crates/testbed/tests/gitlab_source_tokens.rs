//! Making and finding tokens of projects and groups by GitLab's own rules.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod on_gitlab;

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lifecycle::{ClusterId, Issued, IssuedId, Owner, TroubleKind, Verdict, Version};
use serde_json::json;
use sources::{LastUse, Proof};
use testbed::gitlab::{self, RateLimit, Settings, TooMany, Use, level};

use on_gitlab::{OnGitLab, holding, number, owner, value_of};

#[tokio::test]
async fn a_token_lives_as_long_as_was_asked_although_it_is_dead_on_its_date() {
    let on = OnGitLab::new(Settings::default());
    // Late in the day: a life of two hours ends tomorrow, and tomorrow's date would end it at midnight.
    let late: Timestamp = "2026-11-16T23:00:00Z".parse().unwrap();
    on.gitlab.stop_clock(late);
    let source = on.of_project();
    let minted = on.mint(&source, Version::new(1, 1)).await;
    assert_eq!(
        minted.expires,
        Some("2026-11-18T00:00:00Z".parse().unwrap())
    );
    on.gitlab
        .stop_clock("2026-11-17T01:00:00Z".parse().unwrap());
    assert_eq!(source.verify(&minted.values).await.unwrap(), Verdict::Works);
    on.gitlab
        .stop_clock("2026-11-17T23:59:59Z".parse().unwrap());
    assert_eq!(on.gitlab.use_token(value_of(&minted.values)), Use::Works);
    on.gitlab
        .stop_clock("2026-11-18T00:00:00Z".parse().unwrap());
    assert_eq!(
        source.verify(&minted.values).await.unwrap(),
        Verdict::Refused
    );
    assert!(source.gone(&minted.id, None).await.unwrap());
    assert!(
        source.list(&owner(), &[]).await.unwrap().is_empty(),
        "expired is not alive"
    );
}

#[tokio::test]
async fn a_life_above_the_maximum_of_the_instance_is_cut_to_it() {
    let settings = Settings {
        max_lifetime_days: 30,
        ..Settings::default()
    };
    let on = OnGitLab::new(settings);
    let source = on.of_project();
    let mut order = on.order(owner().mark(Version::new(1, 1)));
    order.wish["lifetimeSeconds"] = json!(90 * 86_400);
    let minted = source.mint(&order).await.unwrap();
    let limit = on.today().checked_add(jiff::Span::new().days(30)).unwrap();
    let limit = limit.to_zoned(TimeZone::UTC).unwrap().timestamp();
    assert_eq!(minted.expires, Some(limit), "the last day that is granted");
    assert_eq!(on.asked(gitlab::CREATE_PROJECT_TOKEN), 2);
    assert_eq!(
        source.list(&owner(), &[]).await.unwrap().len(),
        1,
        "a refusal made nothing"
    );
    // One who knows the limit is not refused at all.
    order.wish["maxDays"] = json!(30);
    source.mint(&order).await.unwrap();
    assert_eq!(on.asked(gitlab::CREATE_PROJECT_TOKEN), 3);
}

#[tokio::test]
async fn lists_are_followed_to_the_last_page_although_their_links_lead_elsewhere() {
    let settings = Settings {
        link_host: Some("https://gitlab.example.com".into()),
        count_up_to: 10,
        ..Settings::default()
    };
    let on = OnGitLab::new(settings);
    let source = on.of_project();
    for attempt in 1..=230 {
        let name = owner().mark(Version::new(1, attempt)).to_string();
        let scopes = ["read_api"];
        on.gitlab
            .add_resource_token(on.project, on.owner, &name, level::GUEST, &scopes, None);
    }
    assert_eq!(source.list(&owner(), &[]).await.unwrap().len(), 230);
    assert_eq!(on.asked(gitlab::LIST_PROJECT_TOKENS), 3);
}

#[tokio::test]
async fn names_are_not_unique_and_only_whole_marks_count() {
    let on = OnGitLab::new(Settings::default());
    let source = on.of_project();
    let mark = owner().mark(Version::new(3, 1)).to_string();
    for name in [
        mark.clone(),
        mark.clone(),
        format!("{mark}0"),
        format!("copy of {mark}"),
        format!("{mark}-copy"),
        mark.to_uppercase(),
    ] {
        let scopes = ["read_api"];
        on.gitlab
            .add_resource_token(on.project, on.owner, &name, level::GUEST, &scopes, None);
    }
    let listed = source.list(&owner(), &[]).await.unwrap();
    let versions: Vec<Version> = listed.iter().map(|issued| issued.version).collect();
    let same = versions
        .iter()
        .filter(|version| **version == Version::new(3, 1));
    assert_eq!(same.count(), 2, "both of one name are found: {versions:?}");
    assert_eq!(
        versions.len(),
        3,
        "and the tenth attempt, which is another: {versions:?}"
    );
}

#[tokio::test]
async fn what_is_recorded_is_found_under_whatever_name() {
    let on = OnGitLab::new(Settings::default());
    let source = on.of_project();
    let scopes = ["read_api"];
    let other = on.gitlab.add_resource_token(
        on.project,
        on.owner,
        "by a predecessor",
        level::GUEST,
        &scopes,
        None,
    );
    let recorded = |id: u64| Issued {
        id: IssuedId::from(id.to_string()),
        version: Version::new(1, 1),
        marked: false,
    };
    let both = [recorded(other.id), recorded(987_654_321)];
    let listed = source.list(&owner(), &both).await.unwrap();
    assert_eq!(listed, [recorded(other.id)]);
    on.gitlab.revoke(other.id);
    assert!(source.list(&owner(), &both).await.unwrap().is_empty());
}

/// A record says less than the name.
#[tokio::test]
async fn what_is_recorded_is_listed_as_what_its_mark_says_or_not_at_all() {
    let on = OnGitLab::new(Settings::default());
    let source = on.of_project();
    let minted = on.mint(&source, Version::new(2, 1)).await;
    let stranger = Owner::new(ClusterId::of_cluster("another"), "a neighbour's");
    for known in [
        minted.id.clone(),
        number(&minted.id).to_string().as_str().into(),
    ] {
        let recorded = [Issued {
            id: known.clone(),
            version: Version::new(1, 1),
            marked: true,
        }];
        let listed = source.list(&owner(), &recorded).await.unwrap();
        let as_it_is = Issued {
            id: known,
            version: Version::new(2, 1),
            marked: true,
        };
        assert_eq!(listed, [as_it_is]);
        assert!(source.list(&stranger, &recorded).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_token_recorded_elsewhere_is_not_taken_for_its_namesake_here() {
    let on = OnGitLab::new(Settings::default());
    let source = on.of_project();
    let minted = on.mint(&source, Version::new(2, 1)).await;
    let elsewhere = |version| Issued {
        id: IssuedId::from(format!("{}@https://old.example", number(&minted.id))),
        version,
        marked: true,
    };
    let listed = async |recorded: Issued| source.list(&owner(), &[recorded]).await.unwrap();
    let orphan = Issued {
        id: minted.id.clone(),
        version: Version::new(2, 1),
        marked: true,
    };
    assert_eq!(listed(elsewhere(Version::new(1, 1))).await, [orphan]);
    // The same number and the same mark: this GitLab went by another address then.
    let same = elsewhere(Version::new(2, 1));
    assert_eq!(listed(same.clone()).await, std::slice::from_ref(&same));
    // But what it is ended by is asked where it was recorded, and nowhere else.
    let asked = on.gitlab.journal().len();
    let mark = owner().mark(Version::new(2, 1));
    let error = source
        .revoke(&Proof::by(&mark), &same.id)
        .await
        .unwrap_err();
    assert_eq!(error.kind, TroubleKind::Rejected);
    assert!(source.gone(&same.id, Some(&minted.values)).await.is_err());
    assert_eq!(on.gitlab.journal().len(), asked);
}

#[tokio::test]
async fn a_token_without_an_end_has_none() {
    let settings = Settings {
        require_expiry: false,
        ..Settings::default()
    };
    let on = OnGitLab::new(settings);
    let endless = on.gitlab.add_token(on.owner, "for ever", &["api"], None);
    let source = on.personal(endless.value.reveal());
    let values = holding(endless.value.reveal());
    assert_eq!(source.verify(&values).await.unwrap(), Verdict::Works);
    let scopes = ["read_api"];
    let mark = owner().mark(Version::new(1, 1)).to_string();
    on.gitlab
        .add_resource_token(on.project, on.owner, &mark, level::GUEST, &scopes, None);
    assert_eq!(on.of_project().list(&owner(), &[]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_a_version_lacks_is_refused_before_anything_is_asked_and_its_version_is_asked_once() {
    let settings = |minor| Settings {
        version: gitlab::Version::new(17, minor, 0),
        ..Settings::default()
    };
    for (key, value, came) in [
        ("accessLevel", json!(15), 7),
        ("scopes", json!(["self_rotate"]), 9),
        ("scopes", json!(["manage_runner", "read_api"]), 1),
    ] {
        let on = OnGitLab::new(settings(came - 1));
        let source = on.of_project();
        let mut order = on.order(owner().mark(Version::new(1, 1)));
        order.wish[key] = value.clone();
        for _ in 0..3 {
            let error = source.mint(&order).await.unwrap_err();
            assert_eq!(error.kind, TroubleKind::Rejected);
            assert!(
                error.detail.contains(&format!("GitLab 17.{came}")),
                "{error}"
            );
        }
        assert_eq!(on.asked(gitlab::METADATA), 1);
        assert_eq!(on.asked(gitlab::CREATE_PROJECT_TOKEN), 0);
        let on = OnGitLab::new(settings(came));
        let mut order = on.order(owner().mark(Version::new(1, 1)));
        order.wish[key] = value;
        on.of_project().mint(&order).await.unwrap();
    }
    // Who asks for nothing new asks for no version.
    let on = OnGitLab::new(settings(0));
    on.mint(&on.of_project(), Version::new(1, 1)).await;
    assert_eq!(on.asked(gitlab::METADATA), 0);
}

#[tokio::test]
async fn every_way_of_saying_too_many_requests_is_respected() {
    for answer in [
        TooMany::Plain,
        TooMany::PlainWithoutHeaders,
        TooMany::Json,
        TooMany::JsonWithoutHeaders,
    ] {
        let on = OnGitLab::new(Settings {
            rate_limit: Some(RateLimit {
                requests: 1,
                window: Duration::from_mins(5),
                answer,
            }),
            ..Settings::default()
        });
        // Twenty seconds into a stretch of three hundred.
        on.gitlab
            .stop_clock(Timestamp::from_second(1_794_822_920).unwrap());
        let source = on.of_project();
        source.list(&owner(), &[]).await.unwrap();
        let error = source.list(&owner(), &[]).await.unwrap_err();
        assert_eq!(error.kind, TroubleKind::Throttled);
        let wait = match answer {
            TooMany::Plain | TooMany::Json => 280,
            TooMany::PlainWithoutHeaders | TooMany::JsonWithoutHeaders => 60,
        };
        assert_eq!(
            error.wait,
            Some(SignedDuration::from_secs(wait)),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn the_last_use_of_a_token_is_told_and_looking_is_no_use() {
    let on = OnGitLab::new(Settings::default());
    on.gitlab
        .stop_clock("2026-11-16T10:00:00Z".parse().unwrap());
    let source = on.of_project();
    let minted = on.mint(&source, Version::new(1, 1)).await;
    assert_eq!(source.used(&minted.id).await.unwrap(), None);
    on.gitlab.advance(SignedDuration::from_mins(20));
    on.gitlab.use_token(value_of(&minted.values));
    let used = Some(LastUse {
        at: "2026-11-16T10:20:00Z".parse().unwrap(),
        ours: false,
    });
    assert_eq!(source.used(&minted.id).await.unwrap(), used);
    on.gitlab.advance(SignedDuration::from_mins(60));
    assert_eq!(source.used(&minted.id).await.unwrap(), used);
    let skew = source.skew().unwrap();
    let ahead = on.gitlab.now().duration_since(real_now());
    assert!(
        (skew - ahead).abs() < SignedDuration::from_secs(5),
        "{skew:?} {ahead:?}"
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "what the skew is held against is the real clock"
)]
fn real_now() -> Timestamp {
    Timestamp::now()
}
