//! A stand-in issuer: an HTTP server with state that behaves like each of the five kinds of issuer, fails on demand,
//! and tells an auditor everything but values.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/{realm}/credentials?prefix=` | 200, all whose name starts so |
//! | `POST /v1/{realm}/credentials` `{name, secret?, rights?, lifetime_seconds?}` | 201 `{id, name, rights, created_at, expires_at?, secret?}` |
//! | `GET` and `DELETE /v1/{realm}/credentials/{id}` | 200 and 204, or 404 |
//! | `GET /v1/{realm}/values/{name}` | read-back realms: 200 with the value, or 404 |
//! | `POST /v1/{realm}/rotate` `{secret}` | self-rotating realms: 201 with the new value; 403 to a dead one |
//! | `POST /v1/{realm}/login` `{id?, secret, who?}` | 204 or 401; needs no login of the realm |
//!
//! All but the last need `Authorization: Bearer <login of the realm>`.

mod control;
mod faults;
mod frozen;
mod history;
mod serve;
mod state;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, oneshot};

pub use faults::{Fault, Faults, RequestLine, Verb};
pub use frozen::{FrozenCredential, FrozenRealm};
pub use history::{Ended, Event, Happened, Hidden, Live};
pub use state::Kind;
use state::{Answer, Call, State, new_value};

/// The server, on a loopback port and a thread of its own. It ends when dropped, and everything in it with it.
pub struct StandIn {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StandIn")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Whether `/control/...` is served too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    Off,
    On,
}

/// A credential that a person made.
#[derive(Debug, Clone)]
pub struct Added {
    pub id: String,
    pub value: Hidden,
}

impl StandIn {
    /// On a free port, without the control API.
    pub fn start() -> io::Result<Self> {
        Self::start_on(0, Control::Off)
    }

    /// On this loopback port; 0 takes a free one.
    pub fn start_on(port: u16, control: Control) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            faults: Faults::default(),
            parked: Mutex::default(),
            held: Notify::new(),
            holding: AtomicUsize::new(0),
            control: control == Control::On,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let served = Arc::clone(&shared);
        // A thread of its own: usable from any runtime or none, and a test that blocks its runtime does not stop it.
        let thread = std::thread::Builder::new()
            .name("stand-in issuer".into())
            .spawn(move || {
                runtime.block_on(async {
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                        return;
                    };
                    tokio::select! {
                        () = serve::serve(listener, served) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            shared,
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Makes an empty realm (or makes it anew), and returns its login.
    pub fn realm(&self, name: &str, kind: Kind) -> Hidden {
        let login = new_value();
        self.realm_with_login(name, kind, &login);
        Hidden(login)
    }

    pub fn realm_with_login(&self, name: &str, kind: Kind, login: &str) {
        self.shared.state().add_realm(name, kind, login.into());
    }

    pub fn kind(&self, realm: &str) -> Option<Kind> {
        self.shared.state().kind(realm)
    }

    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// What lets somebody in right now.
    pub fn live(&self, realm: &str) -> Vec<Live> {
        let now = self.shared.now();
        self.shared.state().live(realm, now)
    }

    /// Everything that happened in a realm, in order.
    pub fn history(&self, realm: &str) -> Vec<Event> {
        self.shared.state().events(realm)
    }

    /// Every value and login there ever was, for a canary scan.
    pub fn every_value(&self) -> Vec<Hidden> {
        self.shared.state().every_value()
    }

    /// A person makes a credential: a foreign one, a provided one, or the first of a self-rotating family.
    /// `None` if there is no such realm.
    pub fn add(&self, realm: &str, name: &str) -> Option<Added> {
        let now = self.shared.now();
        let (id, value) = self.shared.state().add(realm, name, now)?;
        Some(Added { id, value })
    }

    /// A person ends a credential behind everybody's back. `false` if it was not alive.
    pub fn kill(&self, realm: &str, id: &str) -> bool {
        let now = self.shared.now();
        self.shared.state().kill(realm, id, now)
    }

    /// From now on the realm's login is refused; the credentials themselves still let people in.
    pub fn disable_login(&self, realm: &str) {
        self.shared.state().set_login(realm, false);
    }

    pub fn enable_login(&self, realm: &str) {
        self.shared.state().set_login(realm, true);
    }

    /// Puts the stand-in's clock ahead, so that lifetimes end without waiting.
    pub fn advance(&self, time: SignedDuration) {
        let mut state = self.shared.state();
        state.ahead = state.ahead.saturating_add(time);
    }

    /// Does what the parked requests asked for, in their order, and lets the held ones go on; says how many there were.
    pub fn release_parked(&self) -> usize {
        self.shared.release_parked()
    }

    pub fn parked(&self) -> usize {
        self.shared.parked().len() + self.shared.holding.load(Ordering::SeqCst)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // It only fails if the server panicked, which its clients have noticed.
            let _ = thread.join();
        }
    }
}

struct Shared {
    state: Mutex<State>,
    faults: Faults,
    parked: Mutex<Vec<Parked>>,
    held: Notify,
    holding: AtomicUsize,
    control: bool,
}

/// A request that can be done at any time.
#[derive(Clone)]
struct Parked {
    realm: String,
    login: Option<String>,
    call: Call,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parked(&self) -> MutexGuard<'_, Vec<Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, asked: Parked) -> Answer {
        let now = self.now();
        self.state()
            .answer(&asked.realm, asked.login.as_deref(), asked.call, now)
    }

    fn park(&self, asked: Parked) {
        self.parked().push(asked);
    }

    fn release_parked(&self) -> usize {
        let parked = std::mem::take(&mut *self.parked());
        let count = parked.len();
        for asked in parked {
            self.apply(asked);
        }
        let held = self.holding.load(Ordering::SeqCst);
        self.held.notify_waiters();
        count + held
    }

    async fn released(&self) {
        let released = self.held.notified();
        self.holding.fetch_add(1, Ordering::SeqCst);
        released.await;
        self.holding.fetch_sub(1, Ordering::SeqCst);
    }

    #[expect(clippy::disallowed_methods, reason = "a server has a clock of its own")]
    fn now(&self) -> Timestamp {
        let ahead = self.state().ahead;
        Timestamp::now()
            .saturating_add(ahead)
            .unwrap_or(Timestamp::MAX)
    }
}
