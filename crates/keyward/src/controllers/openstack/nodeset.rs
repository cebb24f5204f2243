//! `OpenStackDataPlaneNodeSet`: its nodes keep the application credentials that they were given until they are given others.
//!
//! What each node was given is recorded on the node set ([`super::deployed`]), and every Secret of an application
//! credential that a node may use is held with a finalizer of the node set's own.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject, ObjectMeta, TypeMeta};
use lifecycle::{Because, Holder};
use serde::Serialize;
use serde_json::{Value, json};

use super::deployed::{RECORD, Record, Sight};
use super::{consumers, nodes};
use crate::api::keystone::KeystoneApplicationCredential;
use crate::engine::rights::Right;
use crate::engine::status::Owned;
use crate::engine::trouble::Fault;
use crate::engine::{About, Reader, names};
use crate::projection::{Effect, Own, Plan, Projection, Target};

const GUARD: &str = "keyward.dev/nodeset";
const CONDITION: &str = "ApplicationCredentialsDeployed";
/// On every Secret of an application credential, ours or another operator's.
const LABEL: &str = "application-credential-service";

#[derive(Debug)]
pub struct NodeSet {
    about: About,
}

impl Default for NodeSet {
    fn default() -> Self {
        let (keys, conditions) = (&["applicationCredentials"], &[CONDITION]);
        let credentials = ApiResource::erase::<KeystoneApplicationCredential>(&());
        let why = "Nodes hold the application credentials that they were given.";
        Self {
            about: About {
                owned: Owned::Part { keys, conditions },
                condition: CONDITION,
                neighbours: vec![nodes::deployments(), services(), credentials],
                rights: vec![
                    Right::named(&["get", "list", "watch", "patch"], "", "secrets").because(why),
                ],
                ..About::new("nodeset", nodes::node_sets(), GUARD)
            },
        }
    }
}

fn services() -> ApiResource {
    nodes::data_plane("OpenStackDataPlaneService", "openstackdataplaneservices")
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    own: Own,
    target: Target,
    /// The finalizer on Secrets.
    by: String,
    record: Option<Record>,
    sight: Sight,
    /// Secrets of application credentials that nodes may be given.
    credentials: Vec<Credential>,
}

#[derive(Debug, Serialize)]
struct Credential {
    target: Target,
    id: String,
    /// When it ends by itself.
    expires: Option<String>,
}

#[async_trait]
impl Projection for NodeSet {
    type Seen = Seen;

    fn about(&self) -> &About {
        &self.about
    }

    async fn look(&self, object: &DynamicObject, reader: &mut Reader<'_>) -> Result<Seen, Fault> {
        let deployments = reader.all(&nodes::deployments()).await?;
        let mut secrets = BTreeMap::new();
        for name in given(object, &deployments, &reader.all(&services()).await?) {
            let secret = reader.noted_secret(&name).await?;
            secrets.insert(name, secret);
        }
        Ok(Seen {
            own: Own::of(object, GUARD),
            target: Target::of(&self.about.resource, object),
            by: consumers::finalizer("edpm", &object.name_any()),
            record: Record::on(object),
            sight: nodes::sight(object, &deployments, &secrets),
            credentials: credentials(reader).await?,
        })
    }

    fn plan(&self, seen: &Seen, _now: Timestamp) -> Plan {
        plan(seen)
    }
}

/// The names of all Secrets that nodes of this set were given or are to be given.
fn given(
    set: &DynamicObject,
    deployments: &[DynamicObject],
    services: &[DynamicObject],
) -> BTreeSet<String> {
    let name = set.name_any();
    let theirs = deployments.iter().filter(|one| nodes::is_for(one, &name));
    let theirs: Vec<&DynamicObject> = theirs.collect();
    let texts = |list: &Value| -> Vec<String> {
        let all = list.as_array().into_iter().flatten();
        all.filter_map(|one| one.as_str().map(str::to_owned))
            .collect()
    };
    let mut used: BTreeSet<String> = texts(&set.data["spec"]["services"]).into_iter().collect();
    let overrides = theirs
        .iter()
        .map(|one| &one.data["spec"]["servicesOverride"]);
    used.extend(overrides.flat_map(texts));
    let sources = services
        .iter()
        .filter(|service| used.contains(&service.name_any()))
        .flat_map(|service| {
            let sources = service.data["spec"]["dataSources"].as_array().cloned();
            sources.into_iter().flatten()
        });
    let from_services =
        sources.filter_map(|one| Some(one["secretRef"]["name"].as_str()?.to_owned()));
    let at_their_end = theirs.iter().flat_map(|one| nodes::recorded(one));
    let recorded = nodes::recorded(set).into_iter().chain(at_their_end);
    from_services
        .chain(recorded.map(|(name, _)| name))
        .collect()
}

/// Those of application credentials that are not said to be kept from nodes.
async fn credentials(reader: &mut Reader<'_>) -> Result<Vec<Credential>, Fault> {
    let kind = ApiResource::erase::<KeystoneApplicationCredential>(&());
    let all = reader.all(&kind).await?;
    let kept_from_nodes: BTreeSet<String> = all
        .iter()
        .filter(|one| {
            one.annotations()
                .get(nodes::ON_NODES)
                .is_some_and(|note| note == "false")
        })
        .filter_map(ResourceExt::uid)
        .collect();
    let mut found = Vec::new();
    for name in reader.secrets_labelled(LABEL).await? {
        let Some(secret) = reader.noted_secret(&name).await? else {
            continue;
        };
        let mut owners = secret.owner_references().iter();
        if owners.any(|owner| kept_from_nodes.contains(&owner.uid)) {
            continue;
        }
        let data = secret.data.as_ref().and_then(|data| data.get("AC_ID"));
        let id = data.and_then(|id| std::str::from_utf8(&id.0).ok());
        let Some(id) = id.filter(|id| !id.is_empty()).map(str::to_owned) else {
            continue;
        };
        let expires = secret.annotations().get(names::EXPIRES).cloned();
        let object = DynamicObject {
            types: None,
            metadata: secret.metadata,
            data: Value::Null,
        };
        found.push(Credential {
            target: Target::of(&ApiResource::erase::<Secret>(&()), &object),
            id,
            expires,
        });
    }
    Ok(found)
}

fn plan(seen: &Seen) -> Plan {
    let held = |one: &&Credential| one.target.is_held_by(&seen.by);
    if seen.own.leaving {
        return match seen.credentials.iter().find(held) {
            Some(one) => Plan::act(let_go(seen, one), Because::Unheld),
            None => Plan::act(Effect::Unguard, Because::Finished),
        };
    }
    let next = Record::next(seen.record.as_ref(), &seen.sight);
    let needed = |one: &&Credential| is_needed(seen, &next, &one.id);
    let idle = !seen
        .credentials
        .iter()
        .any(|one| needed(&one) || held(&one));
    if idle && !seen.own.guarded {
        return Plan::rest(Because::AsWanted, json!({}));
    }
    if !seen.own.guarded {
        return Plan::act(Effect::Guard, Because::FirstMint);
    }
    let missing = |one: &&Credential| needed(one) && !held(one) && !one.target.leaving;
    if let Some(one) = seen.credentials.iter().find(missing) {
        let secret = one.target.clone();
        let by = seen.by.clone();
        return Plan::act(Effect::Hold { secret, by }, Because::SpecChanged);
    }
    if seen.record.as_ref() != Some(&next) {
        return Plan::act(written(seen, &next), Because::Tidying);
    }
    let over = |one: &&Credential| held(one) && !needed(one);
    if let Some(one) = seen.credentials.iter().find(over) {
        return Plan::act(let_go(seen, one), Because::Unheld);
    }
    if idle {
        return Plan::act(Effect::Unguard, Because::Tidying);
    }
    at_rest(seen, &next)
}

/// Nodes have it, may have it, are being given it, or will be.
fn is_needed(seen: &Seen, record: &Record, id: &str) -> bool {
    let configured = seen.sight.configs.values().any(|one| one.ids.contains(id));
    configured || record.is_under_way(id) || !record.nodes_with(id).is_empty()
}

fn let_go(seen: &Seen, one: &Credential) -> Effect {
    Effect::LetGo {
        secret: one.target.clone(),
        by: seen.by.clone(),
    }
}

/// The record, on the node set that was seen and on no newer one.
fn written(seen: &Seen, record: &Record) -> Effect {
    let target = &seen.target;
    let object = DynamicObject {
        types: Some(TypeMeta {
            api_version: target.api_version.clone(),
            kind: target.kind.clone(),
        }),
        metadata: ObjectMeta {
            name: Some(target.name.clone()),
            namespace: Some(target.namespace.clone()),
            resource_version: Some(target.resource_version.clone()),
            annotations: Some([(RECORD.to_owned(), json!(record).to_string())].into()),
            ..ObjectMeta::default()
        },
        data: json!({}),
    };
    Effect::Apply {
        object: Box::new(object),
        plural: target.plural.clone(),
        over: Some(Box::new(target.clone())),
    }
}

/// Nodes that have something else than they would be given now.
fn at_rest(seen: &Seen, record: &Record) -> Plan {
    let configured = |id: &str| seen.sight.configs.values().any(|one| one.ids.contains(id));
    let held = seen
        .credentials
        .iter()
        .filter(|one| one.target.is_held_by(&seen.by));
    let behind: Vec<Value> = held
        .filter(|one| !configured(&one.id))
        .filter_map(|one| {
            let nodes = record.nodes_with(&one.id);
            let row = json!({
                "secretName": one.target.name, "nodes": nodes.keys().collect::<Vec<_>>(), "until": one.expires,
            });
            (!nodes.is_empty()).then_some(row)
        })
        .collect();
    let status = json!({ "applicationCredentials": behind });
    if behind.is_empty() {
        return Plan::rest(Because::AsWanted, status);
    }
    let told = behind.iter().map(|row| Holder::from(in_words(row)));
    Plan::rest(Because::NodesBehind, status).waiting(Because::NodesBehind, told.collect(), None)
}

fn in_words(row: &Value) -> String {
    let nodes = row["nodes"].as_array().into_iter().flatten();
    let nodes: Vec<&str> = nodes.filter_map(Value::as_str).collect();
    let until = match row["until"].as_str() {
        Some(until) => format!(", which ends at {until}"),
        None => String::new(),
    };
    let secret = row["secretName"].as_str().unwrap_or_default();
    format!("{} have {secret}{until}", nodes.join(", "))
}
