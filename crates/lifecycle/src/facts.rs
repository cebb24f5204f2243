use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::predecessor::{self, LeftSecret};
use crate::{
    Because, Fingerprint, Former, Holder, IssuedId, LedgerState, Purpose, SecretName, SecretUid,
    Version,
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
    /// What the spec asks for, or why it cannot be had.
    pub wanted: Result<Wanted, Refusal>,
    pub policy: Policy,
    pub issuer: Issuer,
    /// The Secrets that carry this resource's uid.
    #[serde(default)]
    pub secrets: Vec<Stored>,
    /// Secrets that a predecessor made for this resource and that bear no record of ours yet. `None`: not looked for. What
    /// was found counts until the ledger is written; facts that do not speak of a predecessor have none.
    #[serde(default = "predecessor::no_predecessor")]
    pub left_by_predecessor: Option<Vec<LeftSecret>>,
    /// Secrets that bear this resource's label and say themselves that they are something else: copies, mostly. They are
    /// left alone, and told of.
    #[serde(default)]
    pub lookalikes: Vec<Lookalike>,
    /// More Secrets bear this resource's label than are looked at: how many at least.
    #[serde(default)]
    pub crowded: Option<usize>,
    /// Of a resource that is gone: only a Secret says that it ever was. What that Secret holds must let somebody in before
    /// it is ended, and nothing else is looked for.
    #[serde(default)]
    pub hearsay: bool,
    /// The resource that the ledger names, or that is asked to be taken over: one that is not living, as far as can be
    /// seen from here.
    #[serde(default)]
    pub former: Option<Former>,
    /// In place: the Secret lacks annotations that the spec asks for, or bears some that it no longer does. Never so of a Secret that is being deleted, or of a spec that cannot be served.
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
    /// Why it is not known whether what a Secret of the former life holds lets somebody in. Where somebody unseen may live
    /// on with it, that is what shows that it is not just a record that names his credential.
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
    /// How far the issuer's clock was behind ours when it last told its time: a declared deadline has passed when it has by
    /// both.
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
    pub print: Fingerprint,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub delivery: Delivery,
    pub retire: Retire,
    /// How long a superseded version that nobody was seen holding stays untouched.
    #[serde(default = "ten_minutes")]
    pub overlap: SignedDuration,
    /// How long the previous version is kept whole, so that one can go back to it.
    #[serde(default)]
    pub rollback: SignedDuration,
    pub deletion: Deletion,
    /// Live credentials per resource, counted at the issuer, beyond which nothing is minted.
    #[serde(default = "eight")]
    pub cap: u32,
    #[serde(default = "six_hours")]
    pub check_every: SignedDuration,
    /// At most one version beside the current one: a rotation waits until the one before it is revoked, and an urgent
    /// one closes its grace period first.
    #[serde(default)]
    pub one_extra: bool,
    /// Where the issuer tells when a version was last used: one that is in use outlives its grace period. Otherwise that
    /// is only warned of.
    #[serde(default)]
    pub unused: bool,
    /// What the login does not let us end is not waited for for ever: a leaving resource is let go after this time, and
    /// a version is forgotten a day after it expired by itself. Both are warned of.
    #[serde(default)]
    pub abandon: Option<SignedDuration>,
}

fn ten_minutes() -> SignedDuration {
    SignedDuration::from_mins(10)
}

fn six_hours() -> SignedDuration {
    SignedDuration::from_hours(6)
}

fn eight() -> u32 {
    8
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            delivery: Delivery::Versioned,
            retire: Retire::WhenReleased,
            overlap: ten_minutes(),
            rollback: SignedDuration::ZERO,
            deletion: Deletion::Revoke,
            cap: eight(),
            check_every: six_hours(),
            one_extra: false,
            unused: false,
            abandon: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Delivery {
    /// An immutable Secret per version; status names the current one.
    Versioned,
    /// One Secret with a stable name; the swap is one write.
    InPlace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retire {
    /// When nobody holds it any more.
    WhenReleased,
    /// At a deadline declared when it was superseded.
    AfterGrace(SignedDuration),
    /// When it has expired by itself.
    WhenExpired,
}

/// What becomes of the credentials when the resource is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Deletion {
    /// Revoked at the issuer, Secrets removed.
    Revoke,
    /// Left alive at the issuer, Secrets removed.
    Orphan,
    /// Left alive at the issuer, Secrets kept and no longer tied to anything.
    Retain,
}

/// What the issuer can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    pub minting: Minting,
    /// It can list what bears our mark.
    pub lists: bool,
    /// We can revoke there.
    pub revokes: bool,
    /// It tells when a credential was last used.
    #[serde(default)]
    pub tells_use: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Minting {
    /// We choose the value; asking twice for one name is refused, so asking again is harmless.
    Chosen,
    /// We choose the name, the issuer the value, and it can be read back; asking twice would change the value.
    ReadBack,
    /// The value is in the reply, once.
    ShownOnce,
    /// The credential replaces itself: the old value dies with the reply that carries the new one.
    SelfRotating,
    /// A person provides it; there is nothing to mint or revoke.
    Provided,
}

/// One Secret of ours, as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing seen on the object, and they are independent"
)]
pub struct Stored {
    pub name: SecretName,
    pub uid: SecretUid,
    pub role: Role,
    pub version: Version,
    /// Recorded on all but drafts.
    #[serde(default)]
    pub id: Option<IssuedId>,
    #[serde(default = "unknown_print")]
    pub print: Fingerprint,
    #[serde(default)]
    pub minted: Option<Timestamp>,
    #[serde(default)]
    pub expires: Option<Timestamp>,
    /// Where its credential lives, as [`Wanted::source`] said when it was asked for.
    #[serde(default)]
    pub source: Option<Arc<str>>,
    /// It is being deleted: no new holder can take it, which is what makes it a fence.
    #[serde(default)]
    pub leaving: bool,
    /// Our finalizer is on it.
    #[serde(default)]
    pub guarded: bool,
    /// Tied to the resource by an owner reference.
    #[serde(default)]
    pub owned: bool,
    /// It was there before, and its owner let us take it over: it outlives what is put into it.
    #[serde(default)]
    pub adopted: bool,
    /// Somebody took its record, its owner or our finalizer off; what stands here is what the ledger has of it.
    #[serde(default)]
    pub damaged: bool,
    /// The ledger speaks of it, and all that it says of itself names another resource: who holds it counts, but nothing
    /// is done to it.
    #[serde(default)]
    pub disputed: bool,
    /// Every finalizer on it that is not ours.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// In place only: the version that may be written next. A late write of any other fails.
    /// Of a self-rotating credential: the version that the value in it may have been rotated into.
    #[serde(default)]
    pub claim: Option<Version>,
    /// Of a self-rotating credential: the spec points to another issuer by now than the one that made its value.
    #[serde(default)]
    pub elsewhere: bool,
    /// The value is there and is the one we wrote; of a draft, the one whose digest the ledger has; of a self-rotating
    /// credential, the one that was there when the Secret was reserved last.
    #[serde(default = "yes")]
    pub intact: bool,
}

fn unknown_print() -> Fingerprint {
    "".into()
}

fn yes() -> bool {
    true
}

/// A Secret with our label that is not one of this resource's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lookalike {
    pub name: SecretName,
    pub uid: SecretUid,
    /// It is being deleted, and our finalizer, which it was copied with, keeps it.
    #[serde(default)]
    pub kept_by_us: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// A value that was chosen and is not yet known to the issuer, or not yet known to have reached it.
    Draft,
    /// One version, complete, verified and never to change.
    Final,
    /// The one Secret of in-place delivery; version 0.0 until the first value is in it.
    Target,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_no(yes: &bool) -> bool {
    !*yes
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

/// Why something could not be done or found out. Never contains a value, an address with a query, or a remote text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// Ours, fit to be shown.
    #[serde(default)]
    pub detail: String,
    /// How long the issuer asked us to wait.
    #[serde(default)]
    pub wait: Option<SignedDuration>,
    /// A better reason than the kind's own, where one is known.
    #[serde(default)]
    pub because: Option<Because>,
    /// The issuer itself answered, so that nobody works on the request any more: what came of it can be looked at.
    #[serde(default, skip_serializing_if = "is_no")]
    pub answered: bool,
}

impl Trouble {
    pub fn new(kind: TroubleKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            wait: None,
            because: None,
            answered: false,
        }
    }

    /// What people read when this trouble is waited out.
    pub fn reason(&self) -> Because {
        self.because
            .unwrap_or_else(|| crate::schedule::reason_for(self.kind))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TroubleKind {
    /// The login was refused.
    Denied,
    /// The request was refused: it must change before it can succeed.
    Rejected,
    /// Something else stands where ours should.
    Conflict,
    /// Too many requests.
    Throttled,
    /// No answer, or one that says nothing: it may have happened.
    Unreachable,
    /// An answer that makes no sense.
    Unexpected,
    /// Not the issuer's: the API server refused, or gave no usable answer.
    Cluster,
}

impl<T> Known<T> {
    pub fn is(&self) -> Option<&T> {
        match self {
            Self::Is(known) => Some(known),
            Self::NotAsked | Self::Failed(_) => None,
        }
    }
}
