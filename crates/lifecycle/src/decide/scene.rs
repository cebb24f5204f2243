use jiff::Timestamp;

use crate::schedule::later;
use crate::{
    Because, Change, Delivery, Entry, Facts, Holder, Issued, Known, Ledger, Listing, Minting, Next,
    Question, Resource, Role, SecretName, Setback, Step, Stored, Trouble, Version, Wait,
};

/// More than this is for the log.
pub(super) const LONGEST_DETAIL: usize = 300;

/// The facts, with the two that nearly every check needs already at hand.
pub(super) struct Scene<'a> {
    pub(super) facts: &'a Facts,
    pub(super) resource: &'a Resource,
    pub(super) ledger: &'a Ledger,
}

pub(super) struct Choice {
    pub(super) next: Next,
    pub(super) because: Because,
}

impl Choice {
    pub(super) fn act(step: Step, because: Because) -> Self {
        Self {
            next: Next::Do(step),
            because,
        }
    }

    pub(super) fn ask(question: Question, because: Because) -> Self {
        Self {
            next: Next::Ask(question),
            because,
        }
    }

    pub(super) fn rest(because: Because) -> Self {
        Self {
            next: Next::Rest { wake: None },
            because,
        }
    }

    pub(super) fn record(change: Change, ledger: Ledger, because: Because) -> Self {
        Self::act(
            Step::Record {
                change,
                ledger: Box::new(ledger),
            },
            because,
        )
    }
}

/// Where a Secret comes from that no entry of the ledger speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// We made it: this pass did, or the issuer has what it records under the mark of its version.
    Proved,
    /// The issuer has nothing of the kind: it was planted, or what it held is dead.
    Unproved,
    /// The issuer was not asked, or did not tell.
    Unknown,
}

/// Whether this is what the Secret records, under its mark.
fn is_of(issued: &Issued, stored: &Stored) -> bool {
    issued.marked && issued.version == stored.version && stored.id.as_ref() == Some(&issued.id)
}

#[derive(Default)]
pub(super) struct Waits(Vec<Wait>);

impl Waits {
    pub(super) fn until(&mut self, because: Because, until: Timestamp) {
        self.0.push(Wait {
            because,
            version: None,
            on: Vec::new(),
            until: Some(until),
            detail: String::new(),
        });
    }

    /// Trouble that is waited out.
    pub(super) fn after(&mut self, setback: &Setback, version: Option<Version>, until: Timestamp) {
        let wait = Wait {
            because: setback.because,
            version,
            on: Vec::new(),
            until: Some(until),
            detail: setback.detail.clone(),
        };
        // One failure may keep several things waiting.
        if !self.0.contains(&wait) {
            self.0.push(wait);
        }
    }

    /// Trouble that no ledger tells of.
    pub(super) fn trouble(&mut self, trouble: &Trouble, until: Timestamp) {
        self.0.push(Wait {
            because: trouble.reason(),
            version: None,
            on: Vec::new(),
            until: Some(until),
            detail: trouble.detail.chars().take(LONGEST_DETAIL).collect(),
        });
    }

    pub(super) fn version_until(
        &mut self,
        because: Because,
        version: Version,
        until: Option<Timestamp>,
    ) {
        self.0.push(Wait {
            because,
            version: Some(version),
            on: Vec::new(),
            until,
            detail: String::new(),
        });
    }

    pub(super) fn version_with(
        &mut self,
        because: Because,
        version: Version,
        until: Timestamp,
        detail: &str,
    ) {
        self.0.push(Wait {
            because,
            version: Some(version),
            on: Vec::new(),
            until: Some(until),
            detail: detail.to_owned(),
        });
    }

    pub(super) fn held(
        &mut self,
        because: Because,
        version: Version,
        on: &[Holder],
        until: Option<Timestamp>,
    ) {
        self.0.push(Wait {
            because,
            version: Some(version),
            on: on.to_vec(),
            until,
            detail: String::new(),
        });
    }

    /// As [`Self::held`], for a Secret that is not a version anybody knows of.
    pub(super) fn kept(
        &mut self,
        because: Because,
        version: Version,
        on: &[Holder],
        secret: &SecretName,
    ) {
        self.0.push(Wait {
            because,
            version: Some(version),
            on: on.to_vec(),
            until: None,
            detail: format!("Secret {secret}"),
        });
    }

    pub(super) fn disputed(&mut self, version: Version, detail: String) {
        self.0.push(Wait {
            because: Because::SecretDisputed,
            version: Some(version),
            on: Vec::new(),
            until: None,
            detail,
        });
    }

    pub(super) fn shown_with(&mut self, because: Because, detail: String) {
        self.0.push(Wait {
            because,
            version: None,
            on: Vec::new(),
            until: None,
            detail,
        });
    }

    pub(super) fn shown(&mut self, because: Because) {
        self.0.push(Wait {
            because,
            version: None,
            on: Vec::new(),
            until: None,
            detail: String::new(),
        });
    }

    pub(super) fn into_vec(self) -> Vec<Wait> {
        self.0
    }
}

impl Scene<'_> {
    pub(super) fn now(&self) -> Timestamp {
        self.facts.now
    }

    pub(super) fn in_place(&self) -> bool {
        match self.facts.cluster.policy.delivery {
            Delivery::InPlace => true,
            Delivery::Versioned => false,
        }
    }

    /// The Secret that holds this version's value, drafts aside. Anybody can write labels: of a version that the ledger
    /// records it is the very Secret that is recorded with it, of any other one whose origin is proved.
    pub(super) fn stored(&self, version: Version) -> Option<&Stored> {
        let mut claimants = self.claimants(version);
        match self.ledger.entry(version) {
            Some(entry) => claimants.find(|stored| entry.is_kept_in(stored)),
            None => claimants.find(|stored| self.origin(stored) == Origin::Proved),
        }
    }

    /// Secrets that say of themselves that they hold this version, oldest first.
    pub(super) fn claimants(&self, version: Version) -> impl Iterator<Item = &Stored> {
        let secrets = self.facts.cluster.secrets.iter();
        secrets.filter(move |stored| {
            stored.version == version && !is_draft(stored) && !is_blank(stored)
        })
    }

    /// Whether a Secret that the ledger does not explain is of our own making. The one target of in-place delivery is
    /// known by its name.
    pub(super) fn origin(&self, stored: &Stored) -> Origin {
        let stored_here = self.facts.process.stored.contains(&stored.uid);
        let by_name = stored.role == Role::Target;
        if stored_here || by_name || !self.facts.cluster.issuer.lists {
            return Origin::Proved;
        }
        match listing(self.facts) {
            Err(_) => Origin::Unknown,
            Ok(listing) if listing.iter().any(|issued| is_of(issued, stored)) => Origin::Proved,
            Ok(_) => Origin::Unproved,
        }
    }

    /// The draft of this version, if the value in it is the one we chose.
    pub(super) fn draft(&self, version: Version) -> Option<&Stored> {
        let mut secrets = self.facts.cluster.secrets.iter();
        secrets.find(|stored| stored.version == version && is_draft(stored) && stored.intact)
    }

    /// Reserves the one Secret of in-place delivery. What replaces itself is made from the value in it, and used for that
    /// once: the reservation says which value it was made on.
    pub(super) fn claim(&self, version: Version) -> Step {
        let with_its_value = match self.facts.cluster.issuer.minting {
            Minting::SelfRotating => true,
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => false,
        };
        Step::Claim {
            version,
            with_its_value,
        }
    }

    /// The one Secret of in-place delivery.
    pub(super) fn target(&self) -> Option<&Stored> {
        self.facts
            .cluster
            .secrets
            .iter()
            .find(|stored| stored.role == Role::Target)
    }

    pub(super) fn issued(&self, version: Version) -> Option<&Issued> {
        self.facts
            .answers
            .issued
            .is()?
            .iter()
            .find(|issued| issued.version == version)
    }

    /// The list shows something of ours that no ledger records and no attempt is about.
    pub(super) fn lists_an_orphan(&self) -> bool {
        let open = self.ledger.intent.as_ref().map(|intent| intent.version);
        let accounted_for = |issued: &Issued| {
            self.ledger.records_id(&issued.id)
                || Some(issued.version) == open
                || issued.version > self.ledger.high
        };
        let listing = self.facts.answers.issued.is();
        listing.is_some_and(|listing| !listing.iter().all(accounted_for))
    }

    pub(super) fn condemned(&self, version: Version) -> bool {
        self.ledger
            .condemned
            .is_some_and(|condemned| version <= condemned)
    }

    /// Moves the current version to those on their way out.
    pub(super) fn supersede_current(&self, ledger: &mut Ledger) {
        let Some(mut old) = ledger.current.take() else {
            return;
        };
        old.superseded = Some(self.now());
        old.held = self
            .stored(old.version)
            .is_some_and(|stored| !stored.holders.is_empty());
        old.deadline = match self.facts.cluster.policy.retire {
            crate::Retire::AfterGrace(grace) => Some(later(self.now(), grace)),
            crate::Retire::WhenReleased | crate::Retire::WhenExpired => None,
        };
        old.sealed = self.facts.cluster.policy.rollback.is_zero();
        ledger.retiring.push(old);
    }
}

/// What the ledger would say of a Secret that is complete.
pub(super) fn entry_of(stored: &Stored, now: Timestamp) -> Option<Entry> {
    Some(Entry {
        version: stored.version,
        id: stored.id.clone()?,
        secret: stored.name.clone(),
        uid: Some(stored.uid.clone()),
        fingerprint: stored.fingerprint.clone(),
        minted: stored.minted.unwrap_or(now),
        expires: stored.expires,
        source: stored.source.clone(),
        superseded: None,
        deadline: None,
        held: false,
        sealed: false,
        closed: false,
    })
}

pub(super) fn is_draft(stored: &Stored) -> bool {
    match stored.role {
        Role::Draft => true,
        Role::Final | Role::Target => false,
    }
}

/// A target that was reserved and never written.
pub(super) fn is_blank(stored: &Stored) -> bool {
    stored.role == Role::Target && stored.version == Version::default()
}

/// The issuer's list: known, not asked yet (`None`), or not obtainable.
pub(super) fn listing(facts: &Facts) -> Result<&Listing, Option<&Trouble>> {
    match &facts.answers.issued {
        Known::Is(listing) => Ok(listing),
        Known::NotAsked => Err(None),
        Known::Failed(trouble) => Err(Some(trouble)),
    }
}

/// Rests on what is wrong with the spec, if something is.
pub(super) fn refused(facts: &Facts) -> Option<Choice> {
    facts
        .cluster
        .wanted
        .as_ref()
        .err()
        .map(|refusal| Choice::rest(refusal.because))
}
