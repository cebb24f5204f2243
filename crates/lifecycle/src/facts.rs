use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::predecessor::{self, LeftSecret};
use crate::{
    Because, Fingerprint, Former, Holder, IssuedId, Issuer, LedgerState, Lookalike, Policy,
    Purpose, SecretName, SecretUid, Stored, Trouble, Version,
};

/// Everything a decision may look at. Plain data; an unanswered question is a fact too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    pub now: Timestamp,
    pub cluster: Cluster,
    #[serde(default)]
    pub answers: Answers,
    pub process: Process,
}

/// What was read live from the cluster, before every decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub uid: String,
    /// `None`: the resource is gone, but something may have outlived it.
    #[serde(default)]
    pub resource: Option<Resource>,
    /// What the spec asks for, or why it cannot be obtained.
    pub wanted: Result<Wanted, Refusal>,
    pub policy: Policy,
    pub issuer: Issuer,
    /// The Secrets that carry this resource's uid.
    #[serde(default)]
    pub secrets: Vec<Stored>,
    /// Secrets that a predecessor made for this resource and that bear no record of ours yet. `None`: not looked for.
    /// What was found counts until the ledger is written; facts that do not speak of a predecessor have none.
    #[serde(default = "predecessor::no_predecessor")]
    pub left_by_predecessor: Option<Vec<LeftSecret>>,
    /// Secrets that bear this resource's label and say themselves that they are something else: copies, mostly. They are
    /// left alone, and reported.
    #[serde(default)]
    pub lookalikes: Vec<Lookalike>,
    /// More Secrets bear this resource's label than are looked at: how many at least.
    #[serde(default)]
    pub crowded: Option<usize>,
    /// Of a resource that is gone: only a Secret says that it ever was. What that Secret holds must let somebody in
    /// before it is ended, and nothing else is looked for.
    #[serde(default)]
    pub hearsay: bool,
    /// The resource that the ledger names, or that is asked to be taken over: one that is not living, as far as can be
    /// seen from here.
    #[serde(default)]
    pub former: Option<Former>,
    /// In place: the Secret lacks annotations that the spec asks for, or bears some that it no longer does. Never so of
    /// a Secret that is being deleted, or of a spec that cannot be served.
    #[serde(default)]
    pub annotations_due: bool,
}

/// What the issuer answered in this pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    /// The issuer's credentials that bear this resource's mark. Kept up with what this pass itself does: the reply of a
    /// mint adds its credential, an accepted revoke takes it away. A mint without a clear reply makes the list unknown
    /// again, and so does [`Change::Leave`](crate::Change::Leave): the last look is at what lives after the open attempt
    /// was closed. The cap is counted here.
    #[serde(default)]
    pub issued: Known<Listing>,
    /// The resource and then its Secrets were read after that list was made. Only then may what the list shows and the
    /// ledger does not record be taken for an orphan. The reply of a write shows one object, not both, and does not
    /// count.
    #[serde(default)]
    pub read_after_listing: bool,
    /// A place other than the present one, where something of ours may live, could not be listed.
    #[serde(default)]
    pub unlisted: Option<Trouble>,
    /// Whether the value of one version lets somebody in.
    #[serde(default)]
    pub works: Option<Answer<Verdict>>,
    /// Why it is not known whether what a Secret of the former life holds lets somebody in. Where somebody unseen may
    /// live on with it, that is what shows that it is not just a record that names their credential.
    #[serde(default)]
    pub unproved: Option<Trouble>,
    /// Pods and the like that refer to a fenced version, beyond its finalizers; and, of an issuer that tells when a
    /// version was last used, that it was so a short while ago.
    #[serde(default)]
    pub referrers: Vec<Answer<Vec<Holder>>>,
    /// Of versions that are over by our clock: whether the issuer refuses them too.
    #[serde(default)]
    pub ended: Vec<Answer<bool>>,
    /// Whether the issuer no longer knows a version that was revoked.
    #[serde(default)]
    pub gone: Option<Answer<bool>>,
    /// How far the issuer's clock was behind ours when it last told its time: a declared deadline has passed when it
    /// has by both.
    #[serde(default)]
    pub behind: SignedDuration,
}

/// What this process happens to know. It may be lost at any moment, and nothing is lost with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// A freshly minted credential that only this process knows.
    #[serde(default)]
    pub in_hand: Option<InHand>,
    /// The version whose intent this pass itself wrote, as long as no mint was sent for it. For any other open intent
    /// a request of a dead or sleeping process may still be under way.
    #[serde(default)]
    pub mine: Option<Version>,
    /// Secrets that this pass itself stored, value and all. Any other was perhaps put there by somebody else, whatever
    /// its labels say.
    #[serde(default)]
    pub stored: Vec<SecretUid>,
    /// The issuer said that the name was taken when this pass asked for it.
    #[serde(default)]
    pub duplicate: bool,
    /// Versions whose revoke this pass has sent and seen accepted.
    #[serde(default)]
    pub revoked: Vec<Version>,
    /// Versions whose forced end this pass has announced.
    #[serde(default)]
    pub warned: Vec<Version>,
    /// The last effect failed, and that is not yet written down.
    #[serde(default)]
    pub failed: Option<(Purpose, Trouble)>,
    /// How often in a row, in earlier passes, something failed that there was no ledger to write into.
    #[serde(default)]
    pub uncounted: u32,
    /// When it last put back what somebody had taken off the resource or one of its Secrets.
    #[serde(default)]
    pub mended: Option<Timestamp>,
    /// When this process took up the work.
    pub started: Timestamp,
    /// When it last compared the issuer with the ledger.
    #[serde(default)]
    pub checked: Option<Timestamp>,
}

impl Process {
    /// A process that took up the work then, and knows nothing yet.
    pub fn begun(started: Timestamp) -> Self {
        Self {
            in_hand: None,
            mine: None,
            stored: Vec::new(),
            duplicate: false,
            revoked: Vec::new(),
            warned: Vec::new(),
            failed: None,
            uncounted: 0,
            mended: None,
            started,
            checked: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing seen on the object, and they are independent"
)]
pub struct Resource {
    #[serde(default)]
    pub ledger: LedgerState,
    /// Our finalizer is on it.
    #[serde(default)]
    pub guarded: bool,
    #[serde(default)]
    pub deleting: bool,
    /// Since when it is being deleted.
    #[serde(default)]
    pub leaving_since: Option<Timestamp>,
    #[serde(default)]
    pub suspended: bool,
    /// Status (what consumers read) names the current version.
    #[serde(default)]
    pub mirrored: bool,
    /// The Secret that status names, whatever the ledger says: where the ledger is lost, this is what consumers were
    /// told last.
    #[serde(default)]
    pub named: Option<SecretName>,
    /// Value of the rotate annotation.
    #[serde(default)]
    pub rotate: Option<String>,
    /// Version named by the rollback annotation.
    #[serde(default)]
    pub rollback: Option<Version>,
    /// The uid in the annotation that asks for a former life to be taken over.
    #[serde(default)]
    pub take_over: Option<String>,
    /// The uid in the annotation that lets a former life go.
    #[serde(default)]
    pub let_go_of: Option<String>,
    /// The emergency annotation carries this resource's uid.
    #[serde(default)]
    pub revoke_now: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// What the credential must be able to do.
    #[serde(rename = "print")]
    pub fingerprint: Fingerprint,
    /// What we ask with (spec, login). A failure is tried again at once when this changes.
    pub inputs: Fingerprint,
    /// When the current version should be replaced.
    #[serde(default)]
    pub due: Option<Timestamp>,
    /// Where a credential that is asked for now will live, in the engine's own words; opaque to the rules, who only
    /// hand it on. `None`: its Secret or its draft records that.
    #[serde(default)]
    pub source: Option<Arc<str>>,
}

/// The spec cannot be served as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    pub because: Because,
    #[serde(default)]
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Known<T> {
    #[default]
    NotAsked,
    Is(T),
    Failed(Trouble),
}

/// What was learned about one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer<T> {
    pub about: Version,
    pub is: Result<T, Trouble>,
}

pub type Listing = Vec<Issued>;

/// A credential at the issuer that is this owner's, by its mark or by a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    pub id: IssuedId,
    pub version: Version,
    /// Its name there is exactly the mark of this owner and this version. Otherwise only a record says whose it is.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub marked: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_yes(yes: &bool) -> bool {
    *yes
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    Works,
    /// The issuer said no: not a failure to ask, an answer.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InHand {
    pub version: Version,
    pub id: IssuedId,
    /// A write of it was sent whose answer never came: it may still land.
    #[serde(default)]
    pub maybe_stored: bool,
}

impl<T> Known<T> {
    pub fn is(&self) -> Option<&T> {
        match self {
            Self::Is(known) => Some(known),
            Self::NotAsked | Self::Failed(_) => None,
        }
    }
}
