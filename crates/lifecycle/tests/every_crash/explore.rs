//! Breadth first through every state there is, on all cores, remembering only fingerprints.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use crate::configurations::Configuration;
use crate::moves::{Event, moves};
use crate::operator::{Decided, Ledgers, Run, begin_run, end_run};
use crate::settle::{Settled, beginning};
use crate::story::Story;
use crate::world::{Broken, World};

/// 64 bits of a state. With ten million states two of them agree by chance once in three hundred thousand runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fingerprints;

#[derive(Debug)]
pub struct Folding {
    state: u64,
    gathered: u64,
    bits: u32,
}

impl BuildHasher for Fingerprints {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding {
            state: 0x9e37_79b9_7f4a_7c15,
            gathered: 0,
            bits: 0,
        }
    }
}

const MASK: u128 = u64::MAX as u128;

impl Folding {
    fn fold(&mut self, word: u64) {
        let wide = u128::from(self.state ^ word) * 0xa076_1d64_78bd_642f_u128;
        let [low, high] =
            [wide, wide >> 64].map(|half| u64::try_from(half & MASK).expect("masked"));
        self.state = low.rotate_left(23) ^ high.wrapping_add(word);
    }

    fn gather(&mut self, value: u64, bits: u32) {
        if self.bits + bits > 64 {
            self.flush();
        }
        self.gathered |= value << self.bits;
        self.bits += bits;
        if self.bits == 64 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let (word, bits) = (self.gathered, self.bits);
        (self.gathered, self.bits) = (0, 0);
        self.fold(word);
        self.state = self.state.wrapping_add(u64::from(bits));
    }
}

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.fold(word);
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.gather(value.into(), 8);
    }

    fn write_u16(&mut self, value: u16) {
        self.gather(value.into(), 16);
    }

    fn write_u32(&mut self, value: u32) {
        self.gather(value.into(), 32);
    }

    fn write_u64(&mut self, value: u64) {
        self.fold(value);
    }

    // Lengths and the numbers of enum variants: small.
    fn write_usize(&mut self, value: usize) {
        self.gather(value as u64 & 0xff, 8);
    }

    fn write_isize(&mut self, value: isize) {
        self.gather(u64::from(value.to_le_bytes()[0]), 8);
    }

    fn finish(&self) -> u64 {
        let mut last = Self { ..*self };
        last.flush();
        last.fold(0x2545_f491_4f6c_dd1d);
        last.state ^ last.state >> 29
    }
}

/// A set of fingerprints that are already well mixed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mixed;

#[derive(Debug)]
pub struct Plain(u64);

impl BuildHasher for Mixed {
    type Hasher = Plain;

    fn build_hasher(&self) -> Plain {
        Plain(0)
    }
}

impl Hasher for Plain {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only whole words are hashed")
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(20)
    }
}

const SHARDS: usize = 64;

/// Fingerprints seen so far, each with the one it was first reached from.
#[derive(Debug)]
pub struct Seen(Vec<Mutex<HashMap<u64, u64, Mixed>>>);

impl Default for Seen {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Seen {
    fn shard(&self, fingerprint: u64) -> std::sync::MutexGuard<'_, HashMap<u64, u64, Mixed>> {
        self.0[(fingerprint >> 58) as usize]
            .lock()
            .expect("no walk panics while holding it")
    }

    pub fn contains(&self, fingerprint: u64) -> bool {
        self.shard(fingerprint).contains_key(&fingerprint)
    }

    pub fn insert(&self, fingerprint: u64, from: u64) {
        self.shard(fingerprint).entry(fingerprint).or_insert(from);
    }

    fn is_new(&self, fingerprint: u64, from: u64) -> bool {
        match self.shard(fingerprint).entry(fingerprint) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(slot) => {
                slot.insert(from);
                true
            }
        }
    }

    fn parent(&self, fingerprint: u64) -> u64 {
        self.shard(fingerprint)
            .get(&fingerprint)
            .copied()
            .unwrap_or(0)
    }
}

pub fn fingerprint(w: &World) -> u64 {
    Fingerprints.hash_one(w).max(1)
}

#[derive(Debug)]
pub struct Outcome {
    pub states: u64,
    pub transitions: u64,
    /// Transitions not followed because a number would exceed what the configuration looks at.
    pub beyond: u64,
    pub seconds: f64,
    pub violation: Option<(Broken, Story)>,
}

/// Walks through everything that can happen in this configuration, or up to the first broken promise.
pub fn explore(c: &Configuration, threads: usize) -> Outcome {
    let clock = Instant::now();
    let ledgers = Ledgers::default();
    let run = Run::new(c, &ledgers);
    let memories: Vec<Mutex<Decided>> = (0..threads).map(|_| Mutex::default()).collect();
    let (seen, settled) = (Seen::default(), Settled::default());
    let first = beginning(c);
    seen.insert(fingerprint(&first), 0);
    let mut level = vec![first];
    let (mut states, transitions, beyond) = (1, AtomicU64::new(0), AtomicU64::new(0));
    let mut violation = None;
    while !level.is_empty() && violation.is_none() {
        let (cursor, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let found = Mutex::new(None);
        let next: Vec<Vec<World>> = std::thread::scope(|scope| {
            let work = |memory: &Mutex<Decided>| {
                begin_run(std::mem::take(&mut *memory.lock().expect("one each")));
                let (mut fresh, mut out) = (Vec::new(), Vec::new());
                let (mut steps, mut skipped) = (0, 0);
                loop {
                    let start = cursor.fetch_add(BATCH, Ordering::Relaxed);
                    if start >= level.len() || stop.load(Ordering::Relaxed) {
                        break;
                    }
                    for w in &level[start..level.len().min(start + BATCH)] {
                        let from = fingerprint(w);
                        out.clear();
                        skipped += moves(&run, w, &mut out);
                        steps += out.len() as u64;
                        for (event, next) in &out {
                            let fingerprint = fingerprint(next);
                            if !seen.is_new(fingerprint, from) {
                                continue;
                            }
                            let broken = match next.broken {
                                Some(broken) => Some((broken, Vec::new())),
                                // What an operator knows dies with it: where it only looked, the end is the same.
                                None if c.settles && !event.is_a_read() => settled
                                    .check(&run, next)
                                    .err()
                                    .map(|unsettled| (unsettled.broken, unsettled.path)),
                                None => None,
                            };
                            if let Some((broken, tail)) = broken {
                                stop.store(true, Ordering::Relaxed);
                                found.lock().expect("no walk panics").get_or_insert((
                                    broken,
                                    fingerprint,
                                    tail,
                                ));
                            }
                            fresh.push(*next);
                        }
                    }
                }
                transitions.fetch_add(steps, Ordering::Relaxed);
                beyond.fetch_add(skipped, Ordering::Relaxed);
                *memory.lock().expect("one each") = end_run();
                fresh
            };
            let workers: Vec<_> = memories
                .iter()
                .map(|memory| scope.spawn(move || work(memory)))
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join().expect("the walk itself does not panic"))
                .collect()
        });
        violation = found
            .into_inner()
            .expect("no walk panics")
            .map(|(broken, fingerprint, tail)| (broken, tell(&run, &seen, fingerprint, &tail)));
        level = next.concat();
        states += level.len() as u64;
    }
    Outcome {
        states,
        transitions: transitions.into_inner(),
        beyond: beyond.into_inner(),
        seconds: clock.elapsed().as_secs_f64(),
        violation,
    }
}

const BATCH: usize = 128;

/// Finds the way from the beginning to this state again, and puts it into words.
fn tell(run: &Run, seen: &Seen, end: u64, tail: &[World]) -> Story {
    begin_run(Decided::default());
    let mut fingerprints = vec![end];
    while let Some(parent) = fingerprints
        .last()
        .map(|fingerprint| seen.parent(*fingerprint))
        && parent != 0
    {
        fingerprints.push(parent);
    }
    fingerprints.pop();
    let mut w = beginning(run.configuration);
    let mut way: Vec<(World, Event)> = Vec::new();
    let mut out = Vec::new();
    for state in fingerprints.into_iter().rev() {
        out.clear();
        moves(run, &w, &mut out);
        let step = out.iter().find(|(_, next)| fingerprint(next) == state);
        let Some((event, next)) = step else { break };
        way.push((w, *event));
        w = *next;
    }
    Story::of(run, &way, &w, tail)
}
