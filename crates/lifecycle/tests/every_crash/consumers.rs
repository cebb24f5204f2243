//! What consumers do. With versioned delivery: hold what status names, let go of the old. In place: use what is there.
//!
//! With versioned delivery a consumer uses only what it holds, so that its finalizers are all of it that matters. It may
//! have read status at any time before it puts its finalizer somewhere, and nobody sees it read: so it holds, in one
//! event, whatever status ever named. It may let go of anything, in any order, for it may have stopped using it, or
//! never have begun to. Every well-behaved consumer is among these.

use lifecycle::Delivery;

use crate::configurations::{Configuration, Lie};
use crate::servers::vanish_if_free;
use crate::world::{Kind, NOBODY, Secret, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Puts its finalizer on the Secret of a credential that status names or named.
    Holds(u8),
    LetsGo(u8),
    /// In place: takes up what is in the target.
    Uses,
    /// A broken variant: uses what it does not hold.
    UsesUnheld(u8),
    Stops,
}

/// Everything this consumer could do now.
pub fn deeds(w: &World, c: &Configuration, who: usize, out: &mut Vec<Deed>) {
    let consumer = w.consumers[who];
    let ending = w.resource.deleting || !w.resource.exists;
    match c.policy.delivery {
        Delivery::Versioned => {
            let usable = |s: &&Secret| s.kind == Kind::Final && s.credential != NOBODY && !s.forged;
            for secret in w.secrets.iter().filter(usable) {
                let credential = secret.credential;
                let named = w.ever_named >> credential & 1 == 1;
                let held = secret.holders >> who & 1 == 1;
                // The API server refuses new finalizers on what is being deleted.
                if named && !held && !secret.leaving {
                    out.push(Deed::Holds(credential));
                }
                if held {
                    out.push(Deed::LetsGo(credential));
                }
                let hasty = c.lie == Some(Lie::ConsumerUsesBeforeItHolds);
                if hasty && named && consumer.using != credential {
                    out.push(Deed::UsesUnheld(credential));
                }
            }
        }
        Delivery::InPlace => {
            // Nobody starts anew with what is on its way out: in place there is no finalizer that could stop it.
            let other = !ending
                && w.target().is_some_and(|target| {
                    target.inside() != NOBODY
                        && (target.inside(), target.value) != (consumer.using, consumer.value)
                });
            if other {
                out.push(Deed::Uses);
            }
        }
    }
    if ending && consumer.using != NOBODY {
        out.push(Deed::Stops);
    }
}

pub fn perform(w: &mut World, who: usize, deed: Deed) {
    let place = |w: &World, credential: u8| {
        w.secrets.iter().position(|secret| {
            secret.kind == Kind::Final && secret.credential == credential && !secret.forged
        })
    };
    match deed {
        Deed::Holds(credential) => {
            if let Some(index) = place(w, credential) {
                w.secrets[index].holders |= 1 << who;
            }
        }
        Deed::LetsGo(credential) => {
            if let Some(index) = place(w, credential) {
                w.secrets[index].holders &= !(1 << who);
                vanish_if_free(w, index);
            }
        }
        Deed::Uses => {
            if let Some(target) = w.target().copied() {
                w.consumers[who].using = target.inside();
                w.consumers[who].value = target.value;
            }
        }
        Deed::UsesUnheld(credential) => w.consumers[who].using = credential,
        Deed::Stops => w.consumers[who] = crate::world::Consumer::default(),
    }
}

/// A consumer that behaves: follows status, then lets go of the old, leaves when the resource leaves.
pub fn follow(w: &mut World, c: &Configuration) -> bool {
    let mut moved = false;
    let mut deeds_now = Vec::new();
    for who in 0..c.consumers {
        loop {
            deeds_now.clear();
            deeds(w, c, who, &mut deeds_now);
            let sensible = deeds_now
                .iter()
                .copied()
                .find(|deed| is_sensible(w, who, *deed));
            let Some(deed) = sensible else { break };
            perform(w, who, deed);
            moved = true;
        }
    }
    moved
}

fn is_sensible(w: &World, who: usize, deed: Deed) -> bool {
    let ending = w.resource.deleting || !w.resource.exists;
    let named = w.resource.status;
    match deed {
        Deed::Holds(credential) => !ending && credential == named,
        Deed::LetsGo(credential) => {
            let moved_on = w
                .secrets
                .iter()
                .any(|secret| secret.credential == named && secret.holders >> who & 1 == 1);
            ending || (credential != named && moved_on)
        }
        Deed::Uses | Deed::Stops => true,
        Deed::UsesUnheld(_) => false,
    }
}
