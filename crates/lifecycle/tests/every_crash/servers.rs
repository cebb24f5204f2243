//! What the API server and the issuer do with one request, whenever it arrives.

use lifecycle::{Deletion, Delivery, Minting};

use crate::configurations::{Configuration, Lie};
use crate::operator::Ledgers;
use crate::promises;
use crate::world::{CREDENTIALS, Credential, Kind, NOBODY, Request, Secret, V, Verb, World, Wrote};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Done,
    /// The object is not as the sender read it, or may not be written.
    Conflict,
    NotFound,
    /// The issuer has that name already.
    Taken,
    /// The issuer does not accept the login.
    Denied,
    /// Credential and value.
    Minted(u8, u8),
    /// More credentials or Secrets than this walk has room for.
    NoRoom,
}

/// Lets one request take effect.
pub fn perform(w: &mut World, c: &Configuration, ledgers: &Ledgers, r: Request) -> Reply {
    match r.verb {
        Verb::Record => record(w, c, ledgers, r),
        Verb::Mint | Verb::Revoke | Verb::Sweep if w.shut_out => Reply::Denied,
        Verb::Draft => draft(w, r),
        Verb::Claim => claim(w, r),
        Verb::Mint => mint(w, c, ledgers, r),
        Verb::Store => store(w, c, r),
        Verb::Mirror => mirror(w, c, r),
        Verb::Fence | Verb::Discard => delete(w, r),
        // One that does not know it has not ended it.
        Verb::Revoke | Verb::Sweep if is_elsewhere(w, r.credential) => {
            if c.lie == Some(Lie::AnotherIssuersWordCounts) {
                Reply::Done
            } else {
                Reply::Denied
            }
        }
        // Where it is not known, it counts as gone.
        Verb::Revoke if w.credentials[usize::from(r.credential)].place != r.spec => Reply::Done,
        // The source looks at its name first.
        Verb::Revoke | Verb::Sweep if c.looks_at_the_mark() && !is_marked(w, r) => Reply::Denied,
        Verb::Revoke | Verb::Sweep => {
            promises::before_a_revoke(w, c, r.credential);
            w.credentials[usize::from(r.credential)].live = false;
            Reply::Done
        }
        Verb::Release | Verb::Unprotect => release(w, r, false),
        Verb::LetGo => release(w, r, c.policy.deletion == Deletion::Retain),
        Verb::Warn => {
            w.announced |= crate::world::bit(r.version);
            Reply::Done
        }
        Verb::TakeOver => take_over(w, c, r),
        Verb::Annotate => annotate(w, r),
        Verb::Unguard => unguard(w, c, r),
        Verb::Nothing => Reply::NotFound,
    }
}

/// Whether the issuer that is asked now is another than the one that made this.
pub fn is_elsewhere(w: &World, credential: u8) -> bool {
    let made = w.credentials.get(usize::from(credential));
    made.is_some_and(|made| made.live && made.elsewhere != w.elsewhere)
}

/// Whether what is to be ended bears the mark of that version, or is gone already.
fn is_marked(w: &World, r: Request) -> bool {
    let credential = w.credentials[usize::from(r.credential)];
    !credential.live || (!credential.foreign && credential.mark == r.version)
}

fn record(w: &mut World, c: &Configuration, ledgers: &Ledgers, r: Request) -> Reply {
    let swapped = r.fresh || (c.lie == Some(Lie::PublishWithoutSwap) && r.change == Wrote::Publish);
    if !w.resource.exists {
        return Reply::NotFound;
    }
    // Adding a finalizer to a leaving object is refused.
    if !swapped || (w.resource.deleting && !w.resource.guarded) {
        return Reply::Conflict;
    }
    promises::when_the_ledger_is_written(w, c, ledgers, r);
    w.resource.ledger = r.ledger;
    let made = |ledger: &lifecycle::Ledger| ledger.current.is_some();
    let keeps = c.left.old_ledgers > 0 && w.saved_ledger == crate::world::NO_LEDGER;
    if keeps && ledgers.of(r.ledger).is_some_and(|ledger| made(&ledger)) {
        w.saved_ledger = r.ledger;
    }
    w.resource.guarded = true;
    resource_written(w);
    Reply::Done
}

fn mirror(w: &mut World, c: &Configuration, r: Request) -> Reply {
    if !w.resource.exists {
        return Reply::NotFound;
    }
    if !r.fresh && c.lie != Some(Lie::PublishWithoutSwap) {
        return Reply::Conflict;
    }
    w.resource.status = r.credential;
    w.ever_named |= 1u16.checked_shl(r.credential.into()).unwrap_or(0);
    resource_written(w);
    promises::after_publishing(w, r.credential);
    Reply::Done
}

fn unguard(w: &mut World, c: &Configuration, r: Request) -> Reply {
    if !w.resource.exists {
        return Reply::NotFound;
    }
    if !r.fresh {
        return Reply::Conflict;
    }
    w.resource.guarded = false;
    resource_written(w);
    if w.resource.deleting {
        promises::when_it_ends(w, c);
        resource_vanishes(w);
    }
    Reply::Done
}

pub fn resource_vanishes(w: &mut World) {
    w.resource = crate::world::Resource {
        spec: w.resource.spec,
        ..crate::world::Resource::blank()
    };
    resource_written(w);
}

/// Whoever read the resource before now holds an overtaken copy.
pub fn resource_written(w: &mut World) {
    for operator in &mut w.operators {
        operator.resource_fresh = false;
    }
    for flight in &mut w.flights {
        match flight.verb {
            Verb::Record | Verb::Mirror | Verb::Unguard => flight.fresh = false,
            Verb::Draft
            | Verb::Claim
            | Verb::Mint
            | Verb::Store
            | Verb::Fence
            | Verb::Revoke
            | Verb::Sweep
            | Verb::Release
            | Verb::Discard
            | Verb::LetGo
            | Verb::TakeOver
            | Verb::Unprotect
            | Verb::Annotate
            | Verb::Warn
            | Verb::Nothing => {}
        }
    }
}

fn target_written(w: &mut World) {
    for operator in &mut w.operators {
        for copy in &mut operator.secrets {
            copy.overtaken |= copy.kind == Kind::Target;
        }
    }
    for flight in &mut w.flights {
        if matches!(flight.verb, Verb::Claim | Verb::Store | Verb::Annotate) {
            flight.fresh = false;
        }
    }
}

/// A person writes a value into the target, past everybody.
pub fn put_into_the_target(w: &mut World, credential: u8) -> bool {
    let Some(index) = w.find((Kind::Target, 0, NOBODY)) else {
        return false;
    };
    if w.secrets[index].inside() == credential {
        return false;
    }
    target_written(w);
    let value = w.credentials[usize::from(credential)].value;
    let target = &mut w.secrets[index];
    (target.brought, target.value, target.touched) = (credential, value, true);
    true
}

fn create(w: &mut World, secret: Secret) -> Reply {
    let Some(slot) = w.secrets.iter_mut().find(|slot| slot.kind == Kind::Nothing) else {
        return Reply::NoRoom;
    };
    *slot = secret;
    Reply::Done
}

fn draft(w: &mut World, r: Request) -> Reply {
    if w.find((Kind::Draft, r.version, NOBODY)).is_some() {
        return Reply::Done;
    }
    let value = w.next_value;
    w.next_value = w.next_value.saturating_add(1);
    create(
        w,
        Secret {
            kind: Kind::Draft,
            version: r.version,
            value,
            owned: true,
            ..Secret::default()
        },
    )
}

fn claim(w: &mut World, r: Request) -> Reply {
    let there = w.find((Kind::Target, 0, NOBODY));
    match (r.kind, there) {
        (Kind::Nothing, Some(_)) => Reply::Conflict,
        (Kind::Nothing, None) => create(
            w,
            Secret {
                kind: Kind::Target,
                claim: r.version,
                notes: r.notes,
                guarded: true,
                owned: true,
                ..Secret::default()
            },
        ),
        (Kind::Draft | Kind::Final | Kind::Target, None) => Reply::NotFound,
        (Kind::Draft | Kind::Final | Kind::Target, Some(index)) => {
            let target = w.secrets[index];
            if !r.fresh || r.vanished || (target.leaving && !target.guarded) {
                return Reply::Conflict;
            }
            target_written(w);
            w.secrets[index].claim = r.version;
            w.secrets[index].touched = false;
            w.secrets[index].guarded = true;
            w.secrets[index].owned = true;
            Reply::Done
        }
    }
}

fn store(w: &mut World, c: &Configuration, r: Request) -> Reply {
    match c.policy.delivery {
        Delivery::Versioned => {
            if w.find((Kind::Final, r.version, r.credential)).is_some() {
                return Reply::Done;
            }
            promises::before_a_store(w, c, r);
            create(
                w,
                Secret {
                    kind: Kind::Final,
                    version: r.version,
                    credential: r.credential,
                    value: r.value,
                    spec: r.spec,
                    minted: w.now,
                    guarded: true,
                    owned: true,
                    ..Secret::default()
                },
            )
        }
        Delivery::InPlace => {
            let Some(index) = w.find((Kind::Target, 0, NOBODY)) else {
                return Reply::NotFound;
            };
            if !r.fresh || r.vanished || w.secrets[index].claim != r.version {
                return Reply::Conflict;
            }
            promises::before_a_store(w, c, r);
            target_written(w);
            let now = w.now;
            let target = &mut w.secrets[index];
            (target.version, target.credential) = (r.version, r.credential);
            (target.value, target.spec, target.minted) = (r.value, r.spec, now);
            (target.brought, target.touched, target.notes) = (NOBODY, false, r.notes);
            promises::after_publishing(w, r.credential);
            Reply::Done
        }
    }
}

fn delete(w: &mut World, r: Request) -> Reply {
    let Some(index) = w.find((r.kind, named(r), named_credential(r))) else {
        return Reply::NotFound;
    };
    if r.vanished {
        return Reply::Conflict;
    }
    promises::before_a_fence(w, index);
    delete_secret(w, index);
    Reply::Done
}

/// Deletes as the API server does: an object with finalizers stays until the last one goes.
pub fn delete_secret(w: &mut World, index: usize) {
    let secret = &mut w.secrets[index];
    secret.leaving = true;
    if secret.kind == Kind::Target {
        target_written(w);
    }
    vanish_if_free(w, index);
}

/// The record makes it a version: from now on it is listed with what bears our mark.
fn take_over(w: &mut World, c: &Configuration, r: Request) -> Reply {
    let Some(index) = w.find((Kind::Final, 0, r.credential)) else {
        return Reply::NotFound;
    };
    let secret = w.secrets[index];
    // Adding a finalizer to a leaving object is refused.
    if r.vanished || (secret.leaving && !secret.guarded) {
        return Reply::Conflict;
    }
    let value = secret.value;
    promises::before_a_store(w, c, Request { value, ..r });
    let secret = &mut w.secrets[index];
    (secret.version, secret.spec) = (r.version, r.spec);
    (secret.guarded, secret.owned) = (true, true);
    w.credentials[usize::from(r.credential)].mark = r.version;
    Reply::Done
}

fn annotate(w: &mut World, r: Request) -> Reply {
    let Some(index) = w.find((Kind::Target, 0, NOBODY)) else {
        return Reply::NotFound;
    };
    if !r.fresh || r.vanished {
        return Reply::Conflict;
    }
    target_written(w);
    w.secrets[index].notes = r.notes;
    Reply::Done
}

/// The request's Secret by its name: a target has one name whatever version is in it.
fn named(r: Request) -> V {
    match r.kind {
        Kind::Final if r.verb == Verb::TakeOver => 0,
        Kind::Final | Kind::Draft => r.version,
        Kind::Target | Kind::Nothing => 0,
    }
}

fn named_credential(r: Request) -> u8 {
    match r.kind {
        Kind::Final => r.credential,
        Kind::Draft | Kind::Target | Kind::Nothing => NOBODY,
    }
}

fn release(w: &mut World, r: Request, cut_loose: bool) -> Reply {
    let Some(index) = w.find((r.kind, named(r), named_credential(r))) else {
        return Reply::NotFound;
    };
    if r.vanished {
        return Reply::Conflict;
    }
    w.secrets[index].guarded = false;
    if cut_loose {
        w.secrets[index].owned = false;
    }
    if r.kind == Kind::Target {
        target_written(w);
    }
    vanish_if_free(w, index);
    Reply::Done
}

pub fn vanish_if_free(w: &mut World, index: usize) {
    let secret = w.secrets[index];
    if !secret.leaving || secret.guarded || secret.holders != 0 {
        return;
    }
    let name = secret.name();
    w.secrets[index] = Secret::default();
    for operator in &mut w.operators {
        for copy in &mut operator.secrets {
            copy.vanished |= copy.kind != Kind::Nothing && copy.name() == name;
        }
    }
    for flight in &mut w.flights {
        let about = (flight.kind, named(*flight), named_credential(*flight));
        flight.vanished |= flight.kind != Kind::Nothing && about == name;
    }
}

fn mint(w: &mut World, c: &Configuration, ledgers: &Ledgers, r: Request) -> Reply {
    let namesake = w
        .credentials
        .iter()
        .position(|one| one.live && one.mark == r.version && one.elsewhere == w.elsewhere);
    let value = match c.issuer.minting {
        Minting::Chosen if namesake.is_some() => return Reply::Taken,
        Minting::ReadBack if namesake.is_some() => {
            let index = namesake.expect("just seen");
            promises::before_a_value_changes(w, index);
            let credential = &mut w.credentials[index];
            credential.value = credential.value.saturating_add(1);
            return Reply::Minted(u8::try_from(index).expect("few"), credential.value);
        }
        Minting::Chosen => r.value,
        Minting::ReadBack | Minting::ShownOnce => 0,
        Minting::SelfRotating => {
            let old = &mut w.credentials[usize::from(r.credential)];
            let (was_live, family) = (std::mem::replace(&mut old.live, false), old.family);
            if !was_live {
                // The issuer takes it for a theft, and ends all that came of the same credential.
                promises::before_a_family_ends(w, family);
                return Reply::Denied;
            }
            0
        }
        Minting::Provided => return Reply::NotFound,
    };
    let open = ledgers
        .of(w.resource.ledger)
        .and_then(|ledger| ledger.intent.as_ref()?.version.into())
        .and_then(crate::world::compact);
    let late = !w.resource.exists || open != Some(r.version);
    let born = Credential {
        mark: r.version,
        value,
        place: r.spec,
        family: match c.issuer.minting {
            Minting::SelfRotating => w.credentials[usize::from(r.credential)].family,
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => 0,
        },
        born: w.now,
        live: true,
        late,
        elsewhere: w.elsewhere,
        ..Credential::default()
    };
    match add_credential(w, born) {
        Some(index) => {
            promises::after_a_mint(w, c);
            Reply::Minted(index, value)
        }
        None => Reply::NoRoom,
    }
}

pub fn add_credential(w: &mut World, born: Credential) -> Option<u8> {
    let index = (crate::world::FOREIGN..CREDENTIALS)
        .find(|index| w.credentials[*index] == Credential::default())?;
    w.credentials[index] = born;
    u8::try_from(index).ok()
}
