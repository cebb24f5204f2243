//! A stand-in GitLab in this process: its token API with state, a clock that can be set, and a fault at any request.
//!
//! ```no_run
//! # fn example() -> anyhow::Result<()> {
//! use testbed::gitlab::{CREATE_PROJECT_TOKEN, Settings, StandIn, level};
//! use testbed::proxy::Fault;
//! let gitlab = StandIn::start(Settings::default())?;
//! let project = gitlab.add_project("team/app");
//! let owner = gitlab.add_user("olga");
//! gitlab.add_member(project, owner, level::OWNER);
//! let login = gitlab.add_token(owner, "login of the operator", &["api"], None);
//! gitlab.faults().next(CREATE_PROJECT_TOKEN, Fault::DropApplied);
//! # let _ = login; Ok(()) }
//! ```
//!
//! One file per question: `route` (which request is it, and does this version have it), `auth` (who asks, and may the
//! token do it), `resource`, `personal`, `accounts`, `other` (what each sort of token can and cannot), `listing` (filters
//! and pages), `params` (what was sent), `refusal`, `reply` and `show` (how it says no and yes), `limits` (too many
//! requests), `state` (what is known).

mod accounts;
mod auth;
pub mod client;
mod clock;
mod deploy;
mod frozen;
mod limits;
mod listing;
mod params;
mod people;
mod personal;
mod refusal;
mod reply;
mod resource;
mod route;
mod runners;
mod serve;
mod settings;
mod show;
mod state;
mod tell;
mod tokens;
mod triggers;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};

use crate::issuer::Hidden;
use crate::proxy::{Faults, Front};
use clock::Clock;
pub use frozen::Frozen;
pub use route::request_kind;
pub use settings::{RateLimit, Settings, TooMany, Version};
pub use state::{Place, Visibility};
use state::{Sort, State};
pub use tell::{Journaled, Kind, Live, Token, Use};
use tokens::NewToken;

/// The kinds of request that Keyward's life cycle consists of; see [`request_kind`].
pub const CREATE_PROJECT_TOKEN: &str = "POST /api/v4/projects/*/access_tokens";
pub const LIST_PROJECT_TOKENS: &str = "GET /api/v4/projects/*/access_tokens";
pub const SHOW_PROJECT_TOKEN: &str = "GET /api/v4/projects/*/access_tokens/*";
pub const ROTATE_PROJECT_TOKEN: &str = "POST /api/v4/projects/*/access_tokens/*/rotate";
pub const REVOKE_PROJECT_TOKEN: &str = "DELETE /api/v4/projects/*/access_tokens/*";
pub const CREATE_GROUP_TOKEN: &str = "POST /api/v4/groups/*/access_tokens";
pub const LIST_GROUP_TOKENS: &str = "GET /api/v4/groups/*/access_tokens";
pub const SHOW_GROUP_TOKEN: &str = "GET /api/v4/groups/*/access_tokens/*";
pub const ROTATE_GROUP_TOKEN: &str = "POST /api/v4/groups/*/access_tokens/*/rotate";
pub const REVOKE_GROUP_TOKEN: &str = "DELETE /api/v4/groups/*/access_tokens/*";
pub const SHOW_SELF: &str = "GET /api/v4/personal_access_tokens/self";
pub const ROTATE_SELF: &str = "POST /api/v4/personal_access_tokens/self/rotate";
pub const REVOKE_SELF: &str = "DELETE /api/v4/personal_access_tokens/self";
pub const SHOW_PERSONAL_TOKEN: &str = "GET /api/v4/personal_access_tokens/*";
pub const REVOKE_PERSONAL_TOKEN: &str = "DELETE /api/v4/personal_access_tokens/*";
pub const METADATA: &str = "GET /api/v4/metadata";
pub const SHOW_PROJECT: &str = "GET /api/v4/projects/*";
pub const SHOW_GROUP: &str = "GET /api/v4/groups/*";

/// What a member may do, from little to everything.
pub mod level {
    pub const GUEST: u8 = 10;
    pub const PLANNER: u8 = 15;
    pub const REPORTER: u8 = 20;
    pub const SECURITY_MANAGER: u8 = 25;
    pub const DEVELOPER: u8 = 30;
    pub const MAINTAINER: u8 = 40;
    pub const OWNER: u8 = 50;
}

/// The administrator that every GitLab begins with.
pub const ROOT: u64 = 1;

/// A token that a person made. Its value is shown here and nowhere else.
#[derive(Debug, Clone)]
pub struct Added {
    pub id: u64,
    pub value: Hidden,
}

/// The server, on a loopback port and a thread of its own. It ends when dropped, and everything in it with it.
///
/// What changes it here makes no request, so that nothing is journaled, limited or made to fail.
pub struct StandIn {
    front: Front,
    shared: Arc<Shared>,
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandIn")
            .field("address", &self.front.address())
            .finish_non_exhaustive()
    }
}

struct Shared {
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state and the time by its clock.
    fn state_now(&self) -> (MutexGuard<'_, State>, Timestamp) {
        let state = self.state();
        let now = state.clock.read(real_now());
        (state, now)
    }
}

#[expect(clippy::disallowed_methods, reason = "a server has a clock of its own")]
fn real_now() -> Timestamp {
    Timestamp::now()
}

impl StandIn {
    pub fn start(settings: Settings) -> anyhow::Result<Self> {
        let (port, tls) = (settings.port, settings.tls);
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(settings, real_now())),
        });
        let backend = Arc::new(serve::Answers(Arc::clone(&shared)));
        let front = Front::start("stand-in GitLab", port, tls, backend)?;
        Ok(Self { front, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.front.address()
    }

    /// `http://127.0.0.1:port` (or `https://…`), without `/api/v4`.
    pub fn url(&self) -> String {
        self.front.url()
    }

    /// The authority to trust, if it speaks TLS.
    pub fn ca_pem(&self) -> Option<String> {
        self.front.ca_pem()
    }

    /// The plan of faults, and the record of every request that arrived, also of those a fault kept from being done.
    pub fn faults(&self) -> &Faults {
        self.front.faults()
    }

    /// Does what the parked requests asked for, in their order, and lets the held ones go on; says how many there were.
    pub fn release_parked(&self) -> usize {
        self.front.release_parked()
    }

    pub fn parked(&self) -> usize {
        self.front.parked()
    }

    /// An administrator changes the settings; they hold from the next request on. The port and TLS stay.
    pub fn change_settings(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.shared.state().settings);
    }

    pub fn now(&self) -> Timestamp {
        self.shared.state_now().1
    }

    /// Puts the clock ahead (or back), so that tokens end without waiting.
    pub fn advance(&self, time: SignedDuration) {
        let mut state = self.shared.state();
        state.clock = state.clock.moved(time);
    }

    /// The clock shows this, and goes on from there.
    pub fn set_clock(&self, now: Timestamp) {
        self.shared.state().clock = Clock::Running {
            ahead: now.duration_since(real_now()),
        };
    }

    /// The clock shows this, and stands still until it is set or advanced.
    pub fn stop_clock(&self, at: Timestamp) {
        self.shared.state().clock = Clock::Stopped { at };
    }

    /// A person with an account and no rights anywhere. Says its id.
    pub fn add_user(&self, username: &str) -> u64 {
        self.shared.state().add_user(username, Sort::Human, false)
    }

    pub fn add_admin(&self, username: &str) -> u64 {
        self.shared.state().add_user(username, Sort::Human, true)
    }

    /// An account for programs, of a group or project or of the whole instance.
    pub fn add_service_account(&self, username: &str, of: Option<Place>) -> u64 {
        let sort = Sort::ServiceAccount(of);
        self.shared.state().add_user(username, sort, false)
    }

    /// A blocked user's tokens are refused, and work again when it is unblocked.
    pub fn set_blocked(&self, user: u64, blocked: bool) {
        if let Some(user) = self.shared.state().users.get_mut(&user) {
            user.blocked = blocked;
        }
    }

    /// A private project. Its members are its own and those of the groups that its path begins with.
    pub fn add_project(&self, path: &str) -> Place {
        self.shared.state().add_project(path)
    }

    /// A private group.
    pub fn add_group(&self, path: &str) -> Place {
        self.shared.state().add_group(path)
    }

    pub fn set_visibility(&self, place: Place, visibility: Visibility) {
        if let Some(place) = self.shared.state().places.get_mut(&place) {
            place.visibility = visibility;
        }
    }

    /// With it go its bots and all that is its own.
    pub fn remove(&self, place: Place) {
        self.shared.state().remove_place(place);
    }

    /// See [`level`]. A member that is there already gets the new level.
    pub fn add_member(&self, place: Place, user: u64, level: u8) {
        if let Some(place) = self.shared.state().places.get_mut(&place) {
            place.members.insert(user, level);
        }
    }

    pub fn remove_member(&self, place: Place, user: u64) {
        if let Some(place) = self.shared.state().places.get_mut(&place) {
            place.members.remove(&user);
        }
    }

    /// A person makes a personal token in the browser: nothing is checked, and `None` never expires.
    pub fn add_token(
        &self,
        user: u64,
        name: &str,
        scopes: &[&str],
        expires: Option<Date>,
    ) -> Added {
        let (mut state, now) = self.shared.state_now();
        let new = NewToken::by_hand(user, user, name, scopes, expires);
        let (id, value) = state.issue(new, now);
        Added {
            id,
            value: Hidden(value),
        }
    }

    /// A person makes a project or group token in the browser, with a bot of its own; nothing is checked.
    pub fn add_resource_token(
        &self,
        place: Place,
        creator: u64,
        name: &str,
        level: u8,
        scopes: &[&str],
        expires: Option<Date>,
    ) -> Added {
        let (mut state, now) = self.shared.state_now();
        let bot = state.add_bot(place, name, level);
        let new = NewToken::by_hand(bot, creator, name, scopes, expires);
        let (id, value) = state.issue(new, now);
        Added {
            id,
            value: Hidden(value),
        }
    }

    /// A person revokes a project, group, personal, impersonation or service account's token behind everybody's back.
    /// `false` if it was not active.
    pub fn revoke(&self, id: u64) -> bool {
        let (mut state, now) = self.shared.state_now();
        let was_active = state.tokens.get(&id).is_some_and(|t| t.is_active(now));
        state.revoke(id, now);
        was_active
    }

    /// A consumer uses a value of any kind: not a request, but a use like one, with its mark in `last_used_at`.
    pub fn use_token(&self, value: &str) -> Use {
        let (mut state, now) = self.shared.state_now();
        state.use_value(value, now)
    }

    /// What lets somebody in right now, of every kind.
    pub fn live(&self) -> Vec<Live> {
        let (state, now) = self.shared.state_now();
        state.live(now)
    }

    /// What is known of one project, group, personal, impersonation or service account's token, dead or alive.
    pub fn token(&self, id: u64) -> Option<Token> {
        let (state, now) = self.shared.state_now();
        state.tokens.get(&id).map(|token| state.tell(token, now))
    }

    /// How many of these rows were there unrevoked at one moment, at most, since the start; deploy tokens, triggers and
    /// runners are not counted. One that only expired counts on.
    pub fn most_live(&self, counts: impl Fn(&Live) -> bool) -> usize {
        self.shared.state().most_live(counts)
    }

    /// Every request that was answered here, in order; what a fault kept away is in [`StandIn::faults`] only.
    pub fn journal(&self) -> Vec<Journaled> {
        self.shared.state().journal.clone()
    }

    /// The nightly job: bots all of whose tokens have been inactive for the retention time are removed, with the tokens.
    /// Says how many bots.
    pub fn run_retention(&self) -> usize {
        let (mut state, now) = self.shared.state_now();
        state.run_retention(now)
    }

    /// Every value there ever was, for a canary scan.
    pub fn every_value(&self) -> Vec<Hidden> {
        let state = self.shared.state();
        state.values.iter().cloned().map(Hidden).collect()
    }
}
