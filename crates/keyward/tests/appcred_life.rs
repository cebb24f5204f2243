//! Application credentials from the first to the last, on the whole operator.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::openings::ready;
use cloud::{CONSUMER, Cloud, Issuer, NAME, OPERATOR};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::{Value, json};
use testbed::apiserver::Verb;
use testbed::keystone;

const PROTECTION: &str = "openstack.org/ac-secret-protection";

/// From the first version to the last revoke, on whatever Keystone there is.
async fn lives_a_whole_life(cloud: &Cloud) {
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let first = cloud.handed_out().await;
    assert_eq!(cloud.log_in(&first).await, 201);
    assert_eq!(cloud.text("acID").await, first.0);
    let old = cloud.text("secretName").await;
    assert!(cloud.hold(&old, CONSUMER).await);

    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&first.0).await;
    let second = cloud.handed_out().await;
    assert_eq!(cloud.log_in(&second).await, 201);
    assert_eq!(cloud.log_in(&first).await, 201, "it is still held");
    cloud
        .until("the holder is named", || async {
            cloud.text("heldBy").await == CONSUMER
        })
        .await;
    assert_eq!(cloud.text("previousSecretName").await, old);

    cloud.release(&old, CONSUMER).await;
    cloud.until_ready().await;
    assert_eq!(
        cloud.log_in(&first).await,
        404,
        "revoked, and Keystone says so"
    );
    assert_eq!(cloud.log_in(&second).await, 201);
    assert_eq!(cloud.live_ids().await, [second.0.as_str()]);
    assert_eq!(cloud.text("previousSecretName").await, "");

    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
    assert!(cloud.ours().await.is_empty());
    operator.stop().await;
}

#[tokio::test]
async fn an_application_credential_lives_a_whole_life() {
    lives_a_whole_life(&Cloud::new().await).await;
}

#[tokio::test]
async fn real_an_application_credential_lives_a_whole_life() {
    let real = keystone::real::Keystone::start(keystone::Options::default());
    lives_a_whole_life(&Cloud::over(Issuer::Real(real.await.unwrap())).await).await;
}

/// S000-3, S000-4, S000-10, S000-13, S000-18, S000-19, S001-2 to S001-4, S001-6, S001-7, S001-10, A1.
#[tokio::test]
async fn a_new_resource_has_everything_that_the_designs_name() {
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;

    let object = cloud.object(NAME).await.unwrap();
    assert_eq!(object.finalizers(), ["openstack.org/applicationcredential"]);
    let status = cloud.status().await;
    let (id, value) = cloud.handed_out().await;
    assert_eq!(status["acID"], id.as_str());
    assert_eq!(
        status["secretName"],
        format!("ac-barbican-{}-secret", &id[..5])
    );
    assert_eq!(
        status["observedGeneration"],
        object.metadata.generation.unwrap()
    );
    assert_eq!(
        status["lastRotated"],
        Value::Null,
        "nothing was rotated yet"
    );
    assert!(status["securityHash"].is_string());
    let kinds: Vec<&str> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "Ready",
            "KeystoneAPIReady",
            "KeystoneApplicationCredentialReady"
        ]
    );
    for condition in status["conditions"].as_array().unwrap() {
        assert_eq!(condition["status"], "True");
        assert_eq!(condition["reason"], "Ready");
    }
    assert_eq!(status["conditions"][0]["message"], "Setup complete");

    let at = |field: &str| {
        status[field]
            .as_str()
            .unwrap()
            .parse::<Timestamp>()
            .unwrap()
    };
    let day = SignedDuration::from_hours(24);
    let off = |left: Timestamp, right: Timestamp| left.duration_since(right).abs();
    let second = SignedDuration::from_secs(1);
    assert!(off(at("expiresAt"), at("createdAt") + day * 365) <= second);
    assert!(off(at("rotationEligibleAt"), at("expiresAt") - day * 182) <= second);

    let secret = cloud
        .secret(status["secretName"].as_str().unwrap())
        .await
        .unwrap();
    assert_eq!(secret.immutable, Some(true));
    assert_eq!(secret.finalizers(), [PROTECTION]);
    assert_eq!(secret.labels()["application-credentials"], "true");
    assert_eq!(
        secret.labels()["application-credential-service"],
        "barbican"
    );
    assert_eq!(secret.labels()["app-credential-service"], "barbican");
    let owner = &secret.owner_references()[0];
    assert_eq!(
        (owner.kind.as_str(), owner.controller),
        ("KeystoneApplicationCredential", Some(true))
    );
    let keys: Vec<_> = secret.data.unwrap().into_keys().collect();
    assert_eq!(keys, ["AC_ID", "AC_SECRET"]);
    assert!(value.len() >= 32);

    let [live] = &cloud.live().await[..] else {
        panic!("exactly one");
    };
    let uid = object.uid().unwrap().replace('-', "");
    assert!(
        live.name.starts_with("kw1-") && live.name.ends_with("-1-1"),
        "{}",
        live.name
    );
    assert!(live.name.contains(&uid), "the name says whose it is");
    let text = live.description.clone().unwrap();
    assert!(
        text.contains("openstack/ac-barbican") && text.contains("user: barbican"),
        "{text}"
    );
    let roles: Vec<&str> = live.roles.iter().map(|role| role.name.as_str()).collect();
    assert_eq!(roles, ["service"]);
    assert_eq!(live.unrestricted, Some(false));
    assert_eq!(cloud.events_of("ApplicationCredentialRotated"), 0);
}

/// Side effects are bounded: what a first mint and a rotation cost.
#[tokio::test]
async fn a_mint_costs_three_requests_at_keystone_beyond_the_shared_login() {
    let cloud = Cloud::new().await;
    let operator = cloud.operator().await;
    let world = operator.engine.world();
    cloud
        .until("the watches stand", || async { world.ready.missing() == 0 })
        .await;
    let is_quiet = || async { world.queue.load().2 == 0 };
    let at_start = cloud.server.faults().last();
    cloud.create().await;
    cloud.until_ready().await;
    let first = cloud.text("acID").await;
    let counts = cloud.faults().counts();
    assert_eq!(counts.get(keystone::LOGIN_BY_PASSWORD), Some(&1));
    assert_eq!(counts.get(keystone::LIST), Some(&1));
    assert_eq!(counts.get(keystone::CREATE), Some(&1));
    assert_eq!(
        counts.get(keystone::LOGIN_BY_APPLICATION_CREDENTIAL),
        Some(&1)
    );
    let discovery = counts.get("GET /").copied().unwrap_or(0);
    assert_eq!(cloud.faults().total(), 4 + discovery);

    cloud.until("quiet", is_quiet).await;
    let log = cloud.server.faults().log();
    let asked: Vec<String> = log
        .iter()
        .filter(|logged| logged.line.n > at_start)
        .filter(|logged| logged.line.user_agent == OPERATOR && logged.line.verb != Verb::Watch)
        .map(|logged| logged.line.to_string())
        .collect();
    assert!(
        asked.len() <= 12,
        "{} requests to the API server: {asked:#?}",
        asked.len()
    );

    cloud.faults().reset();
    cloud.annotate("keyward.dev/rotate", "1").await;
    cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    let counts = cloud.faults().counts();
    assert_eq!(
        counts.get(keystone::LOGIN_BY_PASSWORD),
        None,
        "the token is shared"
    );
    assert_eq!(counts.get(keystone::CREATE), Some(&1));
    assert_eq!(counts.get(keystone::DELETE), Some(&1));
    assert!(cloud.faults().total() <= 6, "{counts:?}");
}

/// A2, S000-2.
#[tokio::test]
async fn resources_made_together_each_get_what_they_ask_for() {
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    let plain = cloud::named("ac-plain");
    let mut ruled = cloud::named("ac-ruled");
    ruled["spec"]["roles"] = json!(["service", "admin"]);
    ruled["spec"]["accessRules"] = json!([
        { "service": "compute", "path": "/servers", "method": "GET" },
        { "service": "image", "path": "/images", "method": "GET" },
    ]);
    let mut unrestricted = cloud::named("ac-unrestricted");
    unrestricted["spec"]["unrestricted"] = true.into();
    unrestricted["spec"]["expirationDays"] = 30.into();
    unrestricted["spec"]["gracePeriodDays"] = 7.into();
    for object in [&plain, &ruled, &unrestricted] {
        cloud.create_this(object.clone()).await;
    }
    for object in [&plain, &ruled, &unrestricted] {
        let name = object["metadata"]["name"].as_str().unwrap();
        cloud.until(name, || cloud.settled(name)).await;
        let kept = cloud.object(name).await.unwrap();
        for (field, value) in object["spec"].as_object().unwrap() {
            assert_eq!(&kept.data["spec"][field], value, "{name}: {field}");
        }
    }
    let live = cloud.live().await;
    assert_eq!(live.len(), 3);
    let of = |status: Value| {
        let id = status["acID"].as_str().unwrap().to_owned();
        live.iter().find(|one| one.id == id).unwrap()
    };
    // Everything that was asked for, as Keystone has it.
    for object in [&plain, &ruled, &unrestricted] {
        let name = object["metadata"]["name"].as_str().unwrap();
        let (wish, status) = (&object["spec"], cloud.status_of(name).await);
        let made = of(status.clone());
        let mut found: Vec<Value> = made
            .access_rules
            .iter()
            .map(
                |rule| json!({ "service": rule.service, "path": rule.path, "method": rule.method }),
            )
            .collect();
        found.sort_by_key(ToString::to_string);
        let mut wished = wish["accessRules"].as_array().cloned().unwrap_or_default();
        wished.sort_by_key(ToString::to_string);
        assert_eq!(found, wished, "{name}");
        assert_eq!(made.unrestricted, wish["unrestricted"].as_bool(), "{name}");
        let time = |field: &str| -> Timestamp { status[field].as_str().unwrap().parse().unwrap() };
        let whole = SignedDuration::from_hours(24 * wish["expirationDays"].as_i64().unwrap());
        let ends = Cloud::end_of(made);
        for expected in [time("expiresAt"), time("createdAt") + whole] {
            let off = ends.duration_since(expected).abs();
            assert!(off <= SignedDuration::from_secs(1), "{name}: {off:?}");
        }
    }
    let with_rules = of(cloud.status_of("ac-ruled").await);
    let roles: Vec<&str> = with_rules
        .roles
        .iter()
        .map(|role| role.name.as_str())
        .collect();
    // Keystone adds the roles that others imply.
    assert!(
        roles.contains(&"service") && roles.contains(&"admin"),
        "{roles:?}"
    );
}

/// A3, S001-5: the KeystoneAPI is waited for, and taken up when it comes.
#[tokio::test]
async fn without_a_keystone_api_nothing_is_ready_and_it_is_taken_up_when_it_comes() {
    let cloud = Cloud::new().await;
    cloud.remove_keystone_api().await;
    let _operator = cloud.operator().await;
    for name in ["ac-a", "ac-b", "ac-c"] {
        cloud.create_this(cloud::named(name)).await;
    }
    for name in ["ac-a", "ac-b", "ac-c"] {
        cloud
            .until("it says so", || async {
                let said = cloud.condition(name, "KeystoneAPIReady").await;
                said["status"] == "False" && said["reason"] == "IssuerMissing"
            })
            .await;
        assert!(!cloud.is_ready(name).await);
        let said = cloud.says(name, "Ready", "there is no KeystoneAPI").await;
        assert!(said, "{}", cloud.describe().await);
        let said = cloud.condition(name, "KeystoneAPIReady").await;
        assert_eq!(said["severity"], "Warning");
        let words = said["message"].as_str().unwrap();
        assert!(words.starts_with("KeystoneAPI not found"), "{words}");
    }
    assert_eq!(cloud.faults().total(), 0, "nobody was asked");

    cloud.add_keystone_api(false).await;
    cloud
        .until("it is not ready yet", || async {
            cloud.condition("ac-a", "KeystoneAPIReady").await["reason"] == "IssuerNotReady"
        })
        .await;
    assert_eq!(cloud.faults().total(), 0);
    cloud.keystone_api_says(true).await;
    for name in ["ac-a", "ac-b", "ac-c"] {
        cloud.until(name, || cloud.settled(name)).await;
        assert_eq!(
            cloud.condition(name, "KeystoneAPIReady").await["status"],
            "True"
        );
    }
}

/// A4.
#[tokio::test]
async fn deleting_a_resource_that_never_had_a_keystone_api_ends() {
    let cloud = Cloud::new().await;
    cloud.remove_keystone_api().await;
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud
        .until("it says so", || async {
            cloud.condition(NAME, "Ready").await["reason"] == "IssuerMissing"
        })
        .await;
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
}

/// A5, A6, J27: everything of the deleted one goes, nothing of the other, whatever their names.
#[tokio::test]
async fn deletion_takes_all_of_its_own_and_nothing_of_anybody_else() {
    let cloud = Cloud::new().await;
    let _operator = cloud.operator().await;
    // These two have the same service name.
    cloud.create_this(cloud::named("foo")).await;
    cloud.create_this(cloud::named("ac-foo")).await;
    cloud.until("foo", || cloud.settled("foo")).await;
    cloud.until("ac-foo", || cloud.settled("ac-foo")).await;
    let theirs = cloud.status_of("ac-foo").await["secretName"]
        .as_str()
        .unwrap()
        .to_owned();
    let theirs_before = cloud.secret(&theirs).await.unwrap();
    let credential = cloud.values_of(&theirs).await;

    // Two versions of the first are there when it is deleted.
    let old = cloud.status_of("foo").await["secretName"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(cloud.hold(&old, CONSUMER).await);
    cloud.annotate_named("foo", "keyward.dev/rotate", "1").await;
    cloud
        .until("two versions", || async {
            cloud.status_of("foo").await["live"] == 2
        })
        .await;
    cloud.delete("foo").await;
    cloud
        .until("the newer one goes at once", || async {
            cloud.ours().await.len() == 2
        })
        .await;
    assert!(cloud.object("foo").await.is_some(), "the older one is held");
    cloud.release(&old, CONSUMER).await;
    cloud.until_gone("foo").await;

    let theirs_after = cloud.secret(&theirs).await.unwrap();
    assert_eq!(
        theirs_after.resource_version(),
        theirs_before.resource_version(),
        "untouched"
    );
    assert_eq!(cloud.log_in(&credential).await, 201);
    assert_eq!(cloud.ours().await.len(), 1);
    assert_eq!(cloud.live_ids().await, [credential.0]);
}

/// J1, J2 are in the walk of every crash; this is that walk's bottom line at Keystone: a restart mints nothing.
#[tokio::test]
async fn a_restart_asks_nothing_and_writes_nothing() {
    let (cloud, operator, _) = ready().await;
    operator.stop().await;
    cloud.faults().reset();
    let before = cloud.writes();
    let _again = cloud.operator().await;
    // Somebody else's change shows that it is at work.
    cloud.annotate("example.org/looked-at", "1").await;
    let looked = || async {
        let log = cloud.server.faults().log();
        let gets = log
            .iter()
            .filter(|logged| logged.line.user_agent == OPERATOR && logged.line.verb == Verb::Get);
        gets.count() > 3
    };
    cloud.until("it has looked", looked).await;
    assert_eq!(cloud.writes(), before);
    assert_eq!(cloud.faults().total(), 0);
}
