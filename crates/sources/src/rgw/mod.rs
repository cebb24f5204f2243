//! Ceph's object gateway: keys of a user ([`UserKeys`]), users ([`Users`]) and accounts ([`Accounts`]), all by Admin Ops.
//!
//! A key's access key is chosen by us and is its mark; the gateway makes the secret key, and shows it to an administrator as
//! often as asked. So no secret key is ever sent: parameters of Admin Ops travel in the address, and gateways write addresses
//! down. Asking twice for one access key would change its secret key, so whoever is in doubt reads.
//!
//! Users bear the mark of their owner as a placement tag: a text that an administrator alone can set, that stays, and that
//! means nothing to the gateway unless a placement target asks for it.
//!
//! The gateway's codes are told apart by what was asked: deleting an account that still has users is `BucketNotEmpty`, a name
//! that is taken is `BucketAlreadyExists`, and deleting a key that is not there is the same as a bad login.

mod account_wish;
mod accounts;
mod administrator;
mod id;
mod keys;
mod members;
mod names;
mod said;
mod sign;
mod store;
mod tried;
mod users;
mod wire;

use lifecycle::Owner;

pub use account_wish::{AccountWish, RootUser};
pub use accounts::Accounts;
pub use administrator::Administrator;
pub use id::access_key;
pub use keys::{ENDPOINT, KEYS, UserKeys};
pub use names::{derived_account_id, is_account_id, is_account_name, is_iam_name};
pub use sign::Login;
pub use store::Store;
pub use users::{Quota, UserWish, Users};

/// Key of the access key in a credential's values, and in its Secret; not secret.
pub const ACCESS_KEY: &str = "AccessKey";
/// Key of the secret key.
pub const SECRET_KEY: &str = "SecretKey";

/// What users of this owner bear as a placement tag.
pub fn tag_of(owner: &Owner) -> String {
    owner.prefix()
}
