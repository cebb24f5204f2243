//! Runners and their one token each, which can only be reset.

use serde_json::json;

use super::level;
use super::params::{Params, Reading};
use super::refusal::Refusal;
use super::reply::{Answer, Done};
use super::route::Named;
use super::serve::Call;
use super::state::{Place, State};
use super::tell::{Kind, Live, Use};
use super::tokens::{digest, random_value};

#[derive(Debug)]
pub(super) struct Runner {
    pub(super) id: u64,
    /// `None` is the whole instance.
    pub(super) place: Option<Place>,
    description: String,
    digest: [u8; 32],
    creator: u64,
}

impl Runner {
    pub(super) fn about(&self) -> Live {
        Live {
            id: self.id,
            name: self.description.clone(),
            description: Some(self.description.clone()),
            kind: Kind::Runner,
            creator: self.creator,
            user: None,
            place: self.place,
            scopes: Vec::new(),
            expires: None,
        }
    }

    fn kind(&self) -> &'static str {
        match self.place {
            Some(Place::Project(_)) => "project_type",
            Some(Place::Group(_)) => "group_type",
            None => "instance_type",
        }
    }
}

impl State {
    pub(super) fn use_runner(&self, value: &str) -> Option<Use> {
        let wanted = digest(value);
        let mut runners = self.runners.values();
        runners
            .any(|runner| runner.digest == wanted)
            .then_some(Use::Works)
    }

    /// The runner itself asks, with its token in the body: the old value dies at once.
    pub(super) fn reset_own_runner(&mut self, params: &Params) -> Answer {
        let mut read = Reading::of(params);
        let value = read.required("token");
        read.done()?;
        let wanted = digest(&value);
        let found = self.runners.values().find(|r| r.digest == wanted);
        match found.map(|runner| runner.id) {
            Some(id) => Ok(self.reset(id)),
            None => Err(Refusal::forbidden()),
        }
    }

    fn reset(&mut self, id: u64) -> Done {
        let value = random_value("glrt-");
        self.values.push(value.clone());
        if let Some(runner) = self.runners.get_mut(&id) {
            runner.digest = digest(&value);
        }
        Done::new(201, &json!({"token": value, "token_expires_at": null}))
    }
}

impl Call<'_> {
    pub(super) fn create_runner(&mut self) -> Answer {
        let mut read = Reading::of(self.params);
        let sort = read.one_of(
            "runner_type",
            &["instance_type", "group_type", "project_type"],
        );
        if sort.is_none() {
            read.missing("runner_type");
        }
        let description = read.optional("description").unwrap_or_default();
        let (project, group) = (read.optional("project_id"), read.optional("group_id"));
        read.done()?;
        let named = match sort.as_deref() {
            Some("project_type") => project.map(Named::Project),
            Some("group_type") => group.map(Named::Group),
            Some(_) | None => None,
        };
        let place = named.as_ref().map(|named| self.find(named)).transpose()?;
        match place {
            Some(place) if self.level(place) >= place.managed_from() => {}
            None if sort.as_deref() == Some("instance_type") && self.is_admin() => {}
            Some(_) | None => return Err(Refusal::forbidden()),
        }
        let id = self.state.next_other();
        let runner = Runner {
            id,
            place,
            description,
            digest: [0; 32],
            creator: self.actor.user,
        };
        self.state.runners.insert(id, runner);
        let value = random_value("glrt-");
        self.state.values.push(value.clone());
        if let Some(runner) = self.state.runners.get_mut(&id) {
            runner.digest = digest(&value);
        }
        let made = json!({"id": id, "token": value, "token_expires_at": null});
        Ok(Done::new(201, &made))
    }

    fn my_runner(&self, id: u64) -> Result<&Runner, Refusal> {
        let runner = self.state.runners.get(&id);
        let runner = runner.ok_or_else(|| Refusal::not_found("Runner"))?;
        let may = match runner.place {
            Some(place) => self.level(place) >= level::MAINTAINER,
            None => self.is_admin(),
        };
        if may {
            Ok(runner)
        } else {
            Err(Refusal::forbidden())
        }
    }

    pub(super) fn show_runner(&self, id: u64) -> Answer {
        let runner = self.my_runner(id)?;
        let shown = json!({
            "id": id, "description": runner.description, "active": true, "paused": false,
            "runner_type": runner.kind(), "status": "never_contacted",
        });
        Ok(Done::new(200, &shown))
    }

    pub(super) fn reset_runner(&mut self, id: u64) -> Answer {
        self.my_runner(id)?;
        Ok(self.state.reset(id))
    }

    pub(super) fn remove_runner(&mut self, id: u64) -> Answer {
        self.my_runner(id)?;
        self.state.runners.remove(&id);
        Ok(Done::nothing())
    }
}
