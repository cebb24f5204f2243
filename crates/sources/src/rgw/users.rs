//! Users of a store, without their keys.

use std::collections::BTreeSet;

use async_trait::async_trait;
use lifecycle::{Holder, Owner, TroubleKind};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::administrator::Administrator;
use super::names::{is_account_id, is_iam_name};
use super::store::Query;
use super::tag_of;
use super::wire::{Limits, User};
use crate::{Found, SourceError, ThingId, Things};

/// How a user is wanted. What is not given is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserWish {
    pub display_name: String,
    /// Empty: it belongs to none. It is never changed.
    #[serde(default)]
    pub account_id: String,
    /// All that it may have; see [`UserWish::capability`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<BTreeSet<String>>,
    /// See [`UserWish::operations`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op_mask: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_buckets: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
}

/// How much may be stored; -1 is any amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Quota {
    pub enabled: bool,
    pub max_size: i64,
    pub max_objects: i64,
}

impl Quota {
    pub(super) fn of(limits: Limits) -> Self {
        Self {
            enabled: limits.enabled,
            max_size: limits.max_size,
            max_objects: limits.max_objects,
        }
    }

    pub(super) fn in_query(&self, query: Query) -> Query {
        query
            .with("enabled", if self.enabled { "true" } else { "false" })
            .with("max-size", &self.max_size.to_string())
            .with("max-objects", &self.max_objects.to_string())
    }
}

impl UserWish {
    /// A capability as gateways show it: both rights together are one sign.
    pub fn capability(sort: &str, perm: &str) -> String {
        let letters: String = perm.chars().filter(|letter| *letter != ' ').collect();
        let perm = match letters.as_str() {
            "read,write" | "write,read" => "*",
            other => other,
        };
        format!("{sort}={perm}")
    }

    /// A mask of `read`, `write` and `delete` as gateways show it; of nothing, too.
    pub fn operations(allowed: &[&str]) -> String {
        let in_order = ["read", "write", "delete"];
        let kept: Vec<&str> = in_order
            .into_iter()
            .filter(|operation| allowed.contains(operation))
            .collect();
        if kept.is_empty() {
            "<none>".to_owned()
        } else {
            kept.join(", ")
        }
    }

    fn read(act: &str, wanted: &Value) -> Result<Self, SourceError> {
        let rejected = |detail: &str| SourceError::new(act, TroubleKind::Rejected, detail);
        let wish = Self::deserialize(wanted)
            .map_err(|_| rejected("what is wanted of it makes no sense; this is our mistake"))?;
        if wish.display_name.is_empty() {
            return Err(rejected("its display name is empty; give it one"));
        }
        if !wish.account_id.is_empty() {
            if !is_account_id(&wish.account_id) {
                return Err(rejected(
                    "its account has no id of the form RGW and 17 digits",
                ));
            }
            if !is_iam_name(&wish.display_name) {
                return Err(rejected(
                    "the display name of a user of an account may have letters, digits and _+=,.@- only, 64 at most",
                ));
            }
        }
        Ok(wish)
    }
}

/// The users of one store. The id of a user is its uid.
#[derive(Debug)]
pub struct Users(Administrator);

impl Users {
    pub fn new(admin: Administrator) -> Self {
        Self(admin)
    }

    /// *If the reply is lost:* it may exist with our tag. *If its uid is taken:* whose it is shows when it is looked at.
    async fn create(
        &self,
        act: &str,
        uid: &str,
        tag: &str,
        wish: &UserWish,
    ) -> Result<User, SourceError> {
        let mut query = Query::of("uid", uid)
            .with("display-name", &wish.display_name)
            .with("placement-tags", tag);
        if !wish.account_id.is_empty() {
            query = query.with("account-id", &wish.account_id);
        }
        query = wish.in_query(query, None);
        match self.0.create_user(act, query).await {
            Err(error) if error.kind == TroubleKind::Conflict => {
                match self.0.user(act, uid).await? {
                    Some(user) => Ok(user),
                    None => Err(SourceError::new(
                        act,
                        TroubleKind::Conflict,
                        "its account has another user of this display name; choose another one",
                    )),
                }
            }
            made => made,
        }
    }

    async fn bring_up_to(
        &self,
        act: &str,
        user: &User,
        wish: &UserWish,
    ) -> Result<(), SourceError> {
        let uid = user.uid();
        let start = Query::of("uid", &uid);
        let change = wish.in_query(start, Some(user));
        if wish.differs(user) {
            let changed = self.0.change_user(act, &change).await?;
            if wish.differs(&changed) {
                return Err(SourceError::new(act, TroubleKind::Unexpected, NOT_AS_SENT));
            }
        }
        self.bring_capabilities_up_to(act, user, wish).await?;
        if let Some(quota) = wish.quota
            && quota != Quota::of(user.user_quota)
        {
            let query = Query::part("quota")
                .with("uid", &uid)
                .with("quota-type", "user");
            self.0.set_user_quota(act, &quota.in_query(query)).await?;
        }
        Ok(())
    }

    /// Granting does not narrow what was granted before: what is not wanted is taken away first.
    async fn bring_capabilities_up_to(
        &self,
        act: &str,
        user: &User,
        wish: &UserWish,
    ) -> Result<(), SourceError> {
        let Some(wanted) = &wish.capabilities else {
            return Ok(());
        };
        let uid = user.uid();
        let had = capabilities(user);
        let list = |caps: Vec<&String>| {
            let caps: Vec<&str> = caps.into_iter().map(String::as_str).collect();
            caps.join(";")
        };
        let extra = list(had.difference(wanted).collect());
        let missing = list(wanted.difference(&had).collect());
        for (method, caps) in [(Method::DELETE, extra), (Method::PUT, missing)] {
            if !caps.is_empty() {
                self.0.change_capabilities(act, method, &uid, &caps).await?;
            }
        }
        Ok(())
    }
}

const NOT_AS_SENT: &str = "the gateway keeps another value than it was sent";
const NOT_OURS: &str =
    "the store has a user of this uid that is not this resource's; it was left alone";

impl UserWish {
    fn differs(&self, user: &User) -> bool {
        self.display_name != user.display_name
            || self
                .op_mask
                .as_ref()
                .is_some_and(|mask| *mask != user.op_mask)
            || self
                .max_buckets
                .is_some_and(|most| most != user.max_buckets)
    }

    /// What is to be changed of this user; of a new one, everything but what was said already.
    fn in_query(&self, mut query: Query, present: Option<&User>) -> Query {
        if let Some(present) = present
            && self.display_name != present.display_name
        {
            query = query.with("display-name", &self.display_name);
        }
        if let Some(mask) = &self.op_mask
            && present.is_none_or(|present| *mask != present.op_mask)
        {
            query = query.with("op-mask", mask);
        }
        if let Some(most) = self.max_buckets
            && present.is_none_or(|present| most != present.max_buckets)
        {
            query = query.with("max-buckets", &most.to_string());
        }
        query
    }
}

fn capabilities(user: &User) -> BTreeSet<String> {
    let shown = user.caps.iter();
    shown
        .map(|cap| UserWish::capability(&cap.sort, &cap.perm))
        .collect()
}

fn state(user: &User) -> Value {
    json!({
        "displayName": user.display_name,
        "accountId": user.account_id,
        "capabilities": capabilities(user),
        "opMask": user.op_mask,
        "maxBuckets": user.max_buckets,
        "quota": Quota::of(user.user_quota),
    })
}

fn act(what: &str, id: &ThingId) -> String {
    format!("{what} user {} of the object store", id.as_str())
}

#[async_trait]
impl Things for Users {
    fn place(&self) -> &str {
        self.0.store().place()
    }

    fn login_name(&self) -> &str {
        self.0.login_name()
    }

    async fn look(&self, id: &ThingId, owner: &Owner) -> Result<Option<Found>, SourceError> {
        let user = self.0.user(&act("looking at", id), id.as_str()).await?;
        Ok(user.map(|user| Found {
            state: state(&user),
            ours: user.bears(&tag_of(owner)),
        }))
    }

    async fn put(&self, id: &ThingId, owner: &Owner, wanted: &Value) -> Result<(), SourceError> {
        let act = act("keeping", id);
        let rejected = |detail: &str| Err(SourceError::new(&act, TroubleKind::Rejected, detail));
        let (uid, tag) = (id.as_str(), tag_of(owner));
        if uid.is_empty() {
            return rejected("a user without a uid cannot be asked for");
        }
        let wish = UserWish::read(&act, wanted)?;
        let user = match self.0.user(&act, uid).await? {
            Some(user) => user,
            None => self.create(&act, uid, &tag, &wish).await?,
        };
        if !user.bears(&tag) {
            return rejected(NOT_OURS);
        }
        if user.account_id != wish.account_id {
            return rejected(
                "it belongs to another account than is wanted, or to none; a user is never moved without a person's word",
            );
        }
        self.bring_up_to(&act, &user, &wish).await
    }

    /// Its buckets. Those of a user of an account belong to the account, and are in nobody's way.
    async fn blockers(&self, id: &ThingId, _owner: &Owner) -> Result<Vec<Holder>, SourceError> {
        let owner = Query::of("uid", id.as_str());
        let act = act("counting the buckets of", id);
        let buckets = self.0.count_buckets(&act, &owner).await?;
        Ok(counted(buckets, "bucket").into_iter().collect())
    }

    async fn remove(&self, id: &ThingId, owner: &Owner) -> Result<(), SourceError> {
        let act = act("removing", id);
        match self.0.user(&act, id.as_str()).await? {
            None => Ok(()),
            Some(user) if user.bears(&tag_of(owner)) => self.0.delete_user(&act, id.as_str()).await,
            Some(_) => Err(SourceError::new(act, TroubleKind::Rejected, NOT_OURS)),
        }
    }
}

/// `2 buckets`; of none, nothing.
pub(super) fn counted(count: usize, word: &str) -> Option<Holder> {
    match count {
        0 => None,
        1 => Some(Holder::from(format!("1 {word}"))),
        more => Some(Holder::from(format!("{more} {word}s"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_and_masks_are_written_as_gateways_show_them() {
        assert_eq!(UserWish::capability("users", "read, write"), "users=*");
        assert_eq!(UserWish::capability("users", "read"), "users=read");
        assert_eq!(UserWish::operations(&[]), "<none>");
        assert_eq!(UserWish::operations(&["delete", "read"]), "read, delete");
    }

    #[test]
    fn what_blocks_is_told_by_kind_and_count() {
        assert_eq!(counted(0, "bucket"), None);
        assert_eq!(counted(1, "bucket").unwrap().as_str(), "1 bucket");
        assert_eq!(counted(3, "user").unwrap().as_str(), "3 users");
    }
}
