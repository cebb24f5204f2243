//! Application credentials as their users meet them: real kube-apiserver, real Keystone, real kubectl.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod real_stage;

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use real_stage::cloud::{self, CA_BUNDLE, Cloud, PASSWORDS, PATIENCE, selector};
use real_stage::cloud_consumer::{release, set_holder};
use real_stage::{Credential, plane, until};
use serde_json::json;
use testbed::keystone::real::{Keystone, Lockout, Options};
use testbed::keystone::{self, CREATE, LOGIN_BY_PASSWORD};
use testbed::proxy::Fault;

const NAME: &str = "ac-barbican";
const USER: &str = "barbican";
const CONSUMER: &str = "openstack.org/barbican-ac-consumer";

async fn keystone() -> Keystone {
    Keystone::start(Options::default()).await.unwrap()
}

async fn cloud(namespace: &str, issuer: &Keystone) -> Cloud {
    let stage = cloud::stage(plane().await).await;
    Cloud::new(&stage, namespace, &issuer.url()).await
}

/// Fails with everything that is known.
async fn wait(cloud: &Cloud, credential: &Credential, what: &str, is: impl AsyncFnMut() -> bool) {
    if let Err(error) = until(what, PATIENCE, is).await {
        panic!("{error}: {}", cloud.describe(credential));
    }
}

async fn wait_for_message(cloud: &Cloud, credential: &Credential, part: &str) {
    let said = async || credential.shown().message.contains(part);
    wait(cloud, credential, part, said).await;
}

async fn wait_for_reason(cloud: &Cloud, credential: &Credential, reason: &str) {
    let said = async || credential.shown().reason == reason;
    wait(cloud, credential, reason, said).await;
}

fn status(credential: &Credential, field: &str) -> String {
    let object = credential.seen().unwrap();
    let text = object.data["status"][field].as_str();
    text.unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_the_example_manifest_applied_as_printed_becomes_ready_and_kubectl_shows_its_columns()
{
    let issuer = keystone().await;
    let cloud = cloud("openstack", &issuer).await;
    let launch = cloud.launch(None);
    let operator = launch.start();
    let manifest =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples/keystone/appcred.yaml");
    cloud.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    let credential = cloud.credential(NAME);
    let pair = cloud.settled(&credential, 1).await;

    let table = cloud.kubectl(&["get", "appcred"]);
    let mut lines = table.lines().map(str::split_whitespace);
    let titles: Vec<&str> = lines.next().unwrap().collect();
    assert_eq!(
        titles,
        [
            "NAME",
            "ACID",
            "SECRETNAME",
            "LASTROTATED",
            "ROTATIONELIGIBLE",
            "STATUS",
            "MESSAGE"
        ]
    );
    let eligible = status(&credential, "rotationEligibleAt");
    let secret = format!("ac-barbican-{}-secret", &pair.0[..5]);
    let row: Vec<&str> = lines.next().unwrap().collect();
    // Nothing was rotated yet: that column is empty.
    assert_eq!(
        row,
        [
            NAME, &pair.0, &secret, &eligible, "True", "Setup", "complete"
        ]
    );

    let alive = cloud.live(USER).await;
    assert_eq!(alive.len(), 1);
    assert_eq!(alive[0].id, pair.0);
    assert_eq!(alive[0].unrestricted, Some(false));
    let roles: Vec<&str> = alive[0].roles.iter().map(|role| &*role.name).collect();
    assert_eq!(roles, ["service"]);
    cloud.assert_no_leak(&launch, Some(&operator)).await;
}

/// Done at Keystone, and nobody told us.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_create_whose_reply_is_lost_is_found_by_name_and_not_made_twice() {
    let issuer = keystone().await;
    let cloud = cloud("lost-reply", &issuer).await;
    let launch = cloud.launch(None);
    let operator = launch.start();
    let lost = [
        ("barbican", Fault::DropApplied),
        ("cinder", Fault::CutBody),
        ("glance", Fault::ErrorApplied(502)),
        ("nova", Fault::TimeoutApplied),
    ];
    for (user, fault) in lost {
        let before = made(&cloud);
        cloud.faults().next(CREATE, fault);
        let credential = cloud.create(&format!("ac-{user}"), user).await;
        let pair = cloud.settled(&credential, 1).await;
        assert_eq!(made(&cloud), before + 1, "{fault:?}");
        let alive = cloud.live(user).await;
        assert_eq!(alive.len(), 1, "{fault:?}");
        assert_eq!(alive[0].id, pair.0, "{fault:?}");
        let expires = format!("{}Z", alive[0].expires_at.as_ref().unwrap());
        let expires: Timestamp = expires.parse().unwrap();
        let shown: Timestamp = status(&credential, "expiresAt").parse().unwrap();
        let apart = shown.duration_since(expires).abs();
        assert!(apart < SignedDuration::from_secs(1), "{fault:?}: {apart}");
        cloud.faults().clear();
    }
    cloud.assert_no_leak(&launch, Some(&operator)).await;
}

/// How many credentials Keystone made, those included that it told us nothing or a lie about.
fn made(cloud: &Cloud) -> usize {
    cloud.count(CREATE, 201) + cloud.count(CREATE, 502)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_wrong_password_is_tried_at_most_twice_and_a_corrected_one_heals() {
    let lockout = Lockout {
        attempts: 3,
        lasts: Duration::from_mins(30),
    };
    let issuer = Keystone::start(Options {
        lockout: Some(lockout),
        ..Options::default()
    });
    let issuer = issuer.await.unwrap();
    let cloud = cloud("wrong-password", &issuer).await;
    let wrong = json!(keystone::password_of("somebody else"));
    let data = json!({ (selector(USER)): wrong });
    cloud.put_secret(PASSWORDS, data).await;
    let launch = cloud.launch(None);
    let operator = launch.start();
    // Two resources of one user: Keystone counts what they do together.
    let credential = cloud.create(NAME, USER).await;
    let other = cloud.create("ac-barbican-worker", USER).await;
    for one in [&credential, &other] {
        wait_for_message(&cloud, one, "refused the login of user barbican").await;
        assert!(!one.shown().ready);
    }
    touch(&cloud, &credential, &other, 0).await;
    operator.stop().await;
    let operator = launch.start();
    touch(&cloud, &credential, &other, 25).await;
    let failed = cloud.count(LOGIN_BY_PASSWORD, 401);
    assert!((1..=2).contains(&failed), "{failed} failed logins");

    let right = json!(keystone::password_of(USER));
    let data = json!({ (selector(USER)): right });
    cloud.put_secret(PASSWORDS, data).await;
    cloud.settled(&credential, 1).await;
    cloud.settled(&other, 1).await;
    assert_eq!(cloud.live(USER).await.len(), 2);
    assert_eq!(cloud.count(LOGIN_BY_PASSWORD, 401), failed);
    cloud.assert_no_leak(&launch, Some(&operator)).await;
}

/// K4: the password was changed at Keystone and nowhere else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_deletion_whose_password_is_wrong_ends_as_the_administrator() {
    let issuer = keystone().await;
    let cloud = cloud("as-admin", &issuer).await;
    let data = json!({ "AdminPassword": keystone::password_of("admin") });
    cloud.put_secret("keystone-admin", data).await;
    let offer = json!({
        "metadata": { "annotations": { "keyward.dev/revoke-as-admin": "true" } },
        "spec": { "secret": "keystone-admin" },
    });
    cloud
        .keystone_apis()
        .patch("keystone", &PatchParams::default(), &Patch::Merge(&offer))
        .await
        .unwrap();
    let launch = cloud.launch(None);
    let operator = launch.start();
    let rule = json!({ "service": "compute", "path": "/v2.1/servers", "method": "GET" });
    let more = json!({ "accessRules": [rule] });
    let credential = cloud.create_with(NAME, USER, &more).await;
    let pair = cloud.settled(&credential, 1).await;
    let changed = cloud.admin.set_password(USER, "known-to-nobody-here");
    changed.await.unwrap();

    credential.delete().await;
    let gone = async || credential.seen().is_none();
    wait(&cloud, &credential, "the resource is gone", gone).await;
    assert_eq!(cloud.log_in(&pair).await, 404);
    assert!(cloud.live(USER).await.is_empty());
    assert!(credential.secrets_of_ours().await.is_empty());
    assert_eq!(cloud.count(LOGIN_BY_PASSWORD, 401), 1);
    let said = "revoked as the administrator";
    assert!(launch.logged().contains(said), "{}", launch.logged());
    cloud.assert_no_leak(&launch, Some(&operator)).await;
}

/// 25 changes of either resource, the last of which the operator has seen.
async fn touch(cloud: &Cloud, credential: &Credential, other: &Credential, from: i64) {
    for one in [credential, other] {
        for n in from..from + 25 {
            one.annotate("example.org/touched", Some(&n.to_string()))
                .await;
            let days = json!({ "spec": { "expirationDays": 300 + n } });
            one.merge(&days).await.unwrap();
        }
        let generation = one.api().get(&one.name).await.unwrap().metadata.generation;
        let observed = async || {
            let object = one.seen().unwrap();
            object.data["status"]["observedGeneration"].as_i64() == generation
        };
        wait(cloud, one, "the last change is observed", observed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_deleted_resource_waits_for_the_holder_it_names_and_is_gone_a_second_after() {
    let issuer = keystone().await;
    let cloud = cloud("held", &issuer).await;
    let launch = cloud.launch(None);
    let operator = launch.start();
    let credential = cloud.create(NAME, USER).await;
    let pair = cloud.settled(&credential, 1).await;
    let secret = credential.shown().secret.unwrap();
    let held = set_holder(&credential, &secret, CONSUMER, true).await;
    assert!(held.is_some());

    credential.delete().await;
    wait_for_message(&cloud, &credential, CONSUMER).await;
    let table = cloud.kubectl(&["get", "appcred", NAME]);
    assert!(table.contains(CONSUMER), "{table}");
    let wide = cloud.kubectl(&["get", "appcred", NAME, "-o", "wide"]);
    let title = wide.lines().next().unwrap();
    assert!(title.ends_with("HELDBY"), "{wide}");
    let explained = cloud.keyward(&["explain", &format!("appcred/{NAME}")]);
    assert!(explained.contains(CONSUMER), "{explained}");

    // More looks change nothing.
    for n in 0..5 {
        credential
            .annotate("example.org/touched", Some(&n.to_string()))
            .await;
    }
    operator.stop().await;
    let operator = launch.start();
    let up = async || launch.logged().matches("serving /livez").count() == 2;
    wait(&cloud, &credential, "the operator is up again", up).await;
    let explained = cloud.keyward(&["explain", &format!("appcred/{NAME}")]);
    assert!(explained.contains(CONSUMER), "{explained}");
    assert_eq!(cloud.log_in(&pair).await, 201);
    assert_eq!(cloud.faults().count(keystone::DELETE), 0);

    let (sent, done) = release(&credential, &secret, CONSUMER).await.unwrap();
    let gone = async || credential.seen().is_none();
    wait(&cloud, &credential, "the resource is gone", gone).await;
    let revocations = cloud.revocations();
    assert_eq!(revocations.len(), 1);
    let (id, request) = &revocations[0];
    assert_eq!(*id, pair.0);
    assert!(request.arrived >= sent);
    let lag = request.answered.unwrap().saturating_duration_since(done);
    assert!(lag <= Duration::from_secs(1), "{lag:?}");
    assert_eq!(cloud.log_in(&pair).await, 404);
    assert!(cloud.live(USER).await.is_empty());
    assert!(credential.secrets_of_ours().await.is_empty());
    cloud.assert_no_leak(&launch, Some(&operator)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_the_ca_bundle_that_the_keystone_api_names_is_trusted_and_nothing_else() {
    let issuer = keystone().await;
    let stage = cloud::stage(plane().await).await;
    let cloud = Cloud::bare(&stage, "tls", &issuer.url(), true).await;
    assert!(cloud.proxy.url().starts_with("https://"));
    cloud.put_passwords(&[USER]).await;
    cloud.put_ca_bundle().await;
    cloud.put_keystone_api(&json!({})).await;
    let launch = cloud.launch(None);
    let operator = launch.start();
    let credential = cloud.create(NAME, USER).await;
    wait_for_message(&cloud, &credential, "certificate is not trusted").await;
    assert!(!credential.shown().ready);
    // Nobody told a password to a server that nobody vouches for.
    assert_eq!(cloud.faults().total(), 0);

    let tls = json!({ "spec": { "tls": { "caBundleSecretName": CA_BUNDLE } } });
    cloud
        .keystone_apis()
        .patch("keystone", &PatchParams::default(), &Patch::Merge(&tls))
        .await
        .unwrap();
    let begun = Instant::now();
    cloud.settled(&credential, 1).await;
    // The change itself is the occasion, not the end of some back-off.
    assert!(begun.elapsed() < Duration::from_secs(10));
    cloud.assert_no_leak(&launch, Some(&operator)).await;
}

/// Mistakes, rotations and an end, with everything logged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_no_secret_password_or_token_is_in_logs_events_status_or_metrics() {
    let issuer = keystone().await;
    let cloud = cloud("no-leak", &issuer).await;
    let launch = cloud.launch(None);
    let operator = launch.start();
    let wrong = json!(keystone::password_of("somebody else"));
    let data = json!({ (selector(USER)): wrong });
    cloud.put_secret(PASSWORDS, data).await;
    let credential = cloud.create(NAME, USER).await;
    wait_for_reason(&cloud, &credential, "IssuerDenied").await;
    cloud.put_passwords(&keystone::SERVICE_USERS).await;
    let mut pair = cloud.settled(&credential, 1).await;
    for (serial, fault) in (2..).zip([Fault::Error(500), Fault::CutBody, Fault::DropApplied]) {
        cloud.faults().next(CREATE, fault);
        credential.rotate(&serial.to_string()).await;
        let after = cloud.settled(&credential, serial).await;
        assert_ne!(after, pair);
        pair = after;
    }
    let rejected = json!({ "spec": { "roles": ["no-such-role"] } });
    credential.merge(&rejected).await.unwrap();
    let refused = async || {
        let object = credential.seen().unwrap();
        object.data["status"]["conditions"]
            .to_string()
            .contains("IssuerRejected")
    };
    wait(&cloud, &credential, "a role that there is not", refused).await;
    cloud.assert_no_leak(&launch, Some(&operator)).await;
    // Nine passwords, the wrong one, and a value per version.
    assert!(cloud.values_known() >= 14, "{}", cloud.values_known());
    credential.delete().await;
    let gone = async || credential.seen().is_none();
    wait(&cloud, &credential, "the resource is gone", gone).await;
    cloud.assert_no_leak(&launch, Some(&operator)).await;
}
