//! A stand-in Keystone in this process: no Python, no database, a clock that can be put ahead, and a fault at any
//! request. It keeps the same [contract](super::contract) as the real one.
//!
//! ```no_run
//! # fn example() -> anyhow::Result<()> {
//! use testbed::keystone::{CREATE, Options, standin::StandIn};
//! use testbed::proxy::Fault;
//! let keystone = StandIn::start(Options::default())?;
//! keystone.faults().next(CREATE, Fault::DropApplied);
//! # Ok(()) }
//! ```
//!
//! One file per question: `serve` (which request is it), `login` (who gets a token), `credentials` and `shape` (what may
//! be made), `identity` (what an administrator changes), `state` (what is known), `refusal` and `reply` (how it
//! says no and yes).

mod credentials;
mod frozen;
mod identity;
mod login;
mod refusal;
mod reply;
mod serve;
mod shape;
mod state;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{AccessRule, Admin, ApplicationCredential, Counts, Options};
use crate::issuer::Hidden;
use crate::proxy::{Faults, Front};
pub use frozen::Frozen;
use state::State;

/// The server, on a loopback port and a thread of its own. It ends when dropped, and everything in it with it.
///
/// What changes it here makes no request, so that nothing is counted; [`StandIn::admin`] does the same over HTTP, as with
/// the real one. Users, projects and roles are given by name; what is not there is not changed.
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
    #[expect(clippy::disallowed_methods, reason = "a server has a clock of its own")]
    fn state_now(&self) -> (MutexGuard<'_, State>, Timestamp) {
        let state = self.state();
        let now = Timestamp::now()
            .saturating_add(state.ahead)
            .unwrap_or(Timestamp::MAX);
        (state, now)
    }
}

impl StandIn {
    pub fn start(options: Options) -> anyhow::Result<Self> {
        let port = options.port;
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(options)),
        });
        let backend = Arc::new(serve::Answers(Arc::clone(&shared)));
        let front = Front::start("stand-in Keystone", port, false, backend)?;
        Ok(Self { front, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.front.address()
    }

    /// `http://127.0.0.1:port`, without `/v3`.
    pub fn url(&self) -> String {
        self.front.url()
    }

    pub fn admin(&self) -> Admin {
        Admin::new(&self.url())
    }

    /// The plan of faults and the record of requests.
    pub fn faults(&self) -> &Faults {
        self.front.faults()
    }

    pub fn counts(&self) -> Counts {
        Counts::of(self.faults())
    }

    /// Does what the parked requests asked for, in their order, and lets the held ones go on; says how many there were.
    pub fn release_parked(&self) -> usize {
        self.front.release_parked()
    }

    pub fn parked(&self) -> usize {
        self.front.parked()
    }

    /// Puts the clock ahead, so that tokens, credentials and lock-outs end without waiting.
    pub fn advance(&self, time: SignedDuration) {
        let mut state = self.shared.state();
        state.ahead = state.ahead.saturating_add(time);
    }

    /// Every password and secret there ever was, for a canary scan.
    pub fn every_value(&self) -> Vec<Hidden> {
        let state = self.shared.state();
        state.values.iter().cloned().map(Hidden).collect()
    }

    /// Everything there is of this user, expired ones too.
    pub fn application_credentials(&self, user: &str) -> Vec<ApplicationCredential> {
        let state = self.shared.state();
        let user = state.user_named(user);
        let owned = state
            .credentials
            .iter()
            .filter(|c| Some(&c.user) == user.as_ref());
        owned
            .map(|credential| {
                serde_json::from_value(state.show_credential(credential, ""))
                    .expect("what is shown can be read")
            })
            .collect()
    }

    /// What lets somebody in right now.
    pub fn live(&self, user: &str) -> Vec<ApplicationCredential> {
        let (state, now) = self.shared.state_now();
        let dead: Vec<_> = state
            .credentials
            .iter()
            .filter(|credential| credential.expires.is_some_and(|expires| expires <= now))
            .map(|credential| credential.id.clone())
            .collect();
        drop(state);
        let mut all = self.application_credentials(user);
        all.retain(|credential| !dead.contains(&credential.id));
        all
    }

    pub fn count(&self, user: &str) -> usize {
        self.application_credentials(user).len()
    }

    pub fn access_rules(&self, user: &str) -> Vec<AccessRule> {
        let state = self.shared.state();
        let user = state.user_named(user);
        let owned = state
            .rules
            .iter()
            .filter(|(_, rule)| Some(&rule.user) == user.as_ref());
        owned
            .map(|(id, rule)| {
                let shown: Value = credentials::show_rule(id, rule);
                serde_json::from_value(shown).expect("what is shown can be read")
            })
            .collect()
    }

    /// `false` if there was none with this id.
    pub fn delete_application_credential(&self, user: &str, id: &str) -> bool {
        let mut state = self.shared.state();
        let Some(user) = state.user_named(user) else {
            return false;
        };
        let before = state.credentials.len();
        state.credentials.retain(|c| c.user != user || c.id != id);
        state.credentials.len() < before
    }

    /// Says the new user's id. It has no role anywhere.
    pub fn create_user(&self, user: &str, password: &str) -> String {
        self.shared
            .state()
            .add_user(state::DEFAULT_DOMAIN, user, password, None)
    }

    pub fn disable_user(&self, user: &str) {
        self.change(user, |state, id, now| state.set_enabled(id, false, now));
    }

    pub fn enable_user(&self, user: &str) {
        self.change(user, |state, id, now| state.set_enabled(id, true, now));
    }

    /// From now on this is the password; every token of the user's is dead, and so is one issued in the same second.
    pub fn set_password(&self, user: &str, password: &str) {
        self.change(user, |state, id, now| state.set_password(id, password, now));
    }

    fn change(&self, user: &str, change: impl FnOnce(&mut State, &str, Timestamp)) {
        let (mut state, now) = self.shared.state_now();
        if let Some(id) = state.user_named(user) {
            change(&mut state, &id, now);
        }
    }

    pub fn assign_role(&self, user: &str, project: &str, role: &str) {
        let mut state = self.shared.state();
        if let Some(grant) = state.grant_named(user, project, role) {
            state.grants.insert(grant);
        }
    }

    pub fn unassign_role(&self, user: &str, project: &str, role: &str) {
        let mut state = self.shared.state();
        if let Some(grant) = state.grant_named(user, project, role) {
            state.grants.remove(&grant);
        }
    }
}
