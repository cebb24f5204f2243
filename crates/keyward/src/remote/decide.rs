//! What follows from what was seen. Pure; the order of the checks is the policy.

use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Because, Holder, Known, Refusal, Trouble};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sources::{Found, ThingId};

use crate::projection::Own;

/// What the spec asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wish {
    /// The same for the life of the resource.
    pub id: ThingId,
    pub thing: Value,
    /// It stays at the issuer when the resource goes.
    pub keep: bool,
}

/// What is written down on the resource before anything is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The uid of the resource that it is about: on a copy it counts for nothing.
    pub of: String,
    pub id: ThingId,
    /// Its credentials may leave, and on what terms: nothing keeps it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clears: Option<Clears>,
}

/// On what terms the credentials of a leaving thing leave before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Clears {
    /// They are ended at the issuer.
    ToEnd,
    /// There is no issuer any more to end them at.
    IssuerGone,
}

impl Record {
    /// What stands in this annotation, if it is about this very resource.
    pub fn on(object: &DynamicObject, annotation: &str) -> Option<Self> {
        let text = object.annotations().get(annotation)?;
        let record: Self = serde_json::from_str(text).ok()?;
        (Some(&record.of) == object.uid().as_ref()).then_some(record)
    }
}

/// Everything that the decision needs.
#[derive(Debug, Clone, Serialize)]
pub struct Seen {
    pub own: Own,
    pub suspended: bool,
    pub record: Option<Record>,
    pub wish: Result<Wish, Refusal>,
    /// Another controller keeps credentials of it, and has its finalizer on the resource.
    pub credentials: bool,
    /// Why its issuer cannot be reached.
    pub closed: Option<Refusal>,
    pub found: Known<Option<Found>>,
    pub blockers: Known<Vec<Holder>>,
    /// The last act failed.
    pub failed: Option<Trouble>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Act {
    /// Writes the id down, together with our finalizer.
    Record,
    Put,
    /// Writes down that its credentials may leave: nothing keeps the thing itself.
    Clear(Clears),
    Remove,
    /// Takes our finalizer and the record off.
    Unguard,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Next {
    Look,
    Blockers,
    Do(Act),
    Rest {
        because: Because,
        detail: String,
        on: Vec<Holder>,
    },
}

impl Next {
    fn rest(because: Because) -> Self {
        Self::told(because, String::new())
    }

    fn told(because: Because, detail: String) -> Self {
        Self::Rest {
            because,
            detail,
            on: Vec::new(),
        }
    }

    fn trouble(trouble: &Trouble) -> Self {
        Self::told(trouble.reason(), trouble.detail.clone())
    }

    fn refused(refusal: &Refusal) -> Self {
        Self::told(refusal.because, refusal.detail.clone())
    }
}

pub fn decide(seen: &Seen) -> Next {
    let ours = |record: &&Record| record.of == seen.own.uid;
    let record = seen.record.as_ref().filter(ours);
    if seen.suspended && (seen.own.guarded || !seen.own.leaving) {
        return Next::rest(Because::Suspended);
    }
    if let Some(trouble) = &seen.failed {
        return Next::trouble(trouble);
    }
    if seen.own.leaving {
        leave(seen, record)
    } else {
        keep(seen, record)
    }
}

/// It is there, and as it should be.
fn keep(seen: &Seen, record: Option<&Record>) -> Next {
    let wish = match &seen.wish {
        Ok(wish) => wish,
        Err(refusal) => return Next::refused(refusal),
    };
    if let Some(refusal) = &seen.closed {
        return Next::refused(refusal);
    }
    match record {
        Some(record) if seen.own.guarded => {
            if record.id != wish.id {
                let detail = format!("it was made as {}", record.id.as_str());
                return Next::told(Because::InvalidSpec, detail);
            }
        }
        Some(_) | None => return Next::Do(Act::Record),
    }
    match &seen.found {
        Known::NotAsked => Next::Look,
        Known::Failed(trouble) => Next::trouble(trouble),
        Known::Is(Some(found)) if !found.ours => foreign(wish),
        Known::Is(Some(found)) if has(&found.state, &wish.thing) => Next::rest(Because::AsWanted),
        Known::Is(_) => Next::Do(Act::Put),
    }
}

/// Nothing of ours is left, or it is said what it waits for.
fn leave(seen: &Seen, record: Option<&Record>) -> Next {
    if !seen.own.guarded {
        return Next::rest(Because::NotOurs);
    }
    let Some(record) = record else {
        return Next::Do(Act::Unguard);
    };
    match &seen.wish {
        Ok(wish) if wish.keep => return after_its_credentials(seen, record, Act::Unguard),
        Ok(_) => {}
        // Whether it is to stay cannot be read: nothing is destroyed because of a slip of the pen.
        Err(refusal) => return Next::refused(refusal),
    }
    match &seen.closed {
        Some(refusal) if refusal.because == Because::IssuerGone => {
            return after_its_credentials(seen, record, Act::Unguard);
        }
        Some(refusal) => return Next::refused(refusal),
        None => {}
    }
    match &seen.found {
        Known::NotAsked => Next::Look,
        Known::Failed(trouble) => Next::trouble(trouble),
        Known::Is(None) => after_its_credentials(seen, record, Act::Unguard),
        Known::Is(Some(found)) if !found.ours => after_its_credentials(seen, record, Act::Unguard),
        Known::Is(Some(_)) => match &seen.blockers {
            Known::NotAsked => Next::Blockers,
            Known::Failed(trouble) => Next::trouble(trouble),
            Known::Is(blockers) if blockers.is_empty() => {
                after_its_credentials(seen, record, Act::Remove)
            }
            Known::Is(blockers) => Next::Rest {
                because: Because::RemovalBlocked,
                detail: String::new(),
                on: blockers.clone(),
            },
        },
    }
}

/// Credentials go before what they are credentials of, and not before nothing else keeps that: whoever has to clear away what
/// does may need them.
fn after_its_credentials(seen: &Seen, record: &Record, act: Act) -> Next {
    if !seen.credentials {
        return Next::Do(act);
    }
    let gone = |refusal: &Refusal| refusal.because == Because::IssuerGone;
    let clears = if seen.closed.as_ref().is_some_and(gone) {
        Clears::IssuerGone
    } else {
        Clears::ToEnd
    };
    if record.clears == Some(clears) {
        Next::rest(Because::CredentialsFirst)
    } else {
        Next::Do(Act::Clear(clears))
    }
}

fn foreign(wish: &Wish) -> Next {
    let detail = format!("{} at the issuer is not this resource's", wish.id.as_str());
    Next::told(Because::ThingOfAnother, detail)
}

/// Whether everything that is wanted is so, whatever else is.
fn has(state: &Value, wanted: &Value) -> bool {
    match (state, wanted) {
        (Value::Object(state), Value::Object(wanted)) => {
            let is_so = |(key, wanted): (&String, &Value)| {
                state.get(key).is_some_and(|state| has(state, wanted))
            };
            wanted.iter().all(is_so)
        }
        (state, wanted) => state == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(leaving: bool, found: Known<Option<Found>>) -> Seen {
        let id = ThingId::from("a");
        Seen {
            suspended: false,
            own: Own {
                namespace: "ns".into(),
                name: "n".into(),
                uid: "u".into(),
                leaving,
                guarded: true,
            },
            record: Some(Record {
                of: "u".into(),
                id: id.clone(),
                clears: None,
            }),
            credentials: false,
            wish: Ok(Wish {
                id,
                thing: json!({ "size": 1 }),
                keep: false,
            }),
            closed: None,
            found,
            blockers: Known::NotAsked,
            failed: None,
        }
    }

    fn thing(ours: bool, size: u8) -> Known<Option<Found>> {
        let state = json!({ "size": size, "more": true });
        Known::Is(Some(Found { state, ours }))
    }

    #[test]
    fn nothing_is_made_before_its_id_is_written_down() {
        let mut seen = seen(false, Known::Is(None));
        assert_eq!(decide(&seen), Next::Do(Act::Put));
        seen.record = None;
        assert_eq!(decide(&seen), Next::Do(Act::Record));
        seen.record = Some(Record {
            of: "the original".into(),
            id: "a".into(),
            clears: None,
        });
        assert_eq!(decide(&seen), Next::Do(Act::Record), "a copied record");
    }

    #[test]
    fn credentials_leave_once_nothing_keeps_the_thing_and_before_it_does() {
        let mut leaving = seen(true, thing(true, 1));
        leaving.credentials = true;
        leaving.blockers = Known::Is(vec!["1 bucket".into()]);
        assert!(matches!(
            decide(&leaving),
            Next::Rest {
                because: Because::RemovalBlocked,
                ..
            }
        ));
        leaving.blockers = Known::Is(Vec::new());
        assert_eq!(decide(&leaving), Next::Do(Act::Clear(Clears::ToEnd)));
        leaving.record.as_mut().unwrap().clears = Some(Clears::ToEnd);
        assert!(matches!(
            decide(&leaving),
            Next::Rest {
                because: Because::CredentialsFirst,
                ..
            }
        ));
        leaving.credentials = false;
        assert_eq!(decide(&leaving), Next::Do(Act::Remove));
    }

    #[test]
    fn an_issuer_that_is_gone_for_good_keeps_nobody() {
        let mut leaving = seen(true, Known::NotAsked);
        leaving.closed = Some(Refusal {
            because: Because::IssuerGone,
            detail: String::new(),
        });
        leaving.credentials = true;
        assert_eq!(decide(&leaving), Next::Do(Act::Clear(Clears::IssuerGone)));
        leaving.credentials = false;
        assert_eq!(decide(&leaving), Next::Do(Act::Unguard));
        leaving.own.leaving = false;
        assert!(matches!(
            decide(&leaving),
            Next::Rest {
                because: Because::IssuerGone,
                ..
            }
        ));
    }

    #[test]
    fn what_is_as_it_should_be_is_left_alone_and_what_is_somebody_elses_too() {
        let rests = |next: Next, because: Because| matches!(next, Next::Rest { because: is, .. } if is == because);
        assert!(rests(
            decide(&seen(false, thing(true, 1))),
            Because::AsWanted
        ));
        assert_eq!(decide(&seen(false, thing(true, 2))), Next::Do(Act::Put));
        assert!(rests(
            decide(&seen(false, thing(false, 2))),
            Because::ThingOfAnother
        ));
        assert_eq!(decide(&seen(true, thing(false, 1))), Next::Do(Act::Unguard));
    }

    #[test]
    fn it_is_removed_when_nothing_is_in_the_way_and_gone_before_the_resource_is() {
        let mut leaving = seen(true, thing(true, 1));
        assert_eq!(decide(&leaving), Next::Blockers);
        leaving.wish = Err(Refusal {
            because: Because::InvalidSpec,
            detail: String::new(),
        });
        let slip = decide(&leaving);
        assert!(matches!(
            slip,
            Next::Rest {
                because: Because::InvalidSpec,
                ..
            }
        ));
        leaving.wish = seen(true, Known::NotAsked).wish;
        leaving.blockers = Known::Is(vec!["2 buckets".into()]);
        assert!(matches!(
            decide(&leaving),
            Next::Rest {
                because: Because::RemovalBlocked,
                ..
            }
        ));
        leaving.blockers = Known::Is(Vec::new());
        assert_eq!(decide(&leaving), Next::Do(Act::Remove));
        leaving.found = Known::Is(None);
        assert_eq!(decide(&leaving), Next::Do(Act::Unguard));
    }
}
