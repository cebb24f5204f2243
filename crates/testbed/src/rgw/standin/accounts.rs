//! What may be done with accounts.

use std::collections::{BTreeMap, BTreeSet};

use super::reply::{Done, Refusal};
use super::serve::Question;
use super::state::{Account, Home, Quota, State};

/// By the names in a request and in an answer, with what holds by default.
const LIMITS: [(&str, &str, i64); 5] = [
    ("max-users", "max_users", 1000),
    ("max-roles", "max_roles", 1000),
    ("max-groups", "max_groups", 1000),
    ("max-buckets", "max_buckets", 1000),
    ("max-access-keys", "max_access_keys", 4),
];

impl Account {
    pub(super) fn must_be_an_id(id: &str) -> Result<(), Refusal> {
        let refused = |reason: &str| Err(Refusal::invalid().saying(reason));
        if id.len() != 20 {
            return refused("account id must be 20 bytes long");
        }
        let Some(digits) = id.strip_prefix("RGW") else {
            return refused("account id must start with RGW");
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return refused("account id must end with numeric digits");
        }
        Ok(())
    }

    fn change(&mut self, asked: &Question<'_>) {
        for (sent, field, _) in LIMITS {
            if let Some(limit) = asked.number(sent) {
                self.limits.insert(field, limit);
            }
        }
    }
}

impl State {
    fn account_named<'a>(&'a mut self, asked: &Question<'_>) -> Result<&'a mut Account, Refusal> {
        let by_id = asked.given("id");
        let by_name = asked.given("name").filter(|_| by_id.is_none());
        if by_id.is_none() && by_name.is_none() {
            let reason = "requires --account-id or --account-name or --email";
            return Err(Refusal::invalid().saying(reason));
        }
        let mut accounts = self.accounts.values_mut();
        accounts
            .find(|account| {
                by_id == Some(account.id.as_str()) || by_name == Some(account.name.as_str())
            })
            .ok_or_else(Refusal::no_such_key)
    }

    fn name_is_taken(&self, name: &str) -> bool {
        let mut accounts = self.accounts.values();
        !name.is_empty() && accounts.any(|account| account.name == name)
    }

    pub(super) fn show_account(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        Ok(Done::Json(self.account_named(asked)?.show()))
    }

    pub(super) fn create_account(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        let id = match asked.given("id") {
            Some(id) => id.to_owned(),
            None => format!("RGW{:017}", rand::random_range(0..10_u64.pow(17))),
        };
        Account::must_be_an_id(&id)?;
        // A nameless one is made without a word.
        let name = asked.get("name").unwrap_or_default().to_owned();
        if name.contains('$') {
            return Err(Refusal::invalid().saying("account name must not contain $"));
        }
        let email = asked.given("email").unwrap_or_default().to_owned();
        let taken = self.accounts.contains_key(&id)
            || self.name_is_taken(&name)
            || (!email.is_empty() && self.email_is_taken(&email));
        if taken {
            return Err(Refusal::new(409, "AccountAlreadyExists"));
        }
        let limits = LIMITS.iter().map(|(_, field, most)| (*field, *most));
        let mut account = Account {
            id: id.clone(),
            name,
            email,
            quota: Quota::default(),
            bucket_quota: Quota::default(),
            limits: limits.collect::<BTreeMap<_, _>>(),
            roles: BTreeSet::new(),
            groups: BTreeSet::new(),
        };
        account.change(asked);
        let shown = account.show();
        self.accounts.insert(id, account);
        Ok(Done::Json(shown))
    }

    /// Names and addresses can be changed and not taken away.
    pub(super) fn change_account(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        let before = self.account_named(asked)?.clone();
        let taken = || Refusal::new(409, "BucketAlreadyExists");
        let name = asked.given("name").filter(|name| *name != before.name);
        let email = asked.given("email").filter(|email| *email != before.email);
        if name.is_some_and(|name| self.name_is_taken(name))
            || email.is_some_and(|email| self.email_is_taken(email))
        {
            return Err(taken());
        }
        let account = self.account_named(asked)?;
        if let Some(name) = name {
            name.clone_into(&mut account.name);
        }
        if let Some(email) = email {
            email.clone_into(&mut account.email);
        }
        account.change(asked);
        Ok(Done::Json(account.show()))
    }

    pub(super) fn set_account_quota(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        let account = self.account_named(asked)?;
        match asked.given("quota-type") {
            Some("account") => account.quota = asked.quota(account.quota),
            Some("bucket") => account.bucket_quota = asked.quota(account.bucket_quota),
            Some(_) | None => return Err(Refusal::invalid()),
        }
        Ok(Done::Json(account.show()))
    }

    pub(super) fn delete_account(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        let account = self.account_named(asked)?.clone();
        let home = Home::Account(account.id.clone());
        let has = [
            (
                "users",
                "BucketNotEmpty",
                self.members(&account.id).next().is_some(),
            ),
            (
                "buckets",
                "BucketAlreadyExists",
                !self.buckets_of(&home).is_empty(),
            ),
            ("roles", "BucketNotEmpty", !account.roles.is_empty()),
            ("groups", "BucketNotEmpty", !account.groups.is_empty()),
        ];
        for (kind, code, is_so) in has {
            if is_so {
                let reason = format!("The account cannot be deleted until all {kind} are removed.");
                return Err(Refusal::new(409, code).saying(reason));
            }
        }
        self.accounts.remove(&account.id);
        Ok(Done::Nothing)
    }
}
