//! Keystones and logins that are known.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lifecycle::{Because, IssuedId, Refusal};
use sources::http::Settings;
use sources::keystone::{Password, Server, Session, Who};

/// So long a login is kept that nobody asks for, unless it was refused: forgotten, its password would be tried again.
const KEPT_FOR: Duration = Duration::from_hours(1);

/// Every Keystone and every login that is in use, or was until lately. Losing them costs a login each.
#[derive(Debug)]
pub(super) struct Known {
    plain_http: bool,
    /// The longest that a request may take, where that is not the usual.
    request_timeout: Option<Duration>,
    servers: Mutex<HashMap<Address, Arc<Server>>>,
    /// With the moment when somebody last asked for it.
    sessions: Mutex<HashMap<Seat, (Arc<Session>, Instant)>>,
}

/// One login: namespace, Keystone, user, and where the password comes from. Two Secrets are two logins: else each would
/// look like a change of the other, and a password that was refused would be tried again and again.
pub(super) type Seat = (String, Address, Who, Login);

/// The key of a Secret that a password is under.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in super::super) struct Login {
    pub(in super::super) secret: String,
    pub(in super::super) key: String,
}

/// Where a Keystone is and whom to trust there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in super::super) struct Address {
    pub(super) url: String,
    pub(super) ca: Option<Vec<u8>>,
}

impl Known {
    pub(super) fn new(plain_http: bool) -> Self {
        Self {
            plain_http,
            request_timeout: None,
            servers: Mutex::default(),
            sessions: Mutex::default(),
        }
    }

    pub(super) fn within(self, request_timeout: Duration) -> Self {
        Self {
            request_timeout: Some(request_timeout),
            ..self
        }
    }

    /// The login of this seat, the one that is known or a new one.
    pub(super) fn login(
        &self,
        seat: Seat,
        password: Password,
        now: Instant,
    ) -> Result<Arc<Session>, Refusal> {
        let (_, address, who, _) = &seat;
        let server = self.server(address)?;
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((session, asked)) = sessions.get_mut(&seat) {
            *asked = now;
            session.offer(password);
            return Ok(session.clone());
        }
        let session = Arc::new(Session::new(server.clone(), who.clone(), password));
        sessions.insert(seat, (session.clone(), now));
        sessions.retain(|_, (session, asked)| {
            let idle = now.saturating_duration_since(*asked) >= KEPT_FOR;
            !idle || Arc::strong_count(session) > 1 || session.is_refused()
        });
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|_, server| Arc::strong_count(server) > 1 || server.has_refused(now));
        Ok(session)
    }

    /// Whether an administrator ended this credential of another user.
    pub(super) fn has_ended(&self, id: &IssuedId) -> bool {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.values().any(|(session, _)| session.has_ended(id))
    }

    pub(super) fn server(&self, address: &Address) -> Result<Arc<Server>, Refusal> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(address) {
            return Ok(server.clone());
        }
        let usual = Settings::default();
        let settings = Settings {
            ca_bundle: address.ca.clone(),
            allow_plain_http: self.plain_http,
            timeout: self.request_timeout.unwrap_or(usual.timeout),
            ..usual
        };
        let server = Server::new(&address.url, &settings).map_err(|error| Refusal {
            because: Because::InvalidSpec,
            detail: format!(
                "the KeystoneAPI's endpoint cannot be used: {}",
                error.detail
            ),
        })?;
        let server = Arc::new(server);
        servers.insert(address.clone(), server.clone());
        Ok(server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sources::keystone::Keystone;
    use sources::{SecretValue, Source, Values};

    fn seat(port: u16, user: &str, key: &str) -> Seat {
        let address = Address {
            url: format!("http://127.0.0.1:{port}/v3"),
            ca: None,
        };
        let who = Who {
            user: user.to_owned(),
            user_domain: "Default".to_owned(),
            project: "service".to_owned(),
            project_domain: "Default".to_owned(),
        };
        let login = Login {
            secret: "osp-secret".to_owned(),
            key: key.to_owned(),
        };
        ("openstack".to_owned(), address, who, login)
    }

    fn password() -> Password {
        Password {
            value: SecretValue::new("a password"),
            version: "1".to_owned(),
        }
    }

    fn count(known: &Known) -> (usize, usize) {
        let servers = known.servers.lock().unwrap().len();
        (servers, known.sessions.lock().unwrap().len())
    }

    #[test]
    fn a_login_that_nobody_asks_for_is_forgotten_after_an_hour_and_its_keystone_with_it() {
        let known = Known::new(false);
        let begun = Instant::now();
        let login = |port, key, at| known.login(seat(port, "barbican", key), password(), at);
        let held = login(1, "held", begun).unwrap();
        login(1, "asked for", begun).unwrap();
        login(2, "left", begun).unwrap();
        let later = begun + KEPT_FOR;
        login(1, "asked for", later).unwrap();
        login(1, "another", begun + KEPT_FOR / 2).unwrap();
        assert_eq!(count(&known), (2, 4), "not an hour yet");
        login(1, "a third", later).unwrap();
        assert_eq!(count(&known), (1, 4), "all but the one that was left");
        let again = login(1, "held", later).unwrap();
        assert!(Arc::ptr_eq(&held, &again));
    }

    /// One request is answered: no.
    async fn keystone_that_refuses() -> u16 {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await.unwrap();
            let no = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(no.as_bytes()).await.unwrap();
        });
        port
    }

    #[tokio::test]
    async fn a_login_that_was_refused_is_never_forgotten() {
        let known = Known::new(false);
        let (port, begun) = (keystone_that_refuses().await, Instant::now());
        let session = known
            .login(seat(port, "barbican", "wrong"), password(), begun)
            .unwrap();
        let source = Keystone::new(session, Vec::new());
        let refused = source.complete(&Values::new(), &IssuedId::from("a")).await;
        assert!(refused.is_err());
        drop(source);
        let later = begun + 24 * KEPT_FOR;
        known
            .login(seat(1, "cinder", "another"), password(), later)
            .unwrap();
        assert_eq!(count(&known), (2, 2));
    }
}
