//! The same with Keystone's application credentials.

use kube::api::PostParams;
use serde_json::Value;
use testbed::apiserver::Verb;

use crate::cloud::openings::ready;
use crate::cloud::{CONSUMER, Cloud, NAME, NAMESPACE, PASSWORDS, Running};
use crate::people::{anywhere, in_the_first_format, under_another_name};

const COPY: &str = "ac-copy";
const LEDGER: &str = "keyward.dev/ledger";

/// The example at rest and held; its login as a consumer has it.
async fn held() -> (Cloud, Running, String, (String, String)) {
    let (cloud, operator, id) = ready().await;
    let secret = cloud.text("secretName").await;
    assert!(cloud.hold(&secret, CONSUMER).await);
    let login = cloud.handed_out().await;
    assert_eq!(cloud.log_in(&login).await, 201);
    (cloud, operator, id, login)
}

fn stored(cloud: &Cloud, resource: &str, namespace: &str, name: &str) -> Option<Value> {
    let mut all = cloud.server.objects(resource).into_iter();
    let found = all
        .find(|one| one["metadata"]["name"] == name && one["metadata"]["namespace"] == namespace);
    found.map(|one| (*one).clone())
}

fn example_as_stored(cloud: &Cloud) -> Value {
    let resource = "keystoneapplicationcredentials.keystone.openstack.org";
    stored(cloud, resource, NAMESPACE, NAME).unwrap()
}

#[tokio::test]
async fn a_copied_application_credential_ends_nothing_of_the_originals() {
    for is_first in [false, true] {
        let (cloud, operator, id, login) = held().await;
        let mut original = example_as_stored(&cloud);
        if is_first {
            let note = &mut original["metadata"]["annotations"][LEDGER];
            *note = in_the_first_format(note.as_str().unwrap()).into();
        }
        cloud.create_this(under_another_name(&original, COPY)).await;
        cloud
            .until("the copy has its own", || async {
                let own = cloud.status_of(COPY).await["acID"].clone();
                cloud.settled(COPY).await && own.is_string() && own != id.as_str()
            })
            .await;
        assert_eq!(cloud.live().await.len(), 2);
        assert_eq!(cloud.events_of("LedgerOfAnother"), 1);

        cloud
            .annotate_named(COPY, "keyward.dev/rotate", "again")
            .await;
        let first = cloud.status_of(COPY).await["acID"].clone();
        cloud
            .until("the copy rotates", || async {
                cloud.settled(COPY).await && cloud.status_of(COPY).await["acID"] != first
            })
            .await;
        assert_eq!(cloud.log_in(&login).await, 201);

        cloud.delete(COPY).await;
        cloud.until_gone(COPY).await;
        cloud.until_looked_at().await;
        assert_eq!(cloud.log_in(&login).await, 201, "first format {is_first}");
        assert_eq!(cloud.live_ids().await, [id]);
        drop(operator);
    }
}

/// With the same KeystoneAPI and the same password there, everything is at hand that a revoke needs.
#[tokio::test]
async fn a_secret_copied_to_where_the_same_password_is_ends_nothing() {
    for stripped in [true, false] {
        let (cloud, operator, id, login) = held().await;
        let elsewhere = "elsewhere";
        cloud.server.create_namespace(elsewhere);
        let name = cloud.text("secretName").await;
        let passwords = stored(&cloud, "secrets", NAMESPACE, PASSWORDS).unwrap();
        let mut copy =
            under_another_name(&stored(&cloud, "secrets", NAMESPACE, &name).unwrap(), &name);
        if stripped {
            let metadata = copy["metadata"].as_object_mut().unwrap();
            metadata.remove("finalizers");
        }
        let keystone = stored(
            &cloud,
            "keystoneapis.keystone.openstack.org",
            NAMESPACE,
            "keystone",
        )
        .unwrap();
        let status = keystone["status"].clone();
        let secrets = kube::api::ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&());
        let apis = kube::api::ApiResource {
            group: "keystone.openstack.org".into(),
            version: "v1beta1".into(),
            api_version: "keystone.openstack.org/v1beta1".into(),
            kind: "KeystoneAPI".into(),
            plural: "keystoneapis".into(),
        };
        for (resource, mut object) in [
            (&apis, under_another_name(&keystone, "keystone")),
            (&secrets, under_another_name(&passwords, PASSWORDS)),
            (&secrets, copy),
        ] {
            object["metadata"]["namespace"] = elsewhere.into();
            let api = anywhere(&cloud.client, resource, elsewhere);
            let object = serde_json::from_value(object).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap();
        }
        let patch = serde_json::json!({ "status": status });
        anywhere(&cloud.client, &apis, elsewhere)
            .patch_status(
                "keystone",
                &kube::api::PatchParams::default(),
                &kube::api::Patch::Merge(&patch),
            )
            .await
            .unwrap();
        cloud
            .until("the operator has looked there", || async {
                let log = cloud.server.faults().log();
                log.iter().any(|logged| {
                    logged.line.user_agent == crate::cloud::OPERATOR
                        && logged.line.verb == Verb::List
                        && logged.line.namespace == elsewhere
                        && logged.status.is_some()
                })
            })
            .await;
        for _ in 0..6 {
            cloud.clock.jump(301);
            operator.engine.world().queue.timers.notify_one();
            cloud.until_looked_at().await;
        }
        assert_eq!(cloud.log_in(&login).await, 201, "stripped {stripped}");
        assert_eq!(cloud.live_ids().await, [id], "stripped {stripped}");
    }
}
