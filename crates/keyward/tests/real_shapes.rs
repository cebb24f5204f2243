//! A projection on the real kube-apiserver: its own rules of server-side apply, finalizers and preconditions.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "the kinds are shared with the hermetic sweep")]

#[path = "shapes/kinds.rs"]
mod kinds;
#[path = "shapes/mirror.rs"]
mod mirror;
mod real_stage;

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use keyward::engine::world::Clock;
use keyward::engine::{Engine, Options};
use keyward::projection::Projecting;
use kinds::{ELSEWHERE, GADGETS, Kind, MIRRORS, NAMESPACE, definition, resource};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use mirror::{COPY, HOLD, Mirror};
use real_stage::{plane_with, until};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_mins(1);

fn made<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn api(client: &Client, kind: Kind) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), NAMESPACE, &resource(kind))
}

fn secrets(client: &Client, namespace: &str) -> Api<Secret> {
    Api::namespaced(client.clone(), namespace)
}

async fn prepare(client: &Client) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let params = PostParams::default();
    for name in [NAMESPACE, ELSEWHERE] {
        let namespace = made(json!({ "metadata": { "name": name } }));
        namespaces.create(&params, &namespace).await.unwrap();
    }
    for (name, value) in [("one", "first"), ("two", "second")] {
        let secret: Secret = made(json!({
            "metadata": { "name": name }, "stringData": { "password": value },
        }));
        let secrets = secrets(client, NAMESPACE);
        secrets.create(&params, &secret).await.unwrap();
    }
    for (kind, name, spec) in [
        (GADGETS, "gadget", json!({ "size": 3 })),
        (MIRRORS, "mirror", json!({ "source": "one" })),
    ] {
        let object: DynamicObject = made(json!({
            "apiVersion": kind.0, "kind": kind.1, "metadata": { "name": name }, "spec": spec,
        }));
        let objects = api(client, kind);
        objects.create(&params, &object).await.unwrap();
    }
}

async fn is_held(client: &Client, name: &str) -> bool {
    let secret = secrets(client, NAMESPACE).get(name).await.unwrap();
    secret.finalizers().iter().any(|one| one == HOLD)
}

/// The gadget takes what it is pointed at; what it used until then must be held still.
async fn gadget_moves(client: &Client) -> String {
    let gadgets = api(client, GADGETS);
    let gadget = gadgets.get("gadget").await.unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = text(&gadget.data["spec"]["secret"]);
    let uses = text(&gadget.data["status"]["uses"]);
    assert_eq!(gadget.data["spec"]["size"], 3, "only one field is ours");
    if !uses.is_empty() {
        assert!(is_held(client, &uses).await, "{uses} was let go too early");
    }
    if names != uses {
        let patch = Patch::Merge(json!({ "status": { "uses": names } }));
        let params = PatchParams::default();
        let moved = gadgets.patch_status("gadget", &params, &patch).await;
        moved.unwrap();
    }
    names
}

async fn is_at(client: &Client, source: &str, other: &str) -> bool {
    let pointed = gadget_moves(client).await == source;
    let copy = secrets(client, ELSEWHERE).get_opt(COPY).await.unwrap();
    let original = secrets(client, NAMESPACE).get(source).await.unwrap();
    let mirror = api(client, MIRRORS).get("mirror").await.unwrap();
    let mut conditions = mirror.data["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    pointed
        && copy.is_some_and(|copy| copy.data == original.data)
        && is_held(client, source).await
        && !is_held(client, other).await
        && conditions.any(|one| one["type"] == "Mirrored" && one["status"] == "True")
}

#[tokio::test]
async fn real_a_projection_follows_what_it_sees_and_leaves_nothing_behind() {
    let crds = || {
        let all = [MIRRORS, GADGETS].map(|kind| serde_json::to_string(&definition(kind)).unwrap());
        all.join("\n---\n")
    };
    let client = plane_with(crds).await.client();
    prepare(&client).await;
    let controllers = vec![Projecting::of(Mirror::new())];
    let engine = Engine::new(
        client.clone(),
        controllers,
        Options::default(),
        Clock::default(),
    )
    .await
    .unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { engine.run(stop).await }
    });
    until("the first", PATIENCE, async || {
        is_at(&client, "one", "two").await
    })
    .await
    .unwrap();
    let (mirrors, params) = (api(&client, MIRRORS), PatchParams::default());
    let two = Patch::Merge(json!({ "spec": { "source": "two" } }));
    mirrors.patch("mirror", &params, &two).await.unwrap();
    until("the second", PATIENCE, async || {
        is_at(&client, "two", "one").await
    })
    .await
    .unwrap();
    let now = DeleteParams::default();
    mirrors.delete("mirror", &now).await.unwrap();
    until("the end", PATIENCE, async || {
        gadget_moves(&client).await;
        mirrors.get_opt("mirror").await.unwrap().is_none()
    })
    .await
    .unwrap();
    assert!(!is_held(&client, "one").await && !is_held(&client, "two").await);
    let copy = secrets(&client, ELSEWHERE).get_opt(COPY).await.unwrap();
    assert!(copy.is_none());
    stop.cancel();
    running.await.unwrap();
}
