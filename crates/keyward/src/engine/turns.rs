//! Lines that are served in turns: whoever has a thousand in line waits for their own, and nobody else does.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// A line for each name. The one that was served last comes last.
#[derive(Debug)]
pub(super) struct Turns<L> {
    lines: HashMap<Arc<str>, L>,
    order: VecDeque<Arc<str>>,
}

/// What can be waited in.
pub(super) trait Line: Default {
    fn is_empty(&self) -> bool;
}

impl<T> Line for VecDeque<T> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<K, T> Line for BTreeMap<K, T> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
}

impl<L: Line> Line for Turns<L> {
    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl<L> Default for Turns<L> {
    fn default() -> Self {
        Self {
            lines: HashMap::new(),
            order: VecDeque::new(),
        }
    }
}

impl<L: Line> Turns<L> {
    /// The line of this name, to wait in.
    pub(super) fn line(&mut self, name: &str) -> &mut L {
        self.lines.entry(name.into()).or_insert_with_key(|name| {
            self.order.push_back(name.clone());
            L::default()
        })
    }

    /// The first that `take` takes out of a line, as they come in turn. A line out of which nothing is taken keeps its
    /// turn; one that is empty loses it.
    pub(super) fn first<T>(
        &mut self,
        mut take: impl FnMut(&str, &mut L) -> Option<T>,
    ) -> Option<T> {
        let mut at = 0;
        while let Some(name) = self.order.get(at) {
            let taken = self.lines.get_mut(name).map(|line| {
                let taken = take(name, line);
                (taken, line.is_empty())
            });
            let (taken, empty) = taken.unwrap_or((None, true));
            if taken.is_none() && !empty {
                at += 1;
                continue;
            }
            if let Some(name) = self.order.remove(at) {
                if empty {
                    self.lines.remove(&name);
                } else {
                    self.order.push_back(name);
                }
            }
            if taken.is_some() {
                return taken;
            }
        }
        None
    }

    /// Everything in line that `leaves` takes out, whoever's turn it is.
    pub(super) fn all<T>(&mut self, mut leaves: impl FnMut(&mut L) -> Vec<T>) -> Vec<T> {
        let left = self.lines.values_mut().flat_map(&mut leaves).collect();
        self.lines.retain(|_, line| !line.is_empty());
        self.order.retain(|name| self.lines.contains_key(name));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(all: &[(&str, u32)]) -> Turns<VecDeque<u32>> {
        let mut turns = Turns::<VecDeque<u32>>::default();
        for (name, number) in all {
            turns.line(name).push_back(*number);
        }
        turns
    }

    fn served(turns: &mut Turns<VecDeque<u32>>, but: &str) -> Vec<u32> {
        let mut next = || {
            turns.first(|name, line| {
                let is_let_in = name != but;
                is_let_in.then(|| line.pop_front()).flatten()
            })
        };
        std::iter::from_fn(&mut next).collect()
    }

    #[test]
    fn the_lines_are_served_in_turns_and_each_in_its_order() {
        let mut all = turns(&[
            ("a", 1),
            ("a", 2),
            ("a", 3),
            ("b", 10),
            ("c", 20),
            ("c", 21),
        ]);
        assert_eq!(served(&mut all, ""), [1, 10, 20, 2, 21, 3]);
        assert!(all.is_empty() && all.lines.is_empty());
    }

    #[test]
    fn who_is_passed_over_keeps_the_turn() {
        let mut all = turns(&[("a", 1), ("b", 10), ("b", 11), ("c", 20)]);
        assert_eq!(served(&mut all, "a"), [10, 20, 11]);
        all.line("b").push_back(12);
        assert_eq!(served(&mut all, ""), [1, 12]);
    }
}
