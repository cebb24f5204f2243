//! Situations that any kind can come into, shown with the stand-in issuer.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};
use testbed::apiserver::{self, Verb};
use testbed::issuer::{Kind, StandIn};
use testbed::proxy::Fault;

use crate::Subject;
use crate::stage::{NAMESPACE, OPERATOR, Stage};

const IT: Subject = "democred/db";
const HOLDERS: [&str; 2] = ["example.com/api", "example.com/worker"];

/// An issuer, and a login for it.
async fn issuer(stage: &Stage) -> StandIn {
    let issuer = StandIn::start().unwrap();
    let login = issuer.realm("realm", Kind::Chosen);
    let data = json!({ "login": login.reveal() });
    stage.add_secret(json!({ "name": "login" }), data).await;
    issuer
}

fn spec(url: &str) -> Value {
    json!({
        "issuer": { "url": url, "realm": "realm", "kind": "Chosen" },
        "loginSecret": "login", "rotateAfterSeconds": 86400, "retire": { "overlapSeconds": 0 },
    })
}

/// A credential that is ready, and its issuer.
async fn ready(stage: &Stage) -> StandIn {
    let issuer = issuer(stage).await;
    stage.operator().await;
    stage.create("democred", "db", spec(&issuer.url())).await;
    stage.until_settled(IT).await;
    issuer
}

async fn rotate(stage: &Stage, to: &str) {
    stage.annotate(IT, "keyward.dev/rotate", to).await;
    stage
        .until(IT, "the next version", || async {
            stage.status(IT, "version").await == to
        })
        .await;
}

pub(crate) async fn no_operator_runs(stage: &Stage) -> Subject {
    let issuer = issuer(stage).await;
    stage.create("democred", "db", spec(&issuer.url())).await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn the_login_secret_is_missing(stage: &Stage) -> Subject {
    stage.operator().await;
    stage
        .create("democred", "db", spec("http://127.0.0.1:1"))
        .await;
    stage.until_it_says(IT, "LoginMissing").await;
    IT
}

pub(crate) async fn the_issuer_does_not_answer(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    issuer.faults().plan(|_| Fault::Error(503));
    stage.annotate(IT, "keyward.dev/rotate", "1").await;
    stage.until_it_says(IT, "IssuerUnreachable").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn the_issuer_asks_to_wait(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    issuer.faults().plan(|_| Fault::Throttle(600));
    stage.annotate(IT, "keyward.dev/rotate", "1").await;
    stage.until_it_says(IT, "IssuerThrottled").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn the_issuer_refuses_the_login_at_a_rotation(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    issuer.disable_login("realm");
    stage.annotate(IT, "keyward.dev/rotate", "1").await;
    stage.until_it_says(IT, "IssuerDenied").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn two_consumers_hold_the_old_version(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    stage.hold("db-1-1", &HOLDERS).await;
    rotate(stage, "2.1").await;
    stage.until_it_says(IT, "HeldByConsumers").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn a_pod_refers_to_the_old_version(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    let pod = json!({
        "metadata": { "name": "api-0" },
        "spec": {
            "containers": [{ "name": "api", "image": "example.com/api" }],
            "volumes": [{ "name": "login", "secret": { "secretName": "db-1-1" } }],
        },
    });
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
        kube::Api::namespaced(stage.server.client_named("test"), NAMESPACE);
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    rotate(stage, "2.1").await;
    stage.until_it_says(IT, "StillReferenced").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn an_old_version_is_kept_for_the_minimum_overlap(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    let patient = json!({ "spec": { "retire": { "overlapSeconds": 600 } } });
    stage.edit(IT, patient).await;
    rotate(stage, "2.1").await;
    stage.until_it_says(IT, "InOverlap").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn every_old_version_is_held_up_to_the_cap(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    for serial in 1..=7 {
        stage.hold(&format!("db-{serial}-1"), &HOLDERS[..1]).await;
        rotate(stage, &format!("{}.1", serial + 1)).await;
    }
    stage.annotate(IT, "keyward.dev/rotate", "once more").await;
    stage.until_it_says(IT, "MintCapReached").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn it_is_suspended(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    stage.annotate(IT, "keyward.dev/suspend", "true").await;
    stage.until_it_says(IT, "Suspended").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn it_was_rolled_back(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    let keeps = json!({ "spec": { "retire": { "rollbackSeconds": 3600 } } });
    stage.edit(IT, keeps).await;
    rotate(stage, "2.1").await;
    stage.annotate(IT, "keyward.dev/rollback", "1.1").await;
    stage.until_it_says(IT, "KeptForRollback").await;
    stage
        .until(IT, "the version before", || async {
            stage.status(IT, "version").await == "1.1"
        })
        .await;
    stage.keep(issuer);
    IT
}

async fn copy_its_secret(stage: &Stage, name: &str) {
    let mut copy: Secret = stage.secrets().get("db-1-1").await.unwrap();
    copy.metadata.name = Some(name.to_owned());
    copy.metadata.uid = None;
    copy.metadata.resource_version = None;
    copy.metadata.creation_timestamp = None;
    copy.metadata.finalizers = None;
    let created = stage.secrets().create(&PostParams::default(), &copy).await;
    created.unwrap();
}

pub(crate) async fn somebody_copied_its_secret(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    copy_its_secret(stage, "db-for-the-test-system").await;
    stage.until_it_says(IT, "Lookalike").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn its_secret_says_it_is_anothers(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    let other = json!({ "metadata": {
        "labels": { "keyward.dev/owner-uid": "5c9f0b7e-0000-4000-8000-000000000000" },
        "annotations": { "keyward.dev/source": null, "keyward.dev/version": "7.1" },
        "ownerReferences": null,
    } });
    stage.hold("db-1-1", &HOLDERS[..1]).await;
    rotate(stage, "2.1").await;
    stage.patch_secret("db-1-1", other).await;
    stage.until_it_says(IT, "SecretDisputed").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn a_newer_keyward_wrote_the_ledger(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    let ledger = stage.object(IT).await.annotations()["keyward.dev/ledger"].clone();
    let mut ledger: Value = serde_json::from_str(&ledger).unwrap();
    ledger["v"] = 99.into();
    stage
        .annotate(IT, "keyward.dev/ledger", &ledger.to_string())
        .await;
    stage.until_it_says(IT, "LedgerFromTheFuture").await;
    stage.keep(issuer);
    IT
}

/// As from a backup: with the ledger, under a new uid. What it had is kept at the issuer.
pub(crate) async fn it_was_restored_from_a_backup(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    stage
        .edit(IT, json!({ "spec": { "deletionPolicy": "Retain" } }))
        .await;
    let saved = stage.object(IT).await;
    stage.delete(IT).await;
    stage.until_gone(IT).await;
    let ledger = saved.annotations()["keyward.dev/ledger"].clone();
    let metadata = json!({ "name": "db", "annotations": { "keyward.dev/ledger": ledger } });
    stage
        .create_with("democred", metadata, saved.data["spec"].clone())
        .await;
    stage.until_it_says(IT, "FormerLife").await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn somebody_elses_life_is_to_be_taken_over(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    let living = stage.object(IT).await.uid().unwrap();
    let metadata = json!({
        "name": "copy", "annotations": { "keyward.dev/take-over": living },
    });
    stage
        .create_with("democred", metadata, spec(&issuer.url()))
        .await;
    stage
        .until_it_says("democred/copy", "TakeOverRefused")
        .await;
    stage.keep(issuer);
    "democred/copy"
}

/// One holds the version before, another the current one.
pub(crate) async fn it_is_deleted_while_two_hold_it(stage: &Stage) -> Subject {
    let issuer = ready(stage).await;
    stage.hold("db-1-1", &HOLDERS[..1]).await;
    rotate(stage, "2.1").await;
    stage.hold("db-2-1", &HOLDERS[1..]).await;
    stage.delete(IT).await;
    stage.until_it_says(IT, "HeldByConsumers").await;
    stage
        .until(IT, "both are told", || async {
            stage.status(IT, "heldBy").await == HOLDERS.join(", ")
        })
        .await;
    stage.keep(issuer);
    IT
}

pub(crate) async fn the_cluster_forbids_writing_secrets(stage: &Stage) -> Subject {
    let issuer = issuer(stage).await;
    stage.server.faults().plan(|line| {
        let writes = line.user_agent == OPERATOR && line.resource == "secrets";
        if writes && line.verb == Verb::Create {
            apiserver::Fault::Error(403)
        } else {
            apiserver::Fault::Pass
        }
    });
    stage.operator().await;
    stage.create("democred", "db", spec(&issuer.url())).await;
    stage.until_it_says(IT, "ClusterTrouble").await;
    stage.keep(issuer);
    IT
}
