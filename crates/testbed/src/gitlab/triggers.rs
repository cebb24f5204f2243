//! Pipeline trigger tokens, whose value its owner can read again.

use jiff::Timestamp;
use serde::Serialize;

use super::level;
use super::params::Reading;
use super::refusal::Refusal;
use super::reply::{Answer, Done};
use super::route::{Act, Named};
use super::serve::Call;
use super::show::{ShownUser, time};
use super::state::{Place, State};
use super::tell::{Kind, Live, Use};
use super::tokens::random_value;

/// What somebody who is not the owner gets to see of a value.
const SHOWN_TO_OTHERS: usize = 4;

#[derive(Debug)]
pub(super) struct Trigger {
    pub(super) id: u64,
    pub(super) place: Place,
    description: String,
    value: String,
    owner: u64,
    created: Timestamp,
    last_used: Option<Timestamp>,
}

impl Trigger {
    pub(super) fn about(&self) -> Live {
        Live {
            id: self.id,
            name: self.description.clone(),
            description: Some(self.description.clone()),
            kind: Kind::Trigger,
            creator: self.owner,
            user: Some(self.owner),
            place: Some(self.place),
            scopes: Vec::new(),
            expires: None,
        }
    }
}

#[derive(Serialize)]
struct Shown {
    id: u64,
    token: String,
    description: String,
    created_at: String,
    updated_at: String,
    last_used: Option<String>,
    expires_at: Option<String>,
    owner: Option<ShownUser>,
}

impl State {
    pub(super) fn use_trigger(&mut self, value: &str, now: Timestamp) -> Option<Use> {
        let trigger = self.triggers.values_mut().find(|t| t.value == value)?;
        trigger.last_used = Some(now);
        Some(Use::Works)
    }
}

impl Call<'_> {
    pub(super) fn triggers(&mut self, named: &Named, act: Act) -> Answer {
        let description = match act {
            Act::Create => {
                let mut read = Reading::of(self.params);
                let description = read.required("description");
                read.done()?;
                description
            }
            Act::List | Act::Show(_) | Act::Rotate(_) | Act::Revoke(_) => String::new(),
        };
        let place = self.find(named)?;
        if self.level(place) < level::MAINTAINER {
            return Err(Refusal::forbidden());
        }
        match act {
            Act::Create => Ok(self.create_trigger(place, description)),
            Act::List => {
                let all = self.state.triggers.values();
                let own = all.filter(|trigger| trigger.place == place);
                self.pages(own.map(|trigger| self.show_trigger(trigger)).collect())
            }
            Act::Show(id) | Act::Rotate(id) | Act::Revoke(id) => {
                let trigger = self.state.triggers.get(&id);
                let Some(trigger) = trigger.filter(|trigger| trigger.place == place) else {
                    return Err(Refusal::not_found("Trigger"));
                };
                if let Act::Revoke(id) = act {
                    self.state.triggers.remove(&id);
                    return Ok(Done::nothing());
                }
                Ok(Done::new(200, &self.show_trigger(trigger)))
            }
        }
    }

    fn create_trigger(&mut self, place: Place, description: String) -> Done {
        let id = self.state.next_other();
        let value = random_value("glptt-");
        self.state.values.push(value.clone());
        let trigger = Trigger {
            id,
            place,
            description,
            value,
            owner: self.actor.user,
            created: self.now,
            last_used: None,
        };
        let done = Done::new(201, &self.show_trigger(&trigger));
        self.state.triggers.insert(id, trigger);
        done
    }

    fn show_trigger(&self, trigger: &Trigger) -> Shown {
        let mut token = trigger.value.clone();
        if trigger.owner != self.actor.user {
            token.truncate(SHOWN_TO_OTHERS);
        }
        Shown {
            id: trigger.id,
            token,
            description: trigger.description.clone(),
            created_at: time(trigger.created),
            updated_at: time(trigger.created),
            last_used: trigger.last_used.map(time),
            expires_at: None,
            owner: self.state.show_owner(trigger.owner),
        }
    }
}
