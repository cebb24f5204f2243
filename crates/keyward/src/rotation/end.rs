//! Ending a credential at its issuer, and making sure that it is ended.

use std::sync::Arc;

use lifecycle::{IssuedId, Known, Trouble, Version};
use sources::{Proof, Source};

use super::ask::open_to_end;
use super::former;
use super::observe::Observation;
use crate::engine::limits::Lane;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// *Guarantees:* the credential is ended, or the failure is known. *If it dies here:* it may be ended; the record of it
/// stands until that is confirmed. *Safe to repeat because* one that is gone already counts as ended.
pub(super) async fn revoke(
    world: &World,
    observed: &mut Observation,
    version: Version,
    id: &IssuedId,
) -> Result<(), Fault> {
    let source = open_to_end(world, observed, version)
        .await
        .map_err(Fault::Issuer)?;
    end_at(world, observed, version, id, &source).await?;
    no_longer_listed(observed, id);
    Ok(())
}

/// As [`revoke`], of what no ledger records: it is ended where it was found.
/// *Guarantees:* the issuer no longer knows it, or the failure is known. No record stands that would have this confirmed later.
pub(super) async fn sweep(
    world: &World,
    observed: &mut Observation,
    version: Version,
    id: &IssuedId,
) -> Result<(), Fault> {
    let found = observed.elsewhere.iter().find(|(listed, _)| listed == id);
    let source = match found.map(|(_, source)| source.clone()) {
        Some(source) => source,
        None => open_to_end(world, observed, version)
            .await
            .map_err(Fault::Issuer)?,
    };
    end_at(world, observed, version, id, &source).await?;
    let gone = is_gone_at(world, observed, version, id, &source).await;
    if !gone.map_err(Fault::Issuer)? {
        return Err(Fault::Issuer(Trouble::still_there()));
    }
    no_longer_listed(observed, id);
    Ok(())
}

fn no_longer_listed(observed: &mut Observation, id: &IssuedId) {
    if let Known::Is(listing) = &mut observed.answers.issued {
        listing.retain(|issued| issued.id != *id);
    }
}

async fn end_at(
    world: &World,
    observed: &mut Observation,
    version: Version,
    id: &IssuedId,
    source: &Arc<dyn Source>,
) -> Result<(), Fault> {
    former::learn_its_mark(world, observed, version, id, source).await?;
    let values = observed.values_of(version, id);
    let _permit = world
        .permit_at(source, "revoke", Lane::Revoke)
        .await
        .map_err(Fault::Issuer)?;
    world.may_begin("revoking")?;
    let mark = observed.mark_of(world, version, id);
    let proof = Proof {
        mark: &mark,
        recorded: observed.has_a_guarded_record_of(id),
        values: values.as_ref(),
    };
    let asked = source.revoke(&proof, id);
    world
        .at_issuer_unlimited(source, "revoke", asked)
        .await
        .map_err(Fault::Issuer)
}

/// Whether the issuer no longer knows what was ended there a moment ago.
pub(super) async fn is_gone_at(
    world: &World,
    observed: &Observation,
    version: Version,
    id: &IssuedId,
    source: &Arc<dyn Source>,
) -> Result<bool, Trouble> {
    let values = observed.values_of(version, id);
    // The last part of a revoke, and let in like one.
    let _permit = world.permit_at(source, "confirm", Lane::Revoke).await?;
    let asked = source.gone(id, values.as_ref());
    world.at_issuer_unlimited(source, "confirm", asked).await
}
