//! When a token should expire. GitLab knows dates only, in UTC, and on its date a token is already dead.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};

/// The date to ask for so that a token made now lives at least this long, but not beyond what may be asked for.
/// Never earlier than tomorrow: that is the least that lives at all. `None`: beyond the end of time.
pub(super) fn date_for(
    now: Timestamp,
    lifetime: SignedDuration,
    longest_days: i64,
) -> Option<Date> {
    let today = day_of(now);
    let tomorrow = plus(today, 1)?;
    let whole = plus(day_of(now.checked_add(lifetime).ok()?), 1)?;
    let longest = plus(today, longest_days)?;
    Some(whole.min(longest).max(tomorrow))
}

/// The date that GitLab named as its last, if it makes sense: a refusal of a later one may be answered with it.
pub(super) fn granted(now: Timestamp, asked: Date, named: Date) -> Option<Date> {
    let tomorrow = plus(day_of(now), 1)?;
    (named >= tomorrow && named < asked).then_some(named)
}

pub(super) fn days_until(now: Timestamp, date: Date) -> i64 {
    day_of(now).duration_until(date).as_hours() / 24
}

fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

fn plus(date: Date, days: i64) -> Option<Date> {
    date.checked_add(Span::new().try_days(days).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_day_after_the_life_ends_is_asked_for_because_on_its_date_a_token_is_dead() {
        let hours = SignedDuration::from_hours;
        let asked = |now: &str, life| date_for(at(now), life, 365);
        assert_eq!(
            asked("2026-11-16T10:00:00Z", hours(2)),
            Some(date(2026, 11, 17))
        );
        assert_eq!(
            asked("2026-11-16T23:00:00Z", hours(2)),
            Some(date(2026, 11, 18))
        );
        assert_eq!(
            asked("2026-11-16T00:00:00Z", hours(48)),
            Some(date(2026, 11, 19))
        );
        // By UTC, whatever the writer's zone.
        assert_eq!(
            asked("2026-11-17T00:30:00+02:00", hours(1)),
            Some(date(2026, 11, 17))
        );
    }

    #[test]
    fn no_more_than_the_longest_life_and_no_less_than_tomorrow_is_asked_for() {
        let year = SignedDuration::from_hours(24 * 700);
        let now = at("2026-11-16T10:00:00Z");
        assert_eq!(date_for(now, year, 365), Some(date(2027, 11, 16)));
        assert_eq!(date_for(now, year, 30), Some(date(2026, 12, 16)));
        assert_eq!(date_for(now, year, 0), Some(date(2026, 11, 17)));
        assert_eq!(date_for(now, SignedDuration::MIN, 365), None);
        assert_eq!(
            date_for(now, SignedDuration::ZERO, 365),
            Some(date(2026, 11, 17))
        );
    }

    #[test]
    fn a_named_limit_counts_only_between_tomorrow_and_what_was_asked() {
        let now = at("2026-11-16T10:00:00Z");
        let asked = date(2027, 11, 16);
        assert_eq!(
            granted(now, asked, date(2026, 12, 16)),
            Some(date(2026, 12, 16))
        );
        assert_eq!(
            granted(now, asked, date(2026, 11, 17)),
            Some(date(2026, 11, 17))
        );
        for odd in [
            date(2026, 11, 16),
            date(2020, 1, 1),
            asked,
            date(2099, 1, 1),
        ] {
            assert_eq!(granted(now, asked, odd), None, "{odd}");
        }
        assert_eq!(days_until(now, date(2026, 12, 16)), 30);
    }
}
