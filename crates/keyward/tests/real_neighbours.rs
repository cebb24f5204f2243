//! Careless and hostile neighbours, on the real API server with the real garbage collector and the real Keystone: each time
//! it comes back by itself within a minute, and says the truth meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod real_stage;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use real_stage::cloud::{self, Cloud, PATIENCE};
use real_stage::{Credential, plane, until};
use serde_json::{Value, json};
use testbed::keystone::real::{Keystone, Options};

const HOLDER: &str = "openstack.org/consumer";
const MOST_ALIVE: usize = 8;
const FORGED: &str = "Xy81LmQ2zzWb6TkP0dGv";

async fn wait(cloud: &Cloud, credential: &Credential, what: &str, is: impl AsyncFnMut() -> bool) {
    if let Err(error) = until(what, PATIENCE, is).await {
        panic!("{error}: {}", cloud.describe(credential));
    }
}

async fn patch_secret(cloud: &Cloud, name: &str, metadata: &Value) {
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    let secrets = cloud.stage.secrets_in(&cloud.namespace);
    let patched = secrets.patch(name, &PatchParams::default(), &patch).await;
    patched.unwrap();
}

async fn secret(cloud: &Cloud, name: &str) -> Option<Secret> {
    let secrets = cloud.stage.secrets_in(&cloud.namespace);
    secrets.get_opt(name).await.unwrap()
}

fn secret_of(credential: &Credential) -> String {
    credential.shown().secret.unwrap()
}

/// Past our finalizer, which is put back in between if the operator is up.
async fn remove_by_force(credential: &Credential) {
    let bare = json!({ "metadata": { "finalizers": null } });
    credential.merge(&bare).await.unwrap();
    credential.delete().await;
    let _ = credential.merge(&bare).await;
    let gone = async || {
        credential
            .api()
            .get_opt(&credential.name)
            .await
            .unwrap()
            .is_none()
    };
    until("it is gone", PATIENCE, gone).await.unwrap();
}

/// The former life's credential is ended, and the new one has its own.
async fn made_again(cloud: &Cloud, user: &str, before: &(String, String)) {
    let credential = cloud.create(user, user).await;
    let is = async || {
        let now = credential.handed_out().await;
        credential.settled(1) && now.is_some_and(|now| now.0 != before.0)
    };
    wait(cloud, &credential, "it has one of its own", is).await;
    cloud.until_alive(user, 1).await.unwrap();
    assert_eq!(cloud.log_in(before).await, 404, "{user}");
    let now = credential.handed_out().await.unwrap();
    assert_eq!(cloud.log_in(&now).await, 201, "{user}");
}

async fn removed_and_made_again_with_the_operator_up(cloud: &Cloud) {
    let credential = cloud.create("nova", "nova").await;
    let before = cloud.settled(&credential, 1).await;
    remove_by_force(&credential).await;
    made_again(cloud, "nova", &before).await;
}

/// A leftover draft that somebody's finalizer keeps.
async fn a_finalizer_on_a_draft(cloud: &Cloud) {
    let credential = cloud.create("glance", "glance").await;
    cloud.settled(&credential, 1).await;
    let object = credential.api().get(&credential.name).await.unwrap();
    let draft: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "glance-draft", "finalizers": ["example.org/backup"],
            "labels": { "keyward.dev/owner-uid": object.uid(), "keyward.dev/role": "draft" },
            "annotations": { "keyward.dev/version": "1.1" },
            "ownerReferences": [{
                "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneApplicationCredential",
                "name": "glance", "uid": object.uid(), "controller": true,
            }],
        },
        "stringData": { "AC_SECRET": "q7Zk2PxW9vTb4RmN3cHs" },
    }))
    .unwrap();
    let secrets = cloud.stage.secrets_in(&cloud.namespace);
    secrets
        .create(&PostParams::default(), &draft)
        .await
        .unwrap();
    let told = async || {
        let message = credential.shown().message;
        message.contains("glance-draft") && message.contains("example.org/backup")
    };
    wait(cloud, &credential, "the draft is told of", told).await;
    credential.rotate("all the same").await;
    let rotated = async || {
        let shown = credential.shown();
        shown.serial == 2 && shown.live == 1 && shown.ready
    };
    wait(cloud, &credential, "it rotates", rotated).await;
    credential.delete().await;
    let gone = async || credential.seen().is_none();
    wait(cloud, &credential, "it goes", gone).await;
    cloud.until_alive("glance", 0).await.unwrap();
    patch_secret(cloud, "glance-draft", &json!({ "finalizers": null })).await;
}

async fn labels_taken_off_the_current_secret(cloud: &Cloud) {
    let credential = cloud.create("heat", "heat").await;
    let before = cloud.settled(&credential, 1).await;
    let name = secret_of(&credential);
    let labels = secret(cloud, &name).await.unwrap().metadata.labels;
    let bare = json!({ "labels": null, "ownerReferences": null, "finalizers": null });
    patch_secret(cloud, &name, &bare).await;
    let back = async || {
        let now = secret(cloud, &name).await.unwrap().metadata;
        now.labels == labels && now.finalizers.is_some() && now.owner_references.is_some()
    };
    wait(cloud, &credential, "they are back", back).await;
    assert_eq!(cloud.settled(&credential, 1).await, before);
}

/// Deleted past our finalizer and made anew with all its labels, and with something else in it.
async fn a_secret_swapped_for_a_forged_one(cloud: &Cloud) {
    let credential = cloud.create("cinder", "cinder").await;
    let before = cloud.settled(&credential, 1).await;
    let name = secret_of(&credential);
    let secrets = cloud.stage.secrets_in(&cloud.namespace);
    let mut forged = secret(cloud, &name).await.unwrap();
    let old = forged.uid();
    secrets
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    let gone = async || {
        let left = secret(cloud, &name).await;
        if left.as_ref().is_some_and(|left| left.uid() == old) {
            let bare = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            let _ = secrets.patch(&name, &PatchParams::default(), &bare).await;
        }
        left.is_none_or(|left| left.uid() != old)
    };
    until("it is gone", PATIENCE, gone).await.unwrap();
    forged.metadata = ObjectMeta {
        name: forged.metadata.name,
        labels: forged.metadata.labels,
        annotations: forged.metadata.annotations,
        owner_references: forged.metadata.owner_references,
        finalizers: forged.metadata.finalizers,
        ..ObjectMeta::default()
    };
    for value in forged.data.iter_mut().flat_map(|data| data.values_mut()) {
        value.0 = FORGED.as_bytes().to_vec();
    }
    let _ = secrets.create(&PostParams::default(), &forged).await;
    let works = async || {
        let shown = credential.shown();
        let Some(now) = credential.handed_out().await.filter(|_| shown.ready) else {
            return false;
        };
        now.0 != before.0 && now.0 != FORGED && cloud.log_in(&now).await == 201
    };
    wait(cloud, &credential, "what is handed out works", works).await;
    cloud.until_alive("cinder", 1).await.unwrap();
}

async fn a_user_disabled_and_enabled(cloud: &Cloud) {
    let credential = cloud.create("swift", "swift").await;
    let before = cloud.settled(&credential, 1).await;
    cloud.admin.disable_user("swift").await.unwrap();
    credential.rotate("while disabled").await;
    let told = async || {
        let shown = credential.shown();
        !shown.ready && shown.reason == "CurrentRefused"
    };
    wait(cloud, &credential, "that nobody gets in is told", told).await;
    cloud.admin.enable_user("swift").await.unwrap();
    let ready = async || credential.shown().ready;
    wait(cloud, &credential, "it is ready again", ready).await;
    assert_eq!(cloud.log_in(&before).await, 201);
}

async fn the_cap_reached_and_freed(cloud: &Cloud) {
    let credential = cloud.create("neutron", "neutron").await;
    let mut held = Vec::new();
    let mut serial = 1;
    while held.len() < MOST_ALIVE {
        let is = async || credential.shown().serial == serial && credential.shown().ready;
        wait(cloud, &credential, "the next version", is).await;
        let name = secret_of(&credential);
        let known = secret(cloud, &name).await.unwrap();
        let mut finalizers = known.finalizers().to_vec();
        finalizers.push(HOLDER.to_owned());
        patch_secret(cloud, &name, &json!({ "finalizers": finalizers })).await;
        held.push(name);
        serial += 1;
        credential.rotate(&serial.to_string()).await;
    }
    let told = async || {
        credential
            .shown()
            .message
            .contains("8 credentials of this resource are alive")
    };
    wait(cloud, &credential, "the cap is told", told).await;
    assert_eq!(cloud.live("neutron").await.len(), MOST_ALIVE);
    for name in &held {
        let Some(known) = secret(cloud, name).await else {
            continue;
        };
        let rest: Vec<&String> = known
            .finalizers()
            .iter()
            .filter(|one| *one != HOLDER)
            .collect();
        patch_secret(cloud, name, &json!({ "finalizers": rest })).await;
    }
    let goes_on = async || credential.settled(serial);
    wait(cloud, &credential, "it goes on", goes_on).await;
    cloud.until_alive("neutron", 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_whatever_neighbours_do_it_comes_back_by_itself_within_a_minute() {
    let issuer = Keystone::start(Options::default()).await.unwrap();
    let stage = cloud::stage(plane().await).await;
    let cloud = Cloud::new(&stage, "neighbours", &issuer.url()).await;
    let launch = cloud.launch(None);
    let operator = launch.start();
    tokio::join!(
        removed_and_made_again_with_the_operator_up(&cloud),
        a_finalizer_on_a_draft(&cloud),
        labels_taken_off_the_current_secret(&cloud),
        a_secret_swapped_for_a_forged_one(&cloud),
        a_user_disabled_and_enabled(&cloud),
        the_cap_reached_and_freed(&cloud),
    );
    // And once more while nobody looks.
    let credential = cloud.create("placement", "placement").await;
    let before = cloud.settled(&credential, 1).await;
    operator.stop().await;
    remove_by_force(&credential).await;
    let operator = launch.start();
    made_again(&cloud, "placement", &before).await;
    cloud.assert_no_leak(&launch, Some(&operator)).await;
    operator.stop().await;
}
