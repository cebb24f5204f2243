//! Which nodes may still use an application credential.
//!
//! Nodes have it in files that a deployment wrote there. What is known of those files: each node set records the
//! Secrets that were deployed to all of its nodes, with a hash of their content. So a node set uses what such a Secret
//! says, as long as the Secret still has that hash; where the Secret has changed since, its nodes have something older.
//!
//! The hash is made when a deployment ends, of what the Secret holds by then. A Secret that was written while the
//! deployment ran is recorded although the nodes were given what was in it before. So the record counts only if a
//! deployment that made it was begun after the Secret was written. Limits remain: where no deployment that made the
//! record is there any more, it has to be believed; of a write that only took keys away the API server keeps no time;
//! and of two deployments that run at once, an older one may come last.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::Holder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::engine::Reader;
use crate::engine::rights::Right;
use crate::engine::trouble::Fault;

/// On a resource: `"false"` says that no node uses it. Anything else, or nothing, is no such promise.
pub(super) const ON_NODES: &str = "keystone.openstack.org/edpm-service";

fn node_sets() -> ApiResource {
    data_plane("OpenStackDataPlaneNodeSet", "openstackdataplanenodesets")
}

fn deployments() -> ApiResource {
    data_plane(
        "OpenStackDataPlaneDeployment",
        "openstackdataplanedeployments",
    )
}

fn data_plane(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "dataplane.openstack.org".into(),
        version: "v1beta1".into(),
        api_version: "dataplane.openstack.org/v1beta1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// What looking takes.
pub(super) fn rights() -> Vec<Right> {
    let why = "Nodes that were given an application credential keep it alive, until a deployment gives them another.";
    let right = |resource| Right::to(&["list", "watch"], &resource).because(why);
    vec![right(node_sets()), right(deployments())]
}

/// The node sets of the namespace whose nodes may still use the credential with this id.
pub(super) async fn that_may_use(reader: &mut Reader<'_>, id: &str) -> Result<Vec<Holder>, Fault> {
    let mut found = Vec::new();
    let sets = reader.all_to_wait_for(&node_sets()).await?;
    if sets.is_empty() {
        return Ok(found);
    }
    let deployments = reader.all_to_wait_for(&deployments()).await?;
    let mut secrets: HashMap<String, Option<Secret>> = HashMap::new();
    for set in sets {
        let name = set.name_any();
        let theirs: Vec<&DynamicObject> = deployments
            .iter()
            .filter(|deployment| is_for(deployment, &name))
            .collect();
        let recorded = recorded(&set);
        if recorded.is_empty() && was_deployed(&set, &theirs) {
            found.push(Holder::from(format!(
                "node set {name} (was deployed and does not record what it was given, so that it cannot be told whether it uses it: deploy it again)"
            )));
        }
        for (secret, hash) in recorded {
            if !secrets.contains_key(&secret) {
                let read = reader.whole_secret(&secret).await?;
                secrets.insert(secret.clone(), read);
            }
            let given = Given {
                secret: &secret,
                hash: &hash,
                present: secrets[&secret].as_ref(),
                begun: begun(&theirs, &secret, &hash),
            };
            let why = given.why_it_may_use(id);
            found.extend(why.map(|why| Holder::from(format!("node set {name} ({why})"))));
        }
    }
    Ok(found)
}

/// Secrets that all nodes of the set have, by name, with the hash of what they have.
fn recorded(set: &DynamicObject) -> Vec<(String, String)> {
    let hashes = set.data["status"]["secretHashes"].as_object();
    hashes
        .into_iter()
        .flatten()
        .filter_map(|(name, hash)| Some((name.clone(), hash.as_str()?.to_owned())))
        .collect()
}

fn is_for(deployment: &DynamicObject, set: &str) -> bool {
    let sets = deployment.data["spec"]["nodeSets"].as_array();
    sets.into_iter().flatten().any(|named| named == set)
}

/// Whether anything shows that the nodes of this set were ever given something. While a deployment for several sets is
/// under way, one that is done already has no record for a time.
fn was_deployed(set: &DynamicObject, theirs: &[&DynamicObject]) -> bool {
    let status = &set.data["status"];
    let statuses = status["deploymentStatuses"].as_object();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let is_ready =
        |condition: &Value| condition["type"] == "DeploymentReady" && condition["status"] == "True";
    !theirs.is_empty()
        || statuses.is_some_and(|statuses| !statuses.is_empty())
        || status["deployedConfigHash"]
            .as_str()
            .is_some_and(|hash| !hash.is_empty())
        || conditions.into_iter().any(is_ready)
}

/// When those deployments were begun that recorded this hash for all nodes of their sets.
fn begun(theirs: &[&DynamicObject], secret: &str, hash: &str) -> Vec<Option<Timestamp>> {
    let made_the_record = |deployment: &&&DynamicObject| {
        deployment.data["status"]["secretHashes"][secret] == hash && is_for_all_nodes(deployment)
    };
    let begun = |deployment: &&DynamicObject| deployment.creation_timestamp().map(|time| time.0);
    theirs.iter().filter(made_the_record).map(begun).collect()
}

/// A deployment to some of the nodes is not recorded for the set, and says nothing about the others.
fn is_for_all_nodes(deployment: &DynamicObject) -> bool {
    let limit = deployment.data["spec"]["ansibleLimit"].as_str();
    matches!(limit, None | Some("" | "*"))
}

/// What is known of a Secret that nodes were given.
struct Given<'a> {
    secret: &'a str,
    /// As recorded.
    hash: &'a str,
    present: Option<&'a Secret>,
    /// When the deployments were begun that made the record, as far as they are there.
    begun: Vec<Option<Timestamp>>,
}

impl Given<'_> {
    /// Why nodes that were given this Secret may use the credential, and what to do about it; `None` if they do not.
    fn why_it_may_use(&self, id: &str) -> Option<String> {
        let name = self.secret;
        let Some(present) = self.present else {
            return Some(format!(
                "was given Secret {name}, and nobody can tell any more what was in it: deploy it again"
            ));
        };
        let mentions = |text: &str| {
            let mut values = present.data.iter().flat_map(|data| data.values());
            values.any(|value| contains(&value.0, text.as_bytes()))
        };
        let recorded = hash_of(present) == self.hash;
        if recorded && mentions(id) {
            return Some(format!("uses it by Secret {name}"));
        }
        // What the nodes have is older than what can be seen. A Secret that configures a login may have held it; one
        // that does not, such as a certificate, has nothing to do with it.
        let logs_in = mentions("auth_type") || mentions("application_credential");
        if !logs_in || (recorded && self.was_all_given(present)) {
            return None;
        }
        Some(if recorded {
            format!(
                "may have an older content of Secret {name}, which was written after its deployment had begun: deploy it again"
            )
        } else {
            format!("was not given the present content of Secret {name}: deploy it again")
        })
    }

    /// Whether what was recorded is what the nodes were given. Times have whole seconds: what happened in the same one
    /// proves nothing.
    fn was_all_given(&self, present: &Secret) -> bool {
        let after = |written: Timestamp| self.begun.iter().flatten().any(|begun| *begun > written);
        self.begun.is_empty() || written(present).is_some_and(after)
    }
}

/// When the content of a Secret was last written; `None` if nobody noted it.
fn written(secret: &Secret) -> Option<Timestamp> {
    let notes = secret.metadata.managed_fields.iter().flatten();
    let of_content = notes.filter(|note| {
        let fields = note.fields_v1.as_ref();
        fields.is_some_and(|fields| {
            ["f:data", "f:stringData"]
                .iter()
                .any(|field| fields.0.get(field).is_some())
        })
    });
    let times: Option<Vec<Timestamp>> = of_content
        .map(|note| note.time.as_ref().map(|time| time.0))
        .collect();
    times?.into_iter().max()
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    !wanted.is_empty() && text.windows(wanted.len()).any(|part| part == wanted)
}

/// The hash of a Secret as the operators of this family write it: SHA-256 of its JSON, printed as a list of numbers, in
/// letters that cannot form words.
fn hash_of(secret: &Secret) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut fields = serde_json::Map::new();
    if let Some(data) = secret.data.as_ref().filter(|data| !data.is_empty()) {
        fields.insert("data".into(), json!(data));
    }
    if let Some(kind) = secret.type_.as_ref().filter(|kind| !kind.is_empty()) {
        fields.insert("type".into(), kind.as_str().into());
    }
    let text = json!(fields).to_string();
    let numbers: Vec<String> = Sha256::digest(text.as_bytes())
        .iter()
        .map(u8::to_string)
        .collect();
    format!("[{}]", numbers.join(" "))
        .bytes()
        .map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
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
        let present =
            config("auth_type = v3applicationcredential\napplication_credential_id = new");
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
}
