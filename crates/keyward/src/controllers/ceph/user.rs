//! Users, by themselves or in an account.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{Because, Owner, Refusal};
use serde_json::{Value, json};
use sources::Things;
use sources::rgw::{UserWish, Users, is_account_id, is_iam_name};

use super::account::{quota, stays};
use super::store::{Place, Stores};
use super::{USER, credentials, invalid, spec, status};
use crate::api::ceph::{CephObjectStoreUserSpec, Operation};
use crate::engine::telling::Told;
use crate::engine::{About, Closed, Reader};
use crate::remote::{Credentials, Remote, Seen, Wish};

/// Buckets that a user may have unless it is said otherwise.
const USUAL_BUCKETS: i64 = 1000;

/// Users that Rook and Ceph make for themselves, whoever comes first.
const RESERVED: &[&str] = &[
    "admin",
    "rgw-admin-ops-user",
    "dashboard-admin",
    "dashboard",
    "cosi",
    "anonymous",
];
const RESERVED_BEGINNINGS: &[&str] = &[
    "kw1-",
    "rook-ceph-internal-s3-user-checker-",
    "ceph-user-",
    "obc-",
];

#[derive(Debug)]
pub(super) struct User {
    about: About,
    accounts: ApiResource,
    stores: Arc<Stores>,
}

impl User {
    pub(super) fn new(about: About, accounts: ApiResource, stores: Arc<Stores>) -> Self {
        Self {
            about,
            accounts,
            stores,
        }
    }

    /// The id of the account that the user belongs to, once that is ready.
    async fn account_id(
        &self,
        object: &DynamicObject,
        name: &str,
        reader: &mut Reader<'_>,
    ) -> Result<String, Closed> {
        let home = object.namespace().unwrap_or_default();
        let place = Place::of(object)?;
        if place.namespace(&home) != home {
            let detail = "a user of an account must be in the namespace of its store: clusterNamespace cannot be given";
            return Err(invalid(detail).into());
        }
        let waits = |detail: String| {
            let because = Because::IssuerNotReady;
            Closed::Refused(Refusal { because, detail })
        };
        let Some(account) = reader.one(&self.accounts, name).await? else {
            return Err(waits(format!(
                "there is no CephObjectStoreAccount {name} yet"
            )));
        };
        let store = account
            .data
            .get("spec")
            .and_then(|spec| spec["store"].as_str());
        if store != Some(place.store.as_str()) {
            let detail = format!(
                "the CephObjectStoreAccount {name} is in the store {}, and this user in {}",
                store.unwrap_or_default(),
                place.store
            );
            return Err(invalid(detail).into());
        }
        let status = account.data.get("status").cloned().unwrap_or_default();
        let ready = status["phase"] == "Ready" && account.metadata.deletion_timestamp.is_none();
        match status["accountID"].as_str().filter(|id| is_account_id(id)) {
            Some(id) if ready => Ok(id.to_owned()),
            Some(_) | None => Err(waits(format!(
                "the CephObjectStoreAccount {name} is not ready yet"
            ))),
        }
    }
}

fn is_reserved(name: &str) -> bool {
    let parts: Vec<usize> = name.split('-').map(str::len).collect();
    // Root users of accounts are called by the uid of their resource.
    let is_a_uid = parts == [8, 4, 4, 4, 12]
        && name
            .chars()
            .all(|letter| letter == '-' || letter.is_ascii_hexdigit());
    RESERVED.contains(&name)
        || RESERVED_BEGINNINGS
            .iter()
            .any(|begin| name.starts_with(begin))
        || is_a_uid
}

fn wish(
    object: &DynamicObject,
    spec: CephObjectStoreUserSpec,
    account_id: String,
) -> Result<UserWish, Refusal> {
    let given = spec.display_name.filter(|name| !name.is_empty());
    let display_name = given.unwrap_or_else(|| object.name_any());
    if !account_id.is_empty() && !is_iam_name(&display_name) {
        return Err(invalid(
            "the displayName of a user of an account may have letters, digits and _+=,.@- only, 64 at most: policies name it by that",
        ));
    }
    let capabilities = spec.capabilities.unwrap_or_default();
    let capabilities: BTreeSet<String> = capabilities
        .given()
        .into_iter()
        .map(|(sort, permission)| UserWish::capability(sort, permission.word()))
        .collect();
    let quotas = spec.quotas.unwrap_or_default();
    let all = vec![Operation::Read, Operation::Write, Operation::Delete];
    let operations = spec.op_mask.unwrap_or(all);
    let operations: Vec<&str> = operations.into_iter().map(Operation::word).collect();
    Ok(UserWish {
        display_name,
        account_id,
        capabilities: Some(capabilities),
        op_mask: Some(UserWish::operations(&operations)),
        max_buckets: Some(quotas.max_buckets.unwrap_or(USUAL_BUCKETS)),
        quota: Some(quota(quotas.max_size.as_ref(), quotas.max_objects)?),
    })
}

#[async_trait]
impl Remote for User {
    fn about(&self) -> &About {
        &self.about
    }

    fn record(&self) -> &'static str {
        USER
    }

    fn credentials(&self, _object: &DynamicObject) -> Option<Credentials> {
        Some(credentials(true))
    }

    async fn wanted(
        &self,
        object: &DynamicObject,
        _owner: &Owner,
        reader: &mut Reader<'_>,
    ) -> Result<Wish, Closed> {
        let name = object.name_any();
        let leaving = object.metadata.deletion_timestamp.is_some();
        let wished = |thing: Value| Wish {
            id: name.as_str().into(),
            thing,
            keep: stays(object),
        };
        if leaving {
            return Ok(wished(Value::Null));
        }
        if is_reserved(&name) {
            let detail = format!(
                "the name {name} is one that Ceph, Rook or Keyward uses for users of its own; choose another one"
            );
            return Err(invalid(detail).into());
        }
        let spec: CephObjectStoreUserSpec = spec(object)?;
        if !spec.keys.is_empty() {
            return Err(
                invalid("keys that a person brings are not supported yet; leave out keys").into(),
            );
        }
        let account_id = match &spec.account_ref {
            Some(account) => self.account_id(object, &account.name, reader).await?,
            None => String::new(),
        };
        Ok(wished(json!(wish(object, spec, account_id)?)))
    }

    async fn open(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Arc<dyn Things>, Closed> {
        let way = self.stores.find(object, reader).await?;
        Ok(Arc::new(Users::new(way.admin)))
    }

    fn status(&self, object: &DynamicObject, _seen: &Seen, told: &Told) -> Value {
        status::of_thing(object, told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RGW27.
    #[test]
    fn names_that_others_need_are_reserved() {
        for name in [
            "rgw-admin-ops-user",
            "admin",
            "kw1-a",
            "8381b532-471c-4ebb-adde-b9a60aed7c27",
        ] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["my-user", "administrator", "a-b-c-d-e"] {
            assert!(!is_reserved(name), "{name}");
        }
    }

    /// RGW29.
    #[test]
    fn what_is_not_said_is_the_usual_and_not_what_was_there() {
        let object = |spec: Value| -> DynamicObject {
            serde_json::from_value(json!({ "metadata": { "name": "ann" }, "spec": spec })).unwrap()
        };
        let read = |given: Value| {
            let object = object(given);
            let spec = super::spec(&object).unwrap();
            wish(&object, spec, String::new()).unwrap()
        };
        let plain = read(json!({ "store": "s" }));
        assert_eq!(plain.display_name, "ann");
        assert_eq!(plain.capabilities, Some(BTreeSet::new()));
        assert_eq!(plain.op_mask.as_deref(), Some("read, write, delete"));
        assert_eq!(
            (plain.max_buckets, plain.quota.unwrap().enabled),
            (Some(1000), false)
        );
        let full = read(json!({
            "store": "s", "displayName": "A user", "opMask": [],
            "capabilities": { "user": "read", "amz-cache": "read, write" },
            "quotas": { "maxBuckets": 3, "maxSize": "1Ki", "maxObjects": 7 },
        }));
        assert_eq!(full.op_mask.as_deref(), Some("<none>"));
        let capabilities: Vec<String> = full.capabilities.unwrap().into_iter().collect();
        assert_eq!(capabilities, ["amz-cache=*", "users=read"]);
        let quota = full.quota.unwrap();
        assert_eq!(
            (quota.enabled, quota.max_size, quota.max_objects),
            (true, 1024, 7)
        );
    }
}
