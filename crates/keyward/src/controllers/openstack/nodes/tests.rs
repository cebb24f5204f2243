use super::*;
use k8s_openapi::ByteString;

fn secret(key: &str, text: &str) -> Secret {
    Secret {
        data: Some([(key.to_owned(), ByteString(text.into()))].into()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

fn config(text: &str) -> Secret {
    secret("01-nova.conf", text)
}

fn object(data: Value) -> DynamicObject {
    let mut object = DynamicObject::new("compute", &node_sets());
    object.data = data;
    object
}

const OURS: &str = "auth_type = v3applicationcredential\napplication_credential_id = old";

/// By the record alone: no deployment is there any more.
fn may_use(id: &str, hash: &str, present: Option<&Secret>) -> bool {
    let begun = Vec::new();
    let given = Given {
        secret: "config",
        hash,
        present,
        begun,
    };
    given.why_it_may_use(id).is_some()
}

#[test]
fn nodes_use_what_they_were_given() {
    let given = config(OURS);
    let hash = hash_of(&given);
    assert!(may_use("old", &hash, Some(&given)));
    assert!(!may_use("new", &hash, Some(&given)));
}

#[test]
fn nodes_behind_a_login_may_use_anything_and_nodes_behind_a_certificate_nothing() {
    let present = config("auth_type = v3applicationcredential\napplication_credential_id = new");
    assert!(may_use("old", "an older hash", Some(&present)));
    // Back to the password: what the nodes have is still the credential.
    let present = config("auth_type = password");
    assert!(may_use("old", "an older hash", Some(&present)));
    let certificate = config("-----BEGIN CERTIFICATE-----");
    assert!(!may_use("old", "an older hash", Some(&certificate)));
    assert!(may_use("old", "a hash", None), "gone: nobody can tell");
}

/// J25, W5: a deployment records what the Secret holds when it ends.
#[test]
fn a_record_counts_if_a_deployment_that_made_it_was_begun_after_the_secret_was_written() {
    let at = |time: &str| Some(time.parse().unwrap());
    let mut present = config(OURS);
    present.metadata.managed_fields = serde_json::from_value(json!([
        { "time": "2026-03-01T12:00:00Z", "fieldsV1": { "f:data": { "f:01-nova.conf": {} } } },
        { "time": "2026-03-01T11:00:00Z", "fieldsV1": { "f:data": { "f:other": {} } } },
        { "time": "2026-03-01T13:00:00Z", "fieldsV1": { "f:metadata": { "f:labels": {} } } },
    ]))
    .unwrap();
    let hash = hash_of(&present);
    let may_use = |begun: &[Option<Timestamp>], present: &Secret| {
        let given = Given {
            secret: "config",
            hash: &hash,
            present: Some(present),
            begun: begun.to_vec(),
        };
        given.why_it_may_use("an older one").is_some()
    };
    let (before, during, after) = (
        at("2026-03-01T11:59:59Z"),
        at("2026-03-01T12:00:00Z"),
        at("2026-03-01T12:00:01Z"),
    );
    assert!(may_use(&[before], &present));
    assert!(may_use(&[before, during], &present), "the same second");
    assert!(!may_use(&[before, after], &present));
    assert!(!may_use(&[], &present), "nobody is left to ask");
    present.metadata.managed_fields = None;
    assert!(
        may_use(&[after], &present),
        "nobody noted when it was written"
    );
}

#[test]
fn a_deployment_to_some_of_the_nodes_proves_nothing() {
    let deployment = |limit: Value| {
        let mut made = object(json!({
            "spec": { "nodeSets": ["compute"], "ansibleLimit": limit },
            "status": { "secretHashes": { "config": "h" } },
        }));
        let created = "2026-03-01T12:00:00Z".parse().unwrap();
        made.metadata.creation_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created),
        );
        begun(&[&made], "config", "h").len()
    };
    assert_eq!(deployment(Value::Null), 1);
    assert_eq!(deployment("".into()), 1);
    assert_eq!(deployment("*".into()), 1);
    assert_eq!(deployment("compute-0".into()), 0);
}

/// C5, W6.
#[test]
fn only_a_set_that_nothing_shows_to_have_been_deployed_has_nothing() {
    assert!(!was_deployed(&object(json!({ "spec": {} })), &[]));
    let waiting = json!({ "status": {
        "secretHashes": {}, "deploymentStatuses": {}, "deployedConfigHash": "",
        "conditions": [{ "type": "DeploymentReady", "status": "Unknown" }],
    } });
    assert!(!was_deployed(&object(waiting), &[]));
    for status in [
        json!({ "deploymentStatuses": { "first": [] } }),
        json!({ "deployedConfigHash": "h" }),
        json!({ "conditions": [{ "type": "DeploymentReady", "status": "True" }] }),
    ] {
        let set = object(json!({ "status": status }));
        assert!(was_deployed(&set, &[]), "{status}");
    }
    let deployment = object(json!({ "spec": { "nodeSets": ["other", "compute"] } }));
    assert!(is_for(&deployment, "compute") && !is_for(&deployment, "comp"));
    assert!(was_deployed(&object(json!({})), &[&deployment]));
}

/// Computed with the original's code for data {"a": "1"} of type Opaque.
#[test]
fn the_hash_is_the_one_that_the_original_operators_write() {
    assert_eq!(hash_of(&secret("a", "1")), GOLDEN);
}

const GOLDEN: &str = "n66bh7dh57bh87h5f7h595hdbhf5h674h658h96h55ch5b7h66fh54dhbbhc5hd4hdh5bch57bh8ch99hfbh67fhdfhf9h56ch94h9fh5cdh56fq";
