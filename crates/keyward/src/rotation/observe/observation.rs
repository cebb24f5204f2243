//! What a pass knows: what it saw, what it was told, and what this process remembers.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{
    Answers, Bearer, Because, Former, IssuedId, LedgerState, Lookalike, Mark, Owner, Process,
    Refusal, SecretUid, Version,
};
use sources::{Source, Values};

use crate::engine::Key;
use crate::engine::horizon::Horizon;
use crate::engine::inputs::Inputs;
use crate::engine::waiting::Awaited;
use crate::engine::world::World;
use crate::rotation::failures::FailuresInARow;
use crate::rotation::recorded::{Damaged, Own};
use crate::rotation::{Kind, Reading, secrets};

/// How many Secrets that are gone are remembered: their late events must not wake anybody.
const MOST_GONE: usize = 16;

/// What one pass has seen and learned so far. Everything in it may be lost at any moment.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that was or was not seen"
)]
pub struct Observation {
    pub kind: Arc<dyn Kind>,
    /// As last read, or as last known when it is gone.
    pub object: DynamicObject,
    /// What its spec says, read once for each look.
    pub(super) reading: OnceLock<Reading>,
    /// What its annotation says, read once for each look.
    pub(super) ledger: OnceLock<LedgerState>,
    pub gone: bool,
    pub secrets: Vec<Secret>,
    /// Secrets of a predecessor that have no record yet, if they were looked for since the ledger was written last.
    pub left_by_predecessor: Option<Vec<Secret>>,
    pub damaged: Vec<Damaged>,
    /// See [`recorded::Own`].
    pub disputed: Vec<SecretUid>,
    pub lookalikes: Vec<Lookalike>,
    pub anothers: Vec<String>,
    pub listed: bool,
    pub crowded: Option<usize>,
    /// Of one that is gone: only a Secret says that it ever was.
    pub hearsay: bool,
    /// Something may be there that the ledger does not know: the next look lists.
    pub doubt: bool,
    /// What was listed under the mark of a former life.
    pub marks: Vec<(IssuedId, Mark)>,
    /// The life that this resource had before it was restored, if nobody living has that uid.
    pub former: Option<Former>,
    /// What the ledger on this resource must say of whom it is about.
    pub bearer: Bearer,
    /// The value that was chosen for the attempt that this pass began, until it is stored.
    pub chosen: Option<(Version, Values)>,
    /// The newest that was seen of each object: no look may show anything older.
    pub horizon: Horizon,
    pub source: Result<Arc<dyn Source>, Refusal>,
    /// Changes whenever something does that the issuer is reached with.
    pub login: String,
    pub inputs: Inputs,
    /// Of the kind, among those that are switched on.
    pub index: usize,
    /// What the issuer answered in this pass. How far its clock was behind ours counts for this pass only: ours may have
    /// jumped since an earlier one.
    pub answers: Answers,
    /// What this process knows, except the value in hand, which is below.
    pub process: Process,
    /// What was listed elsewhere than where the spec points now, with the source that listed it.
    pub elsewhere: Vec<(IssuedId, Arc<dyn Source>)>,
    /// What shows that those who refer to an old version have moved on.
    pub awaited: Vec<Awaited>,
    pub in_hand: Option<Fresh>,
    pub failures: FailuresInARow,
    /// The issuer was compared with the ledger in this pass.
    pub compared: bool,
    /// Something stands in the way of the spec that only the cluster could tell.
    pub obstacle: Option<Refusal>,
    /// See [`Memory::told`].
    pub told: Option<Because>,
    /// The spec is another than at the beginning: what was opened, and what stood in the way, was for the one before.
    pub edited: bool,
}

/// A credential that only this process knows, or that was read back: id, values, expiry.
#[derive(Debug, Clone)]
pub struct Fresh {
    pub version: Version,
    pub id: IssuedId,
    pub values: Values,
    pub expires: Option<Timestamp>,
    /// It came in the reply to our own mint.
    pub minted_here: bool,
    /// A write of it was sent whose answer never came: it may still land.
    pub maybe_stored: bool,
}

impl std::fmt::Debug for Observation {
    /// Secrets are counted, never shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observation")
            .field("resource", &self.object.name_any())
            .field("secrets", &self.secrets.len())
            .finish_non_exhaustive()
    }
}

/// What is carried from one pass to the next. Losing it costs a look at the issuer, nothing else; but a value that was
/// shown only once is kept here until it is stored.
#[derive(Debug, Default)]
pub struct Memory {
    pub checked: Option<Timestamp>,
    pub mended: Option<Timestamp>,
    pub in_hand: Option<Fresh>,
    /// The resource as last seen, for what outlives it. Between passes only what is departed keeps it.
    pub last: Option<DynamicObject>,
    /// Failures in a row that could not be written down.
    pub failures: FailuresInARow,
    /// Which ledger the last pass left.
    pub ledger: Option<u64>,
    /// Whom all this is about.
    pub uid: Option<String>,
    /// Which resource had this name before, as this process saw, and has not been cleaned up after yet.
    pub replaced: Vec<String>,
    /// The last pass left Secrets that no ledger speaks of: they are not found by name.
    pub unrecorded: bool,
    /// How often the remains of a departed resource were looked for.
    pub looks_after_its_end: usize,
    /// Of a departed resource: this process never saw it, a Secret tells of it.
    pub hearsay: bool,
    /// Of a departed resource: what people were told that its remains wait for.
    pub told: Option<Because>,
}

impl Memory {
    /// Nothing that is known of one resource is so of another that was made under its name.
    pub(super) fn is_about(&mut self, uid: Option<String>) {
        let before = self.uid.take_if(|known| Some(&*known) != uid.as_ref());
        if let Some(before) = before {
            let mut replaced = std::mem::take(&mut self.replaced);
            replaced.push(before);
            *self = Self {
                replaced,
                ..Self::default()
            };
        }
        self.uid = uid;
    }
}

impl Observation {
    pub fn uid(&self) -> String {
        self.object.uid().unwrap_or_default()
    }

    pub fn namespace(&self) -> String {
        self.object.namespace().unwrap_or_default()
    }

    pub fn owner(&self, world: &World) -> Owner {
        Owner::new(world.cluster.clone(), &self.uid())
    }

    /// The resource, as its controller knows it.
    pub fn key(&self) -> Key {
        Key {
            controller: self.index,
            namespace: self.namespace(),
            name: self.object.name_any(),
            departed: None,
        }
    }

    /// Moves the horizon up to what is known now.
    pub fn note_what_was_seen(&mut self) {
        if !self.gone {
            self.horizon.resource = self.object.resource_version();
        }
        let forget = self.horizon.gone.len().saturating_sub(MOST_GONE);
        self.horizon.gone.drain(..forget);
        let seen = self
            .secrets
            .iter()
            .filter_map(|secret| Some((secret.uid()?, secret.resource_version()?)));
        self.horizon.secrets = seen.collect();
        self.horizon.inputs = if self.awaited.is_empty() {
            self.inputs.clone()
        } else {
            let awaited = self.awaited.iter();
            let awaited = awaited.map(|one| (one.input.clone(), one.version.clone()));
            self.inputs.iter().cloned().chain(awaited).collect()
        };
    }

    /// Notes what is waited for. What was read first stays: a later look of the same pass answered another question.
    pub fn await_change(&mut self, awaited: Vec<Awaited>) {
        for one in awaited {
            if !self.awaited.iter().any(|known| known.input == one.input) {
                self.awaited.push(one);
            }
        }
    }

    /// Replaces or adds a Secret by what a reply showed.
    pub fn saw_secret(&mut self, secret: Secret) {
        let uid = secret.uid();
        match self.secrets.iter_mut().find(|known| known.uid() == uid) {
            Some(known) if self.damaged.iter().any(|damaged| damaged.is(&secret)) => {
                *known = secrets::with_the_record_of(known, secret);
            }
            Some(known) => *known = secret,
            None => self.secrets.push(secret),
        }
        self.read_ledger_anew();
    }

    /// Adds a Secret that an earlier list lacks. What is known already is known better by what came of it since.
    pub fn saw_secret_for_the_first_time(&mut self, secret: Secret) {
        let uid = secret.uid().unwrap_or_default();
        let known = |known: &Secret| known.uid().as_deref() == Some(uid.as_str());
        if !self.horizon.gone.contains(&uid) && !self.secrets.iter().any(known) {
            self.secrets.push(secret);
            self.read_ledger_anew();
        }
    }

    pub fn lost_secret(&mut self, uid: &str) {
        self.secrets
            .retain(|secret| secret.uid().as_deref() != Some(uid));
        self.horizon.gone.push(uid.to_owned());
        self.read_ledger_anew();
    }

    /// Nothing learned about an earlier state counts any more; what the issuer showed of our own mint does.
    pub fn forget_answers(&mut self) {
        let before = std::mem::take(&mut self.answers);
        self.answers = Answers {
            behind: before.behind,
            unproved: before.unproved,
            ..Answers::default()
        };
        self.elsewhere.clear();
        self.chosen = None;
        self.process.mine = None;
        self.process.revoked.clear();
        self.process.failed = None;
    }

    /// The reply of a write is a live read of the resource, but not of its Secrets: it does not make a listing that was
    /// made before it fit to judge by.
    pub fn saw_object(&mut self, object: DynamicObject) {
        self.object = object;
        self.reading = OnceLock::new();
        self.read_ledger_anew();
    }

    /// What the spec says, as of this look.
    pub fn reading(&self) -> &Reading {
        self.reading.get_or_init(|| self.kind.read(&self.object))
    }

    /// Whether there are Secrets of this resource that no entry speaks of, such as a draft that could not be deleted.
    pub fn has_unrecorded(&self) -> bool {
        let ledger = self.ledger().is();
        let recorded = |secret: &Secret| {
            let mut entries = ledger.into_iter().flat_map(lifecycle::Ledger::entries);
            entries.any(|entry| entry.secret.as_str() == secret.name_any())
        };
        !self.gone && !self.secrets.iter().all(recorded)
    }

    /// The ledger on the resource, as of this look.
    pub fn ledger(&self) -> &LedgerState {
        self.ledger
            .get_or_init(|| crate::rotation::facts::read_ledger(self))
    }

    /// Something has changed that it is read from, or read by.
    fn read_ledger_anew(&mut self) {
        self.ledger = OnceLock::new();
    }
}

impl Observation {
    pub(in crate::rotation) fn saw_own(&mut self, own: Own) {
        let Own {
            secrets,
            damaged,
            disputed,
            lookalikes,
            anothers,
            listed,
            crowded,
        } = own;
        (self.secrets, self.damaged, self.disputed) = (secrets, damaged, disputed);
        (self.lookalikes, self.anothers, self.listed) = (lookalikes, anothers, listed);
        self.crowded = crowded;
        self.read_ledger_anew();
    }

    /// The same, to be added to.
    pub(in crate::rotation) fn own(&mut self) -> Own {
        Own {
            secrets: std::mem::take(&mut self.secrets),
            damaged: std::mem::take(&mut self.damaged),
            disputed: std::mem::take(&mut self.disputed),
            lookalikes: std::mem::take(&mut self.lookalikes),
            anothers: std::mem::take(&mut self.anothers),
            listed: self.listed,
            crowded: self.crowded,
        }
    }
}
