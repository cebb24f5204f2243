//! Keystone for tests: the real one ([`real`]), with the users that the services of a cloud have.
//!
//! The users are `admin`, and the services' users in project `service` with the roles `admin` and `service`. [`Admin`]
//! looks into it over plain HTTP and with code of its own, so that a check does not repeat the mistakes of the client it
//! checks.

mod admin;
pub mod real;
mod wire;

use http::Method;
use sha2::{Digest, Sha256};

pub use admin::{AccessRule, Admin, ApplicationCredential};
pub use wire::{Http, Reply};

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
