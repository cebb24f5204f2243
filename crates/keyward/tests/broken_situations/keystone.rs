//! Situations of an application credential.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::keystone::{self, Admin};

use crate::Subject;
use crate::stage::Stage;

const IT: Subject = "appcred/ac-barbican";
const USER: &str = "barbican";
const HOLDERS: [&str; 2] = [
    "openstack.org/barbican-ac-consumer",
    "openstack.org/edpm-ac-consumer",
];

struct Cloud {
    keystone: keystone::standin::StandIn,
    admin: Admin,
}

/// A Keystone, and the password of its user in a Secret.
async fn cloud(stage: &Stage) -> Cloud {
    let password = keystone::password_of(USER);
    let data = json!({ "BarbicanPassword": password });
    stage
        .add_secret(json!({ "name": "osp-secret" }), data)
        .await;
    let keystone = keystone::standin::StandIn::start(keystone::Options::default()).unwrap();
    let admin = Admin::new(&keystone.url());
    Cloud { keystone, admin }
}

async fn add_keystone_api(stage: &Stage, cloud: &Cloud, ready: bool) {
    stage.create("KeystoneAPI", "keystone", json!({})).await;
    let status = json!({ "status": {
        "apiEndpoints": { "internal": cloud.keystone.url(), "public": "https://keystone.example" },
        "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
    } });
    stage
        .api("KeystoneAPI")
        .patch_status("keystone", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
}

async fn create(stage: &Stage) {
    let metadata = json!({
        "name": "ac-barbican", "annotations": { "keyward.dev/minimum-overlap": "0s" },
    });
    let spec = json!({
        "expirationDays": 365, "gracePeriodDays": 182, "passwordSelector": "BarbicanPassword",
        "roles": ["service"], "secret": "osp-secret", "unrestricted": false, "userName": USER,
    });
    stage.operator().await;
    stage.create_with("appcred", metadata, spec).await;
}

/// A credential that is ready.
async fn ready(stage: &Stage) -> Cloud {
    let cloud = cloud(stage).await;
    add_keystone_api(stage, &cloud, true).await;
    create(stage).await;
    stage.until_settled(IT).await;
    cloud
}

async fn put_password(stage: &Stage, change: Value) {
    stage.patch_secret("osp-secret", change).await;
}

pub(crate) async fn there_is_no_keystone_api(stage: &Stage) -> Subject {
    stage.keep(cloud(stage).await);
    create(stage).await;
    stage.until_it_says(IT, "IssuerMissing").await;
    IT
}

pub(crate) async fn the_keystone_api_is_not_ready(stage: &Stage) -> Subject {
    let cloud = cloud(stage).await;
    add_keystone_api(stage, &cloud, false).await;
    create(stage).await;
    stage.until_it_says(IT, "IssuerNotReady").await;
    stage.keep(cloud);
    IT
}

pub(crate) async fn the_password_is_wrong(stage: &Stage) -> Subject {
    let cloud = cloud(stage).await;
    put_password(
        stage,
        json!({ "stringData": { "BarbicanPassword": "wrong" } }),
    )
    .await;
    add_keystone_api(stage, &cloud, true).await;
    create(stage).await;
    stage.until_it_says(IT, "IssuerDenied").await;
    stage.keep(cloud);
    IT
}

pub(crate) async fn the_password_is_not_text(stage: &Stage) -> Subject {
    let cloud = cloud(stage).await;
    put_password(stage, json!({ "data": { "BarbicanPassword": "//79" } })).await;
    add_keystone_api(stage, &cloud, true).await;
    create(stage).await;
    stage.until_it_says(IT, "LoginMissing").await;
    stage.keep(cloud);
    IT
}

/// The next rotation is what notices it.
pub(crate) async fn the_user_is_disabled(stage: &Stage) -> Subject {
    let cloud = ready(stage).await;
    cloud.admin.disable_user(USER).await.unwrap();
    stage.annotate(IT, "keyward.dev/rotate", "1").await;
    stage.until_it_says(IT, "CurrentRefused").await;
    stage.keep(cloud);
    IT
}

pub(crate) async fn the_user_lost_its_role(stage: &Stage) -> Subject {
    let cloud = ready(stage).await;
    cloud
        .admin
        .unassign_role(USER, "service", "service")
        .await
        .unwrap();
    stage.annotate(IT, "keyward.dev/rotate", "1").await;
    stage.until_it_says(IT, "CurrentRefused").await;
    stage.keep(cloud);
    IT
}

async fn secret(stage: &Stage) -> String {
    stage.status(IT, "secretName").await
}

pub(crate) async fn every_version_of_an_application_credential_is_held(stage: &Stage) -> Subject {
    let cloud = ready(stage).await;
    for round in 1..=7 {
        let before = secret(stage).await;
        stage.hold(&before, &HOLDERS[..1]).await;
        let token = round.to_string();
        stage.annotate(IT, "keyward.dev/rotate", &token).await;
        stage
            .until(IT, "the next one", || async {
                secret(stage).await != before
            })
            .await;
    }
    stage.annotate(IT, "keyward.dev/rotate", "once more").await;
    stage.until_it_says(IT, "MintCapReached").await;
    stage.keep(cloud);
    IT
}

/// One holds the version before, another the current one.
pub(crate) async fn an_application_credential_is_deleted_while_two_hold_it(
    stage: &Stage,
) -> Subject {
    let cloud = ready(stage).await;
    let first = secret(stage).await;
    stage.hold(&first, &HOLDERS[..1]).await;
    stage.annotate(IT, "keyward.dev/rotate", "1").await;
    stage
        .until(IT, "the next one", || async {
            secret(stage).await != first
        })
        .await;
    let second = secret(stage).await;
    stage.hold(&second, &HOLDERS[1..]).await;
    stage.delete(IT).await;
    stage
        .until(IT, "both are told", || async {
            stage.status(IT, "heldBy").await == HOLDERS.join(", ")
        })
        .await;
    stage.keep(cloud);
    IT
}
