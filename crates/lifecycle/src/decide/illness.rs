//! What can be wrong with the current version. One list: for the rule that replaces it, and for what people are told.

use super::scene::is_draft;
use crate::{Because, Entry, Facts, Ledger, Stored, Verdict};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Illness {
    /// Its Secret is gone, on its way out, or disputed.
    SecretMissing,
    SecretDamaged,
    /// Its own value was tried, and refused.
    Refused,
    /// The issuer's list lacks it, and its own value was not tried. The list may simply be older than the version.
    Unlisted,
    /// A refusal that was written down stands until a look shows otherwise.
    KnownToBeRefused,
    Expired,
}

impl Illness {
    const GRAVEST_FIRST: [Self; 6] = [
        Self::SecretMissing,
        Self::SecretDamaged,
        Self::Refused,
        Self::Unlisted,
        Self::KnownToBeRefused,
        Self::Expired,
    ];

    /// What is wrong with the current version, gravest first.
    pub(crate) fn of_current<'a>(
        facts: &'a Facts,
        ledger: &'a Ledger,
        current: &'a Entry,
    ) -> impl Iterator<Item = Self> + 'a {
        let all = Self::GRAVEST_FIRST.into_iter();
        all.filter(move |illness| illness.is_there(facts, ledger, current))
    }

    fn is_there(self, facts: &Facts, ledger: &Ledger, current: &Entry) -> bool {
        match self {
            Self::SecretMissing => secret_of(facts, current).is_none(),
            Self::SecretDamaged => secret_of(facts, current).is_some_and(|stored| !stored.intact),
            Self::Refused => tried(facts, current) == Some(Verdict::Refused),
            Self::Unlisted => tried(facts, current).is_none() && is_unlisted(facts, current),
            Self::KnownToBeRefused => {
                tried(facts, current) != Some(Verdict::Works) && is_known_to_be_refused(ledger)
            }
            Self::Expired => current.expires.is_some_and(|expires| expires <= facts.now),
        }
    }
}

/// The Secret that serves the current version.
fn secret_of<'a>(facts: &'a Facts, current: &Entry) -> Option<&'a Stored> {
    let mut secrets = facts.cluster.secrets.iter();
    let kept_in = secrets.find(|stored| {
        stored.version == current.version && !is_draft(stored) && current.is_kept_in(stored)
    });
    kept_in.filter(|stored| !stored.leaving && !stored.disputed)
}

/// What its own value said in this pass.
fn tried(facts: &Facts, current: &Entry) -> Option<Verdict> {
    let answer = facts.answers.works.as_ref()?;
    let verdict = answer.is.as_ref().ok()?;
    (answer.about == current.version).then_some(*verdict)
}

/// A list that lacks a place says nothing.
fn is_unlisted(facts: &Facts, current: &Entry) -> bool {
    let is_whole = facts.cluster.issuer.lists && facts.answers.unlisted.is_none();
    let listing = facts.answers.issued.is().filter(|_| is_whole);
    listing.is_some_and(|listing| listing.iter().all(|issued| issued.id != current.id))
}

/// It is written down that the current version lets nobody in.
pub(super) fn is_known_to_be_refused(ledger: &Ledger) -> bool {
    let check = ledger.setbacks.check.as_ref();
    check.is_some_and(|setback| setback.because == Because::CurrentRefused)
}
