//! How an account is wanted, and what has to change for it.

use lifecycle::TroubleKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::names::{is_account_name, is_iam_name};
use super::store::Query;
use super::users::Quota;
use super::wire::Account;
use crate::SourceError;

/// How an account is wanted. What is not given is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccountWish {
    pub name: String,
    /// It can be changed and not be taken away again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_users: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_roles: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_groups: Option<i64>,
    /// Unlike the others: 0 is any number, and -1 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_buckets: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_access_keys: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket_quota: Option<Quota>,
    /// `None`: it has none of ours.
    pub root_user: Option<RootUser>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RootUser {
    pub display_name: String,
}

impl AccountWish {
    pub(super) fn read(act: &str, wanted: &Value) -> Result<Self, SourceError> {
        let rejected = |detail: &str| Err(SourceError::new(act, TroubleKind::Rejected, detail));
        let Ok(wish) = Self::deserialize(wanted) else {
            return rejected("what is wanted of it makes no sense; this is our mistake");
        };
        if !is_account_name(&wish.name) {
            return rejected("the name of an account has 1 to 2040 bytes and no dollar sign");
        }
        if wish.email.as_ref().is_some_and(String::is_empty) {
            return rejected("an email address cannot be empty; leave it out");
        }
        let bad_root = |root: &RootUser| !is_iam_name(&root.display_name);
        if wish.root_user.as_ref().is_some_and(bad_root) {
            return rejected(
                "the display name of a root user may have letters, digits and _+=,.@- only, 64 at most",
            );
        }
        Ok(wish)
    }

    /// Numbers that are wanted otherwise than they are, by the name that they have in a request.
    fn limits(&self, account: &Account) -> Vec<(&'static str, i64)> {
        [
            ("max-users", self.max_users, account.max_users),
            ("max-roles", self.max_roles, account.max_roles),
            ("max-groups", self.max_groups, account.max_groups),
            ("max-buckets", self.max_buckets, account.max_buckets),
            (
                "max-access-keys",
                self.max_access_keys,
                account.max_access_keys,
            ),
        ]
        .into_iter()
        .filter_map(|(name, wanted, is)| Some((name, wanted.filter(|wanted| *wanted != is)?)))
        .collect()
    }

    fn new_name(&self, account: &Account) -> Option<&str> {
        (self.name != account.name).then_some(self.name.as_str())
    }

    fn new_email(&self, account: &Account) -> Option<&str> {
        let email = self.email.as_deref();
        email.filter(|email| *email != account.email)
    }

    /// What is to be changed; `None`: nothing.
    pub(super) fn change(&self, account: &Account) -> Option<Query> {
        let start = Query::of("id", &account.id);
        let (name, email) = (self.new_name(account), self.new_email(account));
        let limits = self.limits(account);
        if name.is_none() && email.is_none() && limits.is_empty() {
            return None;
        }
        let query = name
            .into_iter()
            .fold(start, |query, name| query.with("name", name));
        let query = email
            .into_iter()
            .fold(query, |query, email| query.with("email", email));
        Some(limits.into_iter().fold(query, |query, (name, value)| {
            query.with(name, &value.to_string())
        }))
    }
}
