//! What may be done with users.

use super::reply::{Done, Refusal};
use super::serve::Question;
use super::state::{Account, Home, Quota, Rights, State, User};

/// The capabilities there are, as far as anybody here asks for them.
const CAPS: [&str; 12] = [
    "accounts",
    "amz-cache",
    "bilog",
    "buckets",
    "datalog",
    "info",
    "mdlog",
    "metadata",
    "roles",
    "usage",
    "users",
    "zone",
];

impl Question<'_> {
    pub(super) fn quota(&self, present: Quota) -> Quota {
        Quota {
            enabled: self.flag("enabled").unwrap_or(present.enabled),
            max_size: self.number("max-size").unwrap_or(present.max_size),
            max_objects: self.number("max-objects").unwrap_or(present.max_objects),
        }
    }
}

impl State {
    /// The user that a request is about.
    pub(super) fn named<'a>(&'a mut self, asked: &Question<'_>) -> Result<&'a mut User, Refusal> {
        let uid = asked.given("uid").ok_or_else(Refusal::invalid)?;
        self.users.get_mut(uid).ok_or_else(Refusal::no_such_user)
    }

    pub(super) fn show_user(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        if let Some(access_key) = asked.given("access-key") {
            let owner = self.owner_of(access_key);
            return owner.map_or(Err(Refusal::invalid()), |user| Ok(Done::Json(user.show())));
        }
        Ok(Done::Json(self.named(asked)?.show()))
    }

    pub(super) fn create_user(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        let uid = asked.given("uid").ok_or_else(Refusal::invalid)?;
        let name = asked.given("display-name").ok_or_else(Refusal::invalid)?;
        let mut user = User::new(uid, name);
        let root = asked.flag("account-root").unwrap_or_default();
        match asked.given("account-id") {
            Some(id) => {
                Account::must_be_an_id(id)?;
                if !self.accounts.contains_key(id) {
                    return Err(Refusal::no_such_key());
                }
                must_fit_iam(name)?;
                if self.has_member_named(id, name) {
                    return Err(Refusal::new(409, "UserAlreadyExists"));
                }
                user.account = Some(id.to_owned());
                user.root = root;
            }
            None if root => return Err(Refusal::invalid()),
            None => {}
        }
        if self.users.contains_key(uid) {
            return Err(Refusal::new(409, "UserAlreadyExists"));
        }
        if let Some(email) = asked.given("email") {
            if self.email_is_taken(email) {
                return Err(Refusal::new(409, "EmailExists"));
            }
            email.clone_into(&mut user.email);
        }
        if let Some(access_key) = asked.given("access-key")
            && self.owner_of(access_key).is_some()
        {
            return Err(Refusal::new(409, "KeyExists"));
        }
        change(&mut user, asked);
        self.users.insert(uid.to_owned(), user);
        let wants_key = asked.flag("generate-key").unwrap_or(true);
        if wants_key || asked.given("access-key").is_some() {
            self.put_key(asked)?;
        }
        Ok(Done::Json(self.users[uid].show()))
    }

    pub(super) fn change_user(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        let mut user = self.named(asked)?.clone();
        let name = asked.given("display-name");
        if let Some(id) = asked.given("account-id")
            && user.account.as_deref() != Some(id)
        {
            Account::must_be_an_id(id)?;
            // Moving into an account is for ever; moving between them is not done.
            if user.account.is_some() {
                return Err(Refusal::invalid());
            }
            if !self.accounts.contains_key(id) {
                return Err(Refusal::no_such_key());
            }
            must_fit_iam(name.unwrap_or(&user.display_name))?;
            let (before, after) = (user.home(), Home::Account(id.to_owned()));
            for home in self.buckets.values_mut().filter(|home| **home == before) {
                *home = after.clone();
            }
            user.account = Some(id.to_owned());
        }
        if let Some(name) = name
            && name != user.display_name
            && let Some(account) = &user.account
        {
            must_fit_iam(name)?;
            if self.has_member_named(account, name) {
                return Err(Refusal::new(409, "BucketAlreadyExists"));
            }
        }
        if let Some(name) = name {
            name.clone_into(&mut user.display_name);
        }
        if let Some(root) = asked.flag("account-root") {
            if user.account.is_none() {
                return Err(Refusal::invalid());
            }
            user.root = root;
        }
        change(&mut user, asked);
        let shown = user.show();
        self.users.insert(user.uid.clone(), user);
        Ok(Done::Json(shown))
    }

    pub(super) fn delete_user(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        let user = self.named(asked)?;
        let (uid, home) = (user.uid.clone(), Home::User(user.uid.clone()));
        if !self.buckets_of(&home).is_empty() {
            return Err(Refusal::new(409, "BucketAlreadyExists"));
        }
        self.users.remove(&uid);
        Ok(Done::Nothing)
    }

    pub(super) fn change_caps(
        &mut self,
        asked: &Question<'_>,
        grant: bool,
    ) -> Result<Done, Refusal> {
        let caps = asked.given("user-caps").unwrap_or_default().to_owned();
        let user = self.named(asked)?;
        for cap in caps.split(';') {
            let (sort, rights) = cap.split_once('=').unwrap_or((cap, "*"));
            if !CAPS.contains(&sort) {
                return Err(Refusal::new(400, "InvalidCapability"));
            }
            let rights = Rights::named(rights);
            let had = user.caps.get(sort).copied().unwrap_or_default();
            let has = if grant {
                had.and(rights)
            } else {
                had.without(rights)
            };
            if has == Rights::default() {
                user.caps.remove(sort);
            } else {
                user.caps.insert(sort.to_owned(), has);
            }
        }
        Ok(Done::Json(user.show_caps()))
    }

    pub(super) fn set_user_quota(&mut self, asked: &Question<'_>) -> Result<Done, Refusal> {
        let user = self.named(asked)?;
        user.quota = asked.quota(user.quota);
        Ok(Done::Nothing)
    }

    pub(super) fn list_buckets(&self, asked: &Question<'_>) -> Done {
        let home = match (asked.given("account-id"), asked.given("uid")) {
            (Some(account), _) => Home::Account(account.to_owned()),
            // Not even an empty list.
            (None, Some(uid)) if !self.users.contains_key(uid) => return Done::Nothing,
            (None, Some(uid)) => Home::User(uid.to_owned()),
            (None, None) => return Done::Json(self.buckets.keys().cloned().collect()),
        };
        let buckets = self.buckets_of(&home).into_iter().cloned();
        Done::Json(buckets.collect())
    }

    pub(super) fn has_member_named(&self, account: &str, name: &str) -> bool {
        self.members(account).any(|user| user.display_name == name)
    }
}

/// What both a new user and one that is there takes.
fn change(user: &mut User, asked: &Question<'_>) {
    if let Some(suspended) = asked.flag("suspended") {
        user.suspended = suspended;
    }
    if let Some(most) = asked.number("max-buckets") {
        user.max_buckets = most;
    }
    if let Some(mask) = asked.given("op-mask") {
        let words: Vec<&str> = mask.split(',').map(str::trim).collect();
        let kept = ["read", "write", "delete"]
            .into_iter()
            .filter(|word| words.contains(word));
        let kept = kept.collect::<Vec<_>>().join(", ");
        user.op_mask = if kept.is_empty() {
            "<none>".to_owned()
        } else {
            kept
        };
    }
    if let Some(tags) = asked.given("placement-tags") {
        user.tags = tags.split(',').map(str::to_owned).collect();
    }
}

fn must_fit_iam(name: &str) -> Result<(), Refusal> {
    let fits = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte));
    if fits {
        Ok(())
    } else {
        Err(Refusal::invalid())
    }
}
