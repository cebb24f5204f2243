//! Failures that are written down, and what they were about.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Because, Fingerprint, TroubleKind, Version};

/// What is being attempted when something goes wrong: trouble with one must not hold up the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Purpose {
    Mint,
    /// Looking for what is left and sweeping it.
    Retire,
    /// Ending this version.
    RetireVersion(Version),
    Check,
    /// Keeping Secrets as they should be beside their value: records, annotations.
    Upkeep,
}

impl Purpose {
    /// The version it is about, where it is about one.
    pub fn version(self) -> Option<Version> {
        match self {
            Self::RetireVersion(version) => Some(version),
            Self::Mint | Self::Retire | Self::Check | Self::Upkeep => None,
        }
    }
}

/// Failures in a row, kept where a crash loop cannot reset them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Setbacks {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mint: Option<Setback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retire: Option<Setback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Setback>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upkeep: Option<Setback>,
    /// For each version on its way out: one that cannot be revoked must not keep another alive.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<Version, Setback>,
}

impl Setbacks {
    pub fn is_clear(&self) -> bool {
        *self == Self::default()
    }

    pub fn of(&self, purpose: Purpose) -> Option<&Setback> {
        match purpose {
            Purpose::Mint => self.mint.as_ref(),
            Purpose::Retire => self.retire.as_ref(),
            Purpose::RetireVersion(version) => self.versions.get(&version),
            Purpose::Check => self.check.as_ref(),
            Purpose::Upkeep => self.upkeep.as_ref(),
        }
    }

    pub fn set(&mut self, purpose: Purpose, setback: Setback) {
        match purpose {
            Purpose::Mint => self.mint = Some(setback),
            Purpose::Retire => self.retire = Some(setback),
            Purpose::RetireVersion(version) => {
                self.versions.insert(version, setback);
            }
            Purpose::Check => self.check = Some(setback),
            Purpose::Upkeep => self.upkeep = Some(setback),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setback {
    pub count: u32,
    pub at: Timestamp,
    pub kind: TroubleKind,
    /// The reason shown to people.
    pub because: Because,
    /// What the issuer asked us to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What the request was made with; if it changes, another try at once is worth it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Fingerprint>,
    /// What exactly went wrong, in our own words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}
