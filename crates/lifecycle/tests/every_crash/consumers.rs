//! What consumers do. With versioned delivery: look, hold, use, let go of the old. In place: use what is there.

use lifecycle::Delivery;

use crate::configurations::{Configuration, Lie};
use crate::servers::vanish_if_free;
use crate::world::{Kind, NOBODY, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Learns that status names this credential, now or in a cache from before.
    Reads(u8),
    Holds,
    Uses,
    LetsGo(u8),
    Stops,
}

/// Everything this consumer could do now.
pub fn deeds(w: &World, c: &Configuration, who: usize, out: &mut Vec<Deed>) {
    let consumer = w.consumers[who];
    let ending = w.resource.deleting || !w.resource.exists;
    match c.policy.delivery {
        Delivery::Versioned => {
            for credential in 0..16 {
                let named = if c.stale_status {
                    w.ever_named >> credential & 1 == 1
                } else {
                    w.resource.exists && w.resource.status == credential
                };
                if named && consumer.read != credential && consumer.using != credential {
                    out.push(Deed::Reads(credential));
                }
            }
            if consumer.read != NOBODY {
                let held = holds(w, who, consumer.read);
                if !held {
                    out.push(Deed::Holds);
                }
                if held || c.lie == Some(Lie::ConsumerUsesBeforeItHolds) {
                    out.push(Deed::Uses);
                }
            }
            for secret in &w.secrets {
                let wanted = [consumer.using, consumer.read].contains(&secret.credential);
                if secret.holders >> who & 1 == 1 && !wanted {
                    out.push(Deed::LetsGo(secret.credential));
                }
            }
        }
        Delivery::InPlace => {
            // Nobody starts anew with what is on its way out: in place there is no finalizer that could stop it.
            let other = !ending
                && w.target().is_some_and(|target| {
                    target.credential != NOBODY
                        && (target.credential, target.value) != (consumer.using, consumer.value)
                });
            if other {
                out.push(Deed::Uses);
            }
        }
    }
    if ending && (consumer.using != NOBODY || consumer.read != NOBODY) {
        out.push(Deed::Stops);
    }
}

fn holds(w: &World, who: usize, credential: u8) -> bool {
    w.secrets.iter().any(|secret| {
        secret.kind == Kind::Final
            && secret.credential == credential
            && secret.holders >> who & 1 == 1
    })
}

pub fn perform(w: &mut World, c: &Configuration, who: usize, deed: Deed) {
    let wanted = w.consumers[who].read;
    let place = |w: &World, credential: u8| {
        w.secrets
            .iter()
            .position(|secret| secret.kind == Kind::Final && secret.credential == credential)
    };
    match deed {
        Deed::Reads(credential) => w.consumers[who].read = credential,
        Deed::Holds => match place(w, wanted) {
            // The API server refuses new finalizers on what is being deleted: look again.
            Some(index) if w.secrets[index].leaving => w.consumers[who].read = NOBODY,
            Some(index) => w.secrets[index].holders |= 1 << who,
            None => w.consumers[who].read = NOBODY,
        },
        Deed::Uses => {
            let source = match c.policy.delivery {
                Delivery::Versioned => place(w, wanted),
                Delivery::InPlace => w.secrets.iter().position(|s| s.kind == Kind::Target),
            };
            w.consumers[who].read = NOBODY;
            if let Some(secret) = source.map(|index| w.secrets[index]) {
                w.consumers[who].using = secret.credential;
                w.consumers[who].value = secret.value;
            }
        }
        Deed::LetsGo(credential) => {
            if let Some(index) = place(w, credential) {
                w.secrets[index].holders &= !(1 << who);
                vanish_if_free(w, index);
            }
        }
        Deed::Stops => w.consumers[who] = crate::world::Consumer::default(),
    }
}

/// A consumer that behaves: follows status, lets go of the old, leaves when the resource leaves.
pub fn follow(w: &mut World, c: &Configuration) -> bool {
    let mut moved = false;
    let mut deeds_now = Vec::new();
    for who in 0..c.consumers {
        loop {
            deeds_now.clear();
            deeds(w, c, who, &mut deeds_now);
            let sensible = deeds_now.iter().copied().find(|deed| match deed {
                Deed::Reads(credential) => {
                    w.resource.exists
                        && !w.resource.deleting
                        && w.resource.status == *credential
                        && w.secrets
                            .iter()
                            .any(|s| s.credential == *credential && !s.leaving)
                }
                Deed::Holds | Deed::Uses | Deed::LetsGo(_) | Deed::Stops => true,
            });
            let Some(deed) = sensible else { break };
            perform(w, c, who, deed);
            moved = true;
        }
    }
    moved
}
