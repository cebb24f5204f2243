//! Being logged in as one user: one token for all who need it, and no second try with a password that was refused.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::SignedDuration;
use lifecycle::{IssuedId, TroubleKind};
use reqwest::header::HeaderName;
use reqwest::{Method, StatusCode};
use tokio::sync::watch;

use super::id::credential_id;
use super::listing::Rounds;
use super::login_state::{LoginState, Password, State, Token};
use super::refusals::Seat;
use super::server::{Busy, Discovered, NO_CATALOGUE, Server, UnderWay};
use super::wire::{self, Credential, Listed, Missing, TokenReply};
use crate::http::{Reply, Request};
use crate::{SecretValue, SourceError};

static AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
static SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");

/// A token made in the second of a password change is dead from the start, and one made a second later is not.
const A_SECOND_LATER: SignedDuration = SignedDuration::from_secs(1);

/// Fresh tokens that are refused for longer than this are refused for another reason.
const SECOND_OF_A_CHANGE: Duration = Duration::from_secs(2);

/// So many credentials that were ended for others are remembered: longer than it takes to tell of them.
const MOST_ENDED: usize = 256;

/// A list has about half a kilobyte for every credential of the user.
const LONGEST_LIST: usize = 32 << 20;
const TOO_MANY: &str = "the list is longer than 32 MiB: the user has too many application credentials; delete those that nobody uses";

/// A token is not used in the last part of its life: a request under way must not outlive it.
const LAST_PART: Duration = Duration::from_mins(1);

/// Who logs in, and where to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Who {
    pub user: String,
    pub user_domain: String,
    pub project: String,
    pub project_domain: String,
}

/// One user's login at one Keystone.
pub struct Session {
    server: Arc<Server>,
    who: Who,
    /// The user and its domain, as one text.
    login: String,
    state: Mutex<State>,
    seat: Seat,
    /// One login at a time: those who wait for it share its token.
    one_at_a_time: tokio::sync::Mutex<()>,
    lists: Rounds<Vec<Credential>>,
    /// The same for other users, as the administrator sees them.
    lists_of_others: Mutex<HashMap<Who, Arc<Rounds<Vec<Credential>>>>>,
    /// Credentials of others that were ended with this login, newest last.
    ended: Mutex<VecDeque<String>>,
    /// Why there is no password; then nothing is ever sent.
    no_password: Option<String>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("server", &self.server)
            .field("who", &self.who)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub fn new(server: Arc<Server>, who: Who, password: Password) -> Self {
        Self {
            login: format!("{}@{}", who.user, who.user_domain),
            who,
            state: Mutex::new(State::new(password, LoginState::Untried)),
            seat: server.refusals().seat(),
            one_at_a_time: tokio::sync::Mutex::default(),
            server,
            lists: Rounds::default(),
            lists_of_others: Mutex::default(),
            ended: Mutex::default(),
            no_password: None,
        }
    }

    /// A login that is known to be of no use, for this reason. It is refused without a word to Keystone.
    pub fn without_password(server: Arc<Server>, who: Who, why: String) -> Self {
        let nothing = Password {
            value: SecretValue::new(""),
            version: String::new(),
        };
        let mut session = Self::new(server, who, nothing);
        session.state().login = LoginState::Absent;
        session.no_password = Some(why);
        session
    }

    /// The password as it stands in its Secret now. A new one ends the old login, and allows a new try.
    pub fn offer(&self, password: Password) {
        self.state().offer(password);
    }

    /// Whether it must be remembered that this password was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self.state().login, LoginState::Refused(_))
    }

    pub fn user(&self) -> &str {
        &self.who.user
    }

    /// Whether this credential of another user was ended with this login, not long ago.
    pub fn has_ended(&self, id: &IssuedId) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.iter().any(|known| known == credential_id(id))
    }

    pub(super) fn note_ended(&self, credential: &str) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push_back(credential.to_owned());
        let forget = ended.len().saturating_sub(MOST_ENDED);
        ended.drain(..forget);
    }

    pub(super) fn address(&self) -> &str {
        self.server.address()
    }

    pub(super) fn keystone(&self) -> &Server {
        &self.server
    }

    pub(super) fn who(&self) -> &Who {
        &self.who
    }

    pub(super) fn login_name(&self) -> &str {
        &self.login
    }

    pub(super) fn place(&self) -> &str {
        self.server.place()
    }

    pub(super) async fn server(&self) -> Result<Discovered<'_>, SourceError> {
        self.server.discovered().await
    }

    pub(super) fn saw_fail(&self, credential: &str) {
        self.state().saw_fail(credential);
    }

    pub(super) fn saw_work(&self, credential: &str) {
        self.state().saw_work(credential);
    }

    /// Every application credential of the user, from a list begun after this call.
    pub(super) async fn list(&self) -> Result<Arc<Vec<Credential>>, SourceError> {
        let (patience, busy) = (self.server.patience(), self.server.busy());
        self.lists.join(patience, busy, self.list_now()).await
    }

    /// A user that was deleted has none: Keystone deletes them with their user.
    async fn list_now(&self) -> Result<Vec<Credential>, SourceError> {
        match self.list_by_id(&self.who.user, None).await {
            Err(denied) if denied.kind == TroubleKind::Denied && self.deleted_user().is_some() => {
                Ok(Vec::new())
            }
            listed => listed,
        }
    }

    /// The id of the user, if Keystone said to its own token that there is no such user any more, and nobody could log in as
    /// a new one of that name since.
    pub(super) fn deleted_user(&self) -> Option<String> {
        self.state().deleted.clone()
    }

    pub(super) fn rounds_for(&self, other: &Who) -> Arc<Rounds<Vec<Credential>>> {
        let mut all = self
            .lists_of_others
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.entry(other.clone()).or_default().clone()
    }

    pub(super) fn busy(&self) -> (Duration, watch::Receiver<Busy>) {
        (self.server.patience(), self.server.busy())
    }

    /// The list of the user with this id, or of the one who is logged in; `name` is for people.
    pub(super) async fn list_by_id(
        &self,
        name: &str,
        id: Option<&str>,
    ) -> Result<Vec<Credential>, SourceError> {
        let act = format!("listing application credentials of user {name}");
        let reply = self
            .ask_beside_others(&act, |server, token| {
                let user = id.unwrap_or(&token.user);
                let path = ["users", user, "application_credentials"];
                let request = server.request(&act, Method::GET, path);
                request.at_most(LONGEST_LIST, TOO_MANY)
            })
            .await?
            .expect(&[StatusCode::OK])?;
        let listed: Listed = reply.json()?;
        if listed.truncated {
            return Err(reply.error(
                TroubleKind::Rejected,
                "Keystone shows only a part of them; raise its list_limit",
            ));
        }
        let odd = |credential: &Credential| {
            !wire::is_id(&credential.id) || !wire::is_id(&credential.user)
        };
        if listed.application_credentials.iter().any(odd) {
            return Err(reply.error(TroubleKind::Unexpected, "the list holds ids that are none"));
        }
        Ok(listed.application_credentials)
    }

    /// Sends a request with the token, which counts as under way until it is answered.
    pub(super) async fn ask(
        &self,
        act: &str,
        make: impl Fn(&Discovered<'_>, &Token) -> Request,
    ) -> Result<Reply, SourceError> {
        let _under_way = self.under_way();
        self.ask_beside_others(act, make).await
    }

    /// The id of the user who is logged in, by a login if nobody is.
    pub(super) async fn user_id(&self, act: &str) -> Result<String, SourceError> {
        let server = self.server().await?;
        Ok(self.token(act, &server, None).await?.user)
    }

    pub(super) fn under_way(&self) -> UnderWay<'_> {
        self.server.enter()
    }

    /// Sends a request with the token. A token that Keystone no longer takes is replaced, once: a request that was
    /// refused for its token was not carried out, so that sending it again is safe.
    async fn ask_beside_others(
        &self,
        act: &str,
        make: impl Fn(&Discovered<'_>, &Token) -> Request,
    ) -> Result<Reply, SourceError> {
        let server = self.server().await?;
        let mut token = self.token(act, &server, None).await?;
        for first in [true, false] {
            let reply = make(&server, &token)
                .secret_header(AUTH_TOKEN.clone(), token.value.expose())
                .send()
                .await
                .and_then(wire::from_keystone)?;
            // Of a user or a project that is gone, every request with its token is a 404, whatever it asks for.
            let missing = wire::says_missing(&reply, &token.user, "");
            if missing == Some(Missing::User) {
                self.state().deleted = Some(token.user.clone());
            }
            if reply.status() != StatusCode::UNAUTHORIZED && missing.is_none() {
                self.state().refuses_fresh = None;
                return Ok(reply);
            }
            if first {
                token = self.token(act, &server, Some(&token)).await?;
            }
        }
        let since = *self.state().refuses_fresh.get_or_insert_with(Instant::now);
        let detail = "Keystone refuses a token it has just given out (401)";
        Err(SourceError {
            wait: (since.elapsed() < SECOND_OF_A_CHANGE).then_some(A_SECOND_LATER),
            ..SourceError::new(act, TroubleKind::Unreachable, detail)
        })
    }

    /// A token other than `worn`, from memory or by one login.
    async fn token(
        &self,
        act: &str,
        server: &Discovered<'_>,
        worn: Option<&Token>,
    ) -> Result<Token, SourceError> {
        let _alone = self.one_at_a_time.lock().await;
        let password = {
            let mut state = self.state();
            let usable = |token: &&Token| {
                token.until > Instant::now()
                    && worn.is_none_or(|worn| worn.value.expose() != token.value.expose())
            };
            if let Some(token) = state.token.as_ref().filter(usable) {
                return Ok(token.clone());
            }
            state.token = None;
            if state.login != LoginState::Untried {
                return Err(self.refused(act));
            }
            state.password.clone()
        };
        self.log_in(act, server, password).await
    }

    async fn log_in(
        &self,
        act: &str,
        server: &Discovered<'_>,
        password: Password,
    ) -> Result<Token, SourceError> {
        let Some(body) = wire::log_in_as(&self.who, &password.value) else {
            return Err(SourceError::new(
                act,
                TroubleKind::Denied,
                "the password is not text (UTF-8)",
            ));
        };
        let refusals = self.server.refusals().of(&self.who);
        let mut refusals = refusals.lock().await;
        // Somebody else's wrong passwords must not keep out one that is right.
        let proved = self.state().proved;
        if let Some(wait) = refusals.wait(self.seat, Instant::now()).filter(|_| !proved) {
            return Err(self.who.others_were_refused(act, wait));
        }
        let begun = Instant::now();
        let what = format!("logging in as user {}", self.who.user);
        let reply = server
            .request(&what, Method::POST, ["auth", "tokens"])
            .query(NO_CATALOGUE)
            .json(body.get())
            .send()
            .await
            .and_then(wire::from_keystone)?;
        if reply.status() == StatusCode::UNAUTHORIZED {
            refusals.note(self.seat, begun);
            self.state().refuse(&password);
            return Err(self.refused(act));
        }
        let reply = reply.expect(&[StatusCode::CREATED])?;
        let token = read_token(&reply, begun)?;
        refusals.forget();
        self.state().keep(&token, &password);
        Ok(token)
    }

    fn refused(&self, act: &str) -> SourceError {
        match &self.no_password {
            Some(why) => SourceError::new(act, TroubleKind::Denied, why.as_str()),
            None => self.who.was_refused(act),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_token(reply: &Reply, begun: Instant) -> Result<Token, SourceError> {
    let odd = |detail: &str| Err(reply.error(TroubleKind::Unexpected, detail));
    let Some(value) = reply.header(&SUBJECT_TOKEN) else {
        return odd("the answer to the login carries no token");
    };
    let body: TokenReply = reply.json()?;
    if !wire::is_id(&body.token.user.id) {
        return odd("the answer to the login names no user");
    }
    // By Keystone's own clock, so that a difference between clocks does not matter.
    let life = wire::time(&body.token.expires_at)
        .zip(wire::time(&body.token.issued_at))
        .and_then(|(expires, issued)| Duration::try_from(expires.duration_since(issued)).ok());
    let Some(life) = life else {
        return odd("the answer to the login says nothing of the token's life");
    };
    Ok(Token {
        value: SecretValue::new(value.as_bytes()),
        user: body.token.user.id,
        until: begun + life.saturating_sub(LAST_PART.min(life / 2)),
    })
}
