//! A projection for tests. A Mirror has a copy made of one of two Secrets, points a Gadget at it, and lets the other Secret
//! go when the Gadget says that it has moved on.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use keyward::engine::status::Owned;
use keyward::engine::trouble::Fault;
use keyward::engine::{About, Reader};
use keyward::projection::{Effect, Own, Plan, Projection, SecretSeen, Target};
use kube::api::DynamicObject;
use lifecycle::Because;
use serde::Serialize;
use serde_json::{Value, json};

use crate::kinds::{ELSEWHERE, GADGETS, MIRRORS, resource};

pub(crate) const HOLD: &str = "test.keyward.dev/mirror";
pub(crate) const GUARD: &str = "test.keyward.dev/guard";
pub(crate) const COPY: &str = "copy";
const LABEL: &str = "test.keyward.dev/copy-of";

#[derive(Debug)]
pub(crate) struct Mirror(About);

impl Mirror {
    pub(crate) fn new() -> Self {
        let (keys, conditions) = (&["source"], &["Mirrored"]);
        Self(About {
            owned: Owned::Part { keys, conditions },
            condition: "Mirrored",
            neighbours: vec![resource(GADGETS)],
            reaches: vec![ELSEWHERE.to_owned()],
            ..About::new("mirror", resource(MIRRORS), GUARD)
        })
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Seen {
    own: Own,
    /// The name of the Secret that is wanted; of one that leaves, none.
    wants: String,
    sources: Vec<SecretSeen>,
    copy: Option<SecretSeen>,
    /// What the gadget is pointed at, and what it uses.
    gadget: Option<(Target, String, String)>,
}

#[async_trait]
impl Projection for Mirror {
    type Seen = Seen;

    fn about(&self) -> &About {
        &self.0
    }

    async fn look(&self, object: &DynamicObject, reader: &mut Reader<'_>) -> Result<Seen, Fault> {
        let own = Own::of(object, GUARD);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let gadgets = resource(GADGETS);
        let gadget = reader.one(&gadgets, "gadget").await?.map(|found| {
            let (spec, status) = (&found.data["spec"], &found.data["status"]);
            let target = Target::of(&gadgets, &found);
            (target, text(&spec["secret"]), text(&status["uses"]))
        });
        let mut sources = Vec::new();
        for name in ["one", "two"] {
            sources.extend(SecretSeen::read(reader, name).await?);
        }
        reader.go_to(ELSEWHERE)?;
        let copy = SecretSeen::read(reader, COPY).await?;
        let wants = text(&object.data["spec"]["source"]);
        let wants = if own.leaving { String::new() } else { wants };
        Ok(Seen {
            own,
            wants,
            sources,
            copy,
            gadget,
        })
    }

    fn plan(&self, seen: &Seen, _now: Timestamp) -> Plan {
        let Seen {
            own,
            wants,
            sources,
            copy,
            gadget,
        } = seen;
        if !own.leaving && !own.guarded {
            return Plan::act(Effect::Guard, Because::FirstMint);
        }
        let source = sources.iter().find(|one| one.target.name == *wants);
        if let Some(source) = source {
            let labels = BTreeMap::from([(LABEL.to_owned(), wants.clone())]);
            let same = |copy: &SecretSeen| copy.digests == source.digests && copy.labels == labels;
            if copy
                .as_ref()
                .is_some_and(|copy| !copy.labels.contains_key(LABEL))
            {
                return Plan::rest(Because::SecretNotAdopted, json!({}));
            }
            if !source.target.is_held_by(HOLD) {
                return Plan::act(Effect::hold(source, HOLD), Because::SpecChanged);
            }
            if !copy.as_ref().is_some_and(same) {
                let effect = Effect::copy(source, (ELSEWHERE, COPY), copy.as_ref(), labels);
                return Plan::act(effect, Because::SpecChanged);
            }
        } else if !own.leaving {
            return Plan::rest(Because::SecretMissing, json!({}));
        }
        match gadget {
            Some((target, names, _)) if names != wants => {
                let effect = Effect::set(target, &json!({ "spec": { "secret": wants } }));
                return Plan::act(effect, Because::Published);
            }
            Some((.., uses)) if uses != wants => {
                let rest = Plan::rest(Because::HeldByConsumers, json!({ "source": wants }));
                return rest.waiting(Because::HeldByConsumers, vec!["gadget".into()], None);
            }
            Some(_) | None => {}
        }
        let held = |one: &&SecretSeen| one.target.is_held_by(HOLD) && one.target.name != *wants;
        if let Some(old) = sources.iter().find(held) {
            return Plan::act(Effect::let_go(old, HOLD), Because::Unheld);
        }
        match copy {
            Some(copy) if own.leaving => {
                let what = copy.target.clone();
                Plan::act(Effect::Delete { what }, Because::Deleting)
            }
            Some(_) | None if own.leaving => Plan::act(Effect::Unguard, Because::Finished),
            Some(_) | None => Plan::rest(Because::AsWanted, json!({ "source": wants })),
        }
    }
}
