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
//!
//! Where the controller `nodeset` keeps a record of what each node was given ([`super::deployed`]), and it has everything
//! that happened, the record answers instead.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::Holder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::deployed::{ANYTHING, Config, Deployment, Ids, Record, Sight, ids_in};
use crate::engine::Reader;
use crate::engine::rights::Right;
use crate::engine::trouble::Fault;

/// On a resource: `"false"` says that no node uses it. Anything else, or nothing, is no such promise.
pub(super) const ON_NODES: &str = "keystone.openstack.org/edpm-service";

pub(super) fn node_sets() -> ApiResource {
    data_plane("OpenStackDataPlaneNodeSet", "openstackdataplanenodesets")
}

pub(super) fn deployments() -> ApiResource {
    data_plane(
        "OpenStackDataPlaneDeployment",
        "openstackdataplanedeployments",
    )
}

pub(super) fn data_plane(kind: &str, plural: &str) -> ApiResource {
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
        if let Some(record) = up_to_date(&set, &theirs) {
            found.extend(by_record(&record, &name, id));
            continue;
        }
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

/// The record of a set, if it has everything that happened.
fn up_to_date(set: &DynamicObject, theirs: &[&DynamicObject]) -> Option<Record> {
    let nodes = nodes_of(set);
    let theirs: Vec<Deployment> = theirs
        .iter()
        .map(|one| Deployment::of(one, &nodes))
        .collect();
    Record::on(set).filter(|record| record.has_all(&theirs))
}

fn by_record(record: &Record, set: &str, id: &str) -> Option<Holder> {
    let nodes: Vec<&str> = record.nodes_with(id).into_keys().collect();
    if !nodes.is_empty() {
        let nodes = nodes.join(", ");
        return Some(Holder::from(format!("node set {set} (nodes {nodes})")));
    }
    let why = format!("node set {set} (a deployment that is under way)");
    record.is_under_way(id).then(|| Holder::from(why))
}

/// The nodes of a set, each with the other names that it has.
pub(super) fn nodes_of(set: &DynamicObject) -> BTreeMap<String, BTreeSet<String>> {
    let nodes = set.data["spec"]["nodes"].as_object().into_iter().flatten();
    let named = |(node, about): (&String, &Value)| {
        let other = about["hostName"].as_str().map(str::to_owned);
        (node.clone(), other.into_iter().collect())
    };
    nodes.map(named).collect()
}

/// What is seen of a set, with the Secrets that its nodes are given.
pub(super) fn sight(
    set: &DynamicObject,
    deployments: &[DynamicObject],
    secrets: &BTreeMap<String, Option<Secret>>,
) -> Sight {
    let (name, nodes) = (set.name_any(), nodes_of(set));
    let theirs: Vec<&DynamicObject> = deployments
        .iter()
        .filter(|deployment| is_for(deployment, &name))
        .collect();
    let configs = secrets.iter().filter_map(|(name, secret)| {
        let config = match secret {
            Some(secret) => Config {
                ids: ids_of(secret),
                written: written(secret),
            },
            None => Config {
                ids: BTreeSet::new(),
                written: None,
            },
        };
        let logs_in = secret.as_ref().is_none_or(logs_in);
        logs_in.then(|| (name.clone(), config))
    });
    Sight {
        uid: set.uid().unwrap_or_default(),
        before: believed(set, &theirs, secrets),
        deployments: theirs
            .iter()
            .map(|one| Deployment::of(one, &nodes))
            .collect(),
        nodes,
        configs: configs.collect(),
    }
}

/// What the hashes of the set say about all of its nodes.
fn believed(
    set: &DynamicObject,
    theirs: &[&DynamicObject],
    secrets: &BTreeMap<String, Option<Secret>>,
) -> BTreeMap<String, Ids> {
    let recorded = recorded(set);
    let told = theirs
        .iter()
        .any(|one| one.data["status"]["secretHashes"].is_object());
    if recorded.is_empty() && !told && was_deployed(set, &[]) {
        return [(ANYTHING.to_owned(), None)].into();
    }
    let recorded = recorded.into_iter().filter_map(|(name, hash)| {
        let present = secrets.get(&name).and_then(Option::as_ref);
        let given = Given {
            secret: &name,
            hash: &hash,
            present,
            begun: begun(theirs, &name, &hash),
        };
        let ids = match present {
            Some(present) if !logs_in(present) => return None,
            Some(present) if hash_of(present) == hash && given.was_all_given(present) => {
                Some(ids_of(present))
            }
            Some(_) | None => None,
        };
        Some((name, ids))
    });
    recorded.collect()
}

fn ids_of(secret: &Secret) -> BTreeSet<String> {
    let data = secret.data.iter().flat_map(|data| data.values());
    ids_in(data.map(|value| value.0.clone()))
}

fn mentions(secret: &Secret, text: &str) -> bool {
    let mut values = secret.data.iter().flat_map(|data| data.values());
    values.any(|value| contains(&value.0, text.as_bytes()))
}

/// Whether it configures a login. One that does not, such as a certificate, has nothing to do with it.
fn logs_in(secret: &Secret) -> bool {
    mentions(secret, "auth_type") || mentions(secret, "application_credential")
}

/// Secrets that all nodes of the set have, by name, with the hash of what they have.
pub(super) fn recorded(set: &DynamicObject) -> Vec<(String, String)> {
    let hashes = set.data["status"]["secretHashes"].as_object();
    hashes
        .into_iter()
        .flatten()
        .filter_map(|(name, hash)| Some((name.clone(), hash.as_str()?.to_owned())))
        .collect()
}

pub(super) fn is_for(deployment: &DynamicObject, set: &str) -> bool {
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
        let recorded = hash_of(present) == self.hash;
        if recorded && mentions(present, id) {
            return Some(format!("uses it by Secret {name}"));
        }
        // What the nodes have is older than what can be seen. A Secret that configures a login may have held it; one
        // that does not, such as a certificate, has nothing to do with it.
        if !logs_in(present) || (recorded && self.was_all_given(present)) {
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
mod tests;
