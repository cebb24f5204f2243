//! Any workload that says so follows a credential: its pod template is kept at the current version, and its rollout is the
//! proof that lets the old one go.
//!
//! Four controllers, one for each kind of workload. Each looks at a workload, the credentials that it follows or followed
//! ([`credential`]), and the Secrets of theirs that it holds; [`plan`] says what follows. What must be remembered stands on
//! the workload ([`note`]), and what it holds on the Secrets: whoever takes over from a process that died goes on from there.

mod credential;
mod note;
mod plan;
mod words;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use lifecycle::Because;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use credential::Credential;
use note::Note;
pub use words::Words;

use crate::engine::rights::Right;
use crate::engine::trouble::Fault;
use crate::engine::{About, Controller, Reader, Tells, names};
use crate::projection::{Own, Plan, Projecting, Projection, Target};
use crate::rotation::Kind;
use crate::workloads::{Rollout, Sort, User, Workload, users};

/// Ours on a workload that holds a Secret.
pub const GUARD: &str = "keyward.dev/follow";

/// What holds on Secrets begin with.
const HOLD: &str = "keyward.dev/follow-";

/// As long as the part of a finalizer after the slash may be.
const LONGEST: usize = 63;

/// As much of a digest as tells workloads of one name apart.
const DIGEST: usize = 10;

/// Followers of one kind of workload.
#[derive(Debug)]
pub struct Follow {
    about: About,
    sort: Sort,
    kinds: Arc<Words>,
}

/// The four controllers, for workloads that follow credentials of these kinds.
pub fn controllers(kinds: Vec<Arc<dyn Kind>>) -> Vec<Arc<dyn Controller>> {
    let kinds = Arc::new(Words::of(kinds));
    let controller = |sort| Projecting::of(Follow::new(sort, kinds.clone()));
    Sort::ALL.map(controller).into()
}

impl Follow {
    pub fn new(sort: Sort, kinds: Arc<Words>) -> Self {
        let pods = "Pods that refer to an old version keep it alive.";
        let jobs = "Jobs that run keep what they refer to alive.";
        let secrets = ApiResource::erase::<Secret>(&());
        let holds = "A workload that follows a credential holds the Secrets that its pods use.";
        let mut rights = vec![
            Right::to(&["get", "list", "watch", "patch"], &secrets).because(holds),
            Right::to(&["list", "watch"], &ApiResource::erase::<Pod>(&())).because(pods),
        ];
        match sort {
            Sort::CronJob => {
                let right = Right::to(&["list", "watch"], &ApiResource::erase::<Job>(&()));
                rights.push(right.because(jobs));
            }
            Sort::Deployment | Sort::StatefulSet | Sort::DaemonSet => {}
        }
        let about = About {
            tells: Tells::Annotation(names::FOLLOW_STATE),
            neighbours: kinds.resources(),
            rights,
            ..About::new("follow", sort.resource(), GUARD)
        };
        Self { about, sort, kinds }
    }
}

/// Everything a plan is made from.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    own: Own,
    /// All finalizers of the workload.
    finalizers: Vec<String>,
    workload: Workload,
    /// The finalizer that this very workload holds Secrets with.
    hold: String,
    follows: Follows,
    note: Note,
    /// Those that it follows and followed.
    credentials: Vec<Credential>,
    /// The Secrets of their versions, and all others that it holds.
    secrets: Vec<HeldSecret>,
    /// Names in the template under which there is a Secret that is none of theirs.
    others: Vec<String>,
    /// Who runs from its templates, as far as it matters.
    users: Vec<User>,
    /// What its template is stamped with.
    #[serde(skip_serializing_if = "Option::is_none")]
    stamp: Option<String>,
    on_failure: OnFailure,
    /// The Secret with which everything was last said to be as wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    settled_with: Option<String>,
}

/// Which credential the annotation names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
enum Follows {
    Nothing,
    /// As kind and name, in the form in which it is noted.
    One(String),
    Unclear(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum OnFailure {
    Hold,
    Rollback,
}

/// A Secret by what is written on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct HeldSecret {
    #[serde(flatten)]
    target: Target,
    owner: Option<String>,
}

impl HeldSecret {
    fn of(metadata: ObjectMeta) -> Self {
        let owner = metadata.labels.as_ref();
        let owner = owner.and_then(|labels| labels.get(names::OWNER_UID).cloned());
        let object = DynamicObject {
            types: None,
            metadata,
            data: Value::Null,
        };
        Self {
            target: Target::of(&ApiResource::erase::<Secret>(&()), &object),
            owner,
        }
    }
}

/// The finalizer of this very workload: a copy under another name, or one that was made again, has another.
fn hold_of(sort: Sort, object: &DynamicObject) -> String {
    let uid = Sha256::digest(object.uid().unwrap_or_default());
    let mut digest = format!("{uid:x}");
    digest.truncate(DIGEST);
    let head = format!("{HOLD}{}-", sort.word());
    let after_slash = head.len() - names::PREFIX.len();
    let left = LONGEST - after_slash - digest.len() - 1;
    let name: String = object.name_any().chars().take(left).collect();
    let name = name.trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
    format!("{head}{name}-{digest}")
}

#[async_trait]
impl Projection for Follow {
    type Seen = Seen;

    fn about(&self) -> &About {
        &self.about
    }

    fn concerns(&self, metadata: &ObjectMeta) -> bool {
        let notes = metadata.annotations.as_ref();
        let ours = [names::FOLLOW, names::FOLLOWED, names::FOLLOW_STATE];
        notes.is_some_and(|notes| ours.iter().any(|one| notes.contains_key(*one)))
    }

    async fn look(&self, object: &DynamicObject, reader: &mut Reader<'_>) -> Result<Seen, Fault> {
        let note = Note::on(object);
        let annotation = object.annotations().get(names::FOLLOW);
        let follows = self.kinds.read(annotation.map(String::as_str));
        let mut seen = Seen {
            own: Own::of(object, GUARD),
            finalizers: object.finalizers().to_vec(),
            workload: Workload::of(self.sort, object),
            hold: hold_of(self.sort, object),
            stamp: stamp_on(self.sort, object),
            on_failure: on_failure(object),
            settled_with: settled_with(object),
            follows,
            note,
            credentials: Vec::new(),
            secrets: Vec::new(),
            others: Vec::new(),
            users: Vec::new(),
        };
        for name in seen.all_followed() {
            if let Some(credential) = self.kinds.look(&name, reader).await? {
                seen.credentials.push(credential);
            }
        }
        seen.look_at_secrets(reader).await?;
        if seen.is_to_be_proved() {
            seen.users = users::of(reader, self.sort, object).await?;
            seen.wait_for_users(reader);
        }
        Ok(seen)
    }

    fn plan(&self, seen: &Seen, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

impl Seen {
    fn all_followed(&self) -> Vec<String> {
        let mut all = self.note.of.clone();
        if let Follows::One(name) = &self.follows
            && !all.contains(name)
        {
            all.push(name.clone());
        }
        all
    }

    async fn look_at_secrets(&mut self, reader: &mut Reader<'_>) -> Result<(), Fault> {
        let mut wanted: Vec<String> = Vec::new();
        for entry in self.credentials.iter().flat_map(Credential::versions) {
            if !wanted.contains(&entry.secret) {
                wanted.push(entry.secret.clone());
            }
        }
        // What the template calls a credential by its name may be a Secret of that name.
        let placeholders = self.credentials.iter().map(|one| one.name.clone());
        let placeholders: Vec<String> = placeholders
            .filter(|name| self.workload.names(name) && !wanted.contains(name))
            .collect();
        for name in wanted {
            let found = reader.untracked_secret_metadata(&name).await?;
            self.secrets.extend(found.map(HeldSecret::of));
        }
        for name in placeholders {
            if reader.untracked_secret_metadata(&name).await?.is_some() {
                self.others.push(name);
            }
        }
        let knows_all = self.credentials.iter().all(|one| one.known);
        if self.own.guarded && (!knows_all || self.credentials.len() < self.note.of.len()) {
            for metadata in reader.all_owned_secrets().await? {
                let secret = HeldSecret::of(metadata);
                let known = self
                    .secrets
                    .iter()
                    .any(|one| one.target.uid == secret.target.uid);
                if !known && secret.target.is_held_by(&self.hold) {
                    self.secrets.push(secret);
                }
            }
        }
        Ok(())
    }

    fn held(&self) -> impl Iterator<Item = &HeldSecret> {
        let secrets = self.secrets.iter();
        secrets.filter(|one| one.target.is_held_by(&self.hold))
    }

    /// Whether something is held that may be let go of, if nobody uses it.
    fn is_to_be_proved(&self) -> bool {
        if self.own.leaving {
            return false;
        }
        let follows = self.follows != Follows::Nothing;
        let over = self.workload.rollout() == Rollout::Complete;
        let named = |one: &HeldSecret| follows && self.workload.names(&one.target.name);
        self.held().any(|one| !named(one)) && (over || !follows)
    }

    /// The end of whoever still uses what may be let go of then wakes us.
    fn wait_for_users(&self, reader: &mut Reader<'_>) {
        let held: Vec<&HeldSecret> = self.held().collect();
        let follows = self.follows != Follows::Nothing;
        for user in &self.users {
            let uses_old = held.iter().any(|one| {
                let named = follows && self.workload.names(&one.target.name);
                !named && user.refers_to(&one.target.name)
            });
            if uses_old {
                reader.wait_for(&user.resource, &user.name, &user.version);
            }
        }
    }
}

fn on_failure(object: &DynamicObject) -> OnFailure {
    let wish = object.annotations().get(names::ON_FAILED_ROLLOUT);
    match wish.map(String::as_str) {
        Some("Rollback") => OnFailure::Rollback,
        Some(_) | None => OnFailure::Hold,
    }
}

/// What was told of it last; it decides nothing but what is told next.
fn settled_with(object: &DynamicObject) -> Option<String> {
    let told = object.annotations().get(names::FOLLOW_STATE)?;
    let told: Value = serde_json::from_str(told).ok()?;
    let calm = told["reason"] == Because::AsWanted.code();
    told["secret"].as_str().filter(|_| calm).map(str::to_owned)
}

fn stamp_on(sort: Sort, object: &DynamicObject) -> Option<String> {
    let template = object.data.pointer(sort.template())?;
    let stamp = template["metadata"]["annotations"][names::FOLLOW_VERSION].as_str();
    stamp.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, uid: &str) -> DynamicObject {
        serde_json::from_value(json!({ "metadata": { "name": name, "uid": uid } }))
            .expect("an object")
    }

    #[test]
    fn every_workload_holds_under_a_name_of_its_own_that_the_api_server_takes() {
        let long = format!("{}.{}", "a".repeat(30), "b".repeat(200));
        for sort in Sort::ALL {
            let one = hold_of(sort, &object(&long, "u1"));
            let (prefix, name) = one.split_once('/').expect("a domain");
            assert_eq!(prefix, "keyward.dev");
            assert!(name.len() <= 63, "{name}");
            assert!(name.ends_with(|last: char| last.is_ascii_alphanumeric()));
            assert_ne!(one, hold_of(sort, &object(&long, "u2")), "made again");
        }
        let named = hold_of(Sort::Deployment, &object("api", "u"));
        assert!(
            named.starts_with("keyward.dev/follow-deployment-api-"),
            "{named}"
        );
        let dotted = hold_of(
            Sort::CronJob,
            &object(&format!("{}.x", "a".repeat(36)), "u"),
        );
        assert!(!dotted.contains(".-"), "{dotted}");
    }
}
