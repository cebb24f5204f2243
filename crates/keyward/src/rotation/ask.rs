//! Finding out. Nothing here changes anything.

use std::sync::Arc;

use jiff::SignedDuration;

use k8s_openapi::api::core::v1::Secret;
use kube::api::DynamicObject;
use lifecycle::{
    Answer, Because, Issued, IssuedId, Minting, Owner, Question, Refusal, Role, Stored, Trouble,
    TroubleKind, Verdict, Version,
};
use sources::{Source, Values};

use super::end::is_gone_at;
use super::observe::{Fresh, Observation, look_again};
use super::{predecessor, recorded, referrers, secrets};
use crate::engine::Key;
use crate::engine::reader::{self, Reader};
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// Asks, and puts the answer, or the failure to get one, where the next decision sees it.
/// Only trouble with the API server itself ends the pass.
pub async fn ask(
    world: &World,
    key: &Key,
    observed: &mut Observation,
    question: Question,
    because: Because,
) -> Result<(), Fault> {
    match question {
        Question::Resource => look_again(world, key, observed).await?,
        Question::Issued => {
            if because == Because::Checking && !observed.listed {
                look_for_more(world, observed).await?;
            }
            let asked = list(world, observed).await;
            observed.answers.read_after_listing = false;
            observed.answers.issued = match asked {
                Ok(mut listed) => {
                    observed.marks.clear();
                    let recorded = recorded(observed, &stored_now(observed));
                    let former = std::mem::take(&mut listed.former);
                    listed
                        .issued
                        .retain(|one| former.iter().all(|other| other.id != one.id));
                    let own = observed.as_own(world, former, &recorded);
                    listed.issued.extend(own);
                    observed.compared = true;
                    (observed.elsewhere, observed.answers.unlisted) =
                        (listed.elsewhere, listed.unlisted);
                    lifecycle::Known::Is(listed.issued)
                }
                Err(trouble) => lifecycle::Known::Failed(trouble),
            };
        }
        Question::Works(version) => {
            let is = works(world, observed, version).await;
            observed.compared |= is.is_ok();
            observed.answers.works = Some(Answer { about: version, is });
        }
        Question::Referrers(version) => {
            let found = referrers::to(world, observed, version).await;
            let is = match found {
                Ok(found) => {
                    observed.await_change(found.awaited);
                    Ok(found.holders)
                }
                Err(fault) => Err(fault.to_trouble()),
            };
            keep(
                &mut observed.answers.referrers,
                Answer { about: version, is },
            );
        }
        Question::Ended(version) => {
            let is = works(world, observed, version).await;
            let is = is.map(|verdict| verdict == Verdict::Refused);
            keep(&mut observed.answers.ended, Answer { about: version, is });
        }
        Question::Gone(version) => {
            let is = gone(world, observed, version).await;
            observed.answers.gone = Some(Answer { about: version, is });
        }
        Question::Predecessor => predecessor::look(world, observed).await?,
    }
    if let Some(source) = asked(world, observed, question).await {
        observed.answers.behind = behind(world, &source);
    }
    Ok(())
}

/// Who has just answered.
async fn asked(
    world: &World,
    observed: &Observation,
    question: Question,
) -> Option<Arc<dyn Source>> {
    match question {
        Question::Issued => open(observed).ok(),
        Question::Works(version)
        | Question::Referrers(version)
        | Question::Ended(version)
        | Question::Gone(version) => open_as_minted(world, observed, version).await.ok(),
        Question::Resource | Question::Predecessor => None,
    }
}

/// How far the issuer's clock is behind ours, by an answer of a moment ago. Less than minutes is nothing to wait for, more
/// than a day is no clock.
fn behind(world: &World, source: &Arc<dyn Source>) -> SignedDuration {
    let Some(ahead) = source.skew() else {
        return SignedDuration::ZERO;
    };
    let behind = world.clock.offset() - ahead;
    if behind < SignedDuration::from_mins(2) {
        return SignedDuration::ZERO;
    }
    behind.min(SignedDuration::from_hours(24))
}

/// The timed check is also for Secrets that the ledger does not know.
async fn look_for_more(world: &World, observed: &mut Observation) -> Result<(), Fault> {
    let mut own = observed.own();
    let (kind, object) = (observed.kind.clone(), observed.object.clone());
    let looked = recorded::look_for_more(world, kind.as_ref(), &object, &mut own).await;
    observed.saw_own(own);
    looked
}

/// One answer for each version, the last one: an answer about one must not make that about another be forgotten, or
/// both would be asked for without end.
fn keep<T>(answers: &mut Vec<Answer<T>>, answer: Answer<T>) {
    answers.retain(|other| other.about != answer.about);
    answers.push(answer);
}

/// The source, or why there is none.
pub fn open(observed: &Observation) -> Result<Arc<dyn Source>, Trouble> {
    observed.source.clone().map_err(refused)
}

fn refused(refusal: Refusal) -> Trouble {
    Trouble {
        because: Some(refusal.because),
        ..Trouble::new(TroubleKind::Rejected, refusal.detail)
    }
}

/// The source with which a version was made: its spec, and so its user or project, may have been another than now.
pub async fn open_as_minted(
    world: &World,
    observed: &Observation,
    version: Version,
) -> Result<Arc<dyn Source>, Trouble> {
    let Some(object) = observed.as_minted(version) else {
        return open(observed);
    };
    if observed.kind.access().place(&object) == observed.kind.access().place(&observed.object) {
        return open(observed);
    }
    if !observed.logs_in_at(&object) {
        return Err(refused(Refusal {
            because: Because::LoginMissing,
            detail: "the Secret holds a value of another issuer by now, which is not shown to this one; \
                     end the credential there by hand"
                .into(),
        }));
    }
    open_at(world, observed, &object).await
}

/// As [`open_as_minted`], to end that version: where its login is gone, one that can do only that is enough.
pub async fn open_to_end(
    world: &World,
    observed: &Observation,
    version: Version,
) -> Result<Arc<dyn Source>, Trouble> {
    let refused = match open_as_minted(world, observed, version).await {
        Err(trouble) if trouble.because == Some(Because::LoginMissing) => trouble,
        opened => return opened,
    };
    let minted = observed.as_minted(version);
    let object = minted.as_ref().unwrap_or(&observed.object);
    let mut reader = Reader::new(world, &observed.namespace());
    let opened = observed
        .kind
        .access()
        .open_to_end(object, &mut reader)
        .await;
    opened.map_err(|fault| fault.to_trouble())?.ok_or(refused)
}

/// The source for another spec of this resource.
pub async fn open_at(
    world: &World,
    observed: &Observation,
    object: &DynamicObject,
) -> Result<Arc<dyn Source>, Trouble> {
    let reached = world
        .source(observed.kind.access(), observed.index, object, false)
        .await
        .map_err(|fault| fault.to_trouble())?;
    reached.source.map_err(refused)
}

impl Observation {
    /// Whether what one logs in with is for the issuer that this spec points to. A credential that replaces itself is its own
    /// login, and of one issuer.
    fn logs_in_at(&self, object: &DynamicObject) -> bool {
        match self.reading().issuer.minting {
            Minting::SelfRotating => {}
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => {
                return true;
            }
        }
        let stored = super::observe::stored(self.kind.as_ref(), &self.secrets);
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
            let stored = super::facts::as_recorded(self, ledger, secret)?;
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
    fn other_places(&self) -> Vec<DynamicObject> {
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
        let stored = super::observe::stored(self.kind.as_ref(), &self.secrets);
        sources.extend(stored.into_iter().filter_map(|stored| stored.source));
        let read = |source: Arc<str>| {
            let object = self.with_spec(serde_json::from_str(&source).ok()?);
            Some((self.kind.access().place(&object), object))
        };
        sources.into_iter().filter_map(read).collect()
    }

    /// Whether a resource that leaves never had anything where its spec points now: then nothing can be left there, and
    /// that nobody may look there is no reason to stay.
    fn made_all_elsewhere(&self) -> bool {
        let leaving = self.object.metadata.deletion_timestamp.is_some();
        let here = self.kind.access().place(&self.object);
        let places = self.recorded_places();
        leaving && !places.is_empty() && places.iter().all(|(place, _)| *place != here)
    }
}

/// What was found at the issuer.
#[derive(Default)]
struct Listed {
    issued: Vec<Issued>,
    elsewhere: Vec<(IssuedId, Arc<dyn Source>)>,
    /// What bears the mark of a former life.
    former: Vec<Issued>,
    /// Why one of the other places could not be looked at.
    unlisted: Option<Trouble>,
}

/// Lists where the spec points now, and wherever a mint was begun whose end is not known: a changed spec must not hide
/// what an earlier one made. That an earlier place is gone does not keep the present one from being used.
async fn list(world: &World, observed: &Observation) -> Result<Listed, Trouble> {
    let owner = observed.owner(world);
    let stored = super::observe::stored(observed.kind.as_ref(), &observed.secrets);
    let recorded = recorded(observed, &stored);
    let mut sources = match open(observed) {
        Ok(source) => vec![source],
        Err(_) if observed.made_all_elsewhere() => Vec::new(),
        Err(trouble) => return Err(trouble),
    };
    let is_listed_here = !sources.is_empty();
    // What is not in the ledger may have been made with another spec.
    let ledger = observed.ledger().is();
    let recorded_as = |version| ledger.and_then(|ledger| ledger.entry(version));
    let unrecorded = |stored: &&Stored| match stored.role {
        Role::Draft => true,
        Role::Final => recorded_as(stored.version).is_none(),
        Role::Target => false,
    };
    let mut listed = Listed::default();
    for made in stored.iter().filter(unrecorded) {
        match open_as_minted(world, observed, made.version).await {
            Ok(source) if sources.iter().any(|known| Arc::ptr_eq(known, &source)) => {}
            Ok(source) => sources.push(source),
            Err(trouble) => listed.unlisted = Some(trouble),
        }
    }
    for (nth, source) in sources.iter().enumerate() {
        let found = match list_at(world, source, &owner, &recorded).await {
            Ok(found) => found,
            Err(trouble) if nth == 0 && is_listed_here => return Err(trouble),
            // Only a Secret's own word led there, which anybody may have written.
            Err(trouble) => {
                listed.unlisted = Some(trouble);
                continue;
            }
        };
        for one in found {
            if !listed.issued.contains(&one) {
                listed.issued.push(one);
            }
        }
    }
    if let Some(former) = observed.former_owner() {
        for source in &sources {
            listed
                .former
                .extend(list_at(world, source, &former, &[]).await?);
        }
    }
    for object in observed.other_places() {
        let there = async {
            let source = open_at(world, observed, &object).await?;
            let found = list_at(world, &source, &owner, &recorded).await?;
            Ok::<_, Trouble>((source, found))
        };
        match there.await {
            Ok((source, found)) => {
                for one in found {
                    if !listed.issued.contains(&one) {
                        listed.elsewhere.push((one.id.clone(), source.clone()));
                        listed.issued.push(one);
                    }
                }
            }
            Err(trouble) => listed.unlisted = Some(trouble),
        }
    }
    Ok(listed)
}

fn stored_now(observed: &Observation) -> Vec<Stored> {
    super::observe::stored(observed.kind.as_ref(), &observed.secrets)
}

/// What is recorded of this resource, in its Secrets or in its ledger. Whether it bears its mark is the issuer's to say.
fn recorded(observed: &Observation, stored: &[Stored]) -> Vec<Issued> {
    let in_secrets = stored.iter().filter_map(|stored| {
        Some(Issued {
            id: stored.id.clone()?,
            version: stored.version,
            marked: true,
        })
    });
    let mut recorded: Vec<Issued> = in_secrets.collect();
    if let Some(ledger) = observed.ledger().is() {
        for entry in ledger.entries() {
            let one = Issued {
                id: entry.id.clone(),
                version: entry.version,
                marked: true,
            };
            if !recorded.contains(&one) {
                recorded.push(one);
            }
        }
    }
    recorded
}

pub(super) async fn list_at(
    world: &World,
    source: &Arc<dyn Source>,
    owner: &Owner,
    recorded: &[Issued],
) -> Result<Vec<Issued>, Trouble> {
    let request = source.list(owner, recorded);
    if source.lists_together() {
        world.at_issuer_unlimited(source, "list", request).await
    } else {
        world.at_issuer(source, "list", request).await
    }
}

async fn works(
    world: &World,
    observed: &mut Observation,
    version: Version,
) -> Result<Verdict, Trouble> {
    if let Some((id, values)) = observed.unmarked(version) {
        let source = open(observed)?;
        let asked = source.verify_as(&id, &values);
        return world.at_issuer(&source, "verify", asked).await;
    }
    let source = if observed.holds_as_minted(version) {
        open_as_minted(world, observed, version).await?
    } else {
        open(observed)?
    };
    let Some(values) = values_of(world, observed, &source, version).await? else {
        return Ok(Verdict::Refused);
    };
    // Where only a Secret says whose it is, it must also be the one that it names.
    let named = observed.recorded_id(version).filter(|_| observed.hearsay);
    let asked = match &named {
        Some(id) => source.verify_as(id, &values),
        None => source.verify(&values),
    };
    world.at_issuer(&source, "verify", asked).await
}

/// The values of a version, wherever they are now: in hand, in its Secret, in its draft, at the issuer.
/// `None`: nowhere any more.
async fn values_of(
    world: &World,
    observed: &mut Observation,
    source: &Arc<dyn Source>,
    version: Version,
) -> Result<Option<Values>, Trouble> {
    if let Some(fresh) = observed
        .in_hand
        .as_ref()
        .filter(|fresh| fresh.version == version)
    {
        return Ok(Some(fresh.values.clone()));
    }
    if let Some(stored) = observed.secret_of(version) {
        return Ok(Some(reader::values(stored)));
    }
    let chosen = observed.draft_of(version).map(reader::values);
    if source.issuer().minting == Minting::SelfRotating && version == Version::default() {
        return Ok(observed.target_values());
    }
    let listed = observed
        .answers
        .issued
        .is()
        .and_then(|listing| listing.iter().find(|issued| issued.version == version))
        .cloned();
    let fresh = match (chosen, listed) {
        // Its reply was lost, but we chose the value ourselves: id and draft together are the whole credential.
        (Some(chosen), Some(issued)) => {
            let found = world
                .at_issuer(source, "read back", source.complete(&chosen, &issued.id))
                .await?;
            let Some(found) = found else { return Ok(None) };
            Fresh {
                version,
                id: found.id,
                values: found.values,
                expires: found.expires,
                minted_here: false,
                maybe_stored: false,
            }
        }
        (Some(_), None) => return Ok(None),
        (None, _) => {
            let mark = observed.owner(world).mark(version);
            let back = world
                .at_issuer(source, "read back", source.read_back(&mark))
                .await?;
            let Some(back) = back else { return Ok(None) };
            Fresh {
                version,
                id: back.id,
                values: back.values,
                expires: back.expires,
                minted_here: false,
                maybe_stored: false,
            }
        }
    };
    let values = fresh.values.clone();
    observed.in_hand = Some(fresh);
    Ok(Some(values))
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
        let stored = super::observe::stored(self.kind.as_ref(), &self.secrets);
        stored.iter().any(|stored| {
            let replaced = brought && stored.role == Role::Target;
            stored.version == version && stored.id.is_some() && stored.intact && !replaced
        })
    }

    /// Id and values of a Secret that no record of ours explains, and whose credential bears nobody's mark.
    fn unmarked(&self, version: Version) -> Option<(IssuedId, Values)> {
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

async fn gone(world: &World, observed: &Observation, version: Version) -> Result<bool, Trouble> {
    let source = open_to_end(world, observed, version).await?;
    let id = observed.recorded_id(version).ok_or_else(|| {
        Trouble::new(
            TroubleKind::Unexpected,
            "no record of the version to be confirmed",
        )
    })?;
    is_gone_at(world, observed, version, &id, &source).await
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

    /// The id of a version by the ledger, or by its Secret when the ledger is no more.
    pub fn recorded_id(&self, version: Version) -> Option<lifecycle::IssuedId> {
        let ledger = self.ledger().is();
        if let Some(entry) = ledger.and_then(|ledger| ledger.entry(version)) {
            return Some(entry.id.clone());
        }
        let stored = super::observe::stored(self.kind.as_ref(), &self.secrets);
        stored
            .into_iter()
            .find(|stored| stored.version == version && stored.id.is_some())?
            .id
    }
}
