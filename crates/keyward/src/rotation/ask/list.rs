//! What the issuer has of this resource, wherever it may be.

use std::sync::Arc;

use lifecycle::{Issued, IssuedId, Owner, Role, Stored, Trouble};
use sources::Source;

use super::open::{open, open_as_minted, open_at};
use crate::engine::world::World;
use crate::rotation::observe::Observation;

/// What was found at the issuer.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) issued: Vec<Issued>,
    pub(super) elsewhere: Vec<(IssuedId, Arc<dyn Source>)>,
    /// What bears the mark of a former life.
    pub(super) former: Vec<Issued>,
    /// Why one of the other places could not be looked at.
    pub(super) unlisted: Option<Trouble>,
}

/// Lists where the spec points now, and wherever a mint was begun whose end is not known: a changed spec must not hide
/// what an earlier one made. That an earlier place is gone does not keep the present one from being used.
pub(super) async fn list(world: &World, observed: &Observation) -> Result<Listed, Trouble> {
    let owner = observed.owner(world);
    let stored = crate::rotation::observe::stored(observed.kind.as_ref(), &observed.secrets);
    let recorded = recorded(observed, &stored);
    let mut sources = match open(observed) {
        Ok(source) => vec![source],
        Err(_) if observed.made_all_elsewhere() => Vec::new(),
        Err(trouble) => return Err(trouble),
    };
    let is_listed_here = !sources.is_empty();
    // What is not in the ledger may have been made with another spec.
    let ledger = observed.ledger().is();
    let recorded_as = |version| ledger.and_then(|ledger| ledger.entry(version));
    let unrecorded = |stored: &&Stored| match stored.role {
        Role::Draft => true,
        Role::Final => recorded_as(stored.version).is_none(),
        Role::Target => false,
    };
    let mut listed = Listed::default();
    for made in stored.iter().filter(unrecorded) {
        match open_as_minted(world, observed, made.version).await {
            Ok(source) if sources.iter().any(|known| Arc::ptr_eq(known, &source)) => {}
            Ok(source) => sources.push(source),
            Err(trouble) => listed.unlisted = Some(trouble),
        }
    }
    for (nth, source) in sources.iter().enumerate() {
        let found = match list_at(world, source, &owner, &recorded).await {
            Ok(found) => found,
            Err(trouble) if nth == 0 && is_listed_here => return Err(trouble),
            // Only a Secret's own word led there, which anybody may have written.
            Err(trouble) => {
                listed.unlisted = Some(trouble);
                continue;
            }
        };
        for one in found {
            if !listed.issued.contains(&one) {
                listed.issued.push(one);
            }
        }
    }
    if let Some(former) = observed.former_owner() {
        for source in &sources {
            listed
                .former
                .extend(list_at(world, source, &former, &[]).await?);
        }
    }
    for object in observed.other_places() {
        let there = async {
            let source = open_at(world, observed, &object).await?;
            let found = list_at(world, &source, &owner, &recorded).await?;
            Ok::<_, Trouble>((source, found))
        };
        match there.await {
            Ok((source, found)) => {
                for one in found {
                    if !listed.issued.contains(&one) {
                        listed.elsewhere.push((one.id.clone(), source.clone()));
                        listed.issued.push(one);
                    }
                }
            }
            Err(trouble) => listed.unlisted = Some(trouble),
        }
    }
    Ok(listed)
}

pub(super) fn stored_now(observed: &Observation) -> Vec<Stored> {
    crate::rotation::observe::stored(observed.kind.as_ref(), &observed.secrets)
}

/// What is recorded of this resource, in its Secrets or in its ledger. Whether it bears its mark is the issuer's to say.
pub(super) fn recorded(observed: &Observation, stored: &[Stored]) -> Vec<Issued> {
    let in_secrets = stored.iter().filter_map(|stored| {
        Some(Issued {
            id: stored.id.clone()?,
            version: stored.version,
            marked: true,
        })
    });
    let mut recorded: Vec<Issued> = in_secrets.collect();
    if let Some(ledger) = observed.ledger().is() {
        for entry in ledger.entries() {
            let one = Issued {
                id: entry.id.clone(),
                version: entry.version,
                marked: true,
            };
            if !recorded.contains(&one) {
                recorded.push(one);
            }
        }
    }
    recorded
}

pub(in crate::rotation) async fn list_at(
    world: &World,
    source: &Arc<dyn Source>,
    owner: &Owner,
    recorded: &[Issued],
) -> Result<Vec<Issued>, Trouble> {
    let request = source.list(owner, recorded);
    if source.lists_together() {
        world.at_issuer_unlimited(source, "list", request).await
    } else {
        world.at_issuer(source, "list", request).await
    }
}
