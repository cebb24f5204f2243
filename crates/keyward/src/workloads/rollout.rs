//! The proof that a rollout is over: what the workload's own controller observed, and that nobody is left.
//!
//! A Ready flag proves nothing: it may be about the template before. What counts is that the controller has seen the
//! template that stands there now, that as many pods as there should be are made from it, ready and available, that there
//! are no others, and that no pod and no job refers to the old Secret, not even one that is on its way out.

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{Because, Holder};
use serde::Serialize;
use serde_json::Value;

use super::references::{self, Reference};
use super::users::User;

/// The kinds of workloads that have a pod template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Sort {
    Deployment,
    StatefulSet,
    DaemonSet,
    CronJob,
}

impl Sort {
    pub const ALL: [Self; 4] = [
        Self::Deployment,
        Self::StatefulSet,
        Self::DaemonSet,
        Self::CronJob,
    ];

    pub fn resource(self) -> ApiResource {
        let (group, plural) = match self {
            Self::Deployment => ("apps", "deployments"),
            Self::StatefulSet => ("apps", "statefulsets"),
            Self::DaemonSet => ("apps", "daemonsets"),
            Self::CronJob => ("batch", "cronjobs"),
        };
        ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: self.kind().to_owned(),
            plural: plural.to_owned(),
        }
    }

    pub fn kind(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::CronJob => "CronJob",
        }
    }

    /// The word for it in names.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
            Self::CronJob => "cronjob",
        }
    }

    /// A JSON pointer to the pod template.
    pub fn template(self) -> &'static str {
        match self {
            Self::Deployment | Self::StatefulSet | Self::DaemonSet => "/spec/template",
            Self::CronJob => "/spec/jobTemplate/spec/template",
        }
    }
}

/// A workload, as far as a rollout goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    pub sort: Sort,
    pub name: String,
    /// What its pod template refers to, by paths into the template's `spec`.
    pub references: Vec<Reference>,
    pub pods: Pods,
    /// Its controller has seen the spec that stands there.
    pub observed: bool,
    /// Its pods are not replaced by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_hand: Option<Holdup>,
    /// Its controller says that the rollout has not got on within its progress deadline.
    pub stuck: bool,
}

/// How many pods there are, as the workload's controller counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Pods {
    pub wanted: i64,
    pub there: i64,
    pub updated: i64,
    pub ready: i64,
    pub available: i64,
}

/// Why a rollout is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Holdup {
    /// The controller has not seen the template yet.
    NotObserved,
    /// Pods are still being replaced.
    Replacing,
    /// All pods are new, and not all of them are ready and available.
    NotReady,
    /// No progress within the progress deadline.
    Stuck,
    /// The Deployment is paused.
    Paused,
    /// Its update strategy is `OnDelete`: a pod is replaced when somebody deletes it.
    OnDelete,
    /// Its update strategy has a partition: pods below it keep the old template.
    Partition,
}

impl Holdup {
    pub fn because(self) -> Because {
        match self {
            Self::NotObserved | Self::Replacing | Self::NotReady => Because::RolloutUnderway,
            Self::Stuck => Because::RolloutStuck,
            Self::Paused => Because::RolloutPaused,
            Self::OnDelete | Self::Partition => Because::RolloutByHand,
        }
    }

    /// For people: what is so.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotObserved => "its controller has not seen the new template yet",
            Self::Replacing => "not all pods are made from the new template yet",
            Self::NotReady => "not all new pods are ready and available yet",
            Self::Stuck => "no progress within its progress deadline",
            Self::Paused => "it is paused",
            Self::OnDelete => {
                "its update strategy is OnDelete, so that a pod is replaced when somebody deletes it"
            }
            Self::Partition => {
                "its update strategy has a partition, and the pods below it keep the old template"
            }
        }
    }
}

/// Whether all pods come from the template that stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Rollout {
    Complete,
    Held(Holdup),
}

/// Whether a workload uses a Secret no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Proof {
    Unused,
    /// Its template refers to it.
    Named,
    /// It does not, but a pod from before may still be there, or come back.
    Held(Holdup),
    /// The rollout is over, and these are left.
    UsedBy(Vec<Holder>),
}

impl Workload {
    /// As it was read. Numbers that are not there are zero, as its controllers leave them out.
    pub fn of(sort: Sort, object: &DynamicObject) -> Self {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let template = object.data.pointer(sort.template());
        let pod_spec = template.map_or(&Value::Null, |template| &template["spec"]);
        let generation = object.metadata.generation.unwrap_or_default();
        Self {
            sort,
            name: object.name_any(),
            references: references::in_pod_spec(pod_spec),
            pods: Pods::of(sort, spec, status),
            observed: number(&status["observedGeneration"]) >= generation,
            by_hand: by_hand(sort, spec),
            stuck: is_stuck(status),
        }
    }

    /// Whether its template refers to this Secret.
    pub fn names(&self, secret: &str) -> bool {
        self.references.iter().any(|one| one.secret == secret)
    }

    /// What its controller observed. The order is meaning: numbers of a template that it has not seen say nothing, and one
    /// that nobody replaces is not merely slow.
    pub fn rollout(&self) -> Rollout {
        let Pods {
            wanted,
            there,
            updated,
            ready,
            available,
        } = self.pods;
        match self.sort {
            // It has no pods of its own; its jobs have, and each of them is looked at.
            Sort::CronJob => return Rollout::Complete,
            Sort::Deployment | Sort::StatefulSet | Sort::DaemonSet => {}
        }
        if !self.observed {
            // A paused one is observed all the same.
            return Rollout::Held(Holdup::NotObserved);
        }
        if updated < wanted || there != updated {
            let slow = if self.stuck {
                Holdup::Stuck
            } else {
                Holdup::Replacing
            };
            return Rollout::Held(self.by_hand.unwrap_or(slow));
        }
        if there != wanted || ready < wanted || available < wanted {
            let slow = if self.stuck {
                Holdup::Stuck
            } else {
                Holdup::NotReady
            };
            return Rollout::Held(slow);
        }
        Rollout::Complete
    }

    /// Whether this Secret may be let go: read the workload first, and `users` after it.
    pub fn proof(&self, users: &[User], secret: &str) -> Proof {
        if self.names(secret) {
            return Proof::Named;
        }
        if let Rollout::Held(holdup) = self.rollout() {
            return Proof::Held(holdup);
        }
        let left: Vec<Holder> = users
            .iter()
            .filter(|user| user.refers_to(secret))
            .map(|user| user.who.clone())
            .collect();
        if left.is_empty() {
            Proof::Unused
        } else {
            Proof::UsedBy(left)
        }
    }
}

impl Pods {
    fn of(sort: Sort, spec: &Value, status: &Value) -> Self {
        let count = |key: &str| number(&status[key]);
        match sort {
            Sort::Deployment | Sort::StatefulSet => Self {
                // The API server fills in what is left out; who reads it elsewhere takes the same.
                wanted: spec["replicas"].as_i64().unwrap_or(1),
                there: count("replicas"),
                updated: count("updatedReplicas"),
                ready: count("readyReplicas"),
                available: count("availableReplicas"),
            },
            Sort::DaemonSet => Self {
                wanted: count("desiredNumberScheduled"),
                there: count("currentNumberScheduled"),
                updated: count("updatedNumberScheduled"),
                ready: count("numberReady"),
                available: count("numberAvailable"),
            },
            Sort::CronJob => Self::default(),
        }
    }
}

fn by_hand(sort: Sort, spec: &Value) -> Option<Holdup> {
    let strategy = &spec["updateStrategy"];
    match sort {
        Sort::Deployment => (spec["paused"] == true).then_some(Holdup::Paused),
        Sort::StatefulSet | Sort::DaemonSet if strategy["type"] == "OnDelete" => {
            Some(Holdup::OnDelete)
        }
        Sort::StatefulSet => {
            let partition = number(&strategy["rollingUpdate"]["partition"]);
            (partition > 0).then_some(Holdup::Partition)
        }
        Sort::DaemonSet | Sort::CronJob => None,
    }
}

fn is_stuck(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| {
        one["type"] == "Progressing"
            && one["status"] == "False"
            && one["reason"] == "ProgressDeadlineExceeded"
    })
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

#[cfg(test)]
mod tests;
