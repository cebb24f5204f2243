//! Keystone, twice: the real one ([`real`]) and a stand-in of ours ([`standin`]) that keeps the same [`contract`].
//!
//! Both come with the same users: `admin`, and the services' users in project `service` with the roles `admin` and
//! `service`. [`Admin`] looks into either, over plain HTTP and with code of its own, so that a check does not repeat the
//! mistakes of the client it checks.

mod admin;
pub mod contract;
pub mod real;
pub mod standin;
mod wire;

use std::time::Duration;

use http::Method;
use sha2::{Digest, Sha256};

pub use admin::{AccessRule, Admin, ApplicationCredential, Named};
use real::Keystone;
use standin::StandIn;
pub use wire::{Http, Reply};

use crate::proxy::Faults;

/// The users of project `service`, each with the roles `admin` and `service`.
pub const SERVICE_USERS: [&str; 9] = [
    "barbican",
    "cinder",
    "glance",
    "heat",
    "neutron",
    "nova",
    "octavia",
    "placement",
    "swift",
];

/// What can be set of a Keystone, the real one or the stand-in. The default is what a Keystone does by default.
#[derive(Debug, Clone)]
pub struct Options {
    /// The port to listen on; 0 takes a free one.
    pub port: u16,
    /// How many application credentials a user may have; `None` is any number.
    pub user_limit: Option<u32>,
    /// When failed passwords lock an account; `None` is never.
    pub lockout: Option<Lockout>,
    pub token_lifetime: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            user_limit: None,
            lockout: None,
            token_lifetime: Duration::from_hours(1),
        }
    }
}

/// So many failed passwords in a row lock an account for so long.
#[derive(Debug, Clone, Copy)]
pub struct Lockout {
    pub attempts: u32,
    /// In whole seconds.
    pub lasts: Duration,
}

/// The password of `admin` or of a service's user, the same at every start: like a random one, so that a canary scan
/// finds it and nothing else.
pub fn password_of(user: &str) -> String {
    let hash = Sha256::digest(format!("a password of keyward's testbed for {user}"));
    let mut password = format!("{hash:x}");
    password.truncate(32);
    password
}

/// What a request to Keystone asks for, for counting and for placing faults: `login by password`, `login by application
/// credential`, or the method and path.
pub fn request_kind(method: &Method, path: &str, body: &[u8]) -> String {
    if method == Method::POST && path.trim_end_matches('/') == "/v3/auth/tokens" {
        let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        match body["auth"]["identity"]["methods"][0].as_str() {
            Some("password") => return LOGIN_BY_PASSWORD.into(),
            Some("application_credential") => return LOGIN_BY_APPLICATION_CREDENTIAL.into(),
            Some(_) | None => {}
        }
    }
    crate::proxy::method_and_path(method, path, body)
}

/// The kinds of request that Keyward's life cycle consists of; see [`request_kind`].
pub const LOGIN_BY_PASSWORD: &str = "login by password";
pub const LOGIN_BY_APPLICATION_CREDENTIAL: &str = "login by application credential";
pub const CREATE: &str = "POST /v3/users/*/application_credentials";
pub const LIST: &str = "GET /v3/users/*/application_credentials";
pub const SHOW: &str = "GET /v3/users/*/application_credentials/*";
pub const DELETE: &str = "DELETE /v3/users/*/application_credentials/*";
pub const LIST_RULES: &str = "GET /v3/users/*/access_rules";
pub const DELETE_RULE: &str = "DELETE /v3/users/*/access_rules/*";

/// How often what was asked, so far: by whoever is not an auditor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// By password, refused ones too.
    pub logins: usize,
    pub failed_logins: usize,
    /// By application credential, refused ones too.
    pub credential_logins: usize,
    pub failed_credential_logins: usize,
    pub creates: usize,
    pub lists: usize,
    pub shows: usize,
    pub deletes: usize,
    pub total: usize,
}

impl Counts {
    /// From the record of a stand-in, or of a proxy whose kinds are told by [`request_kind`].
    pub fn of(faults: &Faults) -> Self {
        let mut counts = Self::default();
        for recorded in faults.log() {
            let refused = usize::from(recorded.status.is_some_and(|status| status >= 400));
            counts.total += 1;
            match recorded.line.kind.as_str() {
                LOGIN_BY_PASSWORD => {
                    counts.logins += 1;
                    counts.failed_logins += refused;
                }
                LOGIN_BY_APPLICATION_CREDENTIAL => {
                    counts.credential_logins += 1;
                    counts.failed_credential_logins += refused;
                }
                CREATE => counts.creates += 1,
                LIST => counts.lists += 1,
                SHOW => counts.shows += 1,
                DELETE => counts.deletes += 1,
                _other => {}
            }
        }
        counts
    }
}

/// Either of the two, for tests that run against both.
#[derive(Debug)]
pub enum AnyKeystone {
    Real(Keystone),
    StandIn(StandIn),
}

impl AnyKeystone {
    /// Without `/v3`.
    pub fn url(&self) -> String {
        match self {
            Self::Real(keystone) => keystone.url(),
            Self::StandIn(keystone) => keystone.url(),
        }
    }

    pub fn admin(&self) -> Admin {
        Admin::new(&self.url())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_known_by_its_method_and_not_by_its_values() {
        let kind = |body: &str| request_kind(&Method::POST, "/v3/auth/tokens", body.as_bytes());
        assert_eq!(
            kind(r#"{"auth":{"identity":{"methods":["password"]}}}"#),
            LOGIN_BY_PASSWORD
        );
        assert_eq!(
            kind(r#"{"auth":{"identity":{"methods":["application_credential"]}}}"#),
            LOGIN_BY_APPLICATION_CREDENTIAL
        );
        assert_eq!(kind("nonsense"), "POST /v3/auth/tokens");
        assert_eq!(
            request_kind(
                &Method::DELETE,
                "/v3/users/6e277c24a413436d93f683c5446e9fe4/application_credentials/cf838ff1234b47f688163ca7436d5741",
                b""
            ),
            DELETE
        );
    }

    #[test]
    fn passwords_differ_and_last() {
        assert_eq!(password_of("nova"), password_of("nova"));
        assert_ne!(password_of("nova"), password_of("heat"));
        assert_eq!(password_of("nova").len(), 32);
    }
}
