//! Accounts and users of Ceph's object stores, and their keys.
//!
//! Two controllers work on each kind. One keeps the account or the user ([`Keeping`]), the other its keys ([`Rotation`]
//! (crate::rotation::Rotation)); each has its own finalizer, record and part of status. Keys are made once the user is there;
//! when it leaves, they go first, and not before nothing else keeps it.

mod account;
mod keys;
mod settings;
mod status;
mod store;
mod user;

use std::sync::Arc;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject};
use lifecycle::{Because, Refusal};
use serde::de::DeserializeOwned;

use super::Guest;
use super::addresses::Allowed;
use crate::api::ceph::{CephObjectStoreAccount, CephObjectStoreUser};
use crate::engine::rights::Right;
use crate::engine::status::Owned;
use crate::engine::{About, names};
use crate::remote::{Credentials, Keeping};
use keys::Keys;
use store::Stores;

/// What says whether the keys are as they should be.
const KEYS_READY: &str = "KeysReady";

/// Where the id of an account is written down.
const ACCOUNT: &str = "keyward.dev/account";
const ACCOUNT_GUARD: &str = "cephobjectstoreaccount.ceph.rook.io";
/// Where the uid of a user is written down.
const USER: &str = "keyward.dev/user";
const USER_GUARD: &str = "cephobjectstoreuser.ceph.rook.io";

/// What the two controllers of things own of status.
const CONDITIONS: &[&str] = &["Ready", "Reconciling", "Stalled"];
const OF_ACCOUNTS: Owned = Owned::Part {
    keys: &["phase", "accountID", "observedGeneration"],
    conditions: CONDITIONS,
};
const OF_USERS: Owned = Owned::Part {
    keys: &["phase", "observedGeneration"],
    conditions: CONDITIONS,
};

/// All four, speaking to these gateways and no others; to Services of the store's own namespace if there are none.
pub fn guests(
    allowed: &Allowed,
    plain_http: bool,
    request_timeout: Option<Duration>,
) -> Vec<Guest> {
    let stores = Arc::new(Stores::new(allowed.clone(), plain_http, request_timeout));
    let accounts = ApiResource::erase::<CephObjectStoreAccount>(&());
    let users = ApiResource::erase::<CephObjectStoreUser>(&());
    let neighbours = stores.kinds();
    let secrets = Right::named(&["get", "list", "watch"], "", "secrets");
    let account = About {
        owned: OF_ACCOUNTS,
        neighbours: neighbours.clone(),
        rights: vec![secrets.clone()],
        ..About::new("ceph-account", accounts.clone(), ACCOUNT_GUARD)
    };
    let user = About {
        owned: OF_USERS,
        neighbours: neighbours
            .iter()
            .cloned()
            .chain([accounts.clone()])
            .collect(),
        rights: vec![secrets],
        ..About::new("ceph-user", users.clone(), USER_GUARD)
    };
    vec![
        Guest::Other(Keeping::of(account::Account::new(account, stores.clone()))),
        Guest::Rotation(Arc::new(Keys::of_roots(accounts.clone(), stores.clone()))),
        Guest::Other(Keeping::of(user::User::new(user, accounts, stores.clone()))),
        Guest::Rotation(Arc::new(Keys::of_users(users, stores))),
    ]
}

/// The keys of a thing, as whoever keeps the thing knows them.
fn credentials(wanted: bool) -> Credentials {
    Credentials {
        finalizer: names::GUARD,
        condition: wanted.then_some(KEYS_READY),
    }
}

fn spec<T: DeserializeOwned>(object: &DynamicObject) -> Result<T, Refusal> {
    let spec = object.data.get("spec").cloned().unwrap_or_default();
    serde_json::from_value(spec).map_err(|error| invalid(error.to_string()))
}

fn invalid(detail: impl Into<String>) -> Refusal {
    Refusal {
        because: Because::InvalidSpec,
        detail: detail.into(),
    }
}
