//! What a GitLab knows, to be kept in a file and put into another one later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::StandIn;
use super::state::{LastIds, Namespace, Place, User};
use super::tell::Change;
use super::tokens::Token;

/// People, places, and the tokens of one table. Of a value it knows a digest, as GitLab does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Frozen {
    users: BTreeMap<u64, User>,
    places: Vec<(Place, Namespace)>,
    tokens: Vec<Token>,
    last: LastIds,
}

impl StandIn {
    pub fn freeze(&self) -> Frozen {
        let state = self.shared.state();
        let places = state.places.iter();
        Frozen {
            users: state.users.clone(),
            places: places.map(|(place, of)| (*place, of.clone())).collect(),
            tokens: state.tokens.values().cloned().collect(),
            last: state.last,
        }
    }

    /// Knows this from now on, and nothing else of the sort.
    pub fn thaw(&self, frozen: Frozen) {
        let mut state = self.shared.state();
        state.users = frozen.users;
        state.places = frozen.places.into_iter().collect();
        state.last = frozen.last;
        let tokens = frozen.tokens.into_iter();
        state.tokens = tokens.map(|token| (token.id, token)).collect();
        let made: Vec<Change> = state
            .tokens
            .values()
            .map(|token| Change::Made(state.about(token)))
            .collect();
        state.changes = made;
    }
}
