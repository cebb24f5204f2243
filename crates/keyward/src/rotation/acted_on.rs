//! Whether a pass goes round in circles.

use jiff::Timestamp;
use lifecycle::Facts;

/// The facts that a pass has acted on. What is done next follows from the facts: a pass that comes back to some of these
/// would do the same again, forever.
#[derive(Default)]
pub(super) struct ActedOn(Vec<Facts>);

impl ActedOn {
    pub(super) fn note(&mut self, facts: Facts) {
        self.0.push(at_no_time(facts));
    }

    /// Whether a step that was said to be done has led nowhere.
    pub(super) fn includes(&self, after: Facts) -> bool {
        self.0.contains(&at_no_time(after))
    }
}

/// That time passes is no change.
fn at_no_time(facts: Facts) -> Facts {
    Facts {
        now: Timestamp::UNIX_EPOCH,
        ..facts
    }
}
