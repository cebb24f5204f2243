//! From bytes to a question to the state, and back.

use std::io;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::HOST;
use jiff::Timestamp;
use jiff::civil::Date;

use super::Shared;
use super::auth::{Actor, value_in};
use super::clock::day;
use super::params::Params;
use super::refusal::Refusal;
use super::reply::{Answer, on_the_wire, planned};
use super::route::{Named, Route, is_rotation, request_kind};
use super::state::{Place, State};
use super::tell::Journaled;
use crate::proxy::{Answered, Asked, Backend};

pub(super) struct Answers(pub(super) Arc<Shared>);

impl Backend for Answers {
    fn kind(&self, asked: &Asked) -> String {
        request_kind(&asked.method, asked.path())
    }

    fn answer(&self, asked: Asked) -> BoxFuture<'static, io::Result<Answered>> {
        let shared = Arc::clone(&self.0);
        async move {
            let (mut state, now) = shared.state_now();
            Ok(answer(&mut state, &asked, now))
        }
        .boxed()
    }

    fn planned(&self, status: u16) -> Answered {
        planned(status)
    }
}

/// One request from beginning to end, with everything that is written down of it.
fn answer(state: &mut State, asked: &Asked, now: Timestamp) -> Answered {
    let params = Params::of(asked);
    let value = value_in(&asked.headers, &params);
    let actor = value.as_deref().and_then(|value| state.owner_of(value));
    let actor = actor.map(|actor| actor.user);
    let counted = state.count(actor, now);
    let mut answered = match counted.refused() {
        Some(refused) => refused,
        None => on_the_wire(done(state, asked, &params, value.as_deref(), now), now),
    };
    counted.tell(&mut answered.headers);
    state.journal.push(Journaled {
        at: now,
        method: asked.method.to_string(),
        path: asked.path().to_owned(),
        kind: request_kind(&asked.method, asked.path()),
        actor,
        status: answered.status.as_u16(),
    });
    answered
}

fn done(
    state: &mut State,
    asked: &Asked,
    params: &Params,
    value: Option<&str>,
    now: Timestamp,
) -> Answer {
    let route = Route::of(&asked.method, asked.path(), &state.settings);
    let route = route.ok_or_else(Refusal::no_such_route)?;
    if route == Route::ResetOwnRunner {
        // The runner's own token says who asks.
        return state.reset_own_runner(params);
    }
    let scopes = route.scopes(&asked.method);
    let actor = state.admit(value, scopes, is_rotation(asked.path()), now)?;
    let host = asked.headers.get(HOST).and_then(|host| host.to_str().ok());
    let call = Call {
        today: day(now),
        state,
        now,
        actor,
        params,
        host: host.unwrap_or_default(),
        path: asked.path(),
    };
    call.answer(route)
}

/// A request that was let in.
pub(super) struct Call<'a> {
    pub(super) state: &'a mut State,
    pub(super) now: Timestamp,
    pub(super) today: Date,
    pub(super) actor: Actor,
    pub(super) params: &'a Params,
    /// How the client calls this server.
    pub(super) host: &'a str,
    pub(super) path: &'a str,
}

impl Call<'_> {
    fn answer(mut self, route: Route) -> Answer {
        match route {
            Route::Metadata => Ok(self.metadata()),
            Route::Version => Ok(self.version()),
            Route::Me => self.user(self.actor.user),
            Route::Users => self.users(),
            Route::User(id) => self.user(id),
            Route::Place(place) => self.place(&place),
            Route::ResourceTokens(place, act) => self.resource_tokens(&place, act),
            Route::RotateOwnResourceToken(place) => self.rotate_own_resource_token(&place),
            Route::PersonalTokens(act) => self.personal_tokens(act),
            Route::ShowSelf => Ok(self.show_one(self.actor.token)),
            Route::RotateSelf => self.rotate_self(),
            Route::RevokeSelf => Ok(self.revoke_self()),
            Route::CreateFor(user) => self.create_for(user),
            Route::CreateForMyself => self.create_for_myself(),
            Route::Impersonation(user, act) => self.impersonation_tokens(user, act),
            Route::CreateServiceAccount(place) => self.create_service_account(place.as_ref()),
            Route::ListServiceAccounts(place) => self.list_service_accounts(place.as_ref()),
            Route::RemoveServiceAccount(place, user) => self.remove_service_account(&place, user),
            Route::ServiceAccountTokens(place, user, act) => {
                self.service_account_tokens(&place, user, act)
            }
            Route::AllDeployTokens => self.all_deploy_tokens(),
            Route::DeployTokens(place, act) => self.deploy_tokens(&place, act),
            Route::Triggers(place, act) => self.triggers(&place, act),
            Route::CreateRunner => self.create_runner(),
            Route::ShowRunner(id) => self.show_runner(id),
            Route::ResetRunner(id) => self.reset_runner(id),
            Route::ResetOwnRunner => self.state.reset_own_runner(self.params),
            Route::RemoveRunner(id) => self.remove_runner(id),
        }
    }

    /// What may not be seen is not there.
    pub(super) fn find(&self, named: &Named) -> Result<Place, Refusal> {
        let (name, wanted, what): (&str, fn(u64) -> Place, _) = match named {
            Named::Project(name) => (name, Place::Project, "Project"),
            Named::Group(name) => (name, Place::Group, "Group"),
        };
        let by_number = name.parse().ok().map(wanted);
        let found = by_number
            .filter(|place| self.state.places.contains_key(place))
            .or_else(|| {
                let named = self.state.places.iter().find(|(place, namespace)| {
                    wanted(place.id()) == **place && namespace.path.eq_ignore_ascii_case(name)
                });
                named.map(|(place, _)| *place)
            });
        found
            .filter(|place| self.state.sees(self.actor.user, *place))
            .ok_or_else(|| Refusal::not_found(what))
    }

    pub(super) fn is_admin(&self) -> bool {
        self.state.is_admin(self.actor.user)
    }

    pub(super) fn level(&self, place: Place) -> u8 {
        self.state.level(self.actor.user, place)
    }

    pub(super) fn is_bot(&self) -> bool {
        self.state.is_bot(self.actor.user)
    }
}
