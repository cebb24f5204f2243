//! A value that a person provides: nothing is made or ended at the issuer.

use async_trait::async_trait;
use lifecycle::{Issued, IssuedId, Issuer, Mark, Owner, Verdict};
use sources::standin::StandIn;
use sources::{Minted, Order, Proof, Source, SourceError, Values};

/// A credential that a person provides: what is in the login Secret is the credential itself.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) inner: StandIn,
    pub(super) values: Values,
}

#[async_trait]
impl Source for Given {
    fn issuer(&self) -> Issuer {
        self.inner.issuer()
    }

    fn place(&self) -> &str {
        self.inner.place()
    }

    async fn list(&self, owner: &Owner, recorded: &[Issued]) -> Result<Vec<Issued>, SourceError> {
        self.inner.list(owner, recorded).await
    }

    async fn mint(&self, order: &Order) -> Result<Minted, SourceError> {
        self.inner.mint(order).await
    }

    async fn read_back(&self, mark: &Mark) -> Result<Option<Minted>, SourceError> {
        let id = IssuedId::from(format!("provided-{}", mark.version()));
        Ok(Some(Minted {
            id,
            values: self.values.clone(),
            expires: None,
        }))
    }

    async fn verify(&self, values: &Values) -> Result<Verdict, SourceError> {
        self.inner.verify(values).await
    }

    /// What a person provides has no id but the one that we gave it.
    async fn verify_as(&self, _id: &IssuedId, values: &Values) -> Result<Verdict, SourceError> {
        self.inner.verify(values).await
    }

    async fn revoke(&self, proof: &Proof<'_>, id: &IssuedId) -> Result<(), SourceError> {
        self.inner.revoke(proof, id).await
    }

    async fn gone(&self, id: &IssuedId, values: Option<&Values>) -> Result<bool, SourceError> {
        self.inner.gone(id, values).await
    }
}
