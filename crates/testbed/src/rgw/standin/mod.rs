//! A stand-in object store in this process, with two gateways: no Ceph, a fault at any request, and a second gateway that can
//! be made to live in the past. It keeps the same [contract](super::contract) as the real one.
//!
//! ```no_run
//! # fn example() -> anyhow::Result<()> {
//! use testbed::proxy::Fault;
//! use testbed::rgw::{PUT_KEY, standin::StandIn};
//! let store = StandIn::start()?;
//! store.faults().next(PUT_KEY, Fault::DropApplied);
//! # Ok(()) }
//! ```
//!
//! One file per question: `serve` (which request is it, and whose), `users`, `keys`, `accounts` and `iam` (what may be done),
//! `state` (what is known), `reply` (how it says no and yes).

mod accounts;
mod iam;
mod keys;
mod reply;
mod serve;
mod state;
mod users;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::SignedDuration;

use super::Login;
use crate::issuer::Hidden;
use crate::proxy::{Faults, Front};
use serve::Answers;
use state::State;

/// The store, on two loopback ports and threads of its own. It ends when dropped, and everything in it with it.
pub struct StandIn {
    one: Front,
    two: Front,
    shared: Arc<Shared>,
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandIn")
            .field("address", &self.one.address())
            .finish_non_exhaustive()
    }
}

struct Shared {
    state: Mutex<State>,
    /// What the second gateway still believes.
    past: Mutex<Option<State>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn past(&self) -> MutexGuard<'_, Option<State>> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key that lets somebody in right now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LiveKey {
    pub uid: String,
    pub access_key: String,
}

impl StandIn {
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(false)
    }

    /// With TLS at both gateways; [`StandIn::ca_pems`] is what clients have to trust.
    pub fn start_with_tls() -> anyhow::Result<Self> {
        Self::start_with(true)
    }

    fn start_with(tls: bool) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new()),
            past: Mutex::new(None),
        });
        let gateway = |name: &str, first: bool| {
            let answers = Answers {
                shared: Arc::clone(&shared),
                first,
            };
            Front::start(name, 0, tls, Arc::new(answers))
        };
        Ok(Self {
            one: gateway("stand-in gateway one", true)?,
            two: gateway("stand-in gateway two", false)?,
            shared,
        })
    }

    pub fn urls(&self) -> Vec<String> {
        vec![self.one.url(), self.two.url()]
    }

    /// The authorities of both gateways, if they speak TLS.
    pub fn ca_pems(&self) -> String {
        let pems = [self.one.ca_pem(), self.two.ca_pem()];
        pems.into_iter().flatten().collect()
    }

    /// The plan of faults and the record of requests of the first gateway.
    pub fn faults(&self) -> &Faults {
        self.one.faults()
    }

    /// Those of the second gateway.
    pub fn faults_of_the_second(&self) -> &Faults {
        self.two.faults()
    }

    /// Does what the parked requests asked for, in their order, and lets the held ones go on; says how many there were.
    pub fn release_parked(&self) -> usize {
        self.one.release_parked() + self.two.release_parked()
    }

    /// From now on the second gateway hears of no change.
    pub fn leave_the_second_behind(&self) {
        let now = self.shared.state().clone();
        *self.shared.past() = Some(now);
    }

    /// The second gateway hears of everything again.
    pub fn let_the_second_catch_up(&self) {
        *self.shared.past() = None;
    }

    /// Every secret key there ever was, for a canary scan.
    pub fn every_value(&self) -> Vec<Hidden> {
        let state = self.shared.state();
        state.values.iter().cloned().map(Hidden).collect()
    }

    /// Keys that let somebody in right now, but for the administrator's.
    pub fn live(&self) -> Vec<LiveKey> {
        let state = self.shared.state();
        let users = state.users.values().filter(|user| user.uid != "admin");
        let keys = users.flat_map(|user| {
            let active = user.keys.iter().filter(|(_, key)| key.active);
            active.map(|(access_key, _)| LiveKey {
                uid: user.uid.clone(),
                access_key: access_key.clone(),
            })
        });
        keys.collect()
    }

    /// The secret key that an access key has now.
    pub fn login(&self, access_key: &str) -> Option<Login> {
        let state = self.shared.state();
        let key = state
            .users
            .values()
            .find_map(|user| user.keys.get(access_key))?;
        Some(Login::new(access_key, &key.secret))
    }

    /// So much time passes for its clock, as its answers show it.
    pub fn advance(&self, time: SignedDuration) {
        let mut state = self.shared.state();
        state.ahead += time;
    }

    /// Takes a capability of the administrator's away, such as `accounts`.
    pub fn take_capability(&self, sort: &str) {
        if let Some(admin) = self.shared.state().users.get_mut("admin") {
            admin.caps.remove(sort);
        }
    }
}
