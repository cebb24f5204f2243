//! A projection as a controller: look, plan, one effect, and again from a fresh look, until there is rest.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use lifecycle::Because;
use serde::Serialize;
use serde_json::{Value, json};

use super::effects::{Hands, perform};
use super::plan::{News, Own, Plan};
use crate::engine::controller::{Context, Controller, Outcome, Thought};
use crate::engine::events::{self, Note};
use crate::engine::reader::Reader;
use crate::engine::rights::Right;
use crate::engine::telling::{self, Told};
use crate::engine::trouble::Fault;
use crate::engine::{About, Tells, names, resources};

/// More effects than any plan needs in one go; beyond this the pass yields and is taken up again.
const MOST_EFFECTS: usize = 64;

/// How often a pass looks again because somebody was faster, before it lets others go first.
const MOST_OUTRUN: usize = 6;

/// What is waited for is looked at again within this time, whatever the watches show.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// What its author writes.
#[async_trait]
pub trait Projection: Send + Sync + fmt::Debug + 'static {
    /// Everything a plan is made from. Digests, never values.
    type Seen: Serialize + fmt::Debug + Send + Sync;

    /// What is so of it whatever its resources say.
    fn about(&self) -> &About;

    /// Whether a resource with this metadata is any of its business.
    fn concerns(&self, _metadata: &ObjectMeta) -> bool {
        true
    }

    /// Whether the resource itself is any of its business: somebody else may work on others of the same kind, under the same
    /// finalizer.
    fn owns(&self, _object: &DynamicObject) -> bool {
        true
    }

    /// What status says beside the condition when the API server refuses a look: as it stands, unless told otherwise.
    fn status_when_refused(&self, object: &DynamicObject, _told: &Told, _now: Timestamp) -> Value {
        telling::as_it_stands(object, self.about().condition)
    }

    /// Reads, live, everything that the plan needs. What it reads wakes the resource when it changes.
    async fn look(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Self::Seen, Fault>;

    /// What follows from that. Pure: the same seen at the same time gives the same plan.
    fn plan(&self, seen: &Self::Seen, now: Timestamp) -> Plan;
}

/// The resource, as far as it is any of our business.
enum Read {
    Is(Box<DynamicObject>),
    NotOurs,
    NotThere,
}

/// A projection that is worked for.
#[derive(Debug)]
pub struct Projecting<P>(P);

impl<P: Projection> Projecting<P> {
    pub fn of(projection: P) -> Arc<dyn Controller> {
        Arc::new(Self(projection))
    }

    async fn read(&self, context: &mut Context<'_>) -> Result<Read, Fault> {
        let Some(object) = resources::read(context, self.resource()).await? else {
            return Ok(Read::NotThere);
        };
        if !self.0.owns(&object) {
            return Ok(Read::NotOurs);
        }
        let own = Own::of(&object, self.0.about().finalizer);
        let concerned = self.0.concerns(&object.metadata) && !own.leaving;
        Ok(if own.guarded || concerned {
            Read::Is(Box::new(object))
        } else {
            Read::NotOurs
        })
    }

    /// One look, and the plan that it leads to.
    async fn think(
        &self,
        context: &mut Context<'_>,
        object: &DynamicObject,
    ) -> Result<(Option<P::Seen>, Plan), Fault> {
        let (world, key) = (context.world, context.key);
        if names::is_suspended(&object.metadata) {
            return Ok((None, Plan::rest(Because::Suspended, Value::Null)));
        }
        let mut reader = Reader::reaching(world, &key.namespace, self.reaches());
        let seen = self.0.look(object, &mut reader).await;
        let awaited = reader.finish_into(context.horizon)?;
        world.inputs.depends_on(key, &context.horizon.inputs);
        for missed in world.waiting.set(key, &awaited) {
            world.queue.sighted(key, missed);
        }
        let seen = seen?;
        let plan = self.0.plan(&seen, world.now());
        Ok((Some(seen), plan))
    }

    /// *Guarantees:* one event for one piece of news. *If it dies here:* a warning was given and the effect follows the next
    /// time; other news may go untold. *Safe to repeat because* the event's name is made from the news.
    async fn announce(
        &self,
        context: &Context<'_>,
        object: &DynamicObject,
        news: &News,
    ) -> Result<(), Fault> {
        let note = Note {
            warning: news.warning,
            reason: news.because.code().to_owned(),
            action: "Project",
            text: news.text.clone(),
            once: Some(news.once.clone()),
        };
        match events::write_or_fail(context.world, object, &note).await {
            Ok(()) => {}
            // Whoever cannot be warned is told by the conditions.
            Err(fault) if !news.warning || matches!(fault, Fault::Refused { .. }) => {
                tracing::warn!(reason = note.reason, trouble = %fault, "event not written");
            }
            Err(fault) => return Err(fault),
        }
        let telemetry = &context.world.telemetry;
        telemetry.news(self.name(), news.because.code());
        Ok(())
    }

    async fn tell(
        &self,
        context: &mut Context<'_>,
        object: &DynamicObject,
        told: &Told,
        status: Value,
    ) -> Result<(), Fault> {
        let about = self.0.about();
        match about.tells {
            Tells::Status => {
                let what = (about.condition, about.owned);
                telling::tell(context, object, what, told, status).await
            }
            Tells::Annotation(annotation) => {
                telling::annotate(context, object, annotation, told, status).await
            }
        }
    }
}

#[async_trait]
impl<P: Projection> Controller for Projecting<P> {
    fn name(&self) -> &'static str {
        self.0.about().name
    }

    fn resource(&self) -> &ApiResource {
        &self.0.about().resource
    }

    fn concerns(&self, metadata: &ObjectMeta) -> bool {
        self.0.concerns(metadata)
    }

    fn neighbours(&self) -> Vec<ApiResource> {
        self.0.about().neighbours.clone()
    }

    fn cluster_neighbours(&self) -> Vec<ApiResource> {
        self.0.about().cluster_neighbours.clone()
    }

    fn figures(&self) -> &'static [(&'static str, &'static str)] {
        self.0.about().figures
    }

    fn reaches(&self) -> &[String] {
        &self.0.about().reaches
    }

    fn rights(&self) -> Vec<Right> {
        self.0.about().all_rights()
    }

    async fn explain(&self, context: &mut Context<'_>) -> Result<Option<Thought>, Fault> {
        let Read::Is(object) = self.read(context).await? else {
            return Ok(None);
        };
        let (seen, plan) = self.think(context, &object).await?;
        Ok(Some(Thought {
            seen: json!(seen),
            next: plan.next.map(|effect| json!(effect)),
            because: plan.because,
            waits: plan.waits,
        }))
    }

    async fn pass(&self, context: &mut Context<'_>) -> Result<Outcome, Fault> {
        let (world, key) = (context.world, context.key);
        let mut outrun = 0;
        for _ in 0..MOST_EFFECTS {
            let object = match self.read(context).await? {
                Read::Is(object) => object,
                Read::NotOurs => {
                    world.forget(key);
                    world.waiting.set(key, &[]);
                    return Ok(Outcome::Done);
                }
                Read::NotThere => {
                    world.waiting.set(key, &[]);
                    return Ok(resources::not_there(context));
                }
            };
            let (_, plan) = match self.think(context, &object).await {
                Err(fault @ Fault::Refused { .. }) => {
                    let refused = Told::refused(&fault);
                    let status = self.0.status_when_refused(&object, &refused, world.now());
                    self.tell(context, &object, &refused, status).await?;
                    return Err(fault);
                }
                thought => thought?,
            };
            let figures = &world.telemetry.figures;
            let Some(effect) = &plan.next else {
                figures.are(key, &plan.figures);
                let told = plan.told();
                self.tell(context, &object, &told, plan.status.clone())
                    .await?;
                return Ok(Outcome::Rest {
                    wake: wake(&plan, world.now()),
                });
            };
            let news = plan.news.as_ref();
            let warning = news.filter(|news| news.warning);
            if let Some(news) = warning {
                self.announce(context, &object, news).await?;
            }
            let hands = Hands {
                context,
                controller: self,
                object: &object,
                finalizer: self.0.about().finalizer,
            };
            let begun = Instant::now();
            let done = perform(&hands, effect).await;
            world.telemetry.step(
                self.name(),
                effect.name(),
                done.as_ref().err(),
                begun.elapsed(),
            );
            match done {
                Ok(()) => {
                    tracing::info!(step = effect.name(), reason = plan.because.code(), "done");
                    if let Some(news) = news.filter(|news| !news.warning) {
                        self.announce(context, &object, news).await?;
                    }
                }
                Err(Fault::Outrun(_)) => {
                    outrun += 1;
                    if outrun > MOST_OUTRUN {
                        return Ok(Outcome::Again);
                    }
                }
                Err(fault @ Fault::Refused { .. }) => {
                    let refused = Told::refused(&fault);
                    self.tell(context, &object, &refused, plan.status.clone())
                        .await?;
                    return Err(fault);
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(Outcome::Again)
    }
}

fn wake(plan: &Plan, now: Timestamp) -> Option<Timestamp> {
    let soon = (!plan.is_calm()).then(|| now.checked_add(LOOK_AGAIN).ok());
    let times = plan.waits.iter().filter_map(|wait| wait.until);
    times.chain(soon.flatten()).min()
}
