//! Finding out. Nothing here changes anything.

use lifecycle::{Answer, Minting, Question, Trouble, TroubleKind, Verdict, Version};
use sources::{Source, Values};
use std::sync::Arc;

use super::observe::{Fresh, Sight, look_again};
use super::trouble::Fault;
use super::world::World;
use super::{Key, referrers, secrets};

/// Asks, and puts the answer, or the failure to get one, where the next decision sees it.
/// Only trouble with the API server itself ends the pass.
pub async fn ask(
    world: &World,
    key: &Key,
    sight: &mut Sight,
    question: Question,
) -> Result<(), Fault> {
    match question {
        Question::Resource => look_again(world, key, sight).await?,
        Question::Issued => {
            let owner = sight.owner(world);
            let asked = match open(sight) {
                Ok(source) => world.at_issuer(&source, "list", source.list(&owner)).await,
                Err(trouble) => Err(trouble),
            };
            sight.read_after_listing = false;
            sight.issued = match asked {
                Ok(listing) => {
                    sight.compared = true;
                    lifecycle::Known::Is(listing)
                }
                Err(trouble) => lifecycle::Known::Failed(trouble),
            };
        }
        Question::Works(version) => {
            let is = works(world, sight, version).await;
            sight.compared |= is.is_ok();
            sight.works = Some(Answer { about: version, is });
        }
        Question::Referrers(version) => {
            let is = referrers::to(world, sight, version)
                .await
                .map_err(|fault| fault.to_trouble());
            sight.referrers = Some(Answer { about: version, is });
        }
        Question::Gone(version) => {
            let is = gone(world, sight, version).await;
            sight.absent = Some(Answer { about: version, is });
        }
    }
    Ok(())
}

/// The source, or why there is none.
pub fn open(sight: &Sight) -> Result<Arc<dyn Source>, Trouble> {
    sight.source.clone().map_err(|refusal| {
        let detail = if refusal.detail.is_empty() {
            refusal.because.to_string()
        } else {
            refusal.detail
        };
        Trouble::new(TroubleKind::Rejected, detail)
    })
}

async fn works(world: &World, sight: &mut Sight, version: Version) -> Result<Verdict, Trouble> {
    let source = open(sight)?;
    let Some(values) = values_of(world, sight, &source, version).await? else {
        return Ok(Verdict::Refused);
    };
    world
        .at_issuer(&source, "verify", source.verify(&values))
        .await
}

/// The values of a version, wherever they are now: in hand, in its Secret, in its draft, at the issuer.
/// `None`: nowhere any more.
async fn values_of(
    world: &World,
    sight: &mut Sight,
    source: &Arc<dyn Source>,
    version: Version,
) -> Result<Option<Values>, Trouble> {
    if let Some(fresh) = sight
        .in_hand
        .as_ref()
        .filter(|fresh| fresh.version == version)
    {
        return Ok(Some(fresh.values.clone()));
    }
    let kind = sight.kind.clone();
    let find = |draft: bool| {
        sight.secrets.iter().find(|secret| {
            secrets::read(kind.as_ref(), secret).is_some_and(|stored| {
                stored.version == version && (stored.role == lifecycle::Role::Draft) == draft
            })
        })
    };
    if let Some(stored) = find(false) {
        return Ok(Some(secrets::values(stored)));
    }
    let chosen = find(true).map(secrets::values);
    if source.issuer().minting == Minting::SelfRotating && version == Version::default() {
        return Ok(sight.target_values());
    }
    let listed = sight
        .issued
        .is()
        .and_then(|listing| listing.iter().find(|issued| issued.version == version))
        .cloned();
    let fresh = match (chosen, listed) {
        // Its reply was lost, but we chose the value ourselves: id and draft together are the whole credential.
        (Some(chosen), Some(issued)) => {
            let values = source.complete(&chosen, &issued.id);
            Fresh {
                version,
                id: issued.id,
                values,
                expires: None,
                minted_here: false,
            }
        }
        (Some(_), None) => return Ok(None),
        (None, _) => {
            let mark = sight.owner(world).mark(version);
            let back = world
                .at_issuer(source, "read back", source.read_back(&mark))
                .await?;
            let Some(back) = back else { return Ok(None) };
            Fresh {
                version,
                id: back.id,
                values: back.values,
                expires: back.expires,
                minted_here: false,
            }
        }
    };
    let values = fresh.values.clone();
    sight.in_hand = Some(fresh);
    Ok(Some(values))
}

impl Sight {
    /// What stands in the one Secret of in-place delivery now.
    pub fn target_values(&self) -> Option<Values> {
        let target = self.kind.wish(&self.object).ok()?.target?;
        let secret = self
            .secrets
            .iter()
            .find(|secret| secret.metadata.name.as_deref() == Some(target.as_str()))?;
        Some(secrets::values(secret))
    }
}

async fn gone(world: &World, sight: &Sight, version: Version) -> Result<bool, Trouble> {
    let source = open(sight)?;
    let id = sight.recorded_id(version).ok_or_else(|| {
        Trouble::new(
            TroubleKind::Unexpected,
            "no record of the version to be confirmed",
        )
    })?;
    world.at_issuer(&source, "confirm", source.gone(&id)).await
}

impl Sight {
    /// The id of a version by the ledger, or by its Secret when the ledger is no more.
    fn recorded_id(&self, version: Version) -> Option<lifecycle::IssuedId> {
        if let lifecycle::LedgerState::Is(ledger) = super::facts::ledger(self)
            && let Some(entry) = ledger
                .current
                .iter()
                .chain(&ledger.retiring)
                .find(|entry| entry.version == version)
        {
            return Some(entry.id.clone());
        }
        let stored = super::observe::stored(self.kind.as_ref(), &self.secrets);
        stored
            .into_iter()
            .find(|stored| stored.version == version && stored.id.is_some())?
            .id
    }
}
