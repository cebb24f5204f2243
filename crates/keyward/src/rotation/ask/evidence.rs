//! What the observation holds of a version: where it was minted, its Secret, its id and its values.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use lifecycle::{Issued, IssuedId, Minting, Role, Version};
use sources::Values;

use crate::engine::reader;
use crate::rotation::observe::Observation;
use crate::rotation::secrets;

impl Observation {
    /// Whether what one logs in with is for the issuer that this spec points to. A credential that replaces itself is
    /// its own login, and of one issuer.
    pub(super) fn logs_in_at(&self, object: &DynamicObject) -> bool {
        match self.reading().issuer.minting {
            Minting::SelfRotating => {}
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => {
                return true;
            }
        }
        let stored = crate::rotation::observe::stored(self.kind.as_ref(), &self.secrets);
        let target = stored.iter().find(|stored| stored.role == Role::Target);
        let home = target
            .filter(|target| self.holds_as_minted(target.version))
            .and_then(|target| self.as_minted(target.version));
        let access = self.kind.access();
        access.place(home.as_ref().unwrap_or(&self.object)) == access.place(object)
    }

    /// The resource with the spec that a version was minted with, as the ledger or its Secret records it.
    pub fn as_minted(&self, version: Version) -> Option<DynamicObject> {
        let ledger = self.ledger().is();
        let recorded = ledger.and_then(|ledger| ledger.source_of(version));
        if let Some(spec) = recorded.and_then(|source| serde_json::from_str(source).ok()) {
            return Some(self.with_spec(spec));
        }
        let made = self.secret_of(version).or_else(|| {
            self.secrets
                .iter()
                .find(|one| self.says(one, version, Role::Draft))
        })?;
        let mut object = self.object.clone();
        secrets::made_of(&made.metadata)?.restore(self.kind.as_ref(), &mut object);
        Some(object)
    }

    /// What a Secret says of itself: this version, in this role.
    fn says(&self, secret: &Secret, version: Version, role: Role) -> bool {
        secrets::read(self.kind.as_ref(), secret)
            .is_some_and(|stored| stored.version == version && stored.role == role)
    }

    /// The Secret that holds a version, by the same evidence as in the rules: the one that the ledger records, or the one
    /// whose credential the issuer has under that version's mark; before that was asked, the oldest that says so.
    pub fn secret_of(&self, version: Version) -> Option<&Secret> {
        let ledger = self.ledger().is();
        let read = |secret: &Secret| {
            let stored = crate::rotation::facts::as_recorded(self, ledger, secret)?;
            (stored.version == version && stored.role != Role::Draft).then_some(stored)
        };
        if let Some(entry) = ledger.and_then(|ledger| ledger.entry(version)) {
            let is_it = |secret: &&Secret| read(secret).is_some_and(|one| entry.is_kept_in(&one));
            return self.secrets.iter().find(is_it);
        }
        let marked = |secret: &&Secret| {
            let Some(stored) = read(secret) else {
                return false;
            };
            let mut listing = self.answers.issued.is().into_iter().flatten();
            listing.any(|issued| {
                let same = issued.marked && issued.version == version;
                same && Some(&issued.id) == stored.id.as_ref()
            })
        };
        // Where the issuer was asked and has no such thing, a Secret's own word is not enough.
        let lists = self.reading().issuer.lists && self.answers.issued.is().is_some();
        let believed = |secret: &&Secret| {
            read(secret).is_some_and(|stored| {
                let ours = stored.role == Role::Target || self.process.stored.contains(&stored.uid);
                ours || self.gone || !lists
            })
        };
        let mut all = self.secrets.iter();
        let found = all.clone().find(marked);
        found.or_else(|| all.find(believed))
    }

    fn with_spec(&self, spec: serde_json::Value) -> DynamicObject {
        let mut object = self.object.clone();
        object.data["spec"] = spec;
        object
    }

    /// Other places where something of this resource's may live: where it was minted, and where a mint may have gone
    /// astray. One spec for each.
    pub(super) fn other_places(&self) -> Vec<DynamicObject> {
        let mut known = vec![self.kind.access().place(&self.object)];
        let mut others = Vec::new();
        for (place, object) in self.recorded_places() {
            if !known.contains(&place) {
                known.push(place);
                others.push(object);
            }
        }
        others
    }

    /// Wherever something was made, or may have been, by what is recorded.
    fn recorded_places(&self) -> Vec<(String, DynamicObject)> {
        let mut sources: Vec<Arc<str>> = Vec::new();
        if let Some(ledger) = self.ledger().is() {
            let (intent, current) = (ledger.intent.as_ref(), ledger.current.as_ref());
            sources.extend(intent.and_then(|intent| intent.source.clone()));
            sources.extend(current.and_then(|current| current.source.clone()));
            sources.extend(ledger.astray.iter().cloned());
        }
        let stored = crate::rotation::observe::stored(self.kind.as_ref(), &self.secrets);
        sources.extend(stored.into_iter().filter_map(|stored| stored.source));
        let read = |source: Arc<str>| {
            let object = self.with_spec(serde_json::from_str(&source).ok()?);
            Some((self.kind.access().place(&object), object))
        };
        sources.into_iter().filter_map(read).collect()
    }

    /// Whether a resource that leaves never had anything where its spec points now: then nothing can be left there, and
    /// that nobody may look there is no reason to stay.
    pub(super) fn made_all_elsewhere(&self) -> bool {
        let leaving = self.kind.is_leaving(&self.object);
        let here = self.kind.access().place(&self.object);
        let places = self.recorded_places();
        leaving && !places.is_empty() && places.iter().all(|(place, _)| *place != here)
    }
}

impl Observation {
    /// The value that is stored under this version is the one that was minted: it is tried where it was minted, and
    /// shown to nobody else. One that a person brought is for where the spec points now.
    pub fn holds_as_minted(&self, version: Version) -> bool {
        if version == Version::default() {
            return false;
        }
        let fresh = self.in_hand.as_ref();
        if fresh.is_some_and(|fresh| fresh.version == version && fresh.minted_here) {
            return true;
        }
        // Once the Secret is reserved, only the ledger tells that the value in it is another than the one we wrote.
        let intent = self.ledger().is().and_then(|ledger| ledger.intent.as_ref());
        let brought = intent.is_some_and(|intent| intent.brought);
        let stored = crate::rotation::observe::stored(self.kind.as_ref(), &self.secrets);
        stored.iter().any(|stored| {
            let replaced = brought && stored.role == Role::Target;
            stored.version == version && stored.id.is_some() && stored.intact && !replaced
        })
    }

    /// Id and values of a Secret that no record of ours explains, and whose credential bears nobody's mark.
    pub(super) fn unmarked(&self, version: Version) -> Option<(IssuedId, Values)> {
        let ledger = self.ledger().is();
        if ledger.is_some_and(|ledger| ledger.entry(version).is_some()) {
            return None;
        }
        let listing = self.answers.issued.is()?;
        self.secrets.iter().find_map(|secret| {
            let stored = secrets::read(self.kind.as_ref(), secret)?;
            let id = stored.id.filter(|_| stored.version == version)?;
            let bears_none = |one: &Issued| one.id == id && !one.marked;
            let found = listing.iter().any(bears_none);
            found.then(|| (id, reader::values(secret)))
        })
    }

    /// The draft of the open attempt, with the value that was chosen for it.
    pub fn draft_of(&self, version: Version) -> Option<&Secret> {
        let ledger = self.ledger().is();
        let intent = ledger.and_then(|ledger| ledger.intent.as_ref());
        let chosen = intent
            .filter(|intent| intent.version == version)?
            .chosen
            .clone();
        self.secrets.iter().find(|secret| {
            let ours = |chosen| secrets::commitment_of(secret) == chosen;
            self.says(secret, version, Role::Draft) && chosen.clone().is_none_or(ours)
        })
    }

    /// What stands in the one Secret of in-place delivery now.
    pub fn target_values(&self) -> Option<Values> {
        let target = self.reading().target()?;
        let secret = self
            .secrets
            .iter()
            .find(|secret| secret.metadata.name.as_deref() == Some(target.as_str()))?;
        Some(reader::values(secret))
    }
}

impl Observation {
    /// The values of one credential, if they are still at hand exactly as they were minted: what a person put in their
    /// place says nothing about it, and must not be ended in its stead.
    pub fn values_of(&self, version: Version, id: &lifecycle::IssuedId) -> Option<Values> {
        let fresh = self.in_hand.as_ref();
        if let Some(fresh) = fresh.filter(|fresh| fresh.version == version && fresh.id == *id) {
            return Some(fresh.values.clone());
        }
        let whole = |secret: &&Secret| {
            secrets::read(self.kind.as_ref(), secret)
                .is_some_and(|stored| stored.id.as_ref() == Some(id) && stored.intact)
        };
        self.secret_of(version).filter(whole).map(reader::values)
    }

    /// The id of a version by the ledger, or by its Secret when the ledger is gone.
    pub fn recorded_id(&self, version: Version) -> Option<lifecycle::IssuedId> {
        let ledger = self.ledger().is();
        if let Some(entry) = ledger.and_then(|ledger| ledger.entry(version)) {
            return Some(entry.id.clone());
        }
        let stored = crate::rotation::observe::stored(self.kind.as_ref(), &self.secrets);
        stored
            .into_iter()
            .find(|stored| stored.version == version && stored.id.is_some())?
            .id
    }
}
