//! Which watches stand, and which are refused: for `/readyz` and a metric.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One watch: of one kind, in one namespace or in all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watch {
    /// In the plural, as in a Role.
    pub resource: String,
    pub namespace: Option<String>,
}

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in namespace {namespace}", self.resource),
            None => write!(f, "{} in all namespaces", self.resource),
        }
    }
}

/// How a watch stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It has not listed yet.
    Awaited,
    Listed,
    /// The API server refuses it, and will until somebody grants the right or installs the kind.
    Refused(String),
}

#[derive(Debug)]
struct Expected {
    /// A controller works on what it shows. Others only wake.
    is_worked_on: bool,
    state: State,
}

/// What to answer to whoever asks whether this process is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Ready,
    /// At work, but not everywhere: what is refused, and why. Whoever lacks a Role in one namespace must not take the
    /// operator away from all the others.
    ReadyElsewhere(Vec<String>),
    /// These have not listed yet.
    NotYet(Vec<String>),
    /// Nothing that a controller works on may be watched.
    Useless(Vec<String>),
}

/// The watches that this process must have while it leads; none while it does not.
#[derive(Debug, Default)]
pub struct Readiness {
    watches: Mutex<BTreeMap<Watch, Expected>>,
}

impl Readiness {
    /// From now on these are needed, and none has listed yet. With each: whether a controller works on what it shows.
    pub fn expect(&self, watches: impl Iterator<Item = (Watch, bool)>) {
        let expected = watches.map(|(watch, is_worked_on)| {
            let state = State::Awaited;
            (
                watch,
                Expected {
                    is_worked_on,
                    state,
                },
            )
        });
        *self.all() = expected.collect();
    }

    pub(super) fn listed(&self, watch: &Watch) {
        self.set(watch, State::Listed);
    }

    pub(super) fn refused(&self, watch: &Watch, why: String) {
        self.set(watch, State::Refused(why));
    }

    /// How many have not listed, for whatever reason.
    pub fn missing(&self) -> usize {
        let all = self.all();
        all.values()
            .filter(|one| one.state != State::Listed)
            .count()
    }

    pub fn verdict(&self) -> Verdict {
        let all = self.all();
        let (mut awaited, mut refused, mut at_work) = (Vec::new(), Vec::new(), false);
        for (watch, expected) in all.iter() {
            match &expected.state {
                State::Awaited => awaited.push(watch.to_string()),
                State::Listed => at_work |= expected.is_worked_on,
                State::Refused(why) => refused.push(format!("{watch}: {why}")),
            }
        }
        if !awaited.is_empty() || all.is_empty() {
            Verdict::NotYet(awaited)
        } else if refused.is_empty() {
            Verdict::Ready
        } else if at_work {
            Verdict::ReadyElsewhere(refused)
        } else {
            Verdict::Useless(refused)
        }
    }

    /// Every watch, and whether it stands.
    pub(crate) fn each(&self, mut show: impl FnMut(&Watch, bool)) {
        for (watch, expected) in self.all().iter() {
            show(watch, expected.state == State::Listed);
        }
    }

    /// What only some wait for, now and then, is not counted.
    fn set(&self, watch: &Watch, state: State) {
        if let Some(expected) = self.all().get_mut(watch) {
            expected.state = state;
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Watch, Expected>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(resource: &str, namespace: &str) -> Watch {
        Watch {
            resource: resource.to_owned(),
            namespace: Some(namespace.to_owned()),
        }
    }

    fn two_namespaces() -> Readiness {
        let ready = Readiness::default();
        let all = ["team-a", "team-b"].into_iter().flat_map(|namespace| {
            [
                (watch("tokens", namespace), true),
                (watch("secrets", namespace), false),
            ]
        });
        ready.expect(all);
        ready
    }

    #[test]
    fn it_is_ready_when_every_watch_has_listed_and_not_before() {
        let ready = two_namespaces();
        for (resource, namespace) in [
            ("tokens", "team-a"),
            ("secrets", "team-a"),
            ("tokens", "team-b"),
        ] {
            ready.listed(&watch(resource, namespace));
        }
        let left = Verdict::NotYet(vec!["secrets in namespace team-b".to_owned()]);
        assert_eq!((ready.verdict(), ready.missing()), (left, 1));
        ready.listed(&watch("secrets", "team-b"));
        assert_eq!((ready.verdict(), ready.missing()), (Verdict::Ready, 0));
    }

    #[test]
    fn a_missing_role_in_one_namespace_is_named_and_takes_nothing_from_the_other() {
        let ready = two_namespaces();
        for resource in ["tokens", "secrets"] {
            ready.listed(&watch(resource, "team-a"));
            ready.refused(&watch(resource, "team-b"), "403 Forbidden".to_owned());
        }
        let named = vec![
            "secrets in namespace team-b: 403 Forbidden".to_owned(),
            "tokens in namespace team-b: 403 Forbidden".to_owned(),
        ];
        assert_eq!(ready.verdict(), Verdict::ReadyElsewhere(named));
        assert_eq!(ready.missing(), 2);
    }

    #[test]
    fn who_may_watch_nothing_to_work_on_is_not_ready() {
        let ready = two_namespaces();
        for namespace in ["team-a", "team-b"] {
            ready.listed(&watch("secrets", namespace));
            ready.refused(&watch("tokens", namespace), "403 Forbidden".to_owned());
        }
        assert!(matches!(ready.verdict(), Verdict::Useless(why) if why.len() == 2));
        // The right that is granted is noticed.
        ready.listed(&watch("tokens", "team-a"));
        assert!(matches!(ready.verdict(), Verdict::ReadyElsewhere(why) if why.len() == 1));
    }
}
