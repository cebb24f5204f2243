//! Reaching the issuer: where the spec points now, where a version was minted, and to end something there.

use std::sync::Arc;

use kube::api::DynamicObject;
use lifecycle::{Because, Refusal, Trouble, TroubleKind, Version};
use sources::Source;

use crate::engine::reader::Reader;
use crate::engine::world::World;
use crate::rotation::observe::Observation;

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
