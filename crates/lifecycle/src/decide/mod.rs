//! Facts in, decision out. The order of the checks is the policy.

mod begin;
mod cap;
mod check;
mod former;
mod give_up;
mod holders;
pub(crate) mod illness;
mod leave;
mod mint;
mod predecessor;
mod recover;
mod retire;
mod rotate;
mod scene;
mod setbacks;
mod strays;
mod sweep;
mod upkeep;
mod withdraw;

use crate::{
    Because, Change, Decision, Facts, Ledger, LedgerState, Next, Question, Resource, Trouble, Wait,
};
use scene::{Choice, Scene, Waits};

/// A check looks at the scene and either settles what happens next or lets the one below speak. What it merely waits
/// for it adds to the waits.
type Check = fn(&Scene, &mut Waits) -> Option<Choice>;

/// The policy, top to bottom: the first check that has something to do wins.
const POLICY: &[Check] = &[
    rotate::free_a_refused_value, // only this pass knows that the answer was a clear no: it says so before it forgets
    check::try_the_current_when_we_are_refused, // only this pass knows: what consumers use may be dead too, or live on
    recover::write_down_what_failed, // early: a failure nobody remembers is repeated by the next process
    rotate::settle_an_answered_failure, // before its pause: what is known is said at once
    recover::condemn_in_an_emergency, // a leaked credential does not wait for anything below
    upkeep::put_the_guard_back,      // a resource that goes past us leaves its credentials behind
    recover::rebuild_a_ledger_overtaken, // Secrets know more than the ledger: nothing else can be trusted before
    recover::recognise_the_target,
    recover::count_what_is_spent, // before anything is begun: no number is used twice
    recover::date_what_is_undated,
    strays::tell_of_lookalikes,
    former::take_over, // before strays are settled: what it brings is current, not on its way out
    former::tell,
    upkeep::mend_records, // what a Secret no longer says of itself is neither found nor woken by
    leave::take_everything_out_of_service, // closes the open intent, so that nothing new is published any more
    mint::publish_what_is_stored,          // a stored version nobody sees helps nobody
    mint::go_back, // a person wants the previous version; only while it is whole
    mint::mirror_what_is_published, // consumers follow status: nothing old goes before they can know of the new
    mint::annotate_the_secret, // an edit of them takes effect at once, whatever the issuer or the login is up to
    predecessor::settle_what_is_left, // before strays are: all that is left gets its record, then all of it is retired
    strays::adopt_strays, // a complete Secret without a record gets one, so that it is retired in order
    strays::let_lookalikes_go,
    strays::discard_drafts,
    sweep::sweep_orphans, // before minting: leftovers count against the cap
    leave::abandon_what_cannot_be_ended, // before it is tried once more
    retire::retire_the_superseded,
    leave::let_go_of_secrets,
    leave::finish,
    withdraw::give_up_what_is_not_wanted_any_more, // nobody is rotated for a wish that was taken back
    mint::finish_the_mint,
    begin::begin_a_mint,
    check::tidy_old_notes,
    check::check_what_lives,
];

/// Looks at the facts and says what happens next, why, and what is being waited for.
///
/// ```
/// use lifecycle::{decide, Facts, Next, Question};
/// let facts: Facts = serde_json::from_value(serde_json::json!({
///     "now": "2026-01-01T00:00:00Z",
///     "cluster": {
///         "uid": "u", "resource": {},
///         "wanted": { "Ok": { "print": "p", "inputs": "i" } },
///         "policy": { "delivery": "Versioned", "retire": "WhenReleased", "deletion": "Revoke" },
///         "issuer": { "minting": "Chosen", "lists": true, "revokes": true },
///     },
///     "process": { "started": "2026-01-01T00:00:00Z" },
/// }))?;
/// // A resource never seen before: first of all, does it already have anything out there?
/// assert_eq!(decide(&facts).next, Next::Ask(Question::Issued));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn decide(facts: &Facts) -> Decision {
    let mut waits = Waits::default();
    let choice = match &facts.cluster.resource {
        None => Some(leave::clean_up_after(facts, &mut waits)),
        Some(resource) => with_resource(facts, resource, &mut waits),
    };
    waits.settle(choice)
}

fn with_resource(facts: &Facts, resource: &Resource, waits: &mut Waits) -> Option<Choice> {
    if resource.deleting && !resource.guarded {
        return Some(Choice::rest(Because::NotOurs));
    }
    if resource.suspended {
        return Some(Choice::rest(Because::Suspended));
    }
    if let Some(count) = facts.cluster.crowded {
        waits.shown_with(Because::TooManySecrets, format!("{count} or more"));
    }
    match &resource.ledger {
        LedgerState::Is(ledger) => by_policy(
            &Scene {
                facts,
                resource,
                ledger,
            },
            waits,
        ),
        LedgerState::Newer => Some(Choice::rest(Because::LedgerFromTheFuture)),
        LedgerState::Absent | LedgerState::Unreadable | LedgerState::OfAnother(_) => {
            without_ledger(facts, resource, waits)
        }
    }
}

fn by_policy(scene: &Scene, waits: &mut Waits) -> Option<Choice> {
    POLICY.iter().find_map(|check| check(scene, waits))
}

/// New, or lost? Only the Secrets and the issuer can tell; nothing is minted before both were looked at.
fn without_ledger(facts: &Facts, resource: &Resource, waits: &mut Waits) -> Option<Choice> {
    if facts.cluster.crowded.is_some() {
        return Some(Choice::rest(Because::TooManySecrets));
    }
    // Before the Secrets are judged by: a predecessor's have no record yet, and are versions too.
    let taking_over = former::is_asked_for(facts, resource);
    if (resource.ledger == LedgerState::Absent || taking_over)
        && let Some(choice) = predecessor::take_over(facts)
    {
        return Some(choice);
    }
    if let Some(trouble) = facts.answers.unproved.as_ref().filter(|_| taking_over) {
        return Some(try_later_without_ledger(facts, trouble, waits));
    }
    // Our finalizer and the first entry of the ledger are one write: where one is without the other, it was lost.
    let never_written = !resource.guarded && resource.ledger == LedgerState::Absent;
    let missing = if never_written && facts.cluster.secrets.is_empty() {
        Because::FirstMint
    } else {
        Because::LedgerLost
    };
    let leaves_issuer_alone = resource.deleting && !leave::revokes(facts);
    if facts.cluster.issuer.lists && !leaves_issuer_alone {
        if facts.cluster.wanted.is_err() && !resource.deleting && facts.cluster.secrets.is_empty() {
            return scene::refused(facts);
        }
        match scene::listing(facts) {
            Ok(_) => {}
            Err(None) => return Some(Choice::ask(Question::Issued, missing)),
            Err(Some(trouble)) => return Some(try_later_without_ledger(facts, trouble, waits)),
        }
    }
    let nothing_issued = facts.answers.issued.is().is_none_or(Vec::is_empty);
    let nothing_stored = facts.cluster.secrets.iter().all(scene::is_blank);
    let anothers = matches!(resource.ledger, LedgerState::OfAnother(_));
    if nothing_issued && nothing_stored && anothers && !resource.deleting {
        // A copy, or restored under a new uid: it begins a life of its own, and owes nothing to the one it names.
        let fresh = Ledger {
            former: former::as_found(facts),
            ..Ledger::default()
        };
        return Some(Choice::record(
            Change::Disown,
            fresh,
            Because::LedgerOfAnother,
        ));
    }
    if nothing_issued && nothing_stored && (never_written || resource.deleting) {
        let fresh = Ledger::default();
        return by_policy(
            &Scene {
                facts,
                resource,
                ledger: &fresh,
            },
            waits,
        );
    }
    Some(recover::rebuild(facts, resource))
}

/// There is no ledger to write the failure into, and writing one would hide that it was lost.
fn try_later_without_ledger(facts: &Facts, trouble: &Trouble, waits: &mut Waits) -> Choice {
    let wait =
        crate::schedule::uncounted_wait(trouble, facts.process.uncounted, &facts.cluster.uid);
    waits.trouble(trouble, crate::schedule::later(facts.now, wait));
    Choice::rest(trouble.reason())
}

impl Waits {
    fn settle(self, choice: Option<Choice>) -> Decision {
        let waits = self.into_vec();
        let wake = waits.iter().filter_map(|wait: &Wait| wait.until).min();
        let Some(choice) = choice else {
            let because = waits.first().map_or(Because::UpToDate, |wait| wait.because);
            return Decision {
                next: Next::Rest { wake },
                because,
                waits,
            };
        };
        let next = match choice.next {
            Next::Rest { wake: own } => Next::Rest {
                wake: [own, wake].into_iter().flatten().min(),
            },
            next @ (Next::Ask(_) | Next::Do(_)) => next,
        };
        Decision {
            next,
            because: choice.because,
            waits,
        }
    }
}
