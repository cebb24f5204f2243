//! What gateways answer, as far as it is read.

use serde::Deserialize;
use zeroize::Zeroize;

use crate::SecretValue;

#[derive(Debug, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the gateway's own names")]
pub(super) struct User {
    pub(super) user_id: String,
    #[serde(default)]
    pub(super) tenant: String,
    pub(super) display_name: String,
    #[serde(default)]
    pub(super) keys: Vec<Key>,
    #[serde(default)]
    pub(super) caps: Vec<Capability>,
    #[serde(default)]
    pub(super) op_mask: String,
    pub(super) max_buckets: i64,
    #[serde(default)]
    pub(super) placement_tags: Vec<String>,
    #[serde(default)]
    pub(super) user_quota: Limits,
    #[serde(default)]
    pub(super) account_id: String,
    #[serde(default, rename = "type")]
    pub(super) sort: String,
}

impl User {
    pub(super) fn key(&self, access_key: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.access_key == access_key)
    }

    pub(super) fn bears(&self, tag: &str) -> bool {
        self.placement_tags.iter().any(|borne| borne == tag)
    }

    pub(super) fn is_root_of(&self, account: &str) -> bool {
        self.account_id == account && self.sort == "root"
    }

    /// Its uid with the tenant before it, as whoever asks writes it.
    pub(super) fn uid(&self) -> String {
        if self.tenant.is_empty() {
            self.user_id.clone()
        } else {
            format!("{}${}", self.tenant, self.user_id)
        }
    }
}

#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the gateway's own names")]
pub(super) struct Key {
    pub(super) user: String,
    pub(super) access_key: String,
    secret_key: String,
    /// Releases that cannot deactivate do not tell.
    #[serde(default = "yes")]
    pub(super) active: bool,
}

fn yes() -> bool {
    true
}

impl Key {
    pub(super) fn secret(&self) -> SecretValue {
        SecretValue::new(self.secret_key.as_bytes())
    }

    pub(super) fn has_secret(&self, value: &SecretValue) -> bool {
        self.secret_key.as_bytes() == value.expose()
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Key").field(&self.access_key).finish()
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.secret_key.zeroize();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Capability {
    #[serde(rename = "type")]
    pub(super) sort: String,
    pub(super) perm: String,
}

/// A quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Limits {
    pub(super) enabled: bool,
    pub(super) max_size: i64,
    pub(super) max_objects: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            enabled: false,
            max_size: -1,
            max_objects: -1,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Account {
    pub(super) id: String,
    pub(super) name: String,
    #[serde(default)]
    pub(super) email: String,
    #[serde(default)]
    pub(super) quota: Limits,
    #[serde(default)]
    pub(super) bucket_quota: Limits,
    pub(super) max_users: i64,
    pub(super) max_roles: i64,
    pub(super) max_groups: i64,
    pub(super) max_buckets: i64,
    pub(super) max_access_keys: i64,
}

/// What stands between two texts, the first time: enough for the XML that is read here.
pub(super) fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(begin)?;
    Some(rest.split_once(end)?.0)
}
