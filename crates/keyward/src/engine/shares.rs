//! How many passes may be under way: in all, of one namespace, at one issuer. Whoever has their share waits in line,
//! where waiting costs nothing; nobody else waits for that.
//!
//! A pass that waits for its issuer costs memory, and nothing that others need: permits at the API server and at issuers
//! are given for single requests ([`super::limits`]). So many can wait, and those that hold up nobody go on.

use std::collections::HashMap;
use std::sync::Arc;

/// The name of an issuer that is not known yet: the resource has not come to it since it was seen to change.
pub(super) const NOT_KNOWN: &str = "";

/// The most that may be under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    in_all: usize,
    of_a_namespace: usize,
    at_an_issuer: usize,
    of_a_namespace_at_an_issuer: usize,
    /// So many a namespace may always have under way, and at each issuer: whatever others have, nobody is shut out.
    always: usize,
}

impl Shares {
    /// One namespace at one issuer may have `concurrency` under way. It takes two such crowds to fill a namespace or an
    /// issuer, and eight to fill everything.
    pub(super) fn of(concurrency: usize) -> Self {
        let one = concurrency.max(1);
        Self {
            in_all: one.saturating_mul(8),
            of_a_namespace: one.saturating_mul(2),
            at_an_issuer: one.saturating_mul(2),
            of_a_namespace_at_an_issuer: one,
            always: one.min(8),
        }
    }
}

/// What is under way, counted.
#[derive(Debug)]
pub(super) struct UnderWay {
    shares: Shares,
    in_all: usize,
    namespaces: HashMap<Arc<str>, OfNamespace>,
    issuers: HashMap<Arc<str>, usize>,
}

#[derive(Debug, Default)]
struct OfNamespace {
    in_all: usize,
    issuers: HashMap<Arc<str>, usize>,
}

impl UnderWay {
    pub(super) fn new(shares: Shares) -> Self {
        Self {
            shares,
            in_all: 0,
            namespaces: HashMap::new(),
            issuers: HashMap::new(),
        }
    }

    /// Whether this namespace may have one more under way, wherever.
    pub(super) fn has_room_for(&self, namespace: &str) -> bool {
        let own = self.namespaces.get(namespace).map_or(0, |own| own.in_all);
        own < self.shares.of_a_namespace
            && (self.in_all < self.shares.in_all || own < self.shares.always)
    }

    /// Whether this namespace may have one more at this issuer.
    pub(super) fn has_room_at(&self, issuer: &str, namespace: &str) -> bool {
        let there = self.issuers.get(issuer).copied().unwrap_or(0);
        let own = self.namespaces.get(namespace);
        let own = own.and_then(|own| own.issuers.get(issuer).copied());
        let own = own.unwrap_or(0);
        own < self.shares.of_a_namespace_at_an_issuer
            && (there < self.shares.at_an_issuer || own < self.shares.always || issuer == NOT_KNOWN)
    }

    /// The issuer's name, which all that are under way there share.
    pub(super) fn begin(&mut self, namespace: &str, issuer: &str) -> Arc<str> {
        self.in_all += 1;
        let known = self.issuers.get_key_value(issuer);
        let issuer = known.map_or_else(|| issuer.into(), |(issuer, _)| issuer.clone());
        *self.issuers.entry(issuer.clone()).or_default() += 1;
        let own = self.namespaces.entry(namespace.into()).or_default();
        own.in_all += 1;
        *own.issuers.entry(issuer.clone()).or_default() += 1;
        issuer
    }

    pub(super) fn end(&mut self, namespace: &str, issuer: &str) {
        self.in_all = self.in_all.saturating_sub(1);
        less(&mut self.issuers, issuer);
        if let Some(own) = self.namespaces.get_mut(namespace) {
            own.in_all = own.in_all.saturating_sub(1);
            less(&mut own.issuers, issuer);
            if own.in_all == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }
}

/// One less. What has none is not kept.
fn less(all: &mut HashMap<Arc<str>, usize>, name: &str) {
    if let Some(count) = all.get_mut(name) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            all.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many this namespace can begin at this issuer now.
    fn begin_all(under_way: &mut UnderWay, namespace: &str, issuer: &str) -> usize {
        let mut count = 0;
        while under_way.has_room_for(namespace) && under_way.has_room_at(issuer, namespace) {
            under_way.begin(namespace, issuer);
            count += 1;
        }
        count
    }

    #[test]
    fn neither_a_namespace_nor_an_issuer_has_more_than_its_share() {
        let mut under_way = UnderWay::new(Shares::of(256));
        assert_eq!(begin_all(&mut under_way, "a", "tarpit"), 256);
        assert_eq!(begin_all(&mut under_way, "a", "another"), 256, "full");
        assert_eq!(begin_all(&mut under_way, "a", "third"), 0, "its own share");
        assert_eq!(begin_all(&mut under_way, "b", "tarpit"), 256);
        assert_eq!(
            begin_all(&mut under_way, "c", "tarpit"),
            8,
            "full, but for a few"
        );
        assert_eq!(begin_all(&mut under_way, "c", "another"), 256);
    }

    #[test]
    fn whatever_others_have_nobody_is_shut_out() {
        let mut under_way = UnderWay::new(Shares::of(16));
        for namespace in ["a", "b", "c", "d"] {
            begin_all(&mut under_way, namespace, namespace);
            begin_all(&mut under_way, namespace, NOT_KNOWN);
        }
        assert_eq!(under_way.in_all, 8 * 16);
        assert_eq!(begin_all(&mut under_way, "victim", NOT_KNOWN), 8);
    }

    #[test]
    fn what_is_over_is_not_kept() {
        let mut under_way = UnderWay::new(Shares::of(2));
        begin_all(&mut under_way, "a", "here");
        under_way.end("a", "here");
        under_way.end("a", "here");
        assert_eq!(under_way.in_all, 0);
        assert!(under_way.namespaces.is_empty() && under_way.issuers.is_empty());
    }
}
