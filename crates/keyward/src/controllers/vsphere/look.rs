//! Looking at everything that a request depends on. Only Secrets that may be copied, and the copy, are read whole.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::{DynamicObject, ObjectMeta};
use serde_json::Value;

use super::component::{Component, NAMESPACE, REQUEST_KEY, REQUEST_NAMESPACE, ROOT_SECRET};
use super::logins::faults;
use super::resolve::{Candidate, MODE, OVERRIDES, Source, Wanted, resolve};
use super::seen::{ClusterSeen, FromSeen, Mode, NamespaceSeen, Seen};
use super::settings::{FALLBACK, Fallback, Settings, age};
use super::{FINALIZER, cloud_credentials, infrastructures, namespaces};
use crate::engine::reader::Reader;
use crate::engine::trouble::Fault;
use crate::projection::{Own, SecretSeen};

/// On a Secret with logins: how old its passwords may get.
const MAX_AGE: &str = "keyward.dev/max-age";
/// The one of its kind.
const CLUSTER: &str = "cluster";

pub(super) async fn look(
    settings: &Settings,
    object: &DynamicObject,
    reader: &mut Reader<'_>,
) -> Result<Seen, Fault> {
    let mut seen = request(settings, object);
    if !seen.is_served || !seen.may_go_there {
        return Ok(seen);
    }
    let (namespace, name) = seen.target.clone();
    seen.namespace = target_namespace(reader, &namespace).await?;
    if seen.namespace != NamespaceSeen::Missing {
        reader.go_to(&namespace)?;
        seen.copy = SecretSeen::read(reader, &name).await?;
    }
    if seen.own.leaving || !seen.refusals.is_empty() {
        return Ok(seen);
    }
    seen.cluster = cluster(settings, reader).await?;
    if seen.cluster.is_manual || seen.cluster.other_platform.is_some() {
        return Ok(seen);
    }
    let wanted = wanted(settings, &seen);
    seen.source = source(&seen, &wanted, reader).await?;
    if !seen.source.is_dedicated() && seen.was_dedicated() {
        // Whoever had one of its own gets another only if a second look says so too.
        seen.source = source(&seen, &wanted, reader).await?;
    }
    if let Some((namespace, name)) = seen.source.secret() {
        let vcenters = &seen.cluster.vcenters;
        seen.from = from(settings, (namespace, name), vcenters, reader).await?;
    }
    Ok(seen)
}

/// What the request itself says.
fn request(settings: &Settings, object: &DynamicObject) -> Seen {
    let own = Own::of(object, FINALIZER);
    let spec = &object.data["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let target = (
        text(&spec["secretRef"]["namespace"]),
        text(&spec["secretRef"]["name"]),
    );
    let notes = object.metadata.annotations.iter().flatten();
    let policy = notes
        .filter(|(key, _)| *key == FALLBACK)
        .map(|(_, value)| Fallback::named(value))
        .next();
    let mut refusals = Vec::new();
    let is_served = settings.request_namespaces.contains(&own.namespace);
    if !is_served {
        refusals.push("requests in this namespace are not served".to_owned());
    }
    if target.0.is_empty() || target.1.is_empty() {
        refusals.push("spec.secretRef needs a namespace and a name".to_owned());
    } else if target.0 == NAMESPACE || target.0 == OVERRIDES {
        refusals.push(format!(
            "spec.secretRef must not be in {}, where the logins to be copied are",
            target.0
        ));
    } else if !settings.target_namespaces.contains(&target.0) {
        refusals.push(format!("copies may not go to namespace {}", target.0));
    }
    let may_go_there = refusals.len() == usize::from(!is_served);
    if !is_readable(&spec["providerSpec"]) {
        refusals.push("spec.providerSpec.permissions cannot be read".to_owned());
    }
    if policy == Some(None) {
        refusals.push(format!(
            "the annotation {FALLBACK} must be FallbackToRoot, Retain or Fail"
        ));
    }
    Seen {
        own,
        generation: object.metadata.generation,
        status: object.data.get("status").cloned().unwrap_or_default(),
        is_served,
        may_go_there,
        refusals,
        target,
        fallback: policy.flatten().unwrap_or(settings.fallback),
        cluster: ClusterSeen::default(),
        namespace: NamespaceSeen::Missing,
        source: Source::Missing,
        from: None,
        copy: None,
    }
}

/// `permissions: [{privileges: [text]}]`, or nothing.
fn is_readable(provider: &Value) -> bool {
    let permissions = &provider["permissions"];
    let is_list_of_text = |value: &Value| {
        let items = value.as_array();
        items.is_some_and(|items| items.iter().all(Value::is_string))
    };
    match permissions {
        Value::Null => true,
        Value::Array(all) => all.iter().all(|one| is_list_of_text(&one["privileges"])),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => false,
    }
}

async fn target_namespace(reader: &mut Reader<'_>, name: &str) -> Result<NamespaceSeen, Fault> {
    let found = reader.of_cluster(&namespaces(), name).await?;
    Ok(match found {
        None => NamespaceSeen::Missing,
        Some(found) if found.metadata.deletion_timestamp.is_some() => NamespaceSeen::Leaving,
        Some(_) => NamespaceSeen::There,
    })
}

async fn cluster(settings: &Settings, reader: &mut Reader<'_>) -> Result<ClusterSeen, Fault> {
    let operator = reader.of_cluster(&cloud_credentials(), CLUSTER).await?;
    let is_manual = operator.is_some_and(|one| one.data["spec"]["credentialsMode"] == "Manual");
    let mut seen = ClusterSeen {
        is_manual,
        ..ClusterSeen::default()
    };
    let Some(found) = reader.of_cluster(&infrastructures(), CLUSTER).await? else {
        return Ok(seen);
    };
    let (spec, status) = (&found.data["spec"]["platformSpec"], &found.data["status"]);
    let platform = [
        &status["platformStatus"]["type"],
        &status["platform"],
        &spec["type"],
    ]
    .into_iter()
    .find_map(Value::as_str);
    seen.other_platform = platform
        .filter(|platform| *platform != "VSphere")
        .map(str::to_owned);
    let of_vsphere = &spec["vsphere"];
    let vcenters = of_vsphere["vcenters"].as_array().into_iter().flatten();
    seen.vcenters = vcenters
        .filter_map(|one| one["server"].as_str())
        .map(str::to_owned)
        .collect();
    if settings.infrastructure_modes {
        seen.mode = match of_vsphere["credentialsMode"].as_str() {
            Some("Passthrough") => Some(Mode::Passthrough),
            Some("PerComponent") => Some(Mode::PerComponent),
            Some(_) | None => None,
        };
        seen.references = references(&of_vsphere["componentCredentials"]);
    }
    Ok(seen)
}

fn references(of: &Value) -> BTreeMap<String, String> {
    let all = of.as_object().into_iter().flatten();
    all.filter_map(|(key, one)| {
        let secret = one["secretRef"]["name"].as_str().or(one["name"].as_str())?;
        Some((key.clone(), secret.to_owned()))
    })
    .collect()
}

fn wanted(settings: &Settings, seen: &Seen) -> Wanted {
    let component = (seen.own.namespace == REQUEST_NAMESPACE)
        .then(|| Component::of_request(&seen.own.name))
        .flatten();
    let referred = component.and_then(|one| seen.cluster.references.get(one.field()));
    let by_name = component.map(Component::secret);
    Wanted {
        request: seen.request(),
        target: seen.target.clone(),
        well_known: referred.cloned().or(by_name),
        by_target: settings.by_target,
    }
}

/// The Secret to copy, from what is written on those that may be it.
async fn source(seen: &Seen, wanted: &Wanted, reader: &mut Reader<'_>) -> Result<Source, Fault> {
    reader.go_to(NAMESPACE)?;
    let mut candidates = Vec::new();
    if seen.cluster.mode != Some(Mode::Passthrough) {
        let labelled = reader.secrets_metadata(Some(REQUEST_KEY)).await?;
        candidates.extend(labelled.iter().map(Candidate::of));
        if let Some(name) = &wanted.well_known
            && !candidates.iter().any(|one| one.name == *name)
        {
            let found = reader.secret_metadata(name).await?;
            candidates.extend(found.as_ref().map(Candidate::of));
        }
    }
    if seen.cluster.mode == Some(Mode::PerComponent) {
        candidates.retain(|one| one.name != ROOT_SECRET);
    } else if !candidates.iter().any(|one| one.name == ROOT_SECRET) {
        let found = reader.secret_metadata(ROOT_SECRET).await?;
        candidates.extend(found.as_ref().map(Candidate::of));
    }
    if wanted.by_target && seen.cluster.mode != Some(Mode::Passthrough) {
        reader.go_to(OVERRIDES)?;
        let all = reader.secrets_metadata(None).await?;
        candidates.extend(all.iter().map(Candidate::of));
    }
    Ok(resolve(wanted, &candidates))
}

async fn from(
    settings: &Settings,
    (namespace, name): (&str, &str),
    vcenters: &[String],
    reader: &mut Reader<'_>,
) -> Result<Option<FromSeen>, Fault> {
    reader.go_to(namespace)?;
    let found = reader
        .judged(name, |values| faults(values, vcenters))
        .await?;
    let Some(found) = found else {
        // It went between two requests.
        return Err(Fault::Outrun("reading the Secret to copy"));
    };
    let metadata = &found.secret.metadata;
    let written = written(metadata);
    let note = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key));
    let is_insufficient = note(MODE).is_some_and(|mode| mode == "insufficient");
    let own_age = note(MAX_AGE).and_then(|text| age(text).ok());
    Ok(Some(FromSeen {
        is_insufficient,
        written,
        max_age: own_age.unwrap_or(settings.max_age),
        faults: found.judgement,
        secret: SecretSeen::of(found.secret, found.digests),
    }))
}

fn written(metadata: &ObjectMeta) -> Option<Timestamp> {
    let times = metadata.managed_fields.iter().flatten();
    let times = times.filter_map(|one| one.time.as_ref()).map(|time| time.0);
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
    times.chain(created).max()
}
