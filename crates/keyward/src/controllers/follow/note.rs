//! What is remembered on a workload, in one annotation.
//!
//! It may be copied with the workload, or written by anybody who may edit it. So it leads to nothing but looks at
//! credentials of the workload's own namespace, and to changes of the workload's own template.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::names;
use crate::projection::Change;

/// As many as a Deployment keeps revisions of, unless it is told otherwise: a rollback by hand brings one of them back.
const MOST_NAMES: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Note {
    /// The credentials whose Secrets may be held, as kind and name. Written before the first is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) of: Vec<String>,
    /// What the template was pointed at before, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) names: Vec<String>,
    /// When the template was pointed at what it names now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pointed: Option<Timestamp>,
    /// The version whose rollout failed and was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refused: Option<Version>,
}

impl Note {
    /// One that cannot be read says nothing.
    pub(super) fn on(object: &DynamicObject) -> Self {
        let text = object.annotations().get(names::FOLLOWED);
        let note = text.and_then(|text| serde_json::from_str(text).ok());
        note.unwrap_or_default()
    }

    #[must_use]
    pub(super) fn also_of(&self, named: &str) -> Self {
        let mut note = self.clone();
        if !note.of.iter().any(|one| one == named) {
            note.of.push(named.to_owned());
        }
        note
    }

    /// The template names this now, and no longer those.
    #[must_use]
    pub(super) fn pointed_at(&self, now: Timestamp, secret: &str, before: &[String]) -> Self {
        let mut names: Vec<String> = before.to_vec();
        names.extend(self.names.iter().cloned());
        let mut kept: Vec<String> = Vec::new();
        for name in names {
            if name != secret && !kept.contains(&name) {
                kept.push(name);
            }
        }
        kept.truncate(MOST_NAMES);
        Self {
            names: kept,
            pointed: Some(now),
            ..self.clone()
        }
    }

    pub(super) fn change(&self) -> Change {
        annotation(names::FOLLOWED, json!(json!(self).to_string()))
    }
}

/// An annotation of the workload. Null: none.
pub(super) fn annotation(key: &str, to: Value) -> Change {
    let path = format!("/metadata/annotations/{}", key.replace('/', "~1"));
    Change { path, to }
}
