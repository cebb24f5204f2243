//! A remote thing as a controller: look, decide, one act, until there is rest.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use lifecycle::{Because, Known, Owner, Severity, Trouble};
use serde_json::{Value, json};
use sources::Things;

use super::decide::{Act, Next, Record, Seen, Wish, decide};
use super::thought::thought;
use crate::engine::conditions;
use crate::engine::controller::{Context, Controller, Outcome, Thought};
use crate::engine::reader::Reader;
use crate::engine::rights::Right;
use crate::engine::telling::{self, Told};
use crate::engine::trouble::Fault;
use crate::engine::{About, Closed, names, resources};
use crate::projection::Own;

/// More acts than any thing needs in one go.
const MOST_ACTS: usize = 32;

/// What is waited for, or failed, is looked at again within this time.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// A thing that rests is compared with what is wanted this often: nothing tells when somebody changes it there.
const COMPARE: SignedDuration = SignedDuration::from_hours(6);

/// What its author writes.
#[async_trait]
pub trait Remote: Send + Sync + fmt::Debug + 'static {
    /// What is so of it whatever its resources say.
    fn about(&self) -> &About;

    /// The annotation in which the id is written down.
    fn record(&self) -> &'static str;

    /// The controller that keeps credentials of it, where one does.
    fn credentials(&self, _object: &DynamicObject) -> Option<Credentials> {
        None
    }

    /// What the spec asks for, with what it refers to. The id is made from the uid of the resource, or from what cannot
    /// change. Of a resource that is leaving no more is asked than whether the thing is to stay.
    async fn wanted(
        &self,
        object: &DynamicObject,
        owner: &Owner,
        reader: &mut Reader<'_>,
    ) -> Result<Wish, Closed>;

    /// Reads what the issuer is reached with. No request to it is made here.
    async fn open(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Arc<dyn Things>, Closed>;

    /// What status says of it, beside conditions.
    fn status(&self, _object: &DynamicObject, _seen: &Seen, _told: &Told) -> Value {
        Value::Null
    }
}

/// Another controller on the same resources, which keeps credentials of the thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// As long as this is on the resource, they are not all gone.
    pub finalizer: &'static str,
    /// What must be true before all is well; `None`: it is to have none.
    pub condition: Option<&'static str>,
}

/// A remote thing that is kept as its resource asks for.
#[derive(Debug)]
pub struct Keeping<R>(R);

impl<R: Remote> Keeping<R> {
    pub fn of(remote: R) -> Arc<dyn Controller> {
        Arc::new(Self(remote))
    }

    /// What is on the resource, and the way to its issuer.
    async fn observe(
        &self,
        context: &mut Context<'_>,
        object: &DynamicObject,
    ) -> Result<(Seen, Option<Arc<dyn Things>>), Fault> {
        let (world, key) = (context.world, context.key);
        let mut reader = Reader::new(world, &key.namespace);
        let opened = self.0.open(object, &mut reader).await;
        reader.go_home();
        let owner = owner(context, object);
        let wish = self.0.wanted(object, &owner, &mut reader).await;
        let (inputs, _) = reader.finish();
        world.inputs.depends_on(key, &inputs);
        context.horizon.inputs = inputs;
        let (things, closed) = match opened {
            Ok(things) => (Some(things), None),
            Err(Closed::Refused(refusal)) => (None, Some(refusal)),
            Err(Closed::Fault(fault)) => return Err(fault),
        };
        let wish = match wish {
            Ok(wish) => Ok(wish),
            Err(Closed::Refused(refusal)) => Err(refusal),
            Err(Closed::Fault(fault)) => return Err(fault),
        };
        let noted = object.annotations().get(self.0.record());
        let others = self.0.credentials(object);
        let has = |others: Credentials| {
            object
                .finalizers()
                .iter()
                .any(|one| one == others.finalizer)
        };
        let seen = Seen {
            own: Own::of(object, self.0.about().finalizer),
            suspended: names::is_suspended(&object.metadata),
            record: noted.and_then(|text| serde_json::from_str(text).ok()),
            credentials: others.is_some_and(has),
            wish,
            closed,
            found: Known::NotAsked,
            blockers: Known::NotAsked,
            failed: None,
        };
        Ok((seen, things))
    }

    /// *Guarantees:* our finalizer and the id are on the resource in one write, and only if nobody wrote it since. *If it dies
    /// here:* nothing was made yet. *Safe to repeat because* a changed resource refuses it.
    async fn write_down(
        &self,
        context: &Context<'_>,
        object: &DynamicObject,
        record: Option<&Record>,
    ) -> Result<DynamicObject, Fault> {
        let ours = self.0.about().finalizer;
        let others = object.finalizers().iter().filter(|one| *one != ours);
        let guard = record.map(|_| ours.to_owned());
        let finalizers: Vec<String> = others.cloned().chain(guard).collect();
        let text = record.map(|record| json!(record).to_string());
        let patch = json!({ "metadata": {
            "resourceVersion": object.resource_version(),
            "finalizers": finalizers,
            "annotations": { self.0.record(): text },
        } });
        let api: Api<DynamicObject> = Api::namespaced_with(
            context.world.client.clone(),
            &context.key.namespace,
            self.resource(),
        );
        let params = PatchParams {
            field_manager: Some(names::MANAGER.into()),
            ..PatchParams::default()
        };
        let merge = Patch::Merge(&patch);
        let written = api.patch(&context.key.name, &params, &merge);
        let act = "writing down the id of a thing";
        context.world.timed(act, written).await
    }

    /// One act at the issuer, or on the resource. After it, nothing that was found out before counts.
    async fn act(
        &self,
        context: &Context<'_>,
        object: &DynamicObject,
        seen: &Seen,
        things: Option<&Arc<dyn Things>>,
        act: Act,
    ) -> Result<Result<(), Trouble>, Fault> {
        let owner = owner(context, object);
        match (act, &seen.wish, &seen.record, things) {
            (Act::Record, Ok(wish), _, _) => {
                let record = Record {
                    of: seen.own.uid.clone(),
                    id: wish.id.clone(),
                    clears: None,
                };
                self.write_down(context, object, Some(&record)).await?;
            }
            (Act::Clear(clears), _, Some(record), _) => {
                let record = Record {
                    clears: Some(clears),
                    ..record.clone()
                };
                self.write_down(context, object, Some(&record)).await?;
            }
            (Act::Unguard, ..) => {
                self.write_down(context, object, None).await?;
            }
            (Act::Put, Ok(wish), _, Some(things)) => {
                context.world.may_begin("making a thing")?;
                let put = things.put(&wish.id, &owner, &wish.thing);
                return Ok(at(context, things, "put", put).await);
            }
            (Act::Remove, _, Some(record), Some(things)) => {
                context.world.may_begin("removing a thing")?;
                let removed = things.remove(&record.id, &owner);
                return Ok(at(context, things, "remove", removed).await);
            }
            (Act::Record | Act::Put | Act::Clear(_) | Act::Remove, ..) => {
                return Err(Fault::Outrun("acting on a thing"));
            }
        }
        Ok(Ok(()))
    }
}

fn owner(context: &Context<'_>, object: &DynamicObject) -> Owner {
    Owner::new(
        context.world.cluster.clone(),
        &object.uid().unwrap_or_default(),
    )
}

async fn at<T>(
    context: &Context<'_>,
    things: &Arc<dyn Things>,
    act: &'static str,
    request: impl Future<Output = Result<T, sources::SourceError>>,
) -> Result<T, Trouble> {
    let (place, login) = (things.place(), things.login_name());
    context.world.at_place(place, login, act, request).await
}

#[async_trait]
impl<R: Remote> Controller for Keeping<R> {
    fn name(&self) -> &'static str {
        self.0.about().name
    }

    fn resource(&self) -> &ApiResource {
        &self.0.about().resource
    }

    fn neighbours(&self) -> Vec<ApiResource> {
        self.0.about().neighbours.clone()
    }

    /// Where another controller makes some for the same resource, they are that one's business.
    fn makes_secrets(&self) -> bool {
        false
    }

    fn rights(&self) -> Vec<Right> {
        self.0.about().all_rights()
    }

    /// Without a request to the issuer: what is there it shows as not asked.
    async fn explain(&self, context: &mut Context<'_>) -> Result<Option<Thought>, Fault> {
        let Some(object) = resources::read(context, self.resource()).await? else {
            return Ok(None);
        };
        let (seen, _) = self.observe(context, &object).await?;
        Ok(Some(thought(&seen)))
    }

    async fn pass(&self, context: &mut Context<'_>) -> Result<Outcome, Fault> {
        for _ in 0..MOST_ACTS {
            let Some(object) = resources::read(context, self.resource()).await? else {
                return Ok(resources::not_there(context));
            };
            let (mut seen, things) = match self.observe(context, &object).await {
                Err(fault @ Fault::Refused { .. }) => {
                    return self.refused(context, &object, fault).await;
                }
                observed => observed?,
            };
            loop {
                let owner = owner(context, &object);
                let asked = match (decide(&seen), &things, &seen.record, &seen.wish) {
                    (Next::Look, Some(things), Some(record), _) => {
                        let look = things.look(&record.id, &owner);
                        let found = at(context, things, "look", look).await;
                        seen.found = found.map_or_else(Known::Failed, Known::Is);
                        true
                    }
                    (Next::Blockers, Some(things), Some(record), _) => {
                        let blockers = at(
                            context,
                            things,
                            "blockers",
                            things.blockers(&record.id, &owner),
                        );
                        seen.blockers = blockers.await.map_or_else(Known::Failed, Known::Is);
                        true
                    }
                    (Next::Look | Next::Blockers | Next::Do(_) | Next::Rest { .. }, ..) => false,
                };
                if !asked {
                    break;
                }
            }
            match decide(&seen) {
                Next::Do(act) => {
                    let done = self
                        .act(context, &object, &seen, things.as_ref(), act)
                        .await;
                    match done {
                        Ok(Ok(())) | Err(Fault::Outrun(_)) => {}
                        Ok(Err(trouble)) => {
                            seen.failed = Some(trouble);
                            return self.rest(context, &object, &seen).await;
                        }
                        Err(fault @ Fault::Refused { .. }) => {
                            return self.refused(context, &object, fault).await;
                        }
                        Err(fault) => return Err(fault),
                    }
                }
                Next::Look | Next::Blockers | Next::Rest { .. } => {
                    return self.rest(context, &object, &seen).await;
                }
            }
        }
        Ok(Outcome::Again)
    }
}

impl<R: Remote> Keeping<R> {
    /// Says that the API server refuses what is needed; it is tried again.
    async fn refused(
        &self,
        context: &mut Context<'_>,
        object: &DynamicObject,
        fault: Fault,
    ) -> Result<Outcome, Fault> {
        let told = Told::refused(&fault);
        let about = self.0.about();
        let what = (about.condition, about.owned);
        telling::tell(context, object, what, &told, Value::Null).await?;
        Err(fault)
    }

    /// Why not all is well although the thing is: what its credentials say of themselves.
    fn unready_credentials(&self, object: &DynamicObject) -> Option<String> {
        let condition = self.0.credentials(object)?.condition?;
        let said = conditions::of(object.data.get("status"));
        match said.iter().find(|one| one["type"] == condition) {
            Some(one) if one["status"] == "True" => None,
            Some(one) => Some(one["message"].as_str().unwrap_or_default().to_owned()),
            None => Some(String::new()),
        }
    }

    async fn rest(
        &self,
        context: &mut Context<'_>,
        object: &DynamicObject,
        seen: &Seen,
    ) -> Result<Outcome, Fault> {
        let Next::Rest {
            because,
            detail,
            on,
        } = decide(seen)
        else {
            return Ok(Outcome::Again);
        };
        if because == Because::NotOurs {
            context.world.forget(context.key);
            return Ok(Outcome::Done);
        }
        let told = match (because.severity(), self.unready_credentials(object)) {
            (Severity::Calm, Some(why)) => Told::of(Because::CredentialsNotReady, &[], &why),
            _ => Told::of(because, &on, &detail),
        };
        let about = self.0.about();
        let what = (about.condition, about.owned);
        let status = self.0.status(object, seen, &told);
        telling::tell(context, object, what, &told, status).await?;
        let pause = match &seen.failed {
            Some(Trouble {
                wait: Some(wait), ..
            }) => *wait,
            Some(_) | None if told.is_calm() => COMPARE,
            Some(_) | None => LOOK_AGAIN,
        };
        Ok(Outcome::Rest {
            wake: later(context.world.now(), pause),
        })
    }
}

fn later(now: Timestamp, span: SignedDuration) -> Option<Timestamp> {
    now.checked_add(span).ok()
}
