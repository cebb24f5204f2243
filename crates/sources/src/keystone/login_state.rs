//! What is known of one login: its password, its token, and what Keystone thinks of them.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::SecretValue;

/// So many credentials that were refused together with a password are remembered.
const MOST_REFUSED: usize = 256;

/// A password, and a text that changes whenever the one that stands in its Secret does: the version of the Secret since
/// which it stands there.
#[derive(Debug, Clone)]
pub struct Password {
    pub value: SecretValue,
    pub version: String,
}

impl Password {
    /// Whether it was read before the other. Versions that are not numbers cannot be compared.
    fn is_older_than(&self, other: &Self) -> bool {
        let number = |password: &Self| password.version.parse::<u64>().ok();
        number(self)
            .zip(number(other))
            .is_some_and(|(own, other)| own < other)
    }
}

#[derive(Clone)]
pub(super) struct Token {
    pub(super) value: SecretValue,
    pub(super) user: String,
    pub(super) until: Instant,
}

pub(super) struct State {
    pub(super) password: Password,
    pub(super) token: Option<Token>,
    pub(super) login: LoginState,
    /// Keystone has let somebody in with this very password: it is none that could lock an account.
    pub(super) proved: bool,
    /// Since when Keystone refuses tokens that it has just given out.
    pub(super) refuses_fresh: Option<Instant>,
    /// The id of the user, since Keystone said that there is no such user any more. Ids are never given twice.
    pub(super) deleted: Option<String>,
}

/// What Keystone thinks of the password, as far as it told.
///
/// Wrong passwords are counted there, and lock the account for everybody who still uses it. So a refused one is not
/// tried again until another stands in its Secret, or until an application credential of the same user that was refused
/// as well works again: then it was the user that was shut out, not the password that was wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoginState {
    Untried,
    /// With the ids of the credentials that were refused since. Others that work say nothing: they worked all along.
    Refused(BTreeSet<String>),
    /// There is no password that could be tried.
    Absent,
}

impl State {
    pub(super) fn new(password: Password, login: LoginState) -> Self {
        Self {
            password,
            token: None,
            login,
            proved: false,
            refuses_fresh: None,
            deleted: None,
        }
    }

    /// The password as somebody read it. A new one ends the old login, and allows a new try; one that was read before
    /// the one that is known, and is told after it, changes nothing.
    pub(super) fn offer(&mut self, password: Password) {
        if password.is_older_than(&self.password) {
            return;
        }
        if self.password.value.expose() != password.value.expose() {
            self.token = None;
        }
        if self.password.version != password.version {
            self.login = LoginState::Untried;
            self.proved = false;
        }
        self.password = password;
    }

    /// Remembers the token that this password got, unless another password has come in the meantime: its login is to be
    /// tried.
    pub(super) fn keep(&mut self, token: &Token, password: &Password) {
        if self.password.version == password.version {
            self.token = Some(token.clone());
            self.proved = true;
            self.deleted = None;
        }
    }

    /// This password was refused.
    pub(super) fn refuse(&mut self, password: &Password) {
        if self.password.version == password.version {
            self.login = LoginState::Refused(BTreeSet::new());
            self.proved = false;
        }
    }

    /// The credential with this id was refused.
    pub(super) fn saw_fail(&mut self, credential: &str) {
        if let LoginState::Refused(with) = &mut self.login
            && with.len() < MOST_REFUSED
        {
            with.insert(credential.to_owned());
        }
    }

    /// The credential with this id works.
    pub(super) fn saw_work(&mut self, credential: &str) {
        if let LoginState::Refused(with) = &self.login
            && with.contains(credential)
        {
            self.login = LoginState::Untried;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(value: &str, version: &str) -> Password {
        Password {
            value: SecretValue::new(value),
            version: version.to_owned(),
        }
    }

    fn state(value: &str, version: &str) -> State {
        State::new(password(value, version), LoginState::Untried)
    }

    fn token() -> Token {
        Token {
            value: SecretValue::new("a token"),
            user: "barbican".to_owned(),
            until: Instant::now(),
        }
    }

    #[test]
    fn a_password_that_was_read_earlier_and_told_later_changes_nothing() {
        let mut state = state("new", "10");
        state.keep(&token(), &password("new", "10"));
        state.offer(password("old", "9"));
        assert_eq!(state.password.value.expose(), b"new");
        assert!(state.token.is_some());
        state.offer(password("newer", "11"));
        assert_eq!(state.password.value.expose(), b"newer");
        assert!(state.token.is_none());
    }

    #[test]
    fn a_refused_password_is_not_untried_for_an_old_one_that_is_told_late() {
        let mut state = state("new", "10");
        state.refuse(&password("new", "10"));
        state.offer(password("old", "9"));
        assert_ne!(state.login, LoginState::Untried);
        state.offer(password("newer", "11"));
        assert_eq!(state.login, LoginState::Untried);
    }

    #[test]
    fn the_token_of_a_password_that_was_replaced_meanwhile_is_not_kept() {
        let mut state = state("old", "9");
        let tried = state.password.clone();
        state.offer(password("new", "10"));
        state.keep(&token(), &tried);
        assert!(state.token.is_none());
        state.refuse(&tried);
        assert_eq!(state.login, LoginState::Untried, "the new one was not");
    }

    #[test]
    fn only_a_credential_that_was_refused_as_well_says_that_its_user_is_back() {
        let mut state = state("it", "1");
        let tried = state.password.clone();
        state.saw_fail("before");
        state.refuse(&tried);
        state.saw_fail("broken");
        for _ in 0..3 {
            state.saw_work("sound");
            state.saw_work("before");
            state.saw_fail("broken");
        }
        assert_ne!(state.login, LoginState::Untried);
        state.saw_fail("shut out");
        state.saw_work("shut out");
        assert_eq!(state.login, LoginState::Untried);
    }
}
