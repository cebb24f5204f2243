//! What follows from what was seen. Pure; the order of the questions is the promise that a name is gone before its
//! application credential.

use kube::api::{DynamicObject, ObjectMeta, TypeMeta};
use lifecycle::{Because, Holder, Severity};
use serde_json::{Map, Value, json};

use super::look::{Credential, Field, Place, Seen, ServiceSeen};
use super::merge::Wish;
use super::{credentials, look};
use crate::controllers::openstack::nodes::ON_NODES;
use crate::projection::{Effect, Plan, Target};

/// What the places of a service are to name.
#[derive(Debug, PartialEq, Eq)]
enum Naming<'a> {
    This(&'a str),
    /// What is there.
    AsItIs,
    Nothing,
}

pub(super) fn plan(seen: &Seen) -> Plan {
    let own = &seen.own;
    if let Some(first) = &seen.first
        && !own.leaving
    {
        let told = Holder::from(format!("{first} is the first"));
        return Plan::rest(Because::NotTheFirst, json!({})).waiting(
            Because::NotTheFirst,
            vec![told],
            None,
        );
    }
    let idle = !own.leaving && seen.services.iter().all(|one| is_idle(seen, one));
    if idle && !own.guarded {
        return Plan::rest(Because::AsWanted, json!({}));
    }
    if !own.leaving && !own.guarded {
        return Plan::act(Effect::Guard, Because::FirstMint);
    }
    let naming = naming_next(seen);
    if let Some(plan) = naming.or_else(|| removed_next(seen)) {
        return plan;
    }
    if own.leaving {
        return Plan::act(Effect::Unguard, Because::Finished);
    }
    if idle {
        return Plan::act(Effect::Unguard, Because::Tidying);
    }
    let mut made = seen.services.iter().filter_map(|one| made_next(seen, one));
    made.next().unwrap_or_else(|| at_rest(seen))
}

/// There is nothing, and nothing is to be.
fn is_idle(seen: &Seen, one: &ServiceSeen) -> bool {
    let has = |credential: &Option<Credential>| credential.as_ref().is_some_and(|one| one.ours);
    let named = fields(seen, one.service).any(|(_, field)| field.ours && !field.now.is_empty());
    one.wish == Wish::Off && !has(&one.credential) && !has(&one.former) && !named
}

fn fields<'a>(seen: &'a Seen, service: &'a str) -> impl Iterator<Item = (&'a Place, &'a Field)> {
    let all = seen
        .places
        .iter()
        .flat_map(|place| place.fields.iter().map(move |field| (place, field)));
    all.filter(move |(_, field)| field.service == service)
}

fn naming<'a>(seen: &Seen, one: &'a ServiceSeen) -> Naming<'a> {
    match (&one.wish, &one.credential) {
        (Wish::Off, _) => Naming::Nothing,
        _ if seen.own.leaving => Naming::Nothing,
        (Wish::Refused(_) | Wish::Wants(_), Some(credential))
            if credential.ours && !credential.target.leaving =>
        {
            match &one.wish {
                Wish::Wants(_) if credential.ready && !credential.secret.is_empty() => {
                    Naming::This(&credential.secret)
                }
                Wish::Off | Wish::Refused(_) | Wish::Wants(_) => Naming::AsItIs,
            }
        }
        // It is being deleted, it is somebody else's, or there is none: what was named is of no use any more.
        (Wish::Refused(_) | Wish::Wants(_), Some(_) | None) => Naming::Nothing,
    }
}

/// The first object, from above to below, that does not name what it should.
fn naming_next(seen: &Seen) -> Option<Plan> {
    let next = seen
        .places
        .iter()
        .find_map(|place| Some((place, named(seen, place)?)));
    let (place, fields) = next?;
    let because = if seen.own.leaving {
        Because::Deleting
    } else {
        Because::Published
    };
    Some(Plan::act(Effect::set(&place.target, &fields), because))
}

/// All fields of ours that this object is to have, if one of them is not so.
fn named(seen: &Seen, place: &Place) -> Option<Value> {
    if place.target.leaving && place.target.uid != seen.own.uid {
        return None;
    }
    let mut wanted = json!({});
    let mut differs = false;
    for field in &place.fields {
        let one = seen
            .services
            .iter()
            .find(|one| one.service == field.service)?;
        let value = match naming(seen, one) {
            Naming::This(name) => {
                differs |= field.now != name;
                Some(name)
            }
            Naming::AsItIs => field.ours.then_some(field.now.as_str()),
            Naming::Nothing if field.now.is_empty() => None,
            // Somebody else named what is ours: an empty name is what takes it away.
            Naming::Nothing if !field.ours && is_of(one, &field.now) => {
                differs = true;
                Some("")
            }
            Naming::Nothing => {
                differs |= field.ours && seen.first.is_none();
                None
            }
        };
        if let Some(value) = value {
            set(&mut wanted, &field.path, value);
        }
    }
    differs.then_some(wanted)
}

/// Whether this is a Secret of an application credential of ours.
fn is_of(one: &ServiceSeen, secret: &str) -> bool {
    let both = [&one.credential, &one.former].into_iter().flatten();
    let ours = both.filter(|credential| credential.ours);
    ours.into_iter()
        .any(|credential| credential.secret == secret || credential.previous == secret)
}

fn set(into: &mut Value, path: &[String], value: &str) {
    let Some((last, before)) = path.split_last() else {
        return;
    };
    let holder = before.iter().fold(into, |holder, key| {
        if !holder[key].is_object() {
            holder[key] = Map::new().into();
        }
        &mut holder[key]
    });
    holder[last] = value.into();
}

/// An application credential of ours that is to go. By now nobody names it.
fn removed_next(seen: &Seen) -> Option<Plan> {
    let because = if seen.own.leaving {
        Because::Deleting
    } else {
        Because::SpecChanged
    };
    let going = seen.services.iter().flat_map(|one| {
        let off = seen.own.leaving || one.wish == Wish::Off;
        let current = one.credential.as_ref().filter(|_| off);
        [current, one.former.as_ref()]
    });
    let mut going = going
        .flatten()
        .filter(|credential| credential.ours && !credential.target.leaving);
    let what = going.next()?.target.clone();
    Some(Plan::act(Effect::Delete { what }, because))
}

/// The application credential as it is to be, if it is not there or not so.
fn made_next(seen: &Seen, one: &ServiceSeen) -> Option<Plan> {
    let Wish::Wants(wanted) = &one.wish else {
        return None;
    };
    let on_nodes = one.on_nodes.to_string();
    match &one.credential {
        None if one.ready => {
            let effect = applied(seen, one, wanted, None);
            Some(Plan::act(effect, Because::FirstMint))
        }
        Some(credential) if credential.ours && !credential.target.leaving => {
            let is_so = is_as_wanted(&credential.spec, wanted)
                && credential.on_nodes.as_ref() == Some(&on_nodes);
            if is_so {
                return None;
            }
            let mut wanted = wanted.clone();
            // Whoever set rules before us: an empty list is what takes them away.
            if wanted.get(RULES).is_none() && has_rules(&credential.spec) {
                wanted[RULES] = json!([]);
            }
            let effect = applied(seen, one, &wanted, Some(&credential.target));
            Some(Plan::act(effect, Because::SpecChanged))
        }
        Some(_) | None => None,
    }
}

const RULES: &str = "accessRules";

fn has_rules(spec: &Value) -> bool {
    spec[RULES]
        .as_array()
        .is_some_and(|rules| !rules.is_empty())
}

fn is_as_wanted(spec: &Value, wanted: &Value) -> bool {
    let mut fields = wanted.as_object().into_iter().flatten();
    let all = fields.all(|(key, value)| spec[key] == *value);
    all && (wanted.get(RULES).is_some() || !has_rules(spec))
}

fn applied(seen: &Seen, one: &ServiceSeen, spec: &Value, over: Option<&Target>) -> Effect {
    let resource = credentials();
    let own = &seen.own;
    let owner = json!([{
        "apiVersion": seen.api_version, "kind": "OpenStackControlPlane", "name": own.name,
        "uid": own.uid, "controller": true, "blockOwnerDeletion": true,
    }]);
    let object = DynamicObject {
        types: Some(TypeMeta {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
        }),
        metadata: ObjectMeta {
            name: Some(one.called.clone()),
            namespace: Some(own.namespace.clone()),
            annotations: Some([(ON_NODES.to_owned(), one.on_nodes.to_string())].into()),
            owner_references: serde_json::from_value(owner).ok(),
            ..ObjectMeta::default()
        },
        data: json!({ "spec": spec }),
    };
    Effect::Apply {
        object: Box::new(object),
        plural: resource.plural,
        over: over.map(|over| Box::new(over.clone())),
    }
}

/// What a service waits for.
fn waits(one: &ServiceSeen) -> Option<(Because, String)> {
    let (name, service) = (&one.called, one.service);
    match (&one.wish, &one.credential) {
        (Wish::Refused(why), _) => Some((Because::InvalidSpec, why.clone())),
        (Wish::Off, Some(credential)) if credential.ours => {
            let text = format!("{service}: {name} is being deleted");
            Some((Because::CredentialNotReady, text))
        }
        (Wish::Wants(_), Some(credential)) if !credential.ours => {
            let text = format!("{service}: {name} does not name this control plane as its owner");
            Some((Because::ObjectOfAnother, text))
        }
        (Wish::Wants(_), Some(credential)) if credential.target.leaving => {
            let text = format!("{service}: {name} is being deleted, and is made anew after that");
            Some((Because::CredentialNotReady, text))
        }
        (Wish::Wants(_), Some(credential)) if !credential.ready || credential.secret.is_empty() => {
            let text = format!("{service}: {name} is not ready");
            Some((Because::CredentialNotReady, text))
        }
        (Wish::Off, Some(_) | None) | (Wish::Wants(_), Some(_)) => None,
        (Wish::Wants(_), None) => {
            let text = format!("{service} is not ready, and logs in with its password until it is");
            Some((Because::ServiceNotReady, text))
        }
    }
}

fn at_rest(seen: &Seen) -> Plan {
    let all: Vec<_> = seen.services.iter().map(|one| (one, waits(one))).collect();
    let shown = all
        .iter()
        .filter(|(one, waits)| one.wish != Wish::Off || waits.is_some());
    let shown: Vec<Value> = shown
        .map(|(one, waits)| row(seen, one, waits.as_ref()))
        .collect();
    let mut waits: Vec<(Because, String)> =
        all.into_iter().filter_map(|(_, waits)| waits).collect();
    // What a person has to do comes first.
    waits.sort_by_key(|(because, _)| std::cmp::Reverse(because.severity()));
    let because = waits
        .first()
        .map_or(Because::AsWanted, |(because, _)| *because);
    debug_assert!(because == Because::AsWanted || because.severity() != Severity::Calm);
    let rest = Plan::rest(because, json!({ "applicationCredentials": shown }));
    waits.into_iter().fold(rest, |rest, (because, text)| {
        rest.waiting(because, vec![Holder::from(text)], None)
    })
}

/// What status says of one service.
fn row(seen: &Seen, one: &ServiceSeen, waits: Option<&(Because, String)>) -> Value {
    let mut row = json!({ "service": one.service, "credential": one.called });
    let named = fields(seen, one.service).map(|(_, field): (_, &look::Field)| &field.now);
    if let Some(named) = named.into_iter().find(|now| !now.is_empty()) {
        row["secretName"] = named.as_str().into();
    }
    if let Some((because, _)) = waits {
        row["waitsFor"] = because.code().into();
    }
    row
}
