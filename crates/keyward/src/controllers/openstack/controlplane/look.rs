//! What is seen of a control plane: what each service is to have, what it has, and who names which Secret.

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use serde::Serialize;
use serde_json::Value;

use super::merge::{Wish, wish};
use super::{GUARD, MANAGER, credentials};
use crate::controllers::openstack::nodes::ON_NODES;
use crate::controllers::openstack::services::{SERVICES, Service, ServiceKind};
use crate::engine::Reader;
use crate::engine::conditions;
use crate::engine::trouble::Fault;
use crate::projection::{Own, Target};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    pub(super) own: Own,
    pub(super) api_version: String,
    /// The control plane that was in the namespace before, if there is one.
    pub(super) first: Option<String>,
    pub(super) services: Vec<ServiceSeen>,
    /// Those who name Secrets, from above to below.
    pub(super) places: Vec<Place>,
}

/// One service that has, or is to have, an application credential.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceSeen {
    pub(super) service: &'static str,
    /// What its application credential is called.
    pub(super) called: String,
    pub(super) on_nodes: bool,
    pub(super) wish: Wish,
    /// The service runs as its spec says.
    pub(super) ready: bool,
    pub(super) credential: Option<Credential>,
    /// One of ours under the name that it had when names were made otherwise.
    pub(super) former: Option<Credential>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Credential {
    pub(super) target: Target,
    /// It names this control plane as its owner.
    pub(super) ours: bool,
    pub(super) spec: Value,
    /// What it says about nodes.
    pub(super) on_nodes: Option<String>,
    pub(super) ready: bool,
    /// The Secret to hand out.
    pub(super) secret: String,
    /// Other Secrets of it that may still be named somewhere.
    pub(super) previous: String,
}

/// An object with fields that name Secrets.
#[derive(Debug, Serialize)]
pub(super) struct Place {
    pub(super) target: Target,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug, Serialize)]
pub(super) struct Field {
    pub(super) service: &'static str,
    pub(super) path: Vec<String>,
    pub(super) now: String,
    /// We set it.
    pub(super) ours: bool,
}

/// What every service of the table is looked at with.
struct Plane<'a> {
    own: Own,
    spec: &'a Value,
}

impl Plane<'_> {
    /// The name of a resource of this service, and the one it would have had otherwise.
    fn names(&self, service: &Service, base: &str) -> (String, String) {
        let uid: String = self.own.uid.chars().take(5).collect();
        let unique = format!("{base}-{uid}");
        if service.unique_names && self.spec[service.at]["uniquePodNames"] == true {
            (unique, base.to_owned())
        } else {
            (base.to_owned(), unique)
        }
    }

    fn owns(&self, object: &DynamicObject) -> bool {
        let owners = object.owner_references().iter();
        owners.into_iter().any(|owner| owner.uid == self.own.uid)
    }

    /// Whether the control plane's template became this.
    fn has(&self, service: &Service, object: &DynamicObject) -> bool {
        let mut owners = object.owner_references().iter();
        let somebody_has_it = owners.any(|owner| owner.kind == "OpenStackControlPlane");
        self.owns(object)
            || (!somebody_has_it && object.name_any() == self.names(service, service.at).0)
    }

    /// Whether this is a child of one of those.
    fn has_child(&self, mains: &[&DynamicObject], object: &DynamicObject) -> bool {
        let mut owners = object.owner_references().iter();
        let by_name = |main: &&DynamicObject| {
            let rest = object.name_any();
            let rest = rest.strip_prefix(&main.name_any()).map(str::to_owned);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        if object.owner_references().is_empty() {
            return mains.iter().any(by_name);
        }
        owners.any(|owner| {
            let one_of_them = mains
                .iter()
                .any(|main| main.uid().as_ref() == Some(&owner.uid));
            one_of_them || owner.uid == self.own.uid
        })
    }
}

pub(super) async fn look(
    resource: &ApiResource,
    object: &DynamicObject,
    reader: &mut Reader<'_>,
) -> Result<Seen, Fault> {
    let empty = Value::Null;
    let plane = Plane {
        own: Own::of(object, GUARD),
        spec: object.data.get("spec").unwrap_or(&empty),
    };
    let first = first(&reader.all(resource).await?, object);
    let credentials = reader.all(&credentials()).await?;
    let mut itself = Place {
        target: Target::of(resource, object),
        fields: Vec::new(),
    };
    let mut read: Vec<(ServiceKind, Vec<DynamicObject>)> = Vec::new();
    let (mut services, mut above, mut below) = (Vec::new(), Vec::new(), Vec::new());
    for service in SERVICES {
        let template = fields(service, object, &["spec", service.at, "template"]);
        let mut seen = of_service(&plane, service, &credentials);
        if !seen.matters(&template, plane.spec) {
            continue;
        }
        newest(&mut seen, &template, &plane, reader).await?;
        if let Some(said) = somebody_elses(service, &template)
            && matches!(seen.wish, Wish::Wants(_))
        {
            seen.wish = Wish::Refused(said);
        }
        itself.fields.extend(template);
        for kind in [Some(service.main), service.child.map(|(kind, _)| kind)] {
            if let Some(kind) = kind.filter(|kind| read.iter().all(|(known, _)| known != kind)) {
                read.push((kind, reader.all(&kind.resource()).await?));
            }
        }
        let of = |kind: ServiceKind| read.iter().filter(move |(known, _)| *known == kind);
        let all = |kind: ServiceKind| of(kind).flat_map(|(_, objects)| objects);
        let mains: Vec<&DynamicObject> = all(service.main)
            .filter(|main| plane.has(service, main))
            .collect();
        seen.ready = mains.iter().any(|main| is_ready(main));
        for main in &mains {
            let found = fields(service, main, &["spec"]);
            add(&mut above, &service.main.resource(), main, found);
        }
        if let Some((kind, part)) = service.child {
            for child in all(kind).filter(|child| plane.has_child(&mains, child)) {
                let found = vec![field(service, child, path(&["spec"], part))];
                add(&mut below, &kind.resource(), child, found);
            }
        }
        services.push(seen);
    }
    Ok(Seen {
        own: plane.own,
        api_version: resource.api_version.clone(),
        first,
        services,
        places: [itself].into_iter().chain(above).chain(below).collect(),
    })
}

/// The oldest that is not leaving; of those of one second, one that was begun with. `None`: it is this one.
fn first(all: &[DynamicObject], own: &DynamicObject) -> Option<String> {
    let age = |one: &DynamicObject| {
        let created = one.creation_timestamp().map(|time| time.0);
        (created, !Own::of(one, GUARD).guarded, one.uid())
    };
    let staying = all
        .iter()
        .filter(|one| one.metadata.deletion_timestamp.is_none());
    let others = staying.filter(|one| one.uid() != own.uid());
    let older = others.filter(|one| age(one) < age(own));
    older.min_by_key(|one| age(one)).map(ResourceExt::name_any)
}

impl ServiceSeen {
    /// A service that has nothing and is to have nothing is not looked at any further.
    fn matters(&self, template: &[Field], spec: &Value) -> bool {
        let named = template.iter().any(|field| field.ours);
        let has_section = SERVICES.iter().any(|service| {
            service.name == self.service && spec[service.at][service.section].is_object()
        });
        let has = self.credential.is_some() || self.former.is_some();
        has_section || has || named
    }
}

fn of_service(plane: &Plane<'_>, service: &Service, credentials: &[DynamicObject]) -> ServiceSeen {
    let (called, otherwise) = plane.names(service, service.name);
    let (called, otherwise) = (format!("ac-{called}"), format!("ac-{otherwise}"));
    let find = |name: &str| {
        let found = credentials.iter().find(|one| one.name_any() == name);
        found.map(|found| credential(plane, found))
    };
    ServiceSeen {
        service: service.name,
        credential: find(&called),
        former: find(&otherwise).filter(|former| service.unique_names && former.ours),
        called,
        on_nodes: service.on_nodes,
        wish: wish(plane.spec, service),
        ready: false,
    }
}

/// A name that was not handed out yet is handed out from a read that is no older than anything the watches showed: a list
/// from the past would point a service back.
async fn newest(
    seen: &mut ServiceSeen,
    template: &[Field],
    plane: &Plane<'_>,
    reader: &mut Reader<'_>,
) -> Result<(), Fault> {
    let known = |credential: &Credential| template.iter().all(|one| one.now == credential.secret);
    if seen.credential.as_ref().is_none_or(known) {
        return Ok(());
    }
    let found = reader.one(&credentials(), &seen.called).await?;
    seen.credential = found.map(|found| credential(plane, &found));
    Ok(())
}

fn credential(plane: &Plane<'_>, object: &DynamicObject) -> Credential {
    let status = &object.data["status"];
    let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
    Credential {
        target: Target::of(&credentials(), object),
        ours: plane.owns(object),
        spec: object.data["spec"].clone(),
        on_nodes: object.annotations().get(ON_NODES).cloned(),
        ready: has_condition(object, "Ready"),
        secret: text("secretName"),
        previous: text("previousSecretName"),
    }
}

fn has_condition(object: &DynamicObject, kind: &str) -> bool {
    let all = conditions::of(object.data.get("status"));
    all.iter()
        .any(|one| one["type"] == kind && one["status"] == "True")
}

/// It runs as its spec says now.
fn is_ready(object: &DynamicObject) -> bool {
    let observed = object.data["status"]["observedGeneration"].as_i64();
    has_condition(object, "Ready") && observed == object.metadata.generation
}

/// What somebody else wrote into the template is not overwritten. Names that ours have are ours, whoever brought them back.
fn somebody_elses(service: &Service, template: &[Field]) -> Option<String> {
    let like_ours = format!("ac-{}-", service.name);
    let strange = template
        .iter()
        .find(|one| !one.now.is_empty() && !one.ours && !one.now.starts_with(&like_ours))?;
    Some(format!(
        "{}: {} was set by somebody else: remove it, or switch its application credential off",
        service.name,
        strange.path.join(".")
    ))
}

fn path(before: &[&str], part: &[&str]) -> Vec<String> {
    let after = ["auth", "applicationCredentialSecret"];
    let all = before.iter().chain(part).chain(&after);
    all.map(|key| (*key).to_owned()).collect()
}

/// The fields of a template, or of a spec that was made of one, that name the Secret of this service.
fn fields(service: &Service, object: &DynamicObject, before: &[&str]) -> Vec<Field> {
    let Some(star) = service.part.iter().position(|key| *key == "*") else {
        return vec![field(service, object, path(before, service.part))];
    };
    let (outer, inner) = (&service.part[..star], &service.part[star + 1..]);
    let holder = before.iter().chain(outer);
    let holder = holder.fold(&object.data, |value, key| &value[*key]);
    let keys = holder.as_object().into_iter().flatten();
    keys.map(|(key, _)| {
        let part: Vec<&str> = outer.iter().copied().chain([key.as_str()]).collect();
        let part = [part.as_slice(), inner].concat();
        field(service, object, path(before, &part))
    })
    .collect()
}

fn field(service: &Service, object: &DynamicObject, path: Vec<String>) -> Field {
    let now = path.iter().fold(&object.data, |value, key| &value[key]);
    let notes = object.metadata.managed_fields.iter().flatten();
    let mut applied = notes.filter(|note| {
        note.manager.as_deref() == Some(MANAGER) && note.operation.as_deref() == Some("Apply")
    });
    let ours = applied.any(|note| {
        let Some(fields) = &note.fields_v1 else {
            return false;
        };
        let found = path
            .iter()
            .fold(&fields.0, |value, key| &value[format!("f:{key}")]);
        !found.is_null()
    });
    Field {
        service: service.name,
        now: now.as_str().unwrap_or_default().to_owned(),
        ours,
        path,
    }
}

/// Two services may have fields in one object.
fn add(
    places: &mut Vec<Place>,
    resource: &ApiResource,
    object: &DynamicObject,
    fields: Vec<Field>,
) {
    let target = Target::of(resource, object);
    match places
        .iter_mut()
        .find(|known| known.target.uid == target.uid)
    {
        Some(known) => known.fields.extend(fields),
        None => places.push(Place { target, fields }),
    }
}
