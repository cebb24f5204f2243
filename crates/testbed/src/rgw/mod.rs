//! Ceph's object gateway, twice: the real one ([`real`]) and a stand-in of ours ([`standin`]) that keeps the same
//! [`contract`].
//!
//! Both have two gateways over one store, and the same [`admin`]. [`Http`] speaks to either with code of its own, the
//! signature too, so that a check does not repeat the mistakes of the client it checks.

pub mod client;
pub mod contract;
pub mod real;
mod sigv4;
pub mod standin;
mod wire;

use http::Method;

pub use wire::{Http, Reply};

use crate::issuer::Hidden;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Login {
    pub access_key: String,
    pub secret_key: Hidden,
}

impl Login {
    pub fn new(access_key: &str, secret_key: &str) -> Self {
        Self {
            access_key: access_key.to_owned(),
            secret_key: Hidden(secret_key.to_owned()),
        }
    }
}

/// Whoever may do everything with accounts and users; the same at every start, and like random text, so that a canary scan
/// finds it and nothing else.
pub fn admin() -> Login {
    Login::new(
        "ADMIN7Q2M4X8K1B5V9T3",
        "f2Wc7Qx1Zk9Lr4Tn8Vb3Ym6Hp0Js5Dg2Ae7Ku1Rd",
    )
}

/// The kinds of request that Keyward makes; see [`request_kind`].
pub const GET_USER: &str = "GET /admin/user";
pub const CREATE_USER: &str = "PUT /admin/user";
pub const MODIFY_USER: &str = "POST /admin/user";
pub const DELETE_USER: &str = "DELETE /admin/user";
pub const PUT_KEY: &str = "PUT /admin/user?key";
pub const DELETE_KEY: &str = "DELETE /admin/user?key";
pub const GET_ACCOUNT: &str = "GET /admin/account";
pub const CREATE_ACCOUNT: &str = "POST /admin/account";
pub const MODIFY_ACCOUNT: &str = "PUT /admin/account";
pub const DELETE_ACCOUNT: &str = "DELETE /admin/account";
pub const LIST_BUCKETS: &str = "GET /";

/// What a request asks for, for counting and for placing faults: method and path, and which part of a user or an account it
/// is about.
pub fn request_kind(method: &Method, target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let part = query
        .split('&')
        .find(|pair| matches!(*pair, "key" | "caps" | "quota" | "list"));
    match part {
        Some(part) => format!("{method} {path}?{part}"),
        None => format!("{method} {path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_names_the_part_and_no_value() {
        let kind = |target: &str| request_kind(&Method::PUT, target);
        assert_eq!(kind("/admin/user?key&uid=ann&access-key=A"), PUT_KEY);
        assert_eq!(kind("/admin/user?uid=key&display-name=quota"), CREATE_USER);
    }
}
