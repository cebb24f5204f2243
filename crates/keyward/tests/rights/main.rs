//! Who may do what, and the worst that comes of it. Each test has one right and no other, does with it what it can, and
//! nothing that is not its own changes: no credential ends, no Secret is written or deleted, nobody rotates.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]
#![allow(
    clippy::duplicate_mod,
    reason = "each stage stands on the same in-process cluster"
)]

#[path = "../cloud/mod.rs"]
mod cloud;
mod neighbour;
#[path = "../copied_records/people.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod people;
#[path = "../stage/mod.rs"]
mod stage;

use std::collections::BTreeSet;

use keyward::api::demo::DemoCredential;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use people::{HOLDER, in_the_first_format, under_another_name};
use serde_json::{Value, json};
use stage::{NAME, NAMESPACE, Running, Stage};
use testbed::issuer::Kind;

const OTHER: &str = "other";

/// `db` with a held Secret, another resource beside it, and a credential that somebody made by hand.
struct Town {
    stage: Stage,
    operator: Running,
    /// Everything that is alive.
    alive: BTreeSet<String>,
    stranger: String,
    other: Value,
    secrets: Vec<Value>,
}

impl Town {
    async fn new(kind: Kind) -> Self {
        let stage = Stage::new(kind, false);
        stage.prepare().await;
        let stranger = stage.issuer.add("realm", "by-hand").unwrap().id;
        let operator = stage.operator().await;
        stage.create().await;
        stage.create_named(OTHER, stage.spec()).await;
        stage
            .until("both", || async {
                stage.is_settled(NAME) && stage.is_settled(OTHER)
            })
            .await;
        assert!(stage.hold("db-1-1", HOLDER).await);
        assert!(stage.hold("other-1-1", HOLDER).await);
        stage.calm(&operator).await;
        Self {
            alive: stage.alive(),
            other: stage.stored_as(OTHER).unwrap(),
            secrets: ["db-1-1", "other-1-1", "login"]
                .iter()
                .map(|name| stage.stored_secret(NAMESPACE, name).unwrap())
                .collect(),
            stage,
            operator,
            stranger,
        }
    }

    fn uid(&self, name: &str) -> Value {
        self.stage.stored_as(name).unwrap()["metadata"]["uid"].clone()
    }

    /// All that was alive is, all Secrets are as they were, and the other resource has noticed nothing.
    async fn assert_unharmed(&self, attack: &str) {
        self.stage.live_on(&self.operator).await;
        let dead: Vec<_> = self
            .alive
            .difference(&self.stage.alive())
            .cloned()
            .collect();
        assert!(dead.is_empty(), "{attack}: {dead:?} ended");
        assert!(self.stage.is_alive(&self.stranger), "{attack}");
        let other = self.stage.stored_as(OTHER).unwrap();
        assert_eq!(other["spec"], self.other["spec"], "{attack}");
        assert_eq!(other["status"], self.other["status"], "{attack}");
        for before in &self.secrets {
            let name = before["metadata"]["name"].as_str().unwrap();
            let now = self.stage.stored_secret(NAMESPACE, name);
            assert_eq!(now.as_ref(), Some(before), "{attack}: {name}");
        }
    }
}

fn with_annotation(mut secret: Value, key: &str, value: &str) -> Value {
    secret["metadata"]["annotations"][key] = value.into();
    secret
}

/// Says of itself that it is this Secret of this resource.
fn as_if_made_for(secret: Value, resource: &str, namespace: &str) -> Value {
    let name = secret["metadata"]["name"].clone();
    let source = &secret["metadata"]["annotations"]["keyward.dev/source"];
    let mut source: Value = serde_json::from_str(source.as_str().unwrap()).unwrap();
    source["secret"] = name;
    source["name"] = resource.into();
    source["namespace"] = namespace.into();
    with_annotation(secret, "keyward.dev/source", &source.to_string())
}

/// What somebody may put there who may only create Secrets.
fn planted(town: &Town) -> Vec<(&'static str, Value)> {
    let model = &town.secrets[0];
    let ours = json!(["keyward.dev/guard"]);
    let named = |name: &str| {
        let mut secret = as_if_made_for(under_another_name(model, name), NAME, NAMESPACE);
        secret["metadata"]["finalizers"] = ours.clone();
        secret
    };
    let mut without_finalizers = named("plain");
    without_finalizers["metadata"]["finalizers"] = json!([]);
    let mut ghost = as_if_made_for(named("ghost-1-1"), "ghost", NAMESPACE);
    ghost["metadata"]["ownerReferences"][0]["name"] = "ghost".into();
    let mut draft = named("a-draft");
    draft["metadata"]["labels"]["keyward.dev/role"] = "draft".into();
    let mut squatter = under_another_name(model, "db-2-1");
    for part in ["labels", "annotations", "ownerReferences", "finalizers"] {
        squatter["metadata"].as_object_mut().unwrap().remove(part);
    }
    let mut elsewhere = named("elsewhere-2-1");
    let source = json!({
        "name": NAME, "namespace": NAMESPACE, "secret": "elsewhere-2-1",
        "spec": { "issuer": { "url": "http://127.0.0.1:1", "realm": "no-such", "kind": "Chosen" }, "loginSecret": "none" },
    });
    elsewhere = with_annotation(elsewhere, "keyward.dev/source", &source.to_string());
    vec![
        ("a copy that sorts first", named("a-1-1")),
        ("a copy without finalizers", without_finalizers),
        (
            "a copy of a later number",
            with_annotation(named("b-7-1"), "keyward.dev/version", "7.1"),
        ),
        (
            "the next version",
            with_annotation(named("c-2-1"), "keyward.dev/version", "2.1"),
        ),
        (
            "a strangers credential",
            with_annotation(named("d-1-2"), "keyward.dev/issued-id", &town.stranger),
        ),
        ("a ghost with a living uid", ghost),
        (
            "a draft",
            with_annotation(draft, "keyward.dev/version", "2.1"),
        ),
        ("the name of the next version", squatter),
        (
            "a place that is none",
            with_annotation(elsewhere, "keyward.dev/version", "2.1"),
        ),
    ]
}

#[tokio::test]
async fn whoever_may_only_create_secrets_ends_nothing_and_stops_nothing() {
    for kind in [Kind::Chosen, Kind::ReadBack, Kind::ShownOnce] {
        let attacks = planted(&Town::new(kind).await).len();
        for nth in 0..attacks {
            let town = Town::new(kind).await;
            let stage = &town.stage;
            let (attack, secret) = planted(&town).swap_remove(nth);
            let attack = format!("{kind:?}, {attack}");
            stage.create_secret(NAMESPACE, secret).await;
            town.assert_unharmed(&attack).await;
            // And the owner goes on rotating, with the old version held.
            stage.rotate("again").await;
            stage
                .until(&format!("it rotates: {attack}"), || async {
                    stage.clock.jump(301);
                    town.operator.engine.world().queue.timers.notify_one();
                    stage.version_of(NAME) != "1.1"
                })
                .await;
            stage.live_on(&town.operator).await;
            let dead: Vec<_> = town.alive.difference(&stage.alive()).cloned().collect();
            assert!(dead.is_empty(), "{attack}: {dead:?} ended");
            let (id, value) = stage.handed_out().await.unwrap();
            let live = stage.issuer.live("realm");
            let works = live
                .iter()
                .any(|one| one.id == id && one.value.reveal() == value);
            assert!(works && id != town.stranger, "{attack}");
        }
    }
}

/// What somebody may write who may only patch one resource.
fn patches(town: &Town) -> Vec<(&'static str, Value)> {
    let ledger: Value = serde_json::from_str(&town.stage.ledger_of(NAME)).unwrap();
    let others: Value = serde_json::from_str(&town.stage.ledger_of(OTHER)).unwrap();
    let forged = |change: &dyn Fn(&mut Value)| {
        let mut forged = ledger.clone();
        change(&mut forged);
        json!({ "metadata": { "annotations": { people::LEDGER: forged.to_string() } } })
    };
    let note = |key: &str, value: &Value| json!({ "metadata": { "annotations": { key: value } } });
    let retired = |entry: &Value| {
        let mut entry = entry.clone();
        entry["superseded"] = entry["minted"].clone();
        entry
    };
    vec![
        (
            "the others ledger",
            note(people::LEDGER, &town.stage.ledger_of(OTHER).into()),
        ),
        ("the others ledger in the first format", {
            let first = in_the_first_format(&town.stage.ledger_of(OTHER));
            note(people::LEDGER, &first.into())
        }),
        (
            "the others version on its way out",
            forged(&|ledger| {
                let mut entry = retired(&others["current"]);
                entry["version"] = "0.9".into();
                ledger["retiring"] = json!([entry]);
            }),
        ),
        (
            "the others version under its own number",
            forged(&|ledger| {
                ledger["retiring"] = json!([retired(&others["current"])]);
                ledger["current"] = Value::Null;
            }),
        ),
        (
            "a strangers id on its way out",
            forged(&|ledger| {
                let mut entry = retired(&ledger["current"]);
                entry["version"] = "0.9".into();
                entry["id"] = town.stranger.as_str().into();
                entry["secret"] = "nowhere".into();
                ledger["retiring"] = json!([entry]);
            }),
        ),
        (
            "the others Secret as its own",
            forged(&|ledger| {
                ledger["current"]["secret"] = "other-1-1".into();
                ledger["current"]["uid"] = others["current"]["uid"].clone();
            }),
        ),
        (
            "a name that is a path",
            forged(&|ledger| {
                ledger["current"]["secret"] = "../../other/secrets/other-1-1".into();
            }),
        ),
        (
            "its held version in no Secret",
            forged(&|ledger| {
                let mut entry = retired(&ledger["current"]);
                entry["secret"] = "nowhere".into();
                ledger["retiring"] = json!([entry]);
                ledger["current"] = Value::Null;
            }),
        ),
        (
            "the highest number there is",
            forged(&|ledger| ledger["high"] = "4294967295.1".into()),
        ),
        (
            "an emergency for the other",
            note("keyward.dev/revoke-now", &town.uid(OTHER)),
        ),
        (
            "the other taken over",
            note("keyward.dev/take-over", &town.uid(OTHER)),
        ),
        (
            "the other let go of",
            note("keyward.dev/let-go-of", &town.uid(OTHER)),
        ),
        (
            "no finalizer",
            json!({ "metadata": { "finalizers": null } }),
        ),
        (
            "anothers Secret as its login",
            json!({ "spec": { "loginSecret": "other-1-1" } }),
        ),
        (
            "the login as its target",
            json!({ "spec": {
            "delivery": "InPlace", "secretName": "login", "adoptExistingSecret": true,
        } }),
        ),
    ]
}

#[tokio::test]
async fn whoever_may_only_patch_a_resource_ends_nothing_of_others_and_nothing_held() {
    for kind in [Kind::Chosen, Kind::ShownOnce] {
        let attacks = patches(&Town::new(kind).await).len();
        for nth in 0..attacks {
            let town = Town::new(kind).await;
            let (attack, patch) = patches(&town).swap_remove(nth);
            let attack = format!("{kind:?}, {attack}");
            town.stage.patch_resource(NAME, &patch).await;
            town.assert_only_its_own_changed(&attack).await;
        }
    }
}

impl Town {
    /// As [`Self::assert_unharmed`], for somebody who may change one resource: that may rotate, and its Secret may be
    /// fenced, but what is held lives.
    async fn assert_only_its_own_changed(&self, attack: &str) {
        self.stage.live_on(&self.operator).await;
        let dead: Vec<_> = self
            .alive
            .difference(&self.stage.alive())
            .cloned()
            .collect();
        assert!(dead.is_empty(), "{attack}: {dead:?} ended");
        let other = self.stage.stored_as(OTHER).unwrap();
        let finalizers = |of: &Value| of["metadata"]["finalizers"].clone();
        assert_eq!(finalizers(&other), finalizers(&self.other), "{attack}");
        assert_eq!(other["status"], self.other["status"], "{attack}");
        let ledger = |of: &Value| of["metadata"]["annotations"][people::LEDGER].clone();
        assert_eq!(ledger(&other), ledger(&self.other), "{attack}");
        for before in &self.secrets[1..] {
            let name = before["metadata"]["name"].as_str().unwrap();
            let now = self.stage.stored_secret(NAMESPACE, name);
            assert_eq!(now.as_ref(), Some(before), "{attack}: {name}");
        }
    }
}

/// He may do everything in a namespace of his own, and knows all that is written elsewhere but values.
#[tokio::test]
async fn whoever_has_another_namespace_ends_nothing_here() {
    let elsewhere = "elsewhere";
    for with_resource in [false, true] {
        for is_deleted in [false, true] {
            let town = Town::new(Kind::Chosen).await;
            let stage = &town.stage;
            let attack = format!("with a resource {with_resource}, deleted {is_deleted}");
            stage.server.create_namespace(elsewhere);
            let resources: Api<DemoCredential> = Api::namespaced(stage.client.clone(), elsewhere);
            if with_resource {
                let mut copy = under_another_name(&stage.stored_as(NAME).unwrap(), NAME);
                copy["metadata"]["namespace"] = elsewhere.into();
                copy["metadata"]["annotations"]["keyward.dev/take-over"] = town.uid(NAME);
                let copy = serde_json::from_value(copy).unwrap();
                let params = PostParams::default();
                resources.create(&params, &copy).await.unwrap();
            }
            for honest in [true, false] {
                let name = if honest { "db-1-1" } else { "db-2-1" };
                let mut copy = under_another_name(&town.secrets[0], name);
                copy["metadata"]["finalizers"] = json!(["keyward.dev/guard"]);
                copy["data"] = json!({});
                if !honest {
                    copy = as_if_made_for(copy, NAME, elsewhere);
                    let now = stage.server_clock.now().to_string();
                    copy = with_annotation(copy, "keyward.dev/created", &now);
                }
                stage.create_secret(elsewhere, copy).await;
            }
            town.assert_unharmed(&attack).await;
            if is_deleted {
                if with_resource {
                    let params = DeleteParams::default();
                    resources.delete(NAME, &params).await.unwrap();
                }
                for name in ["db-1-1", "db-2-1"] {
                    if stage.stored_secret(elsewhere, name).is_some() {
                        stage.delete_secret_in(elsewhere, name).await;
                    }
                }
                town.assert_unharmed(&attack).await;
            }
        }
    }
}
