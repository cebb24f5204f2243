//! What becomes of a request when its own Secret goes; and what the Infrastructure object says of it.

use keyward::controllers::vsphere::component::Component;
use keyward::controllers::vsphere::{FALLBACK, Fallback};
use serde_json::json;

use crate::site::{CSI, ROOT, SOURCES, Site, pair};

const OWN: &str = "vsphere-creds-csi-driver";

async fn with_its_own(fallback: Fallback) -> Site {
    let mut site = Site::new();
    site.settings.fallback = fallback;
    site.add(ROOT, &pair("root"), json!({})).await;
    site.add(OWN, &pair("own"), json!({})).await;
    site.start().await;
    site.request(CSI).await;
    site.until("its own", |site| site.is_served_by(CSI, OWN))
        .await;
    site
}

#[tokio::test]
async fn who_retains_keeps_the_copy_and_shares_only_if_it_never_had_its_own() {
    let site = with_its_own(Fallback::Retain).await;
    let copy = site.copy(CSI);
    site.remove(SOURCES, OWN).await;
    let told = |site: &Site| site.fails(CSI, "SourceSecretMissing");
    site.until("it is told", told).await;
    site.calm().await;
    assert_eq!(site.copy(CSI), copy);
    assert_eq!(site.object(CSI)["status"]["provisioned"], true);
    site.request(Component::Diagnostics).await;
    let shares = |site: &Site| site.is_served_by(Component::Diagnostics, ROOT);
    site.until("who never had one shares", shares).await;
    site.add(OWN, &pair("again"), json!({})).await;
    site.until("its own again", |site| site.is_served_by(CSI, OWN))
        .await;
}

#[tokio::test]
async fn who_fails_never_gets_the_shared_one() {
    let site = with_its_own(Fallback::Fail).await;
    let copy = site.copy(CSI);
    site.remove(SOURCES, OWN).await;
    site.until("it is told", |site| site.fails(CSI, "SourceSecretMissing"))
        .await;
    site.request(Component::Diagnostics).await;
    let told = |site: &Site| site.fails(Component::Diagnostics, "SourceSecretMissing");
    site.until("it is told", told).await;
    site.calm().await;
    assert_eq!(site.copy(CSI), copy, "a working copy is not taken away");
    assert_eq!(site.object(CSI)["status"]["provisioned"], false);
    assert!(site.copy(Component::Diagnostics).is_null());
}

#[tokio::test]
async fn the_annotation_goes_before_the_flag_and_nonsense_is_told() {
    let site = with_its_own(Fallback::FallbackToRoot).await;
    site.annotate(CSI, FALLBACK, &json!("Retain")).await;
    site.calm().await;
    site.remove(SOURCES, OWN).await;
    site.until("it is told", |site| site.fails(CSI, "SourceSecretMissing"))
        .await;
    site.annotate(CSI, FALLBACK, &json!("Perhaps")).await;
    site.until("it is told", |site| site.fails(CSI, "InvalidRequest"))
        .await;
    site.annotate(CSI, FALLBACK, &json!(null)).await;
    site.until("the shared one", |site| site.is_served_by(CSI, ROOT))
        .await;
}

#[tokio::test]
async fn the_shared_secret_counts_as_insufficient_if_it_is_marked_so() {
    let site = Site::with_root().await;
    let mode = "cloudcredential.openshift.io/mode";
    let marked = json!({ "metadata": { "annotations": { mode: "insufficient" } } });
    site.patch(SOURCES, ROOT, &marked).await;
    site.request(CSI).await;
    let told = |site: &Site| {
        site.says(
            CSI,
            "InsufficientCloudCreds",
            "True",
            "CloudCredsInsufficient",
        )
    };
    site.until("it is told", told).await;
    assert!(site.copy(CSI).is_null());
    let other = json!({ "metadata": { "annotations": { mode: "mint" } } });
    site.patch(SOURCES, ROOT, &other).await;
    site.until("any other mode is fine", |site| {
        site.is_served_by(CSI, ROOT)
    })
    .await;
}

#[tokio::test]
async fn the_mode_of_the_infrastructure_counts_where_that_is_switched_on() {
    let mut site = Site::new();
    site.settings.infrastructure_modes = true;
    site.add(ROOT, &pair("root"), json!({})).await;
    site.add(OWN, &pair("own"), json!({})).await;
    site.set_infrastructure(&json!({ "credentialsMode": "Passthrough" }))
        .await;
    site.start().await;
    site.request(CSI).await;
    site.until("the shared one", |site| site.is_served_by(CSI, ROOT))
        .await;
    site.request(Component::Diagnostics).await;
    let shares = |site: &Site| site.is_served_by(Component::Diagnostics, ROOT);
    site.until("the shared one", shares).await;
    site.add("referred", &pair("referred"), json!({})).await;
    let referring = json!({
        "credentialsMode": "PerComponent", "componentCredentials": { "csiDriver": { "name": "referred" } },
    });
    site.set_infrastructure(&referring).await;
    site.until("the one that is named", |site| {
        site.is_served_by(CSI, "referred")
    })
    .await;
    let told = |site: &Site| site.fails(Component::Diagnostics, "RootMissing");
    site.until("nobody shares", told).await;
    assert!(
        !site.copy(Component::Diagnostics).is_null(),
        "a working copy is not taken away"
    );
}

#[tokio::test]
async fn without_the_switch_the_infrastructure_decides_nothing() {
    let site = Site::with_root().await;
    site.add(OWN, &pair("own"), json!({})).await;
    site.set_infrastructure(&json!({ "credentialsMode": "Passthrough" }))
        .await;
    site.request(CSI).await;
    site.until("its own", |site| site.is_served_by(CSI, OWN))
        .await;
}

#[tokio::test]
async fn a_secret_that_names_its_target_is_used_where_that_is_switched_on() {
    let mut site = Site::new();
    site.settings.by_target = true;
    site.add(ROOT, &pair("root"), json!({})).await;
    site.start().await;
    site.request(CSI).await;
    site.until("the shared one", |site| site.is_served_by(CSI, ROOT))
        .await;
    let (namespace, name) = CSI.target();
    let more = json!({ "annotations": {
        "cloudcredential.openshift.io/target-secret-namespace": namespace,
        "cloudcredential.openshift.io/target-secret-name": name,
        "cloudcredential.openshift.io/mode": "passthrough",
    } });
    site.add_in("openshift-config", "override", &pair("override"), more)
        .await;
    let its =
        |site: &Site| site.copy(CSI)["data"] == site.secret("openshift-config", "override")["data"];
    site.until("the one that names it", its).await;
    site.remove("openshift-config", "override").await;
    site.until("the shared one", |site| site.is_served_by(CSI, ROOT))
        .await;
}
