//! What a resource asks for in the long run, and what its issuer can do.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

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
    /// What the login does not let us end is not waited for forever: a leaving resource is let go after this time, and
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
