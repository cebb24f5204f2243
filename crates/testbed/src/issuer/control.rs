//! What an auditor or a script may do to a stand-in that runs as a process of its own: `/control/...`, no login.
//! It exists only where it was asked for, and only on loopback.

use std::collections::BTreeMap;

use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Shared;
use super::faults::{Fault, Verb};
use super::history::Happened;
use super::serve::{Reply, plain};
use super::state::{Answer, Kind, new_value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRealm {
    name: String,
    kind: Kind,
    login: Option<String>,
}

/// The same fault for so many of the next requests, of one verb and realm or of all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SimpleFaults {
    fault: Fault,
    times: u64,
    verb: Option<Verb>,
    realm: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    name: String,
}

pub(super) fn answer(shared: &Shared, method: &Method, segments: &[&str], body: &[u8]) -> Reply {
    let answer = match (method, segments) {
        (&Method::POST, ["realms"]) => with_body(body, |new: NewRealm| {
            let login = new.login.unwrap_or_else(new_value);
            shared.state().add_realm(&new.name, new.kind, login.clone());
            ok(
                201,
                json!({ "name": new.name, "kind": new.kind, "login": login }),
            )
        }),
        (&Method::GET, ["realms", realm, "live"]) => {
            let now = shared.now();
            ok(200, json!({ "live": shared.state().live(realm, now) }))
        }
        (&Method::GET, ["realms", realm, "history"]) => {
            ok(200, json!({ "events": shared.state().events(realm) }))
        }
        (&Method::GET, ["realms", realm, "counts"]) => ok(200, counts(shared, realm)),
        (&Method::POST, ["realms", realm, "credentials"]) => with_body(body, |new: Name| {
            let now = shared.now();
            match shared.state().add(realm, &new.name, now) {
                Some((id, value)) => ok(201, json!({ "id": id, "secret": value.reveal() })),
                None => Answer::error(404, "no such realm"),
            }
        }),
        (&Method::DELETE, ["realms", realm, "credentials", id]) => {
            let now = shared.now();
            let killed = shared.state().kill(realm, id, now);
            ok(200, json!({ "killed": killed }))
        }
        (&Method::PUT, ["realms", realm, "login", state @ ("on" | "off")]) => {
            shared.state().set_login(realm, *state == "on");
            ok(200, json!({ "login": state }))
        }
        (&Method::GET, ["requests"]) => ok(200, json!({ "counts": shared.faults.counts() })),
        (&Method::POST, ["faults"]) => with_body(body, |wanted: SimpleFaults| {
            plan(shared, wanted);
            ok(200, json!({}))
        }),
        (&Method::DELETE, ["faults"]) => {
            shared.faults.clear();
            ok(200, json!({ "released": shared.release_parked() }))
        }
        (&Method::POST, ["reset"]) => {
            shared.faults.reset();
            ok(200, json!({}))
        }
        _ => Answer::error(404, "no such control"),
    };
    plain(&answer)
}

fn plan(shared: &Shared, wanted: SimpleFaults) {
    let mut left = wanted.times;
    shared.faults.plan(move |line| {
        let meant = wanted.verb.is_none_or(|verb| verb == line.verb)
            && wanted
                .realm
                .as_ref()
                .is_none_or(|realm| *realm == line.realm);
        if meant && left > 0 {
            left -= 1;
            wanted.fault
        } else {
            Fault::Pass
        }
    });
}

fn counts(shared: &Shared, realm: &str) -> Value {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for event in shared.state().events(realm) {
        let what = match event.happened {
            Happened::Minted { .. } => "minted",
            Happened::ValueChanged { .. } => "value-changed",
            Happened::Rotated { .. } => "rotated",
            Happened::Ended { .. } => "ended",
            Happened::LoggedIn { .. } => "logged-in",
            Happened::Refused { .. } => "refused",
            Happened::Denied => "denied",
        };
        *counts.entry(what).or_default() += 1;
    }
    let now = shared.now();
    counts.insert("live", shared.state().live(realm, now).len() as u64);
    json!(counts)
}

fn ok(status: u16, body: Value) -> Answer {
    Answer {
        status,
        body: Some(body),
    }
}

fn with_body<T: serde::de::DeserializeOwned>(body: &[u8], act: impl FnOnce(T) -> Answer) -> Answer {
    match serde_json::from_slice(body) {
        Ok(wanted) => act(wanted),
        Err(_) => Answer::error(400, "not the JSON this control needs"),
    }
}
