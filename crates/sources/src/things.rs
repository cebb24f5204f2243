//! Things at an issuer that have no value of their own, such as accounts and users.

use async_trait::async_trait;
use lifecycle::{Holder, Owner};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SourceError;

/// What a thing is called at its issuer. Chosen by us before it is made, so that a lost reply makes no second one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ThingId(String);

impl ThingId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for ThingId {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// A thing as its issuer has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// What can be asked for, as it is.
    pub state: Value,
    /// It bears the mark of whoever asks, at the issuer itself. Otherwise it is somebody else's.
    pub ours: bool,
}

/// One issuer, as far as it keeps such things, reached with one login. It does what it is told, once.
#[async_trait]
pub trait Things: Send + Sync + std::fmt::Debug {
    /// Which issuer this is, for limits and metrics.
    fn place(&self) -> &str;

    /// Whose requests these are to the issuer.
    fn login_name(&self) -> &str {
        self.place()
    }

    /// What is there under this id; `None`: nothing.
    async fn look(&self, id: &ThingId, owner: &Owner) -> Result<Option<Found>, SourceError>;

    /// Makes it with this owner's mark, or brings what is there up to what is wanted.
    /// *Guarantees:* what bears no mark of this owner is not changed. *If the reply is lost:* it may have happened, and is
    /// found under the same id.
    async fn put(&self, id: &ThingId, owner: &Owner, wanted: &Value) -> Result<(), SourceError>;

    /// What keeps it from being removed, beside what this owner keeps in it.
    async fn blockers(&self, id: &ThingId, owner: &Owner) -> Result<Vec<Holder>, SourceError>;

    /// Removes it. One that is gone already counts as removed.
    /// *Guarantees:* what bears no mark of this owner stays.
    async fn remove(&self, id: &ThingId, owner: &Owner) -> Result<(), SourceError>;
}
