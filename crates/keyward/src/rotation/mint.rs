//! Asking the issuer for a credential: what can be found out before, and the one request.

use std::sync::Arc;

use lifecycle::{Issued, Known, Minting, Trouble, TroubleKind, Version};
use sources::{Order, Source};

use super::ask::open;
use super::observe::{Fresh, Observation};
use crate::engine::limits::Lane;
use crate::engine::reader;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

/// *Guarantees:* asked for at most once per version by this process. *If it dies here:* the credential may exist; it
/// bears the version's mark and is found by it. *Safe to repeat because* the rules never send the same version again
/// where that could do harm.
pub(super) async fn mint(
    world: &World,
    observed: &mut Observation,
    version: Version,
) -> Result<(), Fault> {
    let source = open(observed).map_err(Fault::Issuer)?;
    let _permit = world
        .permit_at(&source, "mint", Lane::Other)
        .await
        .map_err(Fault::Issuer)?;
    world.may_begin("minting")?;
    let order = order(world, observed, &source, version)?;
    observed.process.mine = None;
    // Whatever becomes of the request, what was known to work before it need not work after it.
    observed.answers.works = None;
    let request = source.mint(&order);
    match world.at_issuer_unlimited(&source, "mint", request).await {
        Ok(minted) => {
            // What was listed before must not make the new one look revoked.
            if let Known::Is(listing) = &mut observed.answers.issued {
                listing.push(Issued {
                    id: minted.id.clone(),
                    version,
                    // What replaced itself inherited its name.
                    marked: source.issuer().minting != Minting::SelfRotating,
                });
            }
            observed.in_hand = Some(Fresh {
                version,
                id: minted.id,
                values: minted.values,
                expires: minted.expires,
                minted_here: true,
                maybe_stored: false,
            });
            Ok(())
        }
        Err(trouble) if trouble.kind == TroubleKind::Conflict && !observed.process.duplicate => {
            // The name is taken, perhaps by our own earlier request: a question, not an error.
            observed.process.duplicate = true;
            observed.answers.issued = Known::NotAsked;
            Ok(())
        }
        Err(trouble) => {
            // It may have happened: what was listed before no longer counts.
            observed.answers.issued = Known::NotAsked;
            Err(Fault::Issuer(trouble))
        }
    }
}

/// *Guarantees:* all that can be found out about the request for this version before it is sent was found out, and
/// nothing was changed. *If it dies here:* nothing was begun.
pub(super) async fn prepare(
    world: &World,
    observed: &Observation,
    version: Version,
) -> Result<(), Fault> {
    let source = open(observed).map_err(Fault::Issuer)?;
    let order = order(world, observed, &source, version)?;
    // If the request may not be sent, nothing may be reserved for it either.
    world.may_begin("minting")?;
    world
        .at_issuer(&source, "prepare", source.prepare(&order))
        .await
        .map_err(Fault::Issuer)
}

/// What is asked for, at this moment.
fn order(
    world: &World,
    observed: &Observation,
    source: &Arc<dyn Source>,
    version: Version,
) -> Result<Order, Fault> {
    let wish =
        observed.reading().wish.clone().map_err(|refusal| {
            Fault::Issuer(Trouble::new(TroubleKind::Rejected, refusal.detail))
        })?;
    let draft = observed.draft_of(version);
    let now = world.now();
    Ok(Order {
        mark: observed.owner(world).mark(version),
        chosen: draft.map(reader::values),
        present: match source.issuer().minting {
            Minting::SelfRotating => observed.target_values(),
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => None,
        },
        wish: observed.kind.order(&observed.object, wish, now),
        now,
    })
}
