//! Which Secret is copied.

use keyward::controllers::vsphere::component::{Component, REQUEST_KEY};
use serde_json::json;
use testbed::apiserver::{Deny, Fault, Verb};

use crate::site::{CSI, REQUESTS, ROOT, SOURCES, Site, named, pair, pairs, spec_of, version};

const OWN: &str = "vsphere-creds-csi-driver";

#[tokio::test]
async fn with_the_shared_secret_alone_everybody_gets_it() {
    let site = Site::with_root().await;
    site.request(CSI).await;
    site.until("the copy", |site| site.is_served_by(CSI, ROOT))
        .await;
    let object = site.object(CSI);
    let status = &object["status"];
    assert_eq!(
        status["lastSyncGeneration"],
        object["metadata"]["generation"]
    );
    assert!(status["lastSyncTimestamp"].is_string());
    let root = version(&site.secret(SOURCES, ROOT));
    assert_eq!(
        status["lastSyncCloudCredsSecretResourceVersion"],
        root.as_str()
    );
    // No annotation of the shared Secret was needed.
    assert!(site.secret(SOURCES, ROOT)["metadata"]["annotations"].is_null());
    let copy = site.copy(CSI);
    assert_eq!(copy["metadata"]["labels"][REQUEST_KEY], "true");
    assert_eq!(
        copy["metadata"]["annotations"][REQUEST_KEY],
        named(CSI).as_str()
    );
    assert_eq!(copy["type"], "Opaque");
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["cloudcredential.openshift.io/deprovision"])
    );
    // A failure that never was is not told.
    assert!(site.condition(CSI, "CredentialsProvisionFailure").is_null());
}

#[tokio::test]
async fn every_component_finds_the_secret_with_its_name() {
    let site = Site::with_root().await;
    for component in Component::ALL {
        let secret = component.secret();
        site.add(&secret, &pair(&secret), json!({})).await;
        site.request(component).await;
    }
    let target = (
        "openshift-cluster-api",
        "capv-manager-bootstrap-credentials",
    );
    site.request_in(
        REQUESTS,
        "openshift-cluster-api-vsphere",
        spec_of(target),
        json!({}),
    )
    .await;
    for component in Component::ALL {
        let its_own = |site: &Site| site.is_served_by(component, &component.secret());
        site.until("its own", its_own).await;
        assert!(site.says(
            component,
            "UsingSharedCredentials",
            "False",
            "DedicatedSource"
        ));
    }
    let machines = site.secret(SOURCES, "vsphere-creds-machine-api");
    let shares = |site: &Site| site.secret(target.0, target.1)["data"] == machines["data"];
    site.until("the cluster API", shares).await;
}

#[tokio::test]
async fn an_annotation_goes_before_a_name_with_either_value_of_the_label() {
    for label in ["yes", "true"] {
        let site = Site::with_root().await;
        site.add(OWN, &pair("by-name"), json!({})).await;
        site.add_for("mine", &pair("mine"), label, &named(CSI))
            .await;
        site.request(CSI).await;
        site.until("the annotated one", |site| site.is_served_by(CSI, "mine"))
            .await;
    }
}

/// The cluster's own operator rewrites the label to `true`.
#[tokio::test]
async fn a_label_that_somebody_rewrites_changes_nothing() {
    let site = Site::with_root().await;
    site.add_for("mine", &pair("mine"), "yes", &named(CSI))
        .await;
    site.request(CSI).await;
    site.until("its own", |site| site.is_served_by(CSI, "mine"))
        .await;
    let copy = site.copy(CSI);
    let patch = json!({ "metadata": { "labels": { REQUEST_KEY: "true" } } });
    site.patch(SOURCES, "mine", &patch).await;
    site.calm().await;
    assert_eq!(site.copy(CSI), copy);
    assert!(site.is_served_by(CSI, "mine"));
}

#[tokio::test]
async fn what_names_another_request_or_nothing_is_passed_over() {
    let site = Site::with_root().await;
    let wrong = format!("elsewhere/{}", CSI.request());
    site.add_for("wrong-namespace", &pair("a"), "yes", &wrong)
        .await;
    let wrong = format!("{REQUESTS}/another");
    site.add_for("wrong-name", &pair("b"), "yes", &wrong).await;
    site.add_for("empty", &pair("c"), "yes", "").await;
    site.add(
        "none",
        &pair("d"),
        json!({ "labels": { REQUEST_KEY: "yes" } }),
    )
    .await;
    let unlabelled = json!({ "annotations": { REQUEST_KEY: named(CSI) } });
    site.add("unlabelled", &pair("e"), unlabelled).await;
    site.request(CSI).await;
    site.until("the shared one", |site| site.is_served_by(CSI, ROOT))
        .await;
}

#[tokio::test]
async fn a_well_known_secret_that_names_another_request_is_passed_over() {
    let site = Site::with_root().await;
    let other = named(Component::MachineApi);
    site.add_for(OWN, &pair("other"), "yes", &other).await;
    site.request(CSI).await;
    site.until("the shared one", |site| site.is_served_by(CSI, ROOT))
        .await;
    site.request(Component::MachineApi).await;
    let its = |site: &Site| site.is_served_by(Component::MachineApi, OWN);
    site.until("whom it names", its).await;
}

#[tokio::test]
async fn some_have_their_own_and_some_share() {
    let site = Site::with_root().await;
    let two = pairs(&["vc1.example.com", "vc2.example.com"], "own");
    site.add(OWN, &two, json!({})).await;
    for component in Component::ALL {
        site.request(component).await;
    }
    site.until("its own", |site| site.is_served_by(CSI, OWN))
        .await;
    for component in Component::ALL.into_iter().filter(|one| *one != CSI) {
        site.until("the shared one", |site| site.is_served_by(component, ROOT))
            .await;
        assert!(site.says(component, "UsingSharedCredentials", "True", "SharedSource"));
    }
    let keys = site.copy(CSI)["data"].as_object().unwrap().len();
    assert_eq!(keys, 4);
    let world = site.operator.as_ref().unwrap().engine.world();
    let scraped = world.telemetry.scrape();
    assert!(
        scraped
            .contains("keyward_vsphere_requests{source=\"shared\",otel_scope_name=\"keyward\"} 3"),
        "{scraped}"
    );
    assert!(scraped.contains(
        "cco_credentials_requests{cloud_type=\"vsphere\",otel_scope_name=\"keyward\"} 4"
    ));
}

#[tokio::test]
async fn two_that_match_are_both_named_and_neither_is_used() {
    let site = Site::with_root().await;
    site.request(CSI).await;
    site.until("the shared one", |site| site.is_served_by(CSI, ROOT))
        .await;
    site.stop_and_add_two().await;
    let copy = site.copy(CSI);
    let told = |site: &Site| site.fails(CSI, "AmbiguousSource");
    site.until("it is told", told).await;
    let message = site.condition(CSI, "CredentialsProvisionFailure")["message"].clone();
    assert_eq!(message, "kube-system/one, kube-system/two");
    assert_eq!(site.copy(CSI), copy, "the copy is kept");
    assert_eq!(site.events("AmbiguousSource"), 1);
    site.remove(SOURCES, "two").await;
    site.until("the one that is left", |site| site.is_served_by(CSI, "one"))
        .await;
    let over = site.says(
        CSI,
        "CredentialsProvisionFailure",
        "False",
        "CredentialsProvisionSuccess",
    );
    assert!(over);
}

impl Site {
    /// Both at once: whoever came first would have been right until the other came.
    async fn stop_and_add_two(&self) {
        let deny = Deny::verb(Verb::List, "secrets").in_namespace(SOURCES);
        self.cluster.server.deny(deny);
        for name in ["one", "two"] {
            self.add_for(name, &pair(name), "yes", &named(CSI)).await;
        }
        self.cluster.server.allow_all();
        self.annotate(CSI, "again", &json!("now")).await;
    }
}

#[tokio::test]
async fn a_malformed_secret_is_told_by_its_keys_and_the_copy_is_kept() {
    let site = Site::with_root().await;
    site.request(CSI).await;
    site.until("the shared one", |site| site.is_served_by(CSI, ROOT))
        .await;
    let copy = site.copy(CSI);
    let half = json!({ "vc1.example.com.username": "canary" });
    site.add(OWN, &half, json!({})).await;
    site.until("it is told", |site| site.fails(CSI, "SourceInvalid"))
        .await;
    let message = site.condition(CSI, "CredentialsProvisionFailure")["message"].clone();
    assert_eq!(
        message,
        "kube-system/vsphere-creds-csi-driver: vc1.example.com.password is missing"
    );
    assert_eq!(site.copy(CSI), copy);
    site.patch(SOURCES, OWN, &json!({ "stringData": pair("whole") }))
        .await;
    site.until("it is whole", |site| site.is_served_by(CSI, OWN))
        .await;
}

#[tokio::test]
async fn a_vcenter_of_the_cluster_without_a_login_is_told() {
    let site = Site::with_root().await;
    let vcenters =
        json!({ "vcenters": [{ "server": "vc1.example.com" }, { "server": "vc2.example.com" }] });
    site.set_infrastructure(&vcenters).await;
    site.request(CSI).await;
    site.until("it is told", |site| site.fails(CSI, "SourceInvalid"))
        .await;
    let message = site.condition(CSI, "CredentialsProvisionFailure")["message"].clone();
    assert_eq!(
        message,
        "kube-system/vsphere-creds: vc2.example.com has no login in it"
    );
    assert!(site.copy(CSI).is_null());
    let both = pairs(&["vc1.example.com", "vc2.example.com"], "root");
    site.patch(SOURCES, ROOT, &json!({ "stringData": both }))
        .await;
    site.until("both", |site| site.is_served_by(CSI, ROOT))
        .await;
}

#[tokio::test]
async fn a_secret_of_its_own_that_comes_changes_or_goes_is_followed() {
    let site = Site::with_root().await;
    for component in Component::ALL {
        site.request(component).await;
    }
    for component in Component::ALL {
        site.until("the shared one", |site| site.is_served_by(component, ROOT))
            .await;
    }
    let others = |site: &Site| {
        let others = Component::ALL.into_iter().filter(|one| *one != CSI);
        others.map(|one| site.copy(one)).collect::<Vec<_>>()
    };
    let before = others(&site);
    site.add(OWN, &pair("own"), json!({})).await;
    site.until("its own", |site| site.is_served_by(CSI, OWN))
        .await;
    let first = version(&site.copy(CSI));
    site.patch(SOURCES, OWN, &json!({ "stringData": pair("changed") }))
        .await;
    site.until("the change", |site| site.is_served_by(CSI, OWN))
        .await;
    assert_ne!(version(&site.copy(CSI)), first);
    site.remove(SOURCES, OWN).await;
    site.until("the shared one", |site| site.is_served_by(CSI, ROOT))
        .await;
    assert!(site.says(CSI, "UsingSharedCredentials", "True", "SharedSource"));
    assert_eq!(site.events("SharedSource"), 1, "a warning");
    site.calm().await;
    assert_eq!(others(&site), before, "nobody else's was touched");
}

#[tokio::test]
async fn without_a_shared_secret_one_of_its_own_is_enough() {
    let mut site = Site::new();
    site.start().await;
    site.add(OWN, &pair("own"), json!({})).await;
    site.request(CSI).await;
    site.until("its own", |site| site.is_served_by(CSI, OWN))
        .await;
}

#[tokio::test]
async fn without_any_there_is_no_copy_and_after_five_minutes_it_is_degraded() {
    let mut site = Site::new();
    site.start().await;
    site.request(CSI).await;
    site.until("it is told", |site| site.fails(CSI, "RootMissing"))
        .await;
    site.calm().await;
    assert!(site.copy(CSI).is_null());
    assert!(site.condition(CSI, "Degraded").is_null());
    assert_eq!(site.object(CSI)["status"]["provisioned"], false);
    for _ in 0..6 {
        site.pass_time(61);
        site.calm().await;
    }
    assert!(site.says(CSI, "Degraded", "True", "CredentialsFailing"));
    site.add(ROOT, &pair("root"), json!({})).await;
    site.until("it is there", |site| site.is_served_by(CSI, ROOT))
        .await;
    assert!(site.says(CSI, "Degraded", "False", "CredentialsWorking"));
}

/// An API blip must not hand out the administrator's login.
#[tokio::test]
async fn an_error_while_looking_is_never_a_fallback() {
    for fault in [
        Fault::Error(500),
        Fault::Error(403),
        Fault::TimeoutNotApplied,
    ] {
        let mut site = Site::with_root().await;
        site.add_for("mine", &pair("mine"), "yes", &named(CSI))
            .await;
        site.cluster.server.faults().plan(move |line| {
            let is_list = line.verb == Verb::List && line.namespace == SOURCES;
            if is_list && line.user_agent == crate::cluster::OPERATOR {
                fault
            } else {
                Fault::Pass
            }
        });
        site.request(CSI).await;
        site.calm().await;
        assert!(site.copy(CSI).is_null(), "{fault:?}");
        if fault == Fault::Error(403) {
            site.until("it is told", |site| {
                site.fails(CSI, "CredentialsProvisionFailure")
            })
            .await;
        }
        site.cluster.server.faults().clear();
        let its_own = |site: &Site| site.is_served_by(CSI, "mine");
        site.live_until("its own", its_own).await.unwrap();
    }
}

#[tokio::test]
async fn a_thousand_unrelated_secrets_cause_no_work_and_are_not_read() {
    let site = Site::with_root().await;
    site.request(CSI).await;
    site.until("the copy", |site| site.is_served_by(CSI, ROOT))
        .await;
    site.calm().await;
    let before = site.operators_requests();
    for nth in 0..1000 {
        let labels = json!({ "labels": { "app": "other" } });
        site.add(&format!("other-{nth}"), &json!({ "a": "b" }), labels)
            .await;
    }
    site.calm().await;
    assert_eq!(site.operators_requests(), before);
    let log = site.cluster.server.faults().log();
    let whole = log.iter().filter(|one| {
        one.line.user_agent == crate::cluster::OPERATOR && one.line.name.starts_with("other-")
    });
    assert_eq!(whole.count(), 0);
}
