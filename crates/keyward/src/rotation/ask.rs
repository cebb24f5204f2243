//! Finding out. Nothing here changes anything.

mod evidence;
mod list;
mod open;

use std::sync::Arc;

use jiff::SignedDuration;
use lifecycle::{Answer, Because, Minting, Question, Trouble, TroubleKind, Verdict, Version};
use sources::{Source, Values};

use super::end::is_gone_at;
use super::observe::{Fresh, Observation, look_again};
use super::{predecessor, recorded, referrers};
use crate::engine::Key;
use crate::engine::reader;
use crate::engine::trouble::Fault;
use crate::engine::world::World;

pub(super) use list::list_at;
use list::{list, recorded, stored_now};
pub use open::{open, open_as_minted, open_at, open_to_end};

/// Asks, and puts the answer, or the failure to get one, where the next decision sees it.
/// Only trouble with the API server itself ends the pass.
pub async fn ask(
    world: &World,
    key: &Key,
    observed: &mut Observation,
    question: Question,
    because: Because,
) -> Result<(), Fault> {
    match question {
        Question::Resource => look_again(world, key, observed).await?,
        Question::Issued => {
            if because == Because::Checking && !observed.listed {
                look_for_more(world, observed).await?;
            }
            let asked = list(world, observed).await;
            observed.answers.read_after_listing = false;
            observed.answers.issued = match asked {
                Ok(mut listed) => {
                    observed.marks.clear();
                    let recorded = recorded(observed, &stored_now(observed));
                    let former = std::mem::take(&mut listed.former);
                    listed
                        .issued
                        .retain(|one| former.iter().all(|other| other.id != one.id));
                    let own = observed.as_own(world, former, &recorded);
                    listed.issued.extend(own);
                    observed.compared = true;
                    (observed.elsewhere, observed.answers.unlisted) =
                        (listed.elsewhere, listed.unlisted);
                    lifecycle::Known::Is(listed.issued)
                }
                Err(trouble) => lifecycle::Known::Failed(trouble),
            };
        }
        Question::Works(version) => {
            let is = works(world, observed, version).await;
            observed.compared |= is.is_ok();
            observed.answers.works = Some(Answer { about: version, is });
        }
        Question::Referrers(version) => {
            let found = referrers::to(world, observed, version).await;
            let is = match found {
                Ok(found) => {
                    observed.await_change(found.awaited);
                    Ok(found.holders)
                }
                Err(fault) => Err(fault.to_trouble()),
            };
            keep(
                &mut observed.answers.referrers,
                Answer { about: version, is },
            );
        }
        Question::Ended(version) => {
            let is = works(world, observed, version).await;
            let is = is.map(|verdict| verdict == Verdict::Refused);
            keep(&mut observed.answers.ended, Answer { about: version, is });
        }
        Question::Gone(version) => {
            let is = gone(world, observed, version).await;
            observed.answers.gone = Some(Answer { about: version, is });
        }
        Question::Predecessor => predecessor::look(world, observed).await?,
    }
    if let Some(source) = asked(world, observed, question).await {
        observed.answers.behind = behind(world, &source);
    }
    Ok(())
}

/// Who has just answered.
async fn asked(
    world: &World,
    observed: &Observation,
    question: Question,
) -> Option<Arc<dyn Source>> {
    match question {
        Question::Issued => open(observed).ok(),
        Question::Works(version)
        | Question::Referrers(version)
        | Question::Ended(version)
        | Question::Gone(version) => open_as_minted(world, observed, version).await.ok(),
        Question::Resource | Question::Predecessor => None,
    }
}

/// How far the issuer's clock is behind ours, by an answer of a moment ago. Less than minutes is nothing to wait for, more
/// than a day is no clock.
fn behind(world: &World, source: &Arc<dyn Source>) -> SignedDuration {
    let Some(ahead) = source.skew() else {
        return SignedDuration::ZERO;
    };
    let behind = world.clock.offset() - ahead;
    if behind < SignedDuration::from_mins(2) {
        return SignedDuration::ZERO;
    }
    behind.min(SignedDuration::from_hours(24))
}

/// The timed check is also for Secrets that the ledger does not know.
async fn look_for_more(world: &World, observed: &mut Observation) -> Result<(), Fault> {
    let mut own = observed.own();
    let (kind, object) = (observed.kind.clone(), observed.object.clone());
    let looked = recorded::look_for_more(world, kind.as_ref(), &object, &mut own).await;
    observed.saw_own(own);
    looked
}

/// One answer for each version, the last one: an answer about one must not make that about another be forgotten, or
/// both would be asked for without end.
fn keep<T>(answers: &mut Vec<Answer<T>>, answer: Answer<T>) {
    answers.retain(|other| other.about != answer.about);
    answers.push(answer);
}

async fn works(
    world: &World,
    observed: &mut Observation,
    version: Version,
) -> Result<Verdict, Trouble> {
    if let Some((id, values)) = observed.unmarked(version) {
        let source = open(observed)?;
        let asked = source.verify_as(&id, &values);
        return world.at_issuer(&source, "verify", asked).await;
    }
    let source = if observed.holds_as_minted(version) {
        open_as_minted(world, observed, version).await?
    } else {
        open(observed)?
    };
    let Some(values) = values_of(world, observed, &source, version).await? else {
        return Ok(Verdict::Refused);
    };
    // Where only a Secret says whose it is, it must also be the one that it names.
    let named = observed.recorded_id(version).filter(|_| observed.hearsay);
    let asked = match &named {
        Some(id) => source.verify_as(id, &values),
        None => source.verify(&values),
    };
    world.at_issuer(&source, "verify", asked).await
}

/// The values of a version, wherever they are now: in hand, in its Secret, in its draft, at the issuer.
/// `None`: nowhere any more.
async fn values_of(
    world: &World,
    observed: &mut Observation,
    source: &Arc<dyn Source>,
    version: Version,
) -> Result<Option<Values>, Trouble> {
    if let Some(fresh) = observed
        .in_hand
        .as_ref()
        .filter(|fresh| fresh.version == version)
    {
        return Ok(Some(fresh.values.clone()));
    }
    if let Some(stored) = observed.secret_of(version) {
        return Ok(Some(reader::values(stored)));
    }
    let chosen = observed.draft_of(version).map(reader::values);
    if source.issuer().minting == Minting::SelfRotating && version == Version::default() {
        return Ok(observed.target_values());
    }
    let listed = observed
        .answers
        .issued
        .is()
        .and_then(|listing| listing.iter().find(|issued| issued.version == version))
        .cloned();
    let fresh = match (chosen, listed) {
        // Its reply was lost, but we chose the value ourselves: id and draft together are the whole credential.
        (Some(chosen), Some(issued)) => {
            let found = world
                .at_issuer(source, "read back", source.complete(&chosen, &issued.id))
                .await?;
            let Some(found) = found else { return Ok(None) };
            Fresh {
                version,
                id: found.id,
                values: found.values,
                expires: found.expires,
                minted_here: false,
                maybe_stored: false,
            }
        }
        (Some(_), None) => return Ok(None),
        (None, _) => {
            let mark = observed.owner(world).mark(version);
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
                maybe_stored: false,
            }
        }
    };
    let values = fresh.values.clone();
    observed.in_hand = Some(fresh);
    Ok(Some(values))
}

async fn gone(world: &World, observed: &Observation, version: Version) -> Result<bool, Trouble> {
    let source = open_to_end(world, observed, version).await?;
    let id = observed.recorded_id(version).ok_or_else(|| {
        Trouble::new(
            TroubleKind::Unexpected,
            "no record of the version to be confirmed",
        )
    })?;
    is_gone_at(world, observed, version, &id, &source).await
}
