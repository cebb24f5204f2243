//! Accounts of a store, each with its root user.
//!
//! An account has no place for a mark. One whose id follows from its owner's uid bears it in the id. One whose id a person
//! gave bears it as a member: a user without keys or rights, whose uid and tag are the mark. Before that user is there, and
//! after it went, the mark is the account's name; so that whatever dies in between, it can be told whose the account is.

use async_trait::async_trait;
use lifecycle::{Holder, Owner, TroubleKind};
use serde_json::{Value, json};

use super::account_wish::AccountWish;
use super::administrator::Administrator;
use super::members::Sort;
use super::names::{derived_account_id, is_account_id};
use super::sign::Login;
use super::store::Query;
use super::tag_of;
use super::users::{Quota, counted};
use super::wire::{Account, User};
use crate::{Found, SourceError, ThingId, Things};

/// The account of one resource, whose root user has the uid of the resource.
#[derive(Debug)]
pub struct Accounts {
    admin: Administrator,
    root: String,
}

/// An account as it is, with the users that are ours to keep in it.
struct Seen {
    account: Account,
    /// The user with the uid of the resource, if it is in this account.
    root: Option<User>,
    /// The user that is the account's mark.
    mark: Option<User>,
}

impl Seen {
    fn is_of(&self, owner: &Owner) -> bool {
        bears_it_in_its_id(&self.account.id, owner)
            || self.account.name == mark_of(owner)
            || self.mark.is_some()
    }

    /// The root user, if it is one and ours.
    fn our_root(&self, owner: &Owner) -> Option<&User> {
        let root = self.root.as_ref()?;
        root.bears(&tag_of(owner)).then_some(root)
    }
}

fn mark_of(owner: &Owner) -> String {
    owner.prefix().trim_end_matches('-').to_owned()
}

fn bears_it_in_its_id(id: &str, owner: &Owner) -> bool {
    let mark = mark_of(owner);
    let uid = mark.rsplit('-').next().unwrap_or_default();
    derived_account_id(uid).as_deref() == Some(id)
}

impl Accounts {
    /// `uid` is that of the resource.
    pub fn new(admin: Administrator, uid: &str) -> Self {
        Self {
            admin,
            root: uid.to_owned(),
        }
    }

    async fn see(&self, act: &str, id: &str, owner: &Owner) -> Result<Option<Seen>, SourceError> {
        let Some(account) = self.admin.account(act, id).await? else {
            return Ok(None);
        };
        let root = self.admin.user(act, &self.root).await?;
        let mark = if bears_it_in_its_id(id, owner) {
            None
        } else {
            let mark = self.admin.user(act, &mark_of(owner)).await?;
            mark.filter(|user| user.account_id == id && user.bears(&tag_of(owner)))
        };
        Ok(Some(Seen {
            account,
            root: root.filter(|user| user.account_id == id),
            mark,
        }))
    }

    /// *If it dies here:* the account bears the mark in its id or in its name.
    async fn create(
        &self,
        act: &str,
        id: &str,
        owner: &Owner,
        wish: &AccountWish,
    ) -> Result<Seen, SourceError> {
        let name = if bears_it_in_its_id(id, owner) {
            wish.name.clone()
        } else {
            mark_of(owner)
        };
        let account = self.admin.create_account(act, id, &name).await?;
        let root = self.admin.user(act, &self.root).await?;
        Ok(Seen {
            account,
            root: root.filter(|user| user.account_id == id),
            mark: None,
        })
    }

    /// Before the account gets the name that is wanted.
    async fn mark(&self, act: &str, seen: &Seen, owner: &Owner) -> Result<(), SourceError> {
        let id = &seen.account.id;
        if bears_it_in_its_id(id, owner) || seen.mark.is_some() {
            return Ok(());
        }
        let mark = mark_of(owner);
        let query = Query::of("uid", &mark)
            .with("display-name", &mark)
            .with("placement-tags", &tag_of(owner))
            .with("account-id", id);
        self.admin.create_user(act, query).await?;
        Ok(())
    }

    async fn bring_up_to(
        &self,
        act: &str,
        account: &Account,
        wish: &AccountWish,
    ) -> Result<(), SourceError> {
        if let Some(change) = wish.change(account) {
            let changed = self.admin.change_account(act, &account.id, &change).await?;
            if wish.change(&changed).is_some() {
                let detail = "the gateway keeps another value than it was sent";
                return Err(SourceError::new(act, TroubleKind::Unexpected, detail));
            }
        }
        for (sort, wanted, is) in [
            ("account", wish.quota, account.quota),
            ("bucket", wish.bucket_quota, account.bucket_quota),
        ] {
            if let Some(quota) = wanted
                && quota != Quota::of(is)
            {
                let query = Query::part("quota")
                    .with("id", &account.id)
                    .with("quota-type", sort);
                self.admin
                    .change_account(act, &account.id, &quota.in_query(query))
                    .await?;
            }
        }
        Ok(())
    }

    async fn keep_root(
        &self,
        act: &str,
        seen: &Seen,
        owner: &Owner,
        wish: &AccountWish,
    ) -> Result<(), SourceError> {
        let id = &seen.account.id;
        match (&wish.root_user, &seen.root) {
            (None, None) => Ok(()),
            (_, Some(user)) if !user.bears(&tag_of(owner)) => Err(SourceError::new(
                act,
                TroubleKind::Rejected,
                "the account has a user with the uid of this resource that is not ours; it was left alone",
            )),
            (None, Some(_)) => self.admin.delete_user(act, &self.root).await,
            (Some(wanted), None) => {
                let query = Query::of("uid", &self.root)
                    .with("display-name", &wanted.display_name)
                    .with("placement-tags", &tag_of(owner))
                    .with("account-id", id)
                    .with("account-root", "true");
                self.admin.create_user(act, query).await?;
                Ok(())
            }
            (Some(wanted), Some(user)) => {
                let mut query = Query::of("uid", &self.root);
                let named = user.display_name == wanted.display_name;
                if !named {
                    query = query.with("display-name", &wanted.display_name);
                }
                if !user.is_root_of(id) {
                    query = query.with("account-root", "true");
                }
                if !named || !user.is_root_of(id) {
                    self.admin.change_user(act, &query).await?;
                }
                Ok(())
            }
        }
    }

    /// What is in the account beside what we keep in it. Without a root user that can look, buckets are all that is seen; the
    /// gateway says the rest when the account is to be deleted.
    async fn members(
        &self,
        act: &str,
        id: &str,
        owner: &Owner,
    ) -> Result<Vec<Holder>, SourceError> {
        let mut found = Vec::new();
        let buckets = Query::of("account-id", id);
        found.extend(counted(
            self.admin.count_buckets(act, &buckets).await?,
            "bucket",
        ));
        let root = self.admin.user(act, &self.root).await?;
        let root = root.filter(|user| user.is_root_of(id));
        let key = root
            .as_ref()
            .and_then(|user| user.keys.iter().find(|key| key.active));
        let Some(key) = key else {
            return Ok(found);
        };
        let login = Login {
            access_key: key.access_key.clone(),
            secret_key: key.secret(),
        };
        let mark = mark_of(owner);
        let counts = |name: &str| name != mark;
        for sort in Sort::ALL {
            let store = self.admin.store();
            let members = store.count_members(act, &login, sort, counts).await?;
            found.extend(counted(members, sort.word()));
        }
        Ok(found)
    }
}

fn act(what: &str, id: &ThingId) -> String {
    format!("{what} account {} of the object store", id.as_str())
}

fn state(seen: &Seen, owner: &Owner) -> Value {
    let account = &seen.account;
    let root = seen.our_root(owner);
    // One that lost its flag is not what is wanted, whatever it is called.
    let root = root.map(|user| {
        let name = user.is_root_of(&account.id).then_some(&user.display_name);
        json!({ "displayName": name })
    });
    json!({
        "name": account.name,
        "email": account.email,
        "maxUsers": account.max_users,
        "maxRoles": account.max_roles,
        "maxGroups": account.max_groups,
        "maxBuckets": account.max_buckets,
        "maxAccessKeys": account.max_access_keys,
        "quota": Quota::of(account.quota),
        "bucketQuota": Quota::of(account.bucket_quota),
        "rootUser": root,
    })
}

const NOT_OURS: &str =
    "the store has an account of this id that is not this resource's; it was left alone";

#[async_trait]
impl Things for Accounts {
    fn place(&self) -> &str {
        self.admin.store().place()
    }

    fn login_name(&self) -> &str {
        self.admin.login_name()
    }

    async fn look(&self, id: &ThingId, owner: &Owner) -> Result<Option<Found>, SourceError> {
        let seen = self.see(&act("looking at", id), id.as_str(), owner).await?;
        Ok(seen.map(|seen| Found {
            state: state(&seen, owner),
            ours: seen.is_of(owner),
        }))
    }

    /// *Safe to repeat because* each part is looked at first, and made once.
    async fn put(&self, id: &ThingId, owner: &Owner, wanted: &Value) -> Result<(), SourceError> {
        let act = act("keeping", id);
        let rejected = |detail: &str| Err(SourceError::new(&act, TroubleKind::Rejected, detail));
        if !is_account_id(id.as_str()) {
            return rejected("the id of an account is RGW and 17 digits");
        }
        let wish = AccountWish::read(&act, wanted)?;
        let seen = match self.see(&act, id.as_str(), owner).await? {
            Some(seen) if !seen.is_of(owner) => return rejected(NOT_OURS),
            Some(seen) => seen,
            None => self.create(&act, id.as_str(), owner, &wish).await?,
        };
        self.mark(&act, &seen, owner).await?;
        self.bring_up_to(&act, &seen.account, &wish).await?;
        self.keep_root(&act, &seen, owner, &wish).await
    }

    async fn blockers(&self, id: &ThingId, owner: &Owner) -> Result<Vec<Holder>, SourceError> {
        let act = act("counting what is in", id);
        self.members(&act, id.as_str(), owner).await
    }

    /// The root user goes before the account, which cannot go while it has users. So it is looked once more, whether nothing
    /// else is there.
    async fn remove(&self, id: &ThingId, owner: &Owner) -> Result<(), SourceError> {
        let act = act("removing", id);
        let rejected = |detail: &str| Err(SourceError::new(&act, TroubleKind::Rejected, detail));
        let Some(seen) = self.see(&act, id.as_str(), owner).await? else {
            return Ok(());
        };
        if !seen.is_of(owner) {
            return rejected(NOT_OURS);
        }
        let members = self.members(&act, id.as_str(), owner).await?;
        if !members.is_empty() {
            let members: Vec<&str> = members.iter().map(Holder::as_str).collect();
            let detail = format!("it still has {}; remove them first", members.join(", "));
            return rejected(&detail);
        }
        if seen.mark.is_some() {
            let mark = mark_of(owner);
            if seen.account.name != mark {
                let rename = Query::of("id", id.as_str()).with("name", &mark);
                self.admin
                    .change_account(&act, id.as_str(), &rename)
                    .await?;
            }
            self.admin.delete_user(&act, &mark).await?;
        }
        if seen.our_root(owner).is_some() {
            self.admin.delete_user(&act, &self.root).await?;
        }
        self.admin.delete_account(&act, id.as_str()).await
    }
}
