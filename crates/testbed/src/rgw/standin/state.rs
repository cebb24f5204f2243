//! What the stand-in knows.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use serde_json::{Value, json};

use super::super::admin;

#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) users: BTreeMap<String, User>,
    pub(super) accounts: BTreeMap<String, Account>,
    pub(super) buckets: BTreeMap<String, Home>,
    /// Every secret key there ever was.
    pub(super) values: Vec<String>,
    /// How far its clock is ahead of this machine's.
    pub(super) ahead: SignedDuration,
}

/// Whose a bucket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Home {
    User(String),
    Account(String),
}

#[derive(Debug, Clone)]
pub(super) struct User {
    pub(super) uid: String,
    pub(super) display_name: String,
    pub(super) email: String,
    pub(super) suspended: bool,
    pub(super) max_buckets: i64,
    pub(super) keys: BTreeMap<String, Key>,
    pub(super) caps: BTreeMap<String, Rights>,
    pub(super) op_mask: String,
    pub(super) tags: Vec<String>,
    pub(super) quota: Quota,
    pub(super) account: Option<String>,
    pub(super) root: bool,
    pub(super) policies: BTreeSet<String>,
    pub(super) created: String,
}

#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) secret: String,
    pub(super) active: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl Rights {
    pub(super) const ALL: Self = Self {
        read: true,
        write: true,
    };

    /// Of `read`, `write`, both with a comma, or `*`.
    pub(super) fn named(text: &str) -> Self {
        let has = |right: &str| text == "*" || text.split(',').any(|word| word.trim() == right);
        Self {
            read: has("read"),
            write: has("write"),
        }
    }

    pub(super) fn and(self, more: Self) -> Self {
        Self {
            read: self.read || more.read,
            write: self.write || more.write,
        }
    }

    pub(super) fn without(self, less: Self) -> Self {
        Self {
            read: self.read && !less.read,
            write: self.write && !less.write,
        }
    }

    fn show(self) -> &'static str {
        match (self.read, self.write) {
            (true, true) => "*",
            (true, false) => "read",
            (false, true) => "write",
            (false, false) => "<none>",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Quota {
    pub(super) enabled: bool,
    pub(super) max_size: i64,
    pub(super) max_objects: i64,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            enabled: false,
            max_size: -1,
            max_objects: -1,
        }
    }
}

impl Quota {
    pub(super) fn show(self) -> Value {
        let kilobytes = if self.max_size < 0 {
            0
        } else {
            (self.max_size + 1023) / 1024
        };
        json!({
            "enabled": self.enabled, "check_on_raw": false, "max_size": self.max_size,
            "max_size_kb": kilobytes, "max_objects": self.max_objects,
        })
    }
}

#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) email: String,
    pub(super) quota: Quota,
    pub(super) bucket_quota: Quota,
    /// By the name that they have in an answer.
    pub(super) limits: BTreeMap<&'static str, i64>,
    pub(super) roles: BTreeSet<String>,
    pub(super) groups: BTreeSet<String>,
}

impl Account {
    pub(super) fn show(&self) -> Value {
        let mut shown = json!({
            "id": self.id, "tenant": "", "name": self.name, "email": self.email,
            "quota": self.quota.show(), "bucket_quota": self.bucket_quota.show(),
        });
        for (name, limit) in &self.limits {
            shown[*name] = json!(limit);
        }
        shown
    }
}

impl User {
    pub(super) fn new(uid: &str, display_name: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            display_name: display_name.to_owned(),
            email: String::new(),
            suspended: false,
            max_buckets: 1000,
            keys: BTreeMap::new(),
            caps: BTreeMap::new(),
            op_mask: "read, write, delete".to_owned(),
            tags: Vec::new(),
            quota: Quota::default(),
            account: None,
            root: false,
            policies: BTreeSet::new(),
            created: super::super::wire::now().to_string(),
        }
    }

    pub(super) fn show_keys(&self) -> Value {
        let keys = self.keys.iter().map(|(access_key, key)| {
            json!({
                "user": self.uid, "access_key": access_key, "secret_key": key.secret, "active": key.active,
            })
        });
        keys.collect()
    }

    pub(super) fn show_caps(&self) -> Value {
        let caps = self.caps.iter();
        caps.map(|(sort, rights)| json!({ "type": sort, "perm": rights.show() }))
            .collect()
    }

    pub(super) fn show(&self) -> Value {
        json!({
            "full_user_id": self.uid, "tenant": "", "user_id": self.uid,
            "display_name": self.display_name, "email": self.email, "suspended": i32::from(self.suspended),
            "max_buckets": self.max_buckets, "subusers": [], "keys": self.show_keys(),
            "swift_keys": [], "caps": self.show_caps(), "op_mask": self.op_mask, "system": false,
            "admin": false, "default_placement": "", "default_storage_class": "",
            "placement_tags": self.tags, "bucket_quota": Quota::default().show(),
            "user_quota": self.quota.show(), "temp_url_keys": [],
            "type": if self.root { "root" } else { "rgw" }, "mfa_ids": [],
            "account_id": self.account.as_deref().unwrap_or_default(), "path": "/",
            "create_date": self.created, "tags": [], "group_ids": [],
        })
    }

    pub(super) fn may(&self, sort: &str, wanted: Rights) -> bool {
        let has = self.caps.get(sort).copied().unwrap_or_default();
        has.and(wanted) == has
    }

    /// Users of an account have no rights of their own, but for its root user.
    pub(super) fn may_use_s3(&self) -> bool {
        self.account.is_none() || self.root || !self.policies.is_empty()
    }

    pub(super) fn home(&self) -> Home {
        match &self.account {
            Some(account) => Home::Account(account.clone()),
            None => Home::User(self.uid.clone()),
        }
    }
}

impl State {
    pub(super) fn new() -> Self {
        let mut state = Self {
            users: BTreeMap::new(),
            accounts: BTreeMap::new(),
            ahead: SignedDuration::ZERO,
            buckets: BTreeMap::new(),
            values: Vec::new(),
        };
        let login = admin();
        let secret = login.secret_key.reveal().to_owned();
        let mut admin = User::new("admin", "admin");
        for sort in ["accounts", "users", "buckets"] {
            admin.caps.insert(sort.to_owned(), Rights::ALL);
        }
        for sort in ["usage", "metadata", "zone"] {
            admin.caps.insert(sort.to_owned(), Rights::named("read"));
        }
        let active = true;
        state.values.push(secret.clone());
        admin.keys.insert(login.access_key, Key { secret, active });
        state.users.insert(admin.uid.clone(), admin);
        state
    }

    /// A secret key that nobody had before.
    pub(super) fn new_secret(&mut self) -> String {
        let secret = random_text(40);
        self.values.push(secret.clone());
        secret
    }

    pub(super) fn owner_of(&self, access_key: &str) -> Option<&User> {
        let mut users = self.users.values();
        users.find(|user| user.keys.contains_key(access_key))
    }

    pub(super) fn members(&self, account: &str) -> impl Iterator<Item = &User> {
        let users = self.users.values();
        users.filter(move |user| user.account.as_deref() == Some(account))
    }

    pub(super) fn buckets_of(&self, home: &Home) -> Vec<&String> {
        let owned = self.buckets.iter().filter(|(_, owner)| *owner == home);
        owned.map(|(name, _)| name).collect()
    }

    pub(super) fn email_is_taken(&self, email: &str) -> bool {
        let by_user = self.users.values().any(|user| user.email == email);
        by_user || self.accounts.values().any(|account| account.email == email)
    }
}

pub(super) fn random_text(length: usize) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |_| char::from(LETTERS[rand::random_range(0..LETTERS.len())]);
    (0..length).map(letter).collect()
}
