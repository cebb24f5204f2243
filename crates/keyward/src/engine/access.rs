//! How an issuer is reached: what is read for that, and the source that is opened with it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::Refusal;
use sources::Source;

use super::inputs::Inputs;
use super::logins::{Opened, Slot};
use super::reader::Reader;
use super::trouble::Fault;
use super::world::World;
use super::{Key, this_pass};

/// Where the issuer of a resource is, and how one logs in there.
#[async_trait]
pub trait Access: Send + Sync + fmt::Debug {
    /// Everything of the spec that [`Access::open`] looks at: resources with the same text share a source.
    fn place(&self, object: &DynamicObject) -> String;

    /// [`Access::place`] as a spec: what is written down when something is asked for, so that it is found there later,
    /// wherever the spec points by then.
    fn place_as_spec(&self, object: &DynamicObject) -> Option<serde_json::Value> {
        object.data.get("spec").cloned()
    }

    /// Reads what the issuer is reached with, and opens a source. No request to the issuer is made here.
    async fn open(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Arc<dyn Source>, Closed>;

    /// For a resource that is leaving while its login is gone: a source for what credentials can do by themselves.
    fn without_login(&self, _object: &DynamicObject) -> Option<Arc<dyn Source>> {
        None
    }

    /// For ending something where [`Access::open`] is refused: a source that is good for that, and perhaps for nothing
    /// else.
    async fn open_to_end(
        &self,
        _object: &DynamicObject,
        _reader: &mut Reader<'_>,
    ) -> Result<Option<Arc<dyn Source>>, Fault> {
        Ok(None)
    }
}

/// Why no source could be opened.
#[derive(Debug)]
pub enum Closed {
    /// Something is missing or wrong that a person, or time, can fix.
    Refused(Refusal),
    Fault(Fault),
}

impl From<Fault> for Closed {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Refusal> for Closed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl World {
    /// A source that was opened not long ago.
    fn reached(&self, slot: &Slot, user: &Key) -> Option<Reached> {
        let opened = self
            .logins
            .cached(slot, &self.inputs, self.clock.instant())?;
        self.inputs.used_by(&opened.inputs, user);
        Some(Reached {
            source: Ok(opened.source),
            text: opened.text,
            inputs: opened.inputs,
        })
    }

    /// The source for a resource, and what it was opened with. Something missing is a refusal, not a fault.
    ///
    /// Where the namespace or the issuer has its share under way, the pass ends here, before it has done anything, and is
    /// put in line.
    pub(crate) async fn source(
        &self,
        access: &dyn Access,
        controller: usize,
        object: &DynamicObject,
        fresh: bool,
    ) -> Result<Reached, Fault> {
        let mut reached = self.reach(access, controller, object, fresh).await?;
        if let Ok(source) = &reached.source {
            let place = source.place();
            this_pass::comes_to(place, |key, must| self.queue.comes_to(key, place, must)).await;
        }
        if object.metadata.deletion_timestamp.is_some()
            && let Ok(source) = &reached.source
            && let Some(source) = source.for_one_who_leaves()
        {
            reached.source = Ok(source);
        }
        Ok(reached)
    }

    async fn reach(
        &self,
        access: &dyn Access,
        controller: usize,
        object: &DynamicObject,
        fresh: bool,
    ) -> Result<Reached, Fault> {
        let namespace = object.namespace().unwrap_or_default();
        let user = Key {
            controller,
            namespace: namespace.clone(),
            name: object.name_any(),
            departed: None,
        };
        let slot = Slot {
            controller,
            namespace,
            place: access.place(object),
        };
        if !fresh && let Some(reached) = self.reached(&slot, &user) {
            return Ok(reached);
        }
        let one_at_a_time = self.logins.opening(&slot);
        // Whoever finds somebody opening it waits for the outcome. If there is none to share, all go on in parallel.
        let opening = one_at_a_time.try_lock();
        if opening.is_err() {
            drop(one_at_a_time.lock().await);
            if !fresh && let Some(reached) = self.reached(&slot, &user) {
                return Ok(reached);
            }
        }
        let mut reader = Reader::new(self, &slot.namespace);
        let opened = access.open(object, &mut reader).await;
        let (inputs, text) = reader.finish();
        self.inputs.used_by(&inputs, &user);
        let leaving = object.metadata.deletion_timestamp.is_some();
        let source = match opened {
            Ok(source) => {
                // Whoever is leaving is content with less than others are.
                if !leaving {
                    let opened = Opened {
                        source: source.clone(),
                        text: text.clone(),
                        inputs: inputs.clone(),
                        at: self.clock.instant(),
                        stale: false,
                    };
                    self.logins.keep(slot, opened);
                }
                Ok(source)
            }
            Err(Closed::Refused(refusal)) if leaving => {
                match self.logins.last(&slot, self.clock.instant()) {
                    Some(opened) => Ok(opened.source),
                    None => access.without_login(object).ok_or(refusal),
                }
            }
            Err(Closed::Refused(refusal)) => Err(refusal),
            Err(Closed::Fault(fault)) => return Err(fault),
        };
        Ok(Reached {
            source,
            text,
            inputs,
        })
    }
}

/// The way to an issuer, or why there is none.
pub(crate) struct Reached {
    pub(crate) source: Result<Arc<dyn Source>, Refusal>,
    /// Changes whenever something does that a new try depends on.
    pub(crate) text: String,
    pub(crate) inputs: Inputs,
}
