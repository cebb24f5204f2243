//! A state, packed into few words for its fingerprint: a walk takes tens of millions of them.

use std::hash::{Hash, Hasher};

use crate::world::{
    Credential, Failed, Kind, Operator, Request, Resource, Secret, Secrets, Verb, World,
};

fn word(bytes: [u8; 8]) -> u64 {
    u64::from_le_bytes(bytes)
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn bits<const N: usize>(flags: [bool; N]) -> u8 {
    flags
        .into_iter()
        .fold(0, |bits, flag| bits << 1 | u8::from(flag))
}

impl Hash for Secret {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let flags = bits([
            self.leaving,
            self.guarded,
            self.owned,
            self.touched,
            self.forged,
            self.vanished,
            self.overtaken,
        ]);
        state.write_u64(word([
            self.kind as u8,
            self.version,
            self.credential,
            self.value,
            self.spec,
            self.claim,
            self.holders,
            flags,
        ]));
        let rest = u32::from(self.brought) << 8 | u32::from(self.notes);
        state.write_u64(pair(self.minted, rest));
    }
}

/// The empty places are left out; how many there are is said first.
fn secrets<H: Hasher>(all: &Secrets, state: &mut H) {
    let there = || all.iter().filter(|secret| secret.kind != Kind::Nothing);
    state.write_usize(there().count());
    for secret in there() {
        secret.hash(state);
    }
}

impl Hash for Credential {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let flags =
            bits([self.live, self.foreign, self.late, self.ended_elsewhere]) | self.family << 4;
        let [a, b, c, d] = self.born.to_le_bytes();
        let place = self.place | u8::from(self.elsewhere) << 7;
        state.write_u64(word([self.mark, self.value, flags, place, a, b, c, d]));
    }
}

impl Hash for Resource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let flags = bits([self.exists, self.guarded, self.deleting, self.revoke_now]);
        state.write_u64(word([
            flags,
            self.status,
            self.rotate,
            self.spec,
            self.rollback,
            self.notes,
            0,
            0,
        ]));
        state.write_u64(pair(self.ledger, self.leaving_since));
    }
}

impl Hash for Request {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(word([
            self.verb as u8,
            self.version,
            self.credential,
            self.value,
            self.spec,
            self.change as u8,
            self.kind as u8,
            bits([self.fresh, self.vanished]),
        ]));
        state.write_u64(pair(self.ledger, self.notes.into()));
    }
}

impl Hash for Operator {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.resource.hash(state);
        secrets(&self.secrets, state);
        let (failed, about) = match self.failed {
            Failed::No => (0, 0),
            Failed::Minting => (1, 0),
            Failed::MintingDenied => (2, 0),
            Failed::Revoking(version) => (3, version),
            Failed::Sweeping => (4, 0),
            Failed::Storing => (5, 0),
            Failed::RevokingDenied(version) => (6, version),
            Failed::SweepingDenied => (7, 0),
            Failed::MintingAnswered => (8, 0),
        };
        state.write_u64(word([
            self.phase as u8,
            about,
            self.listed as u8,
            failed,
            bits([
                self.resource_fresh,
                self.read_after_listing,
                self.duplicate,
                self.maybe_stored,
                self.looked,
                self.annotated,
            ]),
            self.mine,
            self.works.0,
            self.works.1 as u8,
        ]));
        state.write_u64(word([
            self.referrers.0,
            self.referrers.1 as u8,
            self.referrers.2,
            self.gone.0,
            self.gone.1 as u8,
            self.in_hand.0,
            self.in_hand.1,
            self.in_hand.2,
        ]));
        let [low, high] = self.listing.to_le_bytes();
        let (v, credential, value) = self.found;
        state.write_u64(word([
            low,
            high,
            v,
            credential,
            value,
            self.ended.0,
            self.ended.1 as u8,
            self.stored,
        ]));
        state.write_u64(pair(self.started, self.checked));
        state.write_u32(self.wake);
        self.marks.hash(state);
        state.write_u64(self.revoked);
        state.write_u64(self.warned);
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.resource.hash(state);
        secrets(&self.secrets, state);
        let known = |credential: &&Credential| **credential != Credential::default();
        for (at, credential) in (0u8..).zip(&self.credentials) {
            if known(&credential) {
                state.write_u8(at);
                credential.hash(state);
            }
        }
        state.write_u8(u8::MAX);
        self.operators.hash(state);
        for flight in &self.flights {
            if flight.verb != Verb::Nothing {
                flight.hash(state);
            }
        }
        state.write_u8(u8::MAX);
        self.consumers.hash(state);
        for (v, value) in (0u8..).zip(self.burned) {
            if value != 0 {
                state.write_u16(u16::from_le_bytes([v, value]));
            }
        }
        state.write_u64(self.announced);
        state.write_u16(self.ever_named);
        state.write_u16(self.rotated_with);
        state.write_u8(self.next_value);
        state.write_u8(bits([
            self.secret_deleted,
            self.rolled_back,
            self.shut_out,
            self.elsewhere,
        ]));
        state.write_u32(self.now);
        state.write_u32(self.saved_ledger);
        self.left.hash(state);
        self.broken.hash(state);
    }
}
