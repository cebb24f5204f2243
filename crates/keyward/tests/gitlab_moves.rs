//! A token whose resource points to another GitLab than before. Each GitLab counts its tokens for itself, so that the
//! same number is one token here and another there.
#![allow(
    clippy::unwrap_used,
    reason = "a stage that cannot be read ends the test"
)]

mod forge;

use std::collections::BTreeSet;

use forge::openings::in_window;
use forge::{EXPORT, Forge, Kind, NAME, Running, hours, minutes};
use keyward::engine::Options;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::gitlab::{CREATE_PROJECT_TOKEN, StandIn, Use};
use testbed::proxy::Fault;

const OTHER_LOGIN: &str = "gitlab-other";
const LEDGER: &str = "keyward.dev/ledger";
const ISSUED_ID: &str = "keyward.dev/issued-id";

/// Two servers, and an operator that may speak to both.
async fn two() -> (Forge, StandIn, Running) {
    two_with(Options::default()).await
}

async fn two_with(options: Options) -> (Forge, StandIn, Running) {
    let forge = Forge::new().await;
    let other = forge.another(OTHER_LOGIN).await;
    let urls = [forge.gitlab.url(), other.url()];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let operator = forge.operator_reaching(&urls, options).await;
    (forge, other, operator)
}

async fn move_to(forge: &Forge, other: &StandIn) {
    let login = json!({ "name": OTHER_LOGIN });
    forge
        .edit_spec(json!({ "baseURL": other.url(), "apiTokenSecretRef": login }))
        .await;
}

/// Time passes at both.
async fn live_through(
    forge: &Forge,
    other: &StandIn,
    operator: &Running,
    time: jiff::SignedDuration,
) {
    other.advance(time);
    forge.live_through(operator, time).await;
}

/// Ids of the tokens of ours that are alive there.
fn ours(gitlab: &StandIn) -> BTreeSet<u64> {
    let live = gitlab.live().into_iter();
    live.filter(|live| live.name.starts_with("kw1-"))
        .map(|live| live.id)
        .collect()
}

/// GL38: the answer to the first mint at the new place is lost, and what it made has the number of the token that is
/// still in its grace period at the old place.
#[tokio::test]
async fn an_orphan_is_found_although_a_token_elsewhere_has_its_number() {
    let (forge, other, operator) = two().await;
    forge.create(forge.keeping_old("2h")).await;
    forge.until_settled().await;
    let first = forge.current().await;
    other
        .faults()
        .next(CREATE_PROJECT_TOKEN, Fault::DropApplied);
    move_to(&forge, &other).await;
    forge.until_told_of("RotationFailed").await;
    assert_eq!(ours(&other), [first].into(), "the same number, by chance");
    forge
        .until("it is made good", || async {
            live_through(&forge, &other, &operator, minutes(1)).await;
            forge.current().await != first
        })
        .await;
    let second = forge.current().await;
    forge
        .until("the orphan is revoked", || async {
            live_through(&forge, &other, &operator, minutes(5)).await;
            !ours(&other).contains(&first)
        })
        .await;
    assert_eq!(ours(&forge.gitlab), [first].into(), "in its grace period");
    assert_eq!(forge.previous().await, first);
    assert_eq!(ours(&other), [second].into());
    assert_eq!(other.use_token(&forge.exported().await), Use::Works);
    live_through(&forge, &other, &operator, hours(2)).await;
    forge.until_settled().await;
    assert_eq!(ours(&forge.gitlab), BTreeSet::new());
    assert_eq!(ours(&other), [second].into());
}

/// GL38: the other way round, a request that arrives late at the old place makes a token with the number of the one that
/// was made at the new place meanwhile.
#[tokio::test]
async fn an_orphan_at_the_old_place_is_found_although_the_new_token_has_its_number() {
    let impatient = Options {
        effect_timeout: std::time::Duration::from_secs(2),
        ..Options::default()
    };
    let (forge, other, operator) = two_with(impatient).await;
    forge.faults().next(CREATE_PROJECT_TOKEN, Fault::Park);
    forge.create(forge.example()).await;
    forge.until_told_of("RotationFailed").await;
    move_to(&forge, &other).await;
    forge
        .until("one is made at the new place", || async {
            live_through(&forge, &other, &operator, minutes(1)).await;
            forge.current().await != 0
        })
        .await;
    let made = [forge.current().await].into();
    assert_eq!(forge.gitlab.release_parked(), 1);
    forge
        .until("the late one is made", || async {
            !ours(&forge.gitlab).is_empty()
        })
        .await;
    assert_eq!(ours(&forge.gitlab), made, "the same number, by chance");
    forge
        .until("the orphan is revoked", || async {
            live_through(&forge, &other, &operator, minutes(5)).await;
            ours(&forge.gitlab).is_empty()
        })
        .await;
    assert_eq!(ours(&other), made);
    assert_eq!(other.use_token(&forge.exported().await), Use::Works);
}

/// The same GitLab, by another address: what it lists is what is recorded, and nobody's orphan.
#[tokio::test]
async fn a_gitlab_that_goes_by_another_name_keeps_its_tokens() {
    let forge = Forge::new().await;
    let renamed = forge.gitlab.url().replace("127.0.0.1", "localhost");
    let urls = [forge.gitlab.url(), renamed.clone()];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let operator = forge.operator_reaching(&urls, Options::default()).await;
    forge.create(forge.keeping_old("2h")).await;
    forge.until_settled().await;
    let first = forge.current().await;
    forge.edit_spec(json!({ "baseURL": renamed })).await;
    let second = forge.until_rotated_from(first).await;
    forge.live_through(&operator, hours(1) + minutes(50)).await;
    assert_eq!(forge.previous().await, first);
    forge.assert_live(&[first, second]);
    forge.live_through(&operator, minutes(11)).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
    assert_eq!(forge.use_exported().await, Use::Works);
}

/// People are shown GitLab's own number.
#[tokio::test]
async fn the_address_is_recorded_and_the_number_shown() {
    let (forge, _operator, first, second) = in_window("2h").await;
    let whole = format!("\"{second}@{}\"", forge.gitlab.url());
    let ledger = forge.ledger().await;
    assert!(ledger.contains(&whole), "{ledger}");
    forge.edit_spec(json!({ "deletionPolicy": "Retain" })).await;
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    let told = forge.event("SecretsRetained");
    assert!(told.contains(&format!("{first} until")), "{told}");
    for (reason, text) in forge.events() {
        assert!(!text.contains('@'), "{reason}: {text}");
    }
}

/// What an earlier Keyward wrote, by the number alone.
#[tokio::test]
async fn a_record_without_an_address_is_of_where_its_own_spec_says() {
    let (forge, other, operator) = two().await;
    forge.create(forge.keeping_old("2h")).await;
    forge.until_settled().await;
    let first = forge.current().await;
    forge.calm(&operator).await;
    drop(operator);
    let at = format!("@{}", forge.gitlab.url());
    let ledger = forge.ledger().await.replace(&at, "");
    assert!(ledger.contains(&format!("\"{first}\"")), "{ledger}");
    forge.annotate(Kind::Project, NAME, LEDGER, &ledger).await;
    let record = json!({ "metadata": { "annotations": { ISSUED_ID: first.to_string() } } });
    forge
        .secrets()
        .patch(EXPORT, &PatchParams::default(), &Patch::Merge(&record))
        .await
        .unwrap();
    let urls = [forge.gitlab.url(), other.url()];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let writes = forge.writes();
    let operator = forge.operator_reaching(&urls, Options::default()).await;
    live_through(&forge, &other, &operator, hours(7)).await;
    assert_eq!(forge.writes(), writes, "an upgrade writes nothing");
    assert_eq!(forge.minted(), 1);
    assert_eq!(recorded(&forge).await, first.to_string());
    assert_eq!(forge.current().await, first);
    // From now on there is a token with the same number at the new place, and the old one is still found at the old.
    move_to(&forge, &other).await;
    forge
        .until("one is made at the new place", || async {
            live_through(&forge, &other, &operator, minutes(1)).await;
            forge.previous().await == first
        })
        .await;
    assert_eq!(ours(&other), [first].into(), "the same number, by chance");
    assert_eq!(ours(&forge.gitlab), [first].into(), "in its grace period");
    live_through(&forge, &other, &operator, hours(2)).await;
    forge.until_settled().await;
    assert_eq!(ours(&forge.gitlab), BTreeSet::new());
    assert_eq!(ours(&other), [first].into());
    assert_eq!(other.use_token(&forge.exported().await), Use::Works);
}

async fn recorded(forge: &Forge) -> String {
    let secret = forge.secret(EXPORT).await.unwrap();
    let record = secret.annotations().get(ISSUED_ID);
    record.cloned().unwrap_or_else(|| Value::Null.to_string())
}
