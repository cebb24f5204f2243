//! A decision as `keyward explain` shows it.

use lifecycle::{Because, Severity, Wait};
use serde_json::json;

use super::decide::{Next, Seen, decide};
use crate::engine::Thought;

pub(super) fn thought(seen: &Seen) -> Thought {
    let (next, because, on, detail) = match decide(seen) {
        Next::Rest {
            because,
            detail,
            on,
        } => (None, because, on, detail),
        next @ (Next::Look | Next::Blockers | Next::Do(_)) => (
            Some(json!(next)),
            Because::Checking,
            Vec::new(),
            String::new(),
        ),
    };
    let wait = Wait {
        because,
        version: None,
        on,
        until: None,
        detail,
    };
    let waits = next.is_none() && because.severity() > Severity::Calm;
    Thought {
        seen: json!(seen),
        next,
        because,
        waits: waits.then_some(wait).into_iter().collect(),
    }
}
