//! The life of a credential as a controller: passes over resources, and over what outlives them.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::Next;
use serde_json::json;

use super::explain::explain;
use super::observe::Memory;
use super::pass::{Ending, pass};
use super::{Kind, remains};
use crate::engine::controller::{Context, Controller, Key, Outcome, Thought};
use crate::engine::horizon::OwnersNamed;
use crate::engine::rights::Right;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// When the remains of a departed resource are looked for, after its end.
const LOOKS_AFTER_ITS_END: [SignedDuration; 2] =
    [SignedDuration::from_mins(1), SignedDuration::from_mins(10)];

/// One Secret at a time: nothing is deleted by a selector.
const ALL_BUT_BULK: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete",
];

/// One kind of credential, with versions.
#[derive(Debug)]
pub struct Rotation {
    kind: Arc<dyn Kind>,
    memories: Memories,
}

impl Rotation {
    pub fn of(kind: Arc<dyn Kind>) -> Arc<dyn Controller> {
        Arc::new(Self {
            kind,
            memories: Memories::default(),
        })
    }

    /// What becomes of what is known of a resource after its pass.
    async fn settle(
        &self,
        world: &World,
        key: &Key,
        memory: &mut Memory,
        ending: Ending,
    ) -> Result<Outcome, Fault> {
        let outcome = match ending {
            Ending::Rest { wake: None } if key.departed.is_some() => {
                after_its_end(world, key, memory)
            }
            Ending::Rest { wake } => Outcome::Rest { wake },
            Ending::Again => Outcome::Again,
            Ending::Departed { uid } => {
                forget(world, key);
                let remains = Memory {
                    last: memory.last.clone(),
                    ..Memory::default()
                };
                let first = later(world.now(), LOOKS_AFTER_ITS_END[0]);
                self.remember(world, departed(key, uid), remains, first);
                Outcome::Rest { wake: None }
            }
            Ending::Gone => {
                if key.departed.is_none() {
                    forget(world, key);
                    let seen: Vec<String> =
                        memory.uid.iter().chain(&memory.replaced).cloned().collect();
                    self.look_for_remains(world, key, None, &seen).await?;
                }
                Outcome::Done
            }
        };
        Ok(outcome)
    }

    /// Looks for what resources of this name left that are not there, and puts it in line. `seen`: those of them that
    /// this process saw itself. Of others it has only the word of a Secret.
    async fn look_for_remains(
        &self,
        world: &World,
        key: &Key,
        lives: Option<&DynamicObject>,
        seen: &[String],
    ) -> Result<(), Fault> {
        for (uid, object) in remains::look(world, self.kind.as_ref(), key, lives).await? {
            let memory = Memory {
                last: Some(object),
                hearsay: !seen.contains(&uid),
                ..Memory::default()
            };
            self.remember(world, departed(key, uid), memory, world.now());
        }
        Ok(())
    }

    /// As [`Self::look_for_remains`], of whoever had the name before the one that has it now: by force one can be removed
    /// and made again before anybody looks.
    async fn look_for_former_lives(
        &self,
        world: &World,
        key: &Key,
        named: &OwnersNamed,
        memory: &mut Memory,
    ) -> Result<(), Fault> {
        let lives = memory.last.as_ref();
        let Some((lives, uid)) = lives.and_then(|lives| Some((lives, lives.uid()?))) else {
            return Ok(());
        };
        if memory.replaced.is_empty() && !named.is_another_than(&uid) {
            return Ok(());
        }
        self.look_for_remains(world, key, Some(lives), &memory.replaced)
            .await?;
        memory.replaced.clear();
        Ok(())
    }

    fn remember(&self, world: &World, departed: Key, memory: Memory, at: Timestamp) {
        self.memories.keep_if_new(&departed, memory);
        world.queue.remember(departed, at);
    }
}

fn departed(key: &Key, uid: String) -> Key {
    Key {
        departed: Some(uid),
        ..key.clone()
    }
}

fn later(now: Timestamp, span: SignedDuration) -> Timestamp {
    now.checked_add(span).unwrap_or(now)
}

/// The next look for what a departed resource left, or the last one is over.
fn after_its_end(world: &World, key: &Key, memory: &mut Memory) -> Outcome {
    let Some(span) = LOOKS_AFTER_ITS_END.get(memory.looks_after_its_end) else {
        world.inputs.forget(key);
        return Outcome::Done;
    };
    memory.looks_after_its_end += 1;
    Outcome::Rest {
        wake: Some(later(world.now(), *span)),
    }
}

/// What counts or wakes a resource that no longer exists.
fn forget(world: &World, key: &Key) {
    world.telemetry.rotations.forget(key);
    world.forget(key);
}

#[async_trait]
impl Controller for Rotation {
    fn name(&self) -> &'static str {
        self.kind.controller()
    }

    fn resource(&self) -> &ApiResource {
        self.kind.resource()
    }

    fn neighbours(&self) -> Vec<ApiResource> {
        self.kind.about().neighbours.clone()
    }

    fn rights(&self) -> Vec<Right> {
        let about = self.kind.about();
        let own = Right::to_work_on(&about.resource).into_iter();
        let read = about.neighbours.iter().map(Right::to_read);
        let read = read.map(|right| right.because("What says where the issuer is."));
        own.chain(read)
            .chain(about.rights.iter().cloned())
            .chain([
                Right::named(ALL_BUT_BULK, "", "secrets"),
                Right::named(&["list"], "", "pods")
                    .because("A pod that refers to an old version keeps it alive."),
                Right::to_tell(),
            ])
            .collect()
    }

    async fn pass(&self, context: &mut Context<'_>) -> Result<Outcome, Fault> {
        let (world, key) = (context.world, context.key);
        let mut memory = self.memories.borrow(key);
        let ended = pass(context, &self.kind, &mut memory).await;
        if !world.leads() {
            // Whoever leads by now counts it.
            world.telemetry.rotations.forget(key);
        }
        if key.departed.is_none() {
            self.look_for_former_lives(world, key, context.named, &mut memory)
                .await?;
        }
        self.settle(world, key, &mut memory, ended?).await
    }

    async fn explain(&self, context: &mut Context<'_>) -> Result<Option<Thought>, Fault> {
        let explained = explain(context, &self.kind, false).await?;
        Ok(explained.map(|explained| {
            let decision = explained.decision;
            let next = match decision.next {
                Next::Rest { .. } => None,
                next @ (Next::Ask(_) | Next::Do(_)) => Some(json!(next)),
            };
            Thought {
                seen: json!(explained.facts),
                next,
                because: decision.because,
                waits: decision.waits,
            }
        }))
    }

    fn must_finish(&self, key: &Key) -> bool {
        let memories = self.memories.lock();
        let memory = memories.get(key);
        memory.is_some_and(|memory| memory.in_hand.is_some())
    }

    fn stops_leading(&self, world: &World) {
        world.telemetry.rotations.forget_all();
    }

    fn forget(&self, key: &Key) {
        self.memories.lock().remove(key);
    }
}

/// What is known of each resource from one pass to the next.
#[derive(Debug, Default)]
struct Memories(Mutex<HashMap<Key, Memory>>);

impl Memories {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Taken out for a pass, and put back however that ends.
    fn borrow<'a>(&'a self, key: &'a Key) -> Borrowed<'a> {
        let memory = self.lock().remove(key).unwrap_or_default();
        Borrowed {
            memories: self,
            key,
            memory,
        }
    }

    fn keep_if_new(&self, key: &Key, memory: Memory) {
        self.lock().entry(key.clone()).or_insert(memory);
    }
}

struct Borrowed<'a> {
    memories: &'a Memories,
    key: &'a Key,
    memory: Memory,
}

impl Deref for Borrowed<'_> {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl DerefMut for Borrowed<'_> {
    fn deref_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.memory);
        if self.key.departed.is_none() {
            // Only what outlives its resource has to remember it. Kept for everyone, this would be most of our memory.
            memory.last = None;
        }
        self.memories.lock().insert(self.key.clone(), memory);
    }
}
