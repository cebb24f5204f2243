//! Tokens that are logins for other tokens: waited for, followed, and never in a ring. And whom the operator may speak
//! to, and what stands in the way of a spec until it does not.

mod forge;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forge::openings::in_window;
use forge::{EXPORT, Forge, Kind, NAME, OPERATOR, ROOT, Running, hours, minutes, with};
use keyward::controllers::gitlab;
use keyward::engine::Options;
use serde_json::{Value, json};
use testbed::apiserver;
use testbed::gitlab::{CREATE_PROJECT_TOKEN, Settings, Use};
use testbed::proxy::Fault;

/// A maintainer's token, good enough to be a login. GitLab lets no bot make tokens, so that nothing comes of it.
fn link(forge: &Forge, name: &str, login: &str) -> Value {
    forge.project_token(name, &format!("{name}-token"), login)
}

/// S002-21, S002-2.
#[tokio::test]
async fn a_ring_of_logins_is_told_to_all_its_members() {
    let forge = Forge::new().await;
    let operator = forge.operator().await;
    forge.create(link(&forge, "a", "b-token")).await;
    forge.create(link(&forge, "b", "c-token")).await;
    forge.create(link(&forge, "c", "a-token")).await;
    forge.create(link(&forge, "free", ROOT)).await;
    for name in ["a", "b", "c"] {
        let told = forge
            .until_refused(Kind::Project, name, "DependencyCycle")
            .await;
        for member in ["a", "b", "c"] {
            let word = format!("GitLabProjectAccessToken {member}");
            assert!(told.contains(&word), "{told}");
        }
    }
    forge
        .until("the free one is ready", || {
            forge.is_settled(Kind::Project, "free")
        })
        .await;
    assert_eq!(forge.events_of("DependencyCycle"), 3);
    assert_eq!(forge.minted(), 1);
    // Broken in one place, all are free of it: the two others wait for a login that is no longer their own.
    forge
        .edit(
            Kind::Project,
            "c",
            json!({ "spec": { "apiTokenSecretRef": { "name": ROOT } } }),
        )
        .await;
    forge
        .until("nobody speaks of a ring any more", || async {
            forge.live_through(&operator, minutes(1)).await;
            let mut free = true;
            for name in ["a", "b", "c"] {
                let ready = forge.ready(Kind::Project, name).await;
                free &= ready["reason"] != "DependencyCycle";
            }
            free && forge.is_settled(Kind::Project, "c").await
        })
        .await;
    let live = [
        forge.current_of(Kind::Project, "free").await,
        forge.current_of(Kind::Project, "c").await,
    ];
    forge.assert_live(&live);
}

/// S002-21: a ring that is closed under a running token stops it, but not the end of its window.
#[tokio::test]
async fn a_window_closes_on_time_although_a_ring_was_closed() {
    let (forge, operator, first, second) = in_window("2h").await;
    forge.create(link(&forge, "other", "app-token")).await;
    forge
        .edit_spec(json!({ "apiTokenSecretRef": { "name": "other-token" } }))
        .await;
    for name in [NAME, "other"] {
        forge
            .until_refused(Kind::Project, name, "DependencyCycle")
            .await;
    }
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge.until_ended(first).await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[second]);
}

/// GL29: a token that rotates itself reads its own Secret, and depends on nobody.
#[tokio::test]
async fn a_token_that_reads_its_own_secret_is_no_ring() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    forge.create(forge.personal_token()).await;
    forge.create(forge.example()).await;
    forge.until_personal_settled().await;
    forge.until_settled().await;
    assert_eq!(forge.events_of("DependencyCycle"), 0);
    let live = [
        forge.current().await,
        forge.current_of(Kind::Personal, "root").await,
    ];
    forge.assert_live(&live);
}

/// S002-22, S002-27, GL30.
#[tokio::test]
async fn a_login_that_is_not_there_yet_is_waited_for() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    forge.create(link(&forge, NAME, "later")).await;
    forge
        .until("it is told", || async {
            forge.ready(Kind::Project, NAME).await["reason"] == "LoginMissing"
        })
        .await;
    assert_eq!(forge.faults().total(), 0);
    let login = forge.gitlab.add_token(forge.owner, "later", &["api"], None);
    forge
        .add_secret(
            "later",
            &json!({ "token": format!("{}\n", login.value.reveal()) }),
        )
        .await;
    // No clock is moved: the Secret itself wakes who waits for it.
    forge.until_settled().await;
    let current = forge.current().await;
    forge.assert_live(&[current, login.id]);
}

/// S002-22: a login that another resource is to make.
#[tokio::test]
async fn a_token_waits_for_the_personal_token_that_is_its_login() {
    let forge = Forge::new().await;
    let value = forge.value_in(ROOT, "token").await;
    let _operator = forge.operator().await;
    forge.create(link(&forge, NAME, "their-root")).await;
    forge
        .until("it is told", || async {
            forge.ready(Kind::Project, NAME).await["reason"] == "LoginMissing"
        })
        .await;
    let change = json!({ "spec": { "export": { "name": "their-root" } } });
    forge.create(with(forge.personal_token(), change)).await;
    forge
        .add_adoptable_secret("their-root", &json!({ "token": value }), "root")
        .await;
    forge
        .annotate(Kind::Personal, "root", "example.org/look", "1")
        .await;
    forge.until_personal_settled().await;
    forge
        .until("the other follows", || async {
            forge.is_settled(Kind::Project, NAME).await
        })
        .await;
    let live = [
        forge.current().await,
        forge.current_of(Kind::Personal, "root").await,
    ];
    forge.assert_live(&live);
}

/// GL-A9: an address in a resource is an address somebody else chose.
#[tokio::test]
async fn only_allowed_addresses_are_spoken_to() {
    let forge = Forge::new().await;
    let allowed = ["https://gitlab.example.com".parse().unwrap()];
    let kinds = gitlab::kinds(&allowed, true);
    let _operator = forge.start(kinds, Options::default()).await;
    forge.create(forge.example()).await;
    forge.create(forge.personal_token()).await;
    for (kind, name) in [(Kind::Project, NAME), (Kind::Personal, "root")] {
        let told = forge.until_refused(kind, name, "InvalidSpec").await;
        assert!(told.contains("--allow-base-url"), "{told}");
    }
    assert_eq!(forge.faults().total(), 0);
    forge.assert_live(&[]);
}

/// GL36: "wait" is respected, to the second.
#[tokio::test]
async fn a_pause_that_gitlab_asks_for_is_kept() {
    let forge = Forge::new().await;
    let operator = forge.operator().await;
    forge
        .faults()
        .next(CREATE_PROJECT_TOKEN, Fault::Throttle(600));
    forge.create(forge.example()).await;
    forge
        .until("it is told", || async {
            forge.event("RotationFailed").contains("IssuerThrottled")
        })
        .await;
    let asked = forge.faults().total();
    for _ in 0..9 {
        forge.live_through(&operator, minutes(1)).await;
    }
    assert_eq!(forge.faults().total(), asked);
    forge
        .until("it goes on", || async {
            forge.live_through(&operator, minutes(1)).await;
            forge.is_settled(Kind::Project, NAME).await
        })
        .await;
    let current = forge.current().await;
    forge.assert_live(&[current]);
}

/// GL37.
#[tokio::test]
async fn a_life_beyond_the_maximum_of_the_instance_is_cut_to_it() {
    let forge = Forge::with(Settings {
        max_lifetime_days: 30,
        ..Settings::default()
    })
    .await;
    let operator = forge.operator().await;
    let yearly = json!({ "spec": { "rotationSchedule": "0 3 1 1 *" } });
    forge.create(with(forge.example(), yearly)).await;
    forge.until_settled().await;
    let first = forge.current().await;
    let expires = forge.expires_at().await;
    let life = expires.duration_since(forge.now());
    assert!(life > hours(28 * 24) && life <= hours(30 * 24), "{life:#}");
    // It is replaced before that, whatever the schedule says.
    forge.live_through(&operator, hours(27 * 24)).await;
    let second = forge.until_rotated_from(first).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
}

/// GL36, GL-A12.
#[tokio::test]
async fn tokens_on_one_schedule_are_spread() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    let names: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    for name in &names {
        forge.create(link(&forge, name, ROOT)).await;
    }
    let mut times = Vec::new();
    let mut live = Vec::new();
    for name in &names {
        forge
            .until("it is ready", || forge.is_settled(Kind::Project, name))
            .await;
        let status = forge.status_of(Kind::Project, name).await;
        times.push(status["nextRotationTime"].as_str().unwrap().to_owned());
        live.push(forge.current_of(Kind::Project, name).await);
    }
    times.sort_unstable();
    times.dedup();
    assert!(times.len() > 15, "{times:?}");
    forge.assert_live(&live);
}

/// A Secret that stands where ours should, and nobody tells when it goes: the watch is broken.
async fn in_the_way_and_unwatched() -> (Forge, Running) {
    let forge = Forge::new().await;
    forge.add_secret(EXPORT, &json!({ "token": "mine" })).await;
    let operator = forge.operator().await;
    forge.create(forge.example()).await;
    forge
        .until_refused(Kind::Project, NAME, "SecretNotAdopted")
        .await;
    forge.calm(&operator).await;
    let faults = forge.server.faults();
    faults.plan_watches(|_| apiserver::Fault::Error(503));
    forge.server.expire_watches();
    forge.remove_secret(EXPORT).await;
    (forge, operator)
}

#[tokio::test]
async fn a_name_that_became_free_is_noticed_within_a_minute_without_a_watch() {
    let (forge, operator) = in_the_way_and_unwatched().await;
    forge.live_through(&operator, minutes(1)).await;
    forge.until_settled().await;
    let current = forge.current().await;
    forge.assert_live(&[current]);
}

#[tokio::test]
async fn a_name_that_became_free_is_noticed_when_the_watch_is_back() {
    let (forge, _operator) = in_the_way_and_unwatched().await;
    forge.server.faults().clear();
    forge.until_settled().await;
    let current = forge.current().await;
    forge.assert_live(&[current]);
}

/// P7: an edit in the midst of a pass. What stood in the way of the spec before it says nothing of the one after it.
#[tokio::test]
async fn a_word_that_is_given_while_its_lack_is_being_told_is_heard() {
    let forge = Forge::new().await;
    let told = Arc::new(AtomicBool::new(false));
    let tells = told.clone();
    forge.server.faults().plan(move |line| {
        let first = line.user_agent == OPERATOR
            && line.subresource == "status"
            && !tells.swap(true, Ordering::SeqCst);
        if first {
            apiserver::Fault::Delay(Duration::from_millis(200))
        } else {
            apiserver::Fault::Pass
        }
    });
    let _operator = forge.operator().await;
    let change = json!({ "spec": { "adoptExistingSecret": false } });
    forge.create(with(forge.personal_token(), change)).await;
    forge
        .until("its lack is about to be told", || async {
            told.load(Ordering::SeqCst)
        })
        .await;
    let word = json!({ "spec": { "adoptExistingSecret": true } });
    forge.edit(Kind::Personal, "root", word).await;
    forge.until_personal_settled().await;
    let value = forge.value_in(ROOT, "token").await;
    assert_eq!(forge.gitlab.use_token(&value), Use::Works);
}
