//! Talking to the systems that issue credentials.
//!
//! A [`Source`] is one issuer, seen with one login. It does what it is told, once, and reports what it was answered: it
//! keeps no retry loops (how long to wait is decided by the rules in `lifecycle`), and its errors carry our words only.

pub mod contract;
pub mod gitlab;
pub mod http;
pub mod keystone;
pub mod rgw;
mod secret;
pub mod standin;
mod things;
pub mod vcenter;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use lifecycle::{Issued, IssuedId, Issuer, Mark, Owner, Trouble, TroubleKind, Verdict};

pub use secret::{SecretValue, Values};
pub use things::{Found, ThingId, Things};

/// One issuer, reached with one login.
///
/// No method re-sends a request whose effect is unknown. A reply that was lost is [`SourceError`] of kind
/// `Unreachable`, and means "it may have happened".
#[async_trait]
pub trait Source: Send + Sync + std::fmt::Debug {
    /// What this issuer can do; the same for the life of the source.
    fn issuer(&self) -> Issuer;

    /// Which issuer this is, for limits and metrics: the same text for every source that shares its load.
    fn place(&self) -> &str;

    /// Whose requests these are to the issuer, as far as it counts them by caller: a text that tells logins at one place
    /// apart, and is no secret. By itself a place has one.
    fn login_name(&self) -> &str {
        self.place()
    }

    /// A fresh value for an issuer that lets us choose it, under the keys this source uses; empty for all others.
    /// It is stored before the issuer hears of it. Randomness is an input: the same bytes give the same value.
    fn draft(&self, _mark: &Mark, _random: &[u8; 32]) -> Values {
        Values::new()
    }

    /// What a mint of this draft would have returned, had its reply not been lost; `None` if the issuer no longer
    /// knows it.
    async fn complete(&self, draft: &Values, id: &IssuedId) -> Result<Option<Minted>, SourceError> {
        Ok(Some(Minted {
            id: id.clone(),
            values: draft.clone(),
            expires: None,
        }))
    }

    /// Everything at the issuer that bears a mark of this owner, of whatever version, and of `recorded` what is still
    /// there under whatever name: a predecessor of ours may have named it.
    /// The list is begun after the call, so that it is never older than what the caller did before.
    async fn list(&self, owner: &Owner, recorded: &[Issued]) -> Result<Vec<Issued>, SourceError>;

    /// Whether lists of many owners are one request, made for all who wait for it. Waiting is then no load on the
    /// issuer, and no limit applies to it.
    fn lists_together(&self) -> bool {
        false
    }

    /// The same source for a resource that is leaving, where that may use more than others may.
    fn for_one_who_leaves(&self) -> Option<Arc<dyn Source>> {
        None
    }

    /// Finds out what can be found out before a mint of this order, and changes nothing. What it learns is used by the
    /// mint if that follows at once, which then sends nothing but its one request.
    /// Only issuers whose credential replaces itself are asked: there, an attempt that stops half-way needs a person.
    async fn prepare(&self, _order: &Order) -> Result<(), SourceError> {
        Ok(())
    }

    /// Makes one credential with this mark.
    /// *If the reply is lost:* it may exist, and is found by its mark.
    async fn mint(&self, order: &Order) -> Result<Minted, SourceError>;

    /// The value of a credential that the issuer can show again; `None` if it is not there.
    /// Only issuers whose values can be read back are asked.
    async fn read_back(&self, mark: &Mark) -> Result<Option<Minted>, SourceError>;

    /// Does this value let somebody in? `Refused` is an answer; not getting one is an error.
    async fn verify(&self, values: &Values) -> Result<Verdict, SourceError>;

    /// Does this value let somebody in as that credential, and no other? `Refused` also where that cannot be seen:
    /// whoever forges a record can put another's id beside a value of their own.
    async fn verify_as(&self, id: &IssuedId, values: &Values) -> Result<Verdict, SourceError>;

    /// Ends a credential. One that is already gone counts as ended.
    /// *Guarantees:* it was looked at first, and is what the proof says it is: it bears the mark, or it bears nobody's
    /// and the proof holds in the way of this issuer. Whatever else the login may end stays.
    async fn revoke(&self, proof: &Proof<'_>, id: &IssuedId) -> Result<(), SourceError>;

    /// Whether the issuer no longer honours this credential: the witness after a revoke. Its values, where they are
    /// still known, let the issuer itself refuse them.
    async fn gone(&self, id: &IssuedId, values: Option<&Values>) -> Result<bool, SourceError>;

    /// When the issuer last saw this credential used; `None` where it never did, or does not tell.
    /// Only issuers that tell are asked ([`Issuer::tells_use`]).
    async fn used(&self, _id: &IssuedId) -> Result<Option<LastUse>, SourceError> {
        Ok(None)
    }

    /// How far the issuer's clock was ahead of ours at its last answer; `None` where that is not known.
    fn skew(&self) -> Option<SignedDuration> {
        None
    }
}

/// The last use of a credential that its issuer noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastUse {
    /// By the issuer's clock.
    pub at: Timestamp,
    /// This process tried the credential then. An issuer that notes uses now and then may not have noted who came after.
    pub ours: bool,
}

/// What shows that a credential is its owner's to end. Its id alone shows nothing: ids come from records that others can
/// write to.
#[derive(Debug, Clone, Copy)]
pub struct Proof<'a> {
    /// Owner and version that must stand in its name at the issuer.
    pub mark: &'a Mark,
    /// A Secret of the owner's, which our finalizer is on, records this id. What a predecessor made, and what replaced
    /// itself, bears no mark.
    pub recorded: bool,
    /// Its values, where they are still known exactly as they were minted. Where a credential can end itself, they do
    /// it: the login may be gone or refused by then.
    pub values: Option<&'a Values>,
}

/// Which mark the name of a credential is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Borne {
    /// The mark in question.
    This,
    /// Another mark of ours: it is another owner's, or another version.
    Another,
    /// None of ours: somebody else gave it its name.
    Nothing,
}

impl<'a> Proof<'a> {
    /// Nothing but the mark.
    pub fn by(mark: &'a Mark) -> Self {
        Self {
            mark,
            recorded: false,
            values: None,
        }
    }

    fn borne_by(&self, name: &str) -> Borne {
        match name.parse::<Mark>() {
            Ok(mark) if mark == *self.mark => Borne::This,
            Ok(_) => Borne::Another,
            Err(_) => Borne::Nothing,
        }
    }
}

/// How a credential of this name is listed for this owner: by its mark, or else by what is recorded of it. A recorded id
/// under another version's mark is that version's, and one under another owner's mark is not listed.
fn listed(
    owner: &Owner,
    name: &str,
    recorded: Option<&Issued>,
    id: impl FnOnce() -> IssuedId,
) -> Option<Issued> {
    match name.parse::<Mark>() {
        Ok(mark) if mark.owner() == owner => Some(Issued {
            id: recorded.map_or_else(id, |known| known.id.clone()),
            version: mark.version(),
            marked: true,
        }),
        Ok(_) => None,
        Err(_) => recorded.map(|known| Issued {
            marked: false,
            ..known.clone()
        }),
    }
}

/// What a person can do about a credential that its record alone does not prove to be the owner's.
const CORRECT_OR_DELETE: &str = "correct the record, or delete it by hand";

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Order {
    pub mark: Mark,
    /// Where the caller may choose the value: the one to use, stored beforehand.
    pub chosen: Option<Values>,
    /// Where the credential replaces itself: the value it has now.
    pub present: Option<Values>,
    /// What the credential must be able to do, in the words of the issuer's own kind.
    pub wish: serde_json::Value,
    /// From when its life is counted.
    pub now: Timestamp,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Minted {
    pub id: IssuedId,
    pub values: Values,
    pub expires: Option<Timestamp>,
}

/// Why an issuer could not be asked, or what it said instead of yes. Our words only: never a remote text, a value, or
/// an address with a query.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{act}: {detail}")]
pub struct SourceError {
    /// What was being done, such as "listing application credentials of user barbican".
    pub act: String,
    pub kind: TroubleKind,
    /// What went wrong and what a person can do about it.
    pub detail: String,
    /// How long the issuer asked us to wait.
    pub wait: Option<SignedDuration>,
    /// The issuer itself answered that it failed: nobody works on the request any more.
    pub answered: bool,
}

impl SourceError {
    pub fn new(act: impl Into<String>, kind: TroubleKind, detail: impl Into<String>) -> Self {
        Self {
            act: act.into(),
            kind,
            detail: detail.into(),
            wait: None,
            answered: false,
        }
    }

    pub fn to_trouble(&self) -> Trouble {
        Trouble {
            kind: self.kind,
            detail: self.to_string(),
            wait: self.wait,
            because: None,
            answered: self.answered,
        }
    }
}
