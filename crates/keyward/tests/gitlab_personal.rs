//! The personal token that rotates itself: adopted only if asked to, rotated with one request, and never with a value
//! that may be stale.

mod forge;

use forge::openings::settled;
use forge::{
    EXPORT, Forge, Kind, NAME, OPERATOR, ROOT, Running, hours, minutes, stores_a_value,
    stores_or_asks, with,
};
use keyward::engine::Options;
use serde_json::json;
use testbed::apiserver::{self, Verb};
use testbed::gitlab::{CREATE_PROJECT_TOKEN, ROTATE_SELF, Use};
use testbed::proxy::Fault;

const ROOT_NAME: &str = "root";

/// A forge whose login was adopted and rotated once; with the id of what is in the Secret now.
async fn adopted() -> (Forge, Running, u64) {
    let forge = Forge::new().await;
    let operator = forge.operator().await;
    forge.create(forge.personal_token()).await;
    forge.until_personal_settled().await;
    let id = forge.current_of(Kind::Personal, ROOT_NAME).await;
    (forge, operator, id)
}

async fn use_root(forge: &Forge) -> Use {
    let value = forge.value_in(ROOT, "token").await;
    forge.gitlab.use_token(&value)
}

/// S002-18, GL25.
#[tokio::test]
async fn without_the_owners_word_nothing_is_adopted_and_nothing_asked() {
    let forge = Forge::new().await;
    let before = forge.secret(ROOT).await.unwrap();
    let _operator = forge.operator().await;
    let change = json!({ "spec": { "adoptExistingSecret": false } });
    forge.create(with(forge.personal_token(), change)).await;
    forge
        .until_refused(Kind::Personal, ROOT_NAME, "SecretNotAdopted")
        .await;
    assert_eq!(forge.events_of("SecretNotAdopted"), 1);
    assert_eq!(forge.secret(ROOT).await.unwrap(), before);
    assert_eq!(forge.faults().total(), 0);
    assert_eq!(use_root(&forge).await, Use::Works);
    forge.assert_live(&[]);
}

/// S002-18, S002-19, S002-20, GL-A11.
#[tokio::test]
async fn an_adopted_token_is_rotated_at_once_and_then_by_schedule() {
    let (forge, operator, first) = adopted().await;
    assert_ne!(first, forge.login);
    assert!(forge.event("TookOwnership").contains("secret=gitlab-root"));
    assert_eq!(forge.rotations(), 1);
    assert_eq!(use_root(&forge).await, Use::Works);
    forge.live_through(&operator, hours(18) + minutes(6)).await;
    forge
        .until("the next one", || async {
            forge.current_of(Kind::Personal, ROOT_NAME).await != first
        })
        .await;
    forge.until_personal_settled().await;
    assert_eq!(forge.rotations(), 2);
    assert_eq!(use_root(&forge).await, Use::Works);
    assert_eq!(forge.events_of("TookOwnership"), 1);
    assert_eq!(forge.leaks().len(), 0);
    let second = forge.current_of(Kind::Personal, ROOT_NAME).await;
    forge.assert_live(&[second]);
}

/// GL31: the answer is lost and the old value is dead: so is the credential, and the command to mend it is told.
#[tokio::test]
async fn a_lost_answer_is_told_with_the_command_to_recover() {
    let (forge, operator, first) = adopted().await;
    forge.faults().next(ROTATE_SELF, Fault::DropApplied);
    forge.live_through(&operator, hours(18) + minutes(6)).await;
    forge
        .until("the loss is told", || async {
            forge.live_through(&operator, minutes(2)).await;
            forge.ready(Kind::Personal, ROOT_NAME).await["reason"] == "RootCredentialLost"
        })
        .await;
    let told = forge.ready(Kind::Personal, ROOT_NAME).await;
    assert_eq!(told["status"], "False");
    let text = told["message"].as_str().unwrap().to_owned();
    let command = "kubectl -n team-a patch secret gitlab-root --type=merge -p '{\"stringData\":{\"token\":\"<the new token>\"}}'";
    assert!(text.contains(command), "{text}");
    assert!(forge.event("RootCredentialLost").contains(command));
    forge.live_through(&operator, hours(8)).await;
    assert_eq!(forge.rotations(), 2, "no second try with a dead value");
    assert!(!forge.live().contains(&first));
    // A person brings a fresh one: from there on it rotates as before.
    let fresh = forge
        .gitlab
        .add_token(forge.owner, "by hand", &["api"], None);
    let lost: Vec<u64> = forge
        .live()
        .into_iter()
        .filter(|id| *id != fresh.id)
        .collect();
    assert_eq!(lost.len(), 1, "the one whose answer was lost");
    forge.put(ROOT, "token", fresh.value.reveal()).await;
    forge
        .until("it is taken up again", || async {
            forge.live_through(&operator, minutes(2)).await;
            forge.is_settled(Kind::Personal, ROOT_NAME).await
        })
        .await;
    assert_eq!(use_root(&forge).await, Use::Works);
    let now = forge.current_of(Kind::Personal, ROOT_NAME).await;
    forge.assert_live(&[now, lost[0]]);
}

/// GL31: the request was lost on its way, and the old value still works. It may yet arrive, and a second one would then
/// end the whole family: a person is asked for a fresh value, and until then the old one serves.
#[tokio::test]
async fn a_value_that_may_have_been_rotated_with_is_not_rotated_with_again() {
    let (forge, operator, first) = adopted().await;
    forge.faults().next(ROTATE_SELF, Fault::DropNotApplied);
    forge.live_through(&operator, hours(18) + minutes(6)).await;
    forge
        .until("a person is asked", || async {
            forge.live_through(&operator, minutes(2)).await;
            let ready = forge.ready(Kind::Personal, ROOT_NAME).await;
            ready["reason"] == "RotationUnconfirmed" && ready["status"] == "True"
        })
        .await;
    forge.live_through(&operator, hours(7)).await;
    assert_eq!(forge.rotations(), 2);
    assert_eq!(use_root(&forge).await, Use::Works);
    forge.assert_live(&[first]);
    let fresh = forge
        .gitlab
        .add_token(forge.owner, "by hand", &["api"], None);
    forge.put(ROOT, "token", fresh.value.reveal()).await;
    forge
        .until("it is rotated from", || async {
            forge.live_through(&operator, minutes(2)).await;
            forge.current_of(Kind::Personal, ROOT_NAME).await != first
        })
        .await;
    forge.until_personal_settled().await;
    assert_eq!(use_root(&forge).await, Use::Works);
    let now = forge.current_of(Kind::Personal, ROOT_NAME).await;
    // Nobody knows the value of the one before any more, and it is ended all the same.
    forge.assert_live(&[now]);
}

/// GL32: rotated, and the Secret cannot be written for a while. The only value there is is kept until it is stored.
#[tokio::test]
async fn a_value_that_cannot_be_stored_at_once_is_kept_until_it_is() {
    let (forge, operator, first) = adopted().await;
    forge.cluster_refuses(503, stores_a_value);
    forge.live_through(&operator, hours(18) + minutes(6)).await;
    forge
        .until("it was rotated", || async { forge.rotations() == 2 })
        .await;
    assert!(!forge.live().contains(&first));
    forge.server.faults().clear();
    forge
        .until("it is stored", || async {
            forge.live_through(&operator, minutes(1)).await;
            forge.current_of(Kind::Personal, ROOT_NAME).await != first
        })
        .await;
    assert_eq!(use_root(&forge).await, Use::Works);
    assert_eq!(forge.rotations(), 2, "one request, ever");
    let second = forge.current_of(Kind::Personal, ROOT_NAME).await;
    forge.assert_live(&[second]);
}

/// GL32: a Secret that cannot be written at all is noticed before the one request is sent.
#[tokio::test]
async fn a_secret_that_cannot_be_written_is_noticed_before_the_rotation() {
    let (forge, operator, first) = adopted().await;
    // Reserving it is allowed, and writing a value is not: the dry run shows it.
    forge.cluster_refuses(403, stores_or_asks);
    forge.live_through(&operator, hours(18) + minutes(6)).await;
    forge.until_told_of("RotationFailed").await;
    assert_eq!(forge.rotations(), 1);
    assert_eq!(use_root(&forge).await, Use::Works);
    forge.assert_live(&[first]);
    // Nothing was sent with the value, so that it may be used for it later.
    forge.server.faults().clear();
    forge
        .until("it is rotated", || async {
            forge.live_through(&operator, minutes(5)).await;
            forge.current_of(Kind::Personal, ROOT_NAME).await != first
        })
        .await;
    forge.until_personal_settled().await;
    assert_eq!(forge.rotations(), 2);
    let second = forge.current_of(Kind::Personal, ROOT_NAME).await;
    forge.assert_live(&[second]);
}

/// GL41: whoever dies between the two leaves a question to a person, so there is nothing else between them.
#[tokio::test]
async fn nothing_is_asked_between_the_reservation_and_the_rotation() {
    let (forge, operator, first) = adopted().await;
    forge.calm(&operator).await;
    let asked = forge.faults().clone();
    let (told, counts) = std::sync::mpsc::channel();
    forge.server.faults().plan(move |line| {
        let reserves = line.verb == Verb::Patch && line.resource == "secrets";
        if line.user_agent == OPERATOR && reserves {
            let _ = told.send(asked.log().len());
        }
        apiserver::Fault::Pass
    });
    forge.live_through(&operator, hours(18) + minutes(6)).await;
    forge
        .until("the next one", || async {
            forge.current_of(Kind::Personal, ROOT_NAME).await != first
        })
        .await;
    let before: Vec<usize> = counts.try_iter().collect();
    assert_eq!(before.len(), 1, "reserved once");
    let log = forge.faults().log();
    let next = &log[before[0]].line;
    assert!(next.path.ends_with("self/rotate"), "{next}");
    let last = &log[before[0] - 1].line;
    assert_eq!(last.method, "GET", "the value was tried right before");
}

/// GL24: a tool brings the first value back, which is revoked. Used to rotate, it would end the whole family.
#[tokio::test]
async fn a_reverted_secret_is_never_used_to_rotate() {
    let forge = Forge::new().await;
    let in_git = forge.value_in(ROOT, "token").await;
    let operator = forge.operator().await;
    forge.create(forge.personal_token()).await;
    forge.until_personal_settled().await;
    let first = forge.current_of(Kind::Personal, ROOT_NAME).await;
    forge.put(ROOT, "token", &in_git).await;
    forge
        .until("it is told", || async {
            forge.live_through(&operator, minutes(1)).await;
            forge.ready(Kind::Personal, ROOT_NAME).await["reason"] == "BootstrapReverted"
        })
        .await;
    forge.live_through(&operator, hours(19)).await;
    forge.live_through(&operator, hours(6)).await;
    assert_eq!(forge.rotations(), 1);
    forge.assert_live(&[first]);
}

/// A person brings a new value of his own: it works, so it is rotated from.
#[tokio::test]
async fn a_value_that_a_person_brings_is_rotated_from() {
    let (forge, operator, first) = adopted().await;
    let fresh = forge
        .gitlab
        .add_token(forge.owner, "by hand", &["api"], None);
    forge.put(ROOT, "token", fresh.value.reveal()).await;
    forge
        .until("it is rotated from", || async {
            forge.live_through(&operator, minutes(1)).await;
            forge.current_of(Kind::Personal, ROOT_NAME).await != first
        })
        .await;
    assert_eq!(use_root(&forge).await, Use::Works);
    forge.until_personal_settled().await;
    // The one it brings an end to was alive until then: only its own rotation would have ended it by itself.
    let current = forge.current_of(Kind::Personal, ROOT_NAME).await;
    forge.assert_live(&[current]);
    assert!(fresh.id != current && first != current);
}

/// The spec is pointed to another GitLab: the value is the first one's, and the other never sees it. A value of its own ends
/// the wait, and so would pointing back.
#[tokio::test]
async fn a_value_is_not_shown_to_another_gitlab() {
    let forge = Forge::new().await;
    let other = forge.another("gitlab-other").await;
    let urls = [forge.gitlab.url(), other.url()];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let operator = forge.operator_reaching(&urls, Options::default()).await;
    forge.create(forge.personal_token()).await;
    forge.until_personal_settled().await;
    forge
        .edit(
            Kind::Personal,
            ROOT_NAME,
            json!({ "spec": { "baseURL": other.url() } }),
        )
        .await;
    forge
        .until("it is told", || async {
            let stalled = forge.condition(Kind::Personal, ROOT_NAME, "Stalled").await;
            stalled["reason"] == "ValueOfAnotherIssuer"
        })
        .await;
    other.advance(hours(19));
    forge.live_through(&operator, hours(19)).await;
    assert_eq!(other.faults().total(), 0, "the other was asked nothing");
    let fresh = forge.value_in("gitlab-other", "token").await;
    let asked = forge.faults().total();
    forge.put(ROOT, "token", &fresh).await;
    forge
        .until("it is rotated from", || async {
            let value = forge.value_in(ROOT, "token").await;
            value != fresh && other.use_token(&value) == Use::Works
        })
        .await;
    other.advance(hours(1));
    forge.live_through(&operator, hours(1)).await;
    assert_eq!(
        forge.faults().total(),
        asked,
        "and the first sees nothing of the other's"
    );
    let waits = forge.ready(Kind::Personal, ROOT_NAME).await;
    assert_eq!(
        waits["reason"], "LoginMissing",
        "its token has to be ended by hand, or to expire"
    );
}

/// GL34: those who log in with it read the Secret again; they never send a rotate.
#[tokio::test]
async fn dependents_follow_when_their_login_rotates() {
    let (forge, operator, first) = settled().await;
    forge.create(forge.personal_token()).await;
    forge.until_personal_settled().await;
    forge.rotate("with the new login").await;
    let second = forge.until_rotated_from(first).await;
    forge.until_settled().await;
    assert_eq!(forge.rotations(), 1, "only the personal token's own");
    assert_eq!(forge.use_exported().await, Use::Works);
    // Both on the same night.
    forge.live_through(&operator, hours(18) + minutes(6)).await;
    let third = forge.until_rotated_from(second).await;
    forge
        .until("all is well", || async {
            forge.live_through(&operator, minutes(1)).await;
            forge.is_settled(Kind::Project, NAME).await
                && forge.is_settled(Kind::Personal, ROOT_NAME).await
                && forge.rotations() == 2
        })
        .await;
    assert_eq!(forge.use_exported().await, Use::Works);
    let root = forge.current_of(Kind::Personal, ROOT_NAME).await;
    forge.assert_live(&[third, root]);
    assert!(forge.faults().count(CREATE_PROJECT_TOKEN) >= 3);
    assert!(forge.secret(EXPORT).await.is_some());
}

/// Deleted, it leaves token and Secret to the person it was taken from; made anew, it adopts them again.
#[tokio::test]
async fn a_deleted_personal_resource_leaves_the_token_where_it_is() {
    let (forge, _operator, first) = adopted().await;
    forge.delete(Kind::Personal, ROOT_NAME).await;
    forge.until_gone(Kind::Personal, ROOT_NAME).await;
    assert_eq!(use_root(&forge).await, Use::Works);
    forge.assert_live(&[first]);
    forge.create(forge.personal_token()).await;
    forge.until_personal_settled().await;
    let second = forge.current_of(Kind::Personal, ROOT_NAME).await;
    assert_eq!(use_root(&forge).await, Use::Works);
    forge.assert_live(&[second]);
}

/// Or takes the token along, if it was told to. The Secret was its owner's before: our key goes, the Secret stays.
#[tokio::test]
async fn a_personal_resource_with_revoke_takes_the_token_along_and_leaves_the_secret() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    let change = json!({ "spec": { "deletionPolicy": "Revoke" } });
    forge.create(with(forge.personal_token(), change)).await;
    forge.until_personal_settled().await;
    forge.delete(Kind::Personal, ROOT_NAME).await;
    forge.until_gone(Kind::Personal, ROOT_NAME).await;
    forge.assert_live(&[]);
    let left = forge.secret(ROOT).await.unwrap();
    assert!(left.data.unwrap_or_default().is_empty());
    assert_eq!(left.metadata.finalizers.unwrap_or_default(), [""; 0]);
    assert!(
        left.metadata
            .owner_references
            .unwrap_or_default()
            .is_empty()
    );
}
