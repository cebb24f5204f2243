//! Accounts, each with its root user.

use std::sync::Arc;

use async_trait::async_trait;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Known, Owner, Refusal};
use serde_json::{Value, json};
use sources::rgw::{AccountWish, Accounts, Quota, RootUser, derived_account_id, is_account_id};
use sources::{ThingId, Things};

use super::store::Stores;
use super::{ACCOUNT, credentials, invalid, spec, status};
use crate::api::ceph::{AccountQuotas, CephObjectStoreAccountSpec, Size};
use crate::engine::telling::Told;
use crate::engine::{About, Closed, Reader, names};
use crate::remote::{Credentials, Record, Remote, Seen, Wish};

/// What a user of an account may be called at most.
const LONGEST_NAME: usize = 64;

#[derive(Debug)]
pub(super) struct Account {
    about: About,
    stores: Arc<Stores>,
}

impl Account {
    pub(super) fn new(about: About, stores: Arc<Stores>) -> Self {
        Self { about, stores }
    }
}

/// Whether this account is to have no root user of ours.
pub(super) fn skips_root(object: &DynamicObject) -> bool {
    let spec = object.data.get("spec");
    let root = spec.and_then(|spec| spec.get("rootUser"));
    root.is_some_and(|root| root["skipCreate"] == true)
}

/// The id of the account: as it was given, as it was written down, or as it follows from the uid.
fn id(object: &DynamicObject, given: Option<&str>) -> Result<ThingId, Refusal> {
    if let Some(given) = given {
        if !is_account_id(given) {
            return Err(invalid("accountID must be RGW and 17 digits"));
        }
        return Ok(given.into());
    }
    if let Some(record) = Record::on(object, ACCOUNT) {
        return Ok(record.id);
    }
    let derived = derived_account_id(&object.uid().unwrap_or_default());
    let derived =
        derived.ok_or_else(|| invalid("no id can be derived from the uid of the resource"))?;
    Ok(derived.into())
}

fn root_name(object: &DynamicObject, given: Option<String>) -> String {
    let usual = || format!("root-{}", object.name_any());
    let mut name = given.unwrap_or_else(usual);
    name.truncate(LONGEST_NAME);
    name
}

/// A quota of sizes and numbers: none of both is no quota.
pub(super) fn quota(size: Option<&Size>, objects: Option<i64>) -> Result<Quota, Refusal> {
    let bytes = |size: &Size| {
        size.bytes()
            .ok_or_else(|| invalid("a size must be a number of bytes, such as 10Gi"))
    };
    let max_size = size.map(bytes).transpose()?.unwrap_or(-1);
    let max_objects = objects.unwrap_or(-1).max(-1);
    Ok(Quota {
        enabled: max_size >= 0 || max_objects >= 0,
        max_size,
        max_objects,
    })
}

fn wish(object: &DynamicObject, spec: CephObjectStoreAccountSpec) -> Result<AccountWish, Refusal> {
    let quotas = spec.quotas.unwrap_or_default();
    let AccountQuotas {
        max_size,
        max_objects,
        max_bucket_size,
        max_bucket_objects,
        max_buckets,
        max_users,
        max_roles,
        max_groups,
        max_access_keys,
    } = quotas;
    let root = spec.root_user.unwrap_or_default();
    let display_name = root_name(object, root.display_name);
    Ok(AccountWish {
        name: spec.name.unwrap_or_else(|| object.name_any()),
        email: spec.email,
        max_users,
        max_roles,
        max_groups,
        max_buckets,
        max_access_keys,
        quota: Some(quota(max_size.as_ref(), max_objects)?),
        bucket_quota: Some(quota(max_bucket_size.as_ref(), max_bucket_objects)?),
        root_user: (!skips_root(object)).then_some(RootUser { display_name }),
    })
}

/// Whether what is at the issuer stays there when the resource goes.
pub(super) fn stays(object: &DynamicObject) -> bool {
    let policy = object.annotations().get(names::DELETION_POLICY);
    policy.is_some_and(|policy| policy != "Revoke")
}

#[async_trait]
impl Remote for Account {
    fn about(&self) -> &About {
        &self.about
    }

    fn record(&self) -> &'static str {
        ACCOUNT
    }

    fn credentials(&self, object: &DynamicObject) -> Option<Credentials> {
        Some(credentials(!skips_root(object)))
    }

    async fn wanted(
        &self,
        object: &DynamicObject,
        _owner: &Owner,
        _reader: &mut Reader<'_>,
    ) -> Result<Wish, Closed> {
        let spec: CephObjectStoreAccountSpec = spec(object)?;
        let id = id(object, spec.account_id.as_deref())?;
        let leaving = object.metadata.deletion_timestamp.is_some();
        let thing = if leaving {
            Value::Null
        } else {
            json!(wish(object, spec)?)
        };
        Ok(Wish {
            id,
            thing,
            keep: stays(object),
        })
    }

    async fn open(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Arc<dyn Things>, Closed> {
        let way = self.stores.find(object, reader).await?;
        let uid = object.uid().unwrap_or_default();
        Ok(Arc::new(Accounts::new(way.admin, &uid)))
    }

    /// The id is told once the account was seen to be this resource's: others rely on it.
    fn status(&self, object: &DynamicObject, seen: &Seen, told: &Told) -> Value {
        let mut said = status::of_thing(object, told);
        let ours = match &seen.found {
            Known::Is(Some(found)) => found.ours,
            Known::Is(None) | Known::NotAsked | Known::Failed(_) => false,
        };
        let before = object
            .data
            .get("status")
            .and_then(|status| status.get("accountID"));
        let known = seen
            .record
            .as_ref()
            .filter(|_| ours)
            .map(|record| json!(record.id));
        if let Some(id) = known.or_else(|| before.cloned()) {
            said["accountID"] = id;
        }
        said
    }
}

#[cfg(test)]
#[expect(
    clippy::needless_pass_by_value,
    reason = "values are written down where they are used"
)]
mod tests {
    use super::*;

    fn object(metadata: Value, spec: Value) -> DynamicObject {
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    /// RGW2.
    #[test]
    fn an_id_is_the_given_one_or_the_recorded_one_or_follows_from_the_uid() {
        let uid = "8381b532-471c-4ebb-adde-b9a60aed7c27";
        let plain = object(json!({ "uid": uid }), json!({}));
        assert_eq!(id(&plain, None).unwrap().as_str(), "RGW52255436555691907");
        let given = "RGW00000000000000001";
        assert_eq!(id(&plain, Some(given)).unwrap().as_str(), given);
        let record = |of: &str| json!({ "of": of, "id": "RGW00000000000000002" }).to_string();
        let noted = |of: &str| {
            object(
                json!({ "uid": uid, "annotations": { ACCOUNT: record(of) } }),
                json!({}),
            )
        };
        assert_eq!(
            id(&noted(uid), None).unwrap().as_str(),
            "RGW00000000000000002"
        );
        assert_eq!(
            id(&noted("another"), None).unwrap(),
            id(&plain, None).unwrap()
        );
        for bad in ["", "short", "zzzzzzzz-471c-4ebb-adde-b9a60aed7c27"] {
            assert!(
                id(&object(json!({ "uid": bad }), json!({})), None).is_err(),
                "{bad}"
            );
        }
        assert!(id(&plain, Some("RGW1")).is_err());
    }

    /// S003-5, RGW16.
    #[test]
    fn a_root_user_is_called_as_asked_or_after_the_resource() {
        let long = object(json!({ "name": "a".repeat(100) }), json!({}));
        assert_eq!(root_name(&long, None), format!("root-{}", "a".repeat(59)));
        assert_eq!(root_name(&long, Some("boss".into())), "boss");
    }
}
