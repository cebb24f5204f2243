//! Where things are, in walks where a changed spec points to another place.

use std::sync::Arc;

use super::names::{Ledgers, names};
use crate::configurations::Configuration;
use crate::world::{Kind, Operator, Secret, version};

/// Where a spec points, in walks where that is part of it.
pub(super) fn place_of(c: &Configuration, spec: u8) -> Option<Arc<str>> {
    c.moves.then(|| names().places[usize::from(spec)].clone())
}

/// The number of a place; 0 where a walk knows only one.
fn number_of_place(source: Option<&Arc<str>>) -> Option<u8> {
    source?.strip_prefix("place-")?.parse().ok()
}

/// Whether a list is made there: as the engine does it, where the spec points now, and wherever something is recorded or
/// may have gone astray.
pub fn is_looked_at(c: &Configuration, ledgers: &Ledgers, o: &Operator, place: u8) -> bool {
    if !c.moves || place == 0 || place == o.resource.spec {
        return true;
    }
    let is_there = |source: &Arc<str>| number_of_place(Some(source)) == Some(place);
    let recorded = ledgers.of(o.resource.ledger).is_some_and(|ledger| {
        let open = ledger
            .intent
            .iter()
            .filter_map(|intent| intent.source.as_ref());
        let current = ledger
            .current
            .iter()
            .filter_map(|entry| entry.source.as_ref());
        open.chain(current).chain(&ledger.astray).any(is_there)
    });
    let target = |secret: &Secret| secret.kind == Kind::Target && secret.spec == place;
    recorded || o.secrets.iter().any(target)
}

/// Where the engine goes to end a version: where the ledger says, else its Secret, else where the spec points now.
pub(super) fn place_as_minted(
    c: &Configuration,
    ledgers: &Ledgers,
    o: &Operator,
    v: lifecycle::Version,
) -> u8 {
    if !c.moves {
        return 0;
    }
    let ledger = ledgers.of(o.resource.ledger);
    let recorded = ledger.and_then(|ledger| number_of_place(ledger.source_of(v)));
    let stored = || {
        let secret = o.secrets.iter().find(|secret| {
            secret.kind != Kind::Nothing && version(secret.version) == v && secret.spec > 0
        });
        secret.map(|secret| secret.spec)
    };
    recorded.or_else(stored).unwrap_or(o.resource.spec)
}
