//! The stand-in's clock, and the days by which GitLab reckons.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    Running { ahead: SignedDuration },
    Stopped { at: Timestamp },
}

impl Clock {
    pub(super) fn read(self, real: Timestamp) -> Timestamp {
        match self {
            Self::Running { ahead } => real.saturating_add(ahead).unwrap_or(real),
            Self::Stopped { at } => at,
        }
    }

    pub(super) fn moved(self, time: SignedDuration) -> Self {
        match self {
            Self::Running { ahead } => Self::Running {
                ahead: ahead.saturating_add(time),
            },
            Self::Stopped { at } => Self::Stopped {
                at: at.saturating_add(time).unwrap_or(at),
            },
        }
    }
}

/// The day in UTC, by which GitLab reckons.
pub(super) fn day(now: Timestamp) -> Date {
    now.to_zoned(TimeZone::UTC).date()
}

pub(super) fn days_after(date: Date, days: u16) -> Date {
    date.saturating_add(i64::from(days).days())
}
