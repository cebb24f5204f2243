//! Which application credentials each node of a node set was given, as far as that can be known. Pure.
//!
//! A deployment gives nodes what the Secrets of its services hold when it begins. So what they hold is noted while it is
//! certain that they held the same then: as long as they were last written before the deployment was made. What was not
//! noted in time is not guessed: those nodes may have anything, until another deployment reaches them.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};

/// On a node set: the record.
pub(super) const RECORD: &str = "keyward.dev/deployed";

/// Instead of a Secret's name: the nodes were given something, and nobody recorded what.
pub(super) const ANYTHING: &str = "";

/// The ids of application credentials that a Secret mentions; `None`: it is not known what it held.
pub(super) type Ids = Option<BTreeSet<String>>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// The uid of the node set. One of another counts for nothing.
    pub(super) of: String,
    /// By the uid of a deployment that is not counted yet: what the Secrets held when it began, by their names.
    pub(super) begun: BTreeMap<String, Begun>,
    /// By node and Secret: what it was given.
    pub(super) nodes: BTreeMap<String, BTreeMap<String, Ids>>,
    /// Deployments that are over and that the above contains, by uid.
    pub(super) counted: BTreeSet<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) reach: Reach,
    pub(super) held: BTreeMap<String, BTreeSet<String>>,
}

/// Which nodes a deployment is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reach {
    #[default]
    All,
    These(BTreeSet<String>),
    /// A pattern that is not understood: perhaps any, for certain none.
    Some,
}

/// A deployment as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Deployment {
    pub(super) uid: String,
    pub(super) name: String,
    pub(super) created: Option<Timestamp>,
    pub(super) over: bool,
    pub(super) reach: Reach,
    /// The Secrets that it gave to its nodes, as it says at its end.
    pub(super) gave: BTreeSet<String>,
}

/// A Secret that nodes are given and log in by, as it is now; or that is gone, and may have been one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Config {
    pub(super) ids: BTreeSet<String>,
    /// When its content was last written, if somebody noted it.
    pub(super) written: Option<Timestamp>,
}

impl Deployment {
    pub(super) fn of(object: &DynamicObject, nodes: &BTreeMap<String, BTreeSet<String>>) -> Self {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let limit = spec["ansibleLimit"].as_str().unwrap_or_default();
        let hashes = status["secretHashes"].as_object().into_iter().flatten();
        Self {
            uid: object.uid().unwrap_or_default(),
            name: object.name_any(),
            created: object.creation_timestamp().map(|time| time.0),
            over: status["deployed"] == true,
            reach: reach(limit, nodes),
            gave: hashes.map(|(name, _)| name.clone()).collect(),
        }
    }
}

/// Nodes by the names that a limit may call them.
fn reach(limit: &str, nodes: &BTreeMap<String, BTreeSet<String>>) -> Reach {
    if limit.is_empty() || limit == "*" {
        return Reach::All;
    }
    let words = limit.split([',', ':']).map(str::trim);
    let mut these = BTreeSet::new();
    for word in words.filter(|word| !word.is_empty()) {
        let named = nodes
            .iter()
            .find(|(node, known)| *node == word || known.contains(word));
        let Some((node, _)) = named else {
            return Reach::Some;
        };
        these.insert(node.clone());
    }
    Reach::These(these)
}

impl Reach {
    fn has(&self, node: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(nodes) => nodes.contains(node),
            Self::Some => false,
        }
    }

    fn may_have(&self, node: &str) -> bool {
        match self {
            Self::All | Self::Some => true,
            Self::These(nodes) => nodes.contains(node),
        }
    }
}

/// What is seen of a node set.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sight {
    pub(super) uid: String,
    /// Its nodes, each with other names that it has.
    pub(super) nodes: BTreeMap<String, BTreeSet<String>>,
    pub(super) deployments: Vec<Deployment>,
    pub(super) configs: BTreeMap<String, Config>,
    /// Without a record: what is believed of all nodes, by Secret.
    pub(super) before: BTreeMap<String, Ids>,
}

impl Record {
    pub(super) fn on(object: &DynamicObject) -> Option<Self> {
        let text = object.annotations().get(RECORD)?;
        let record: Self = serde_json::from_str(text).ok()?;
        (Some(&record.of) == object.uid().as_ref()).then_some(record)
    }

    /// The record that follows from what is seen now.
    pub(super) fn next(before: Option<&Self>, seen: &Sight) -> Self {
        let mut record = before.cloned().unwrap_or_else(|| Self::first(seen));
        let there: BTreeSet<&str> = seen
            .deployments
            .iter()
            .map(|one| one.uid.as_str())
            .collect();
        // One that went without an end may have reached some of its nodes.
        let gone: Vec<String> = record
            .begun
            .keys()
            .filter(|uid| !there.contains(uid.as_str()))
            .cloned()
            .collect();
        for uid in gone {
            if let Some(begun) = record.begun.remove(&uid) {
                record.perhaps(&begun, seen);
            }
        }
        record.counted.retain(|uid| there.contains(uid.as_str()));
        let mut open: Vec<&Deployment> = seen
            .deployments
            .iter()
            .filter(|one| !record.counted.contains(&one.uid))
            .collect();
        open.sort_by_key(|one| (one.created, one.uid.clone()));
        for deployment in open {
            record.note(deployment, seen);
            if deployment.over {
                record.count(deployment, seen);
            }
        }
        record.nodes.retain(|node, _| seen.nodes.contains_key(node));
        record
    }

    fn first(seen: &Sight) -> Self {
        let given = |node: &String| (node.clone(), seen.before.clone());
        let nodes = if seen.before.is_empty() {
            BTreeMap::new()
        } else {
            seen.nodes.keys().map(given).collect()
        };
        // What is over by then is part of what is believed.
        let over = seen.deployments.iter().filter(|one| one.over);
        let counted = if seen.before.is_empty() {
            BTreeSet::new()
        } else {
            over.map(|one| one.uid.clone()).collect()
        };
        Self {
            of: seen.uid.clone(),
            begun: BTreeMap::new(),
            nodes,
            counted,
        }
    }

    /// What Secrets hold, if they held it when this deployment began. What happened in the same second proves nothing.
    fn note(&mut self, deployment: &Deployment, seen: &Sight) {
        let begun = self.begun.entry(deployment.uid.clone()).or_default();
        begun.reach = deployment.reach.clone();
        for (name, config) in &seen.configs {
            let same = match (config.written, deployment.created) {
                (Some(written), Some(created)) => written < created,
                (None, _) | (_, None) => false,
            };
            if same && !begun.held.contains_key(name) {
                begun.held.insert(name.clone(), config.ids.clone());
            }
        }
    }

    fn count(&mut self, deployment: &Deployment, seen: &Sight) {
        let begun = self.begun.remove(&deployment.uid).unwrap_or_default();
        self.counted.insert(deployment.uid.clone());
        if deployment.reach == Reach::Some {
            self.perhaps(&begun, seen);
            return;
        }
        for node in seen.nodes.keys().filter(|node| deployment.reach.has(node)) {
            let given = self.nodes.entry(node.clone()).or_default();
            if !deployment.gave.is_empty() {
                given.remove(ANYTHING);
            }
            for secret in deployment
                .gave
                .iter()
                .filter(|one| seen.configs.contains_key(*one))
            {
                given.insert(secret.clone(), begun.held.get(secret).cloned());
            }
        }
    }

    /// Nodes that may have what this one held, beside what they have.
    fn perhaps(&mut self, begun: &Begun, seen: &Sight) {
        for node in seen.nodes.keys().filter(|node| begun.reach.may_have(node)) {
            let given = self.nodes.entry(node.clone()).or_default();
            for (secret, held) in &begun.held {
                let known = given.entry(secret.clone());
                let known = known.or_insert_with(|| Some(BTreeSet::new()));
                if let Some(ids) = known {
                    ids.extend(held.iter().cloned());
                }
            }
        }
    }

    /// Whether nothing happened that the record lacks: it may be old, and its keeper switched off.
    pub(super) fn has_all(&self, deployments: &[Deployment]) -> bool {
        deployments.iter().all(|one| {
            self.counted.contains(&one.uid) || (!one.over && self.begun.contains_key(&one.uid))
        })
    }

    /// Nodes that may use this one, with whether that is certain.
    pub(super) fn nodes_with(&self, id: &str) -> BTreeMap<&str, bool> {
        let mut found = BTreeMap::new();
        for (node, given) in &self.nodes {
            let has = given.values().flatten().any(|ids| ids.contains(id));
            let unknown = given.values().any(Option::is_none);
            if has || unknown {
                found.insert(node.as_str(), has);
            }
        }
        found
    }

    /// Whether a deployment that is under way may give it to nodes.
    pub(super) fn is_under_way(&self, id: &str) -> bool {
        let held = self.begun.values().flat_map(|begun| begun.held.values());
        held.into_iter().any(|ids| ids.contains(id))
    }
}

/// The ids that a configuration logs in with.
pub(super) fn ids_in(texts: impl Iterator<Item = Vec<u8>>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for text in texts {
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = text.lines().filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "application_credential_id").then(|| value.trim().to_owned())
        });
        found.extend(lines.filter(|id| !id.is_empty()));
    }
    found
}

#[cfg(test)]
mod tests;
