//! When keys are replaced: by the spec, or by annotations where the installed definition knows no such field.

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Because, Refusal};
use serde::Deserialize;

use super::invalid;
use crate::api::ceph::KeyRotation;
use crate::controllers::schedule::{Schedule, spread};

pub(super) const SCHEDULE: &str = "keyward.dev/key-schedule";
pub(super) const EVERY: &str = "keyward.dev/key-every";
pub(super) const OVERLAP: &str = "keyward.dev/key-overlap";

const USUAL_OVERLAP: SignedDuration = SignedDuration::from_hours(1);
const LONGEST_OVERLAP: SignedDuration = SignedDuration::from_hours(30 * 24);
const SHORTEST: SignedDuration = SignedDuration::from_mins(1);

/// When a key is replaced.
#[derive(Debug, Clone)]
enum When {
    OnDemand,
    Every(SignedDuration),
    By(Box<Schedule>),
}

/// What is asked for, as far as it makes sense.
#[derive(Debug, Clone)]
pub(super) struct Rotating {
    when: When,
    pub(super) overlap: SignedDuration,
}

impl Rotating {
    /// Out of the part of the spec at this path; what it does not say, the annotations may.
    pub(super) fn of(object: &DynamicObject, path: &[&str]) -> Result<Self, Refusal> {
        let spec = object.data.get("spec");
        let at = path.iter().fold(spec, |at, key| at?.get(key));
        let at = at.filter(|at| !at.is_null());
        let given = at.map(KeyRotation::deserialize).transpose();
        let given = given.map_err(|error| invalid(format!("keyRotation: {error}")))?;
        let given = given.unwrap_or_default();
        let or = |field: Option<String>, note: &str| {
            field.or_else(|| object.annotations().get(note).cloned())
        };
        let by_spec = given.schedule.is_some() || given.every.is_some();
        let (schedule, every) = if by_spec {
            (given.schedule, given.every)
        } else {
            (or(None, SCHEDULE), or(None, EVERY))
        };
        let when = match (schedule, every) {
            (Some(_), Some(_)) => {
                return Err(invalid(
                    "schedule and every say the same thing in two ways; give one of them",
                ));
            }
            (None, None) => When::OnDemand,
            (None, Some(every)) => When::Every(
                span(&every)
                    .filter(|every| *every >= SHORTEST)
                    .ok_or_else(|| invalid("every must be a time such as 720h, and at least 1m"))?,
            ),
            (Some(schedule), None) => {
                let schedule = Schedule::read(&schedule, None);
                When::By(Box::new(schedule.map_err(|detail| Refusal {
                    because: Because::ScheduleInvalid,
                    detail,
                })?))
            }
        };
        let overlap = match or(given.overlap, OVERLAP) {
            None => USUAL_OVERLAP.min(when.shortest_gap().map_or(USUAL_OVERLAP, |gap| gap / 2)),
            Some(text) => span(&text)
                .filter(|overlap| *overlap <= LONGEST_OVERLAP)
                .ok_or_else(|| invalid("overlap must be a time such as 1h, and at most 720h"))?,
        };
        if when.shortest_gap().is_some_and(|gap| overlap >= gap) {
            return Err(Refusal {
                because: Because::InvalidGracePeriod,
                detail: "overlap must be shorter than the time between two rotations".to_owned(),
            });
        }
        Ok(Self { when, overlap })
    }

    /// When a key that was made at this time is to be replaced.
    pub(super) fn due(&self, uid: &str, minted: Timestamp) -> Option<Timestamp> {
        match &self.when {
            When::OnDemand => None,
            When::Every(every) => minted.checked_add(*every + spread(uid, *every)).ok(),
            When::By(schedule) => schedule.due(uid, minted, None),
        }
    }
}

impl When {
    fn shortest_gap(&self) -> Option<SignedDuration> {
        match self {
            Self::OnDemand => None,
            Self::Every(every) => Some(*every),
            Self::By(schedule) => schedule.shortest_gap(),
        }
    }
}

/// What is kept of the old key when the settings make no sense: the longest that can be asked for.
pub(super) fn overlap_or_longest(rotating: Result<&Rotating, &Refusal>) -> SignedDuration {
    rotating.map_or(LONGEST_OVERLAP, |rotating| rotating.overlap)
}

fn span(text: &str) -> Option<SignedDuration> {
    let span: SignedDuration = text.parse().ok()?;
    (span >= SignedDuration::ZERO).then_some(span)
}

#[cfg(test)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "values are written down where they are used"
)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(rotation: Value, annotations: Value) -> Result<Rotating, Refusal> {
        let object = json!({ "metadata": { "annotations": annotations }, "spec": { "keyRotation": rotation } });
        Rotating::of(&serde_json::from_value(object).unwrap(), &["keyRotation"])
    }

    fn hours(hours: i64) -> SignedDuration {
        SignedDuration::from_hours(hours)
    }

    #[test]
    fn a_spec_beats_annotations_and_they_beat_nothing() {
        let at: Timestamp = "2026-11-01T00:00:00Z".parse().unwrap();
        let due = |rotating: &Rotating| rotating.due("u", at).map(|due| due.duration_since(at));
        let on_demand = read(Value::Null, json!({})).unwrap();
        assert_eq!((due(&on_demand), on_demand.overlap), (None, hours(1)));
        let noted = read(Value::Null, json!({ EVERY: "10h", OVERLAP: "2h" })).unwrap();
        assert_eq!(noted.overlap, hours(2));
        assert!((hours(10)..hours(11)).contains(&due(&noted).unwrap()));
        let both = read(json!({ "every": "20h" }), json!({ EVERY: "10h" })).unwrap();
        assert!((hours(20)..hours(21)).contains(&due(&both).unwrap()));
        let daily = read(json!({ "schedule": "0 3 * * *" }), json!({})).unwrap();
        assert!((hours(3)..hours(4)).contains(&due(&daily).unwrap()));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (rotation, because) in [
            (
                json!({ "every": "10h", "schedule": "0 3 * * *" }),
                Because::InvalidSpec,
            ),
            (json!({ "every": "soon" }), Because::InvalidSpec),
            (json!({ "every": "1s" }), Because::InvalidSpec),
            (json!({ "overlap": "1000h" }), Because::InvalidSpec),
            (
                json!({ "schedule": "61 3 * * *" }),
                Because::ScheduleInvalid,
            ),
            (
                json!({ "every": "2h", "overlap": "2h" }),
                Because::InvalidGracePeriod,
            ),
        ] {
            assert_eq!(
                read(rotation.clone(), json!({})).unwrap_err().because,
                because,
                "{rotation}"
            );
        }
    }
}
