//! The key of a user, or of an account's root user, in one Secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{
    Bearer, Because, Deletion, Delivery, Entry, Fingerprint, IssuedId, LedgerState, Policy,
    Refusal, Retire, SecretName, Version,
};
use serde_json::{Value, json};
use sources::rgw::{ENDPOINT, KEYS, UserKeys, access_key, tag_of};
use sources::{SecretValue, Source, Values};

use super::account::skips_root;
use super::settings::{EVERY, OVERLAP, Rotating, SCHEDULE, overlap_or_longest};
use super::store::{Place, Stores};
use super::{ACCOUNT, ACCOUNT_GUARD, USER, USER_GUARD, invalid, status};
use crate::engine::status::Owned;
use crate::engine::trouble::Fault;
use crate::engine::{Access, Closed, Reader, conditions, names};
use crate::remote::{Clears, Record};
use crate::rotation::policy::annotated;
use crate::rotation::report::Report;
use crate::rotation::{About, Kind, Reading, Voice, Wish};

/// The Secret with the store's certificate, for consumers.
const CERTIFICATE: &str = "SSLCertSecretName";
const SECRET_TYPE: &str = "kubernetes.io/rook";
const LONGEST_LABEL: usize = 63;
const LONGEST_SECRET: usize = 253;

const SETTINGS: &[&str] = &[names::DELETION_POLICY, SCHEDULE, EVERY, OVERLAP];
const OF_ROOT: Owned = Owned::Part {
    keys: &["rootKeys", "rootAccountSecretName"],
    conditions: &[super::KEYS_READY],
};
const OF_USER: Owned = Owned::Part {
    keys: &["key", "info"],
    conditions: &[super::KEYS_READY],
};

/// Whose keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Root,
    User,
}

#[derive(Debug)]
pub(super) struct Keys {
    whose: Whose,
    about: About,
    stores: Arc<Stores>,
}

impl Keys {
    pub(super) fn of_roots(accounts: ApiResource, stores: Arc<Stores>) -> Self {
        Self::new(Whose::Root, accounts, stores)
    }

    pub(super) fn of_users(users: ApiResource, stores: Arc<Stores>) -> Self {
        Self::new(Whose::User, users, stores)
    }

    fn new(whose: Whose, resource: ApiResource, stores: Arc<Stores>) -> Self {
        let about = About {
            secret_type: SECRET_TYPE,
            settings: SETTINGS,
            owned: match whose {
                Whose::Root => OF_ROOT,
                Whose::User => OF_USER,
            },
            neighbours: stores.kinds(),
            ..About::new(resource, "ceph")
        };
        Self {
            whose,
            about,
            stores,
        }
    }

    /// The record and the finalizer of whoever keeps the user.
    fn keeper(&self) -> (&'static str, &'static str) {
        match self.whose {
            Whose::Root => (ACCOUNT, ACCOUNT_GUARD),
            Whose::User => (USER, USER_GUARD),
        }
    }

    /// On what terms they may leave, if their user is on its way out.
    fn cleared(&self, object: &DynamicObject) -> Option<Clears> {
        Record::on(object, self.keeper().0)?.clears
    }

    /// What the user is called at the store.
    fn uid(&self, object: &DynamicObject) -> String {
        match self.whose {
            Whose::Root => object.uid().unwrap_or_default(),
            Whose::User => object.name_any(),
        }
    }

    fn secret_name(&self, object: &DynamicObject, store: &str) -> Result<SecretName, Refusal> {
        let name = match self.whose {
            Whose::Root => format!("rook-ceph-object-root-user-{}", object.name_any()),
            Whose::User => format!("rook-ceph-object-user-{store}-{}", object.name_any()),
        };
        if name.len() > LONGEST_SECRET {
            return Err(invalid(
                "the names of store and resource are too long together for the name of a Secret",
            ));
        }
        Ok(SecretName::from(name.as_str()))
    }

    fn rotating(&self, object: &DynamicObject) -> Result<Rotating, Refusal> {
        let path: &[&str] = match self.whose {
            Whose::Root => &["rootUser", "keyRotation"],
            Whose::User => &["keyRotation"],
        };
        Rotating::of(object, path)
    }

    fn labels(&self, object: &DynamicObject) -> BTreeMap<String, String> {
        let place = Place::of(object).ok();
        let home = object.namespace().unwrap_or_default();
        let store = place.as_ref().map_or("", |place| place.store.as_str());
        let namespace = place
            .as_ref()
            .map_or(home.as_str(), |place| place.namespace(&home));
        let name = object.name_any();
        let labels = match self.whose {
            Whose::Root => vec![
                ("app", "rook-ceph-rgw"),
                ("cephObjectStoreAccountName", name.as_str()),
                ("cephObjectStoreName", store),
                ("cephObjectStoreNamespace", namespace),
            ],
            Whose::User => vec![
                ("app", "rook-ceph-rgw"),
                ("user", name.as_str()),
                ("rook_cluster", namespace),
                ("rook_object_store", store),
            ],
        };
        labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), label(value)))
            .collect()
    }

    fn wish(&self, object: &DynamicObject) -> Result<Wish, Refusal> {
        let place = Place::of(object)?;
        self.rotating(object)?;
        let home = object.namespace().unwrap_or_default();
        let namespace = place.namespace(&home);
        let uid = self.uid(object);
        Ok(Wish {
            fingerprint: Fingerprint::of([place.store.as_str(), namespace, &uid]),
            order: Value::Null,
            target: Some(self.secret_name(object, &place.store)?),
            adopt: false,
            keys: Vec::new(),
            annotations: BTreeMap::new(),
        })
    }

    /// Whether there is a key already: from then on the user's other troubles are none of the keys'.
    fn has_a_key(&self, object: &DynamicObject) -> bool {
        let note = object.annotations().get(names::LEDGER).map(String::as_str);
        let of_this = |of: &Bearer| Some(&of.uid) == object.uid().as_ref();
        let ledger = LedgerState::read(note, of_this, |_| false);
        ledger.is().is_some_and(|ledger| ledger.current.is_some())
    }
}

/// A label has 63 characters at most, and ends like a word.
fn label(value: &str) -> String {
    let cut: String = value.chars().take(LONGEST_LABEL).collect();
    cut.trim_end_matches(|last: char| !last.is_ascii_alphanumeric())
        .to_owned()
}

#[async_trait]
impl Kind for Keys {
    fn about(&self) -> &About {
        &self.about
    }

    fn access(&self) -> &dyn Access {
        self
    }

    fn voice(&self) -> &dyn Voice {
        self
    }

    /// The overlap is the policy: the old key works beside the new one until then, and never more than two do.
    fn read(&self, object: &DynamicObject) -> Reading {
        let rotating = self.rotating(object);
        let base = Policy {
            delivery: Delivery::InPlace,
            retire: Retire::AfterGrace(overlap_or_longest(rotating.as_ref())),
            overlap: SignedDuration::ZERO,
            one_extra: true,
            ..Policy::default()
        };
        let (mut policy, wrong) = annotated(object, base);
        policy.overlap = SignedDuration::ZERO;
        policy.rollback = SignedDuration::ZERO;
        if self.cleared(object) == Some(Clears::IssuerGone) {
            policy.deletion = Deletion::Orphan;
        }
        let wish = match wrong.first() {
            Some(wrong) => Err(invalid(wrong.clone())),
            None => self.wish(object),
        };
        Reading {
            policy,
            issuer: KEYS,
            wish,
            labels: self.labels(object),
        }
    }

    /// Keys wait for their user.
    async fn obstacle(
        &self,
        object: &DynamicObject,
        _reader: &mut Reader<'_>,
    ) -> Result<Option<Refusal>, Fault> {
        let said = conditions::of(object.data.get("status"));
        let there = [Because::AsWanted, Because::CredentialsNotReady].map(Because::code);
        let is_there = |one: &Value| {
            let reason = one["reason"].as_str().unwrap_or_default();
            one["type"] == "Ready" && there.contains(&reason)
        };
        if said.iter().any(is_there) || self.has_a_key(object) {
            return Ok(None);
        }
        Ok(Some(Refusal {
            because: Because::IssuerNotReady,
            detail: "the user is not there yet; see the condition Ready".to_owned(),
        }))
    }

    /// When the user goes, and nothing keeps it any more; or when there is to be none.
    fn leaves(&self, object: &DynamicObject) -> bool {
        if self.whose == Whose::Root && skips_root(object) {
            return true;
        }
        let kept = object.finalizers().iter().any(|one| one == self.keeper().1);
        let deleted = object.metadata.deletion_timestamp.is_some();
        deleted && (!kept || self.cleared(object).is_some())
    }

    fn due(&self, object: &DynamicObject, current: &Entry) -> Option<Timestamp> {
        let uid = object.uid().unwrap_or_default();
        self.rotating(object).ok()?.due(&uid, current.minted)
    }

    /// In place, the one name there is.
    fn secret_names(
        &self,
        object: &DynamicObject,
        _version: Version,
        _id: &IssuedId,
    ) -> Vec<SecretName> {
        let named = Place::of(object).and_then(|place| self.secret_name(object, &place.store));
        named.into_iter().collect()
    }
}

impl Voice for Keys {
    fn status(&self, report: &Report) -> Value {
        let mut said = json!({ "conditions": status::conditions(report) });
        let secret = report
            .ledger
            .current
            .as_ref()
            .map(|current| current.secret.as_str());
        let keys = status::of_keys(report);
        match self.whose {
            Whose::Root => {
                said["rootKeys"] = keys;
                if let Some(secret) = secret {
                    said["rootAccountSecretName"] = secret.into();
                }
            }
            Whose::User => {
                said["key"] = keys;
                if let Some(secret) = secret {
                    said["info"] = json!({ "secretName": secret });
                }
            }
        }
        said
    }

    fn named_in_status(&self, object: &DynamicObject) -> Option<SecretName> {
        let status = object.data.get("status")?;
        let name = match self.whose {
            Whose::Root => &status["rootAccountSecretName"],
            Whose::User => &status["info"]["secretName"],
        };
        name.as_str().map(SecretName::from)
    }

    fn shown_id<'a>(&self, id: &'a IssuedId) -> &'a str {
        access_key(id)
    }
}

#[async_trait]
impl Access for Keys {
    /// Each user has a source of its own.
    fn place(&self, object: &DynamicObject) -> String {
        let uid = object.uid().unwrap_or_default();
        let place = Place::of(object).ok();
        json!([place, self.uid(object), uid]).to_string()
    }

    fn place_as_spec(&self, object: &DynamicObject) -> Option<Value> {
        Some(json!(Place::of(object).ok()?))
    }

    async fn open(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Arc<dyn Source>, Closed> {
        let way = self.stores.find(object, reader).await?;
        let tag = tag_of(&reader.owner_of(object));
        let mut beside = Values::new().with(ENDPOINT, SecretValue::new(way.endpoint.as_bytes()));
        if let Some(secret) = &way.certificate {
            beside = beside.with(CERTIFICATE, SecretValue::new(secret.as_bytes()));
        }
        Ok(Arc::new(UserKeys::new(
            way.admin,
            &self.uid(object),
            &tag,
            beside,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_and_end_like_a_word() {
        assert_eq!(label("my-user"), "my-user");
        assert_eq!(
            label(&format!("{}-{}", "a".repeat(62), "b")),
            "a".repeat(62)
        );
        assert_eq!(label(&"a".repeat(100)).len(), 63);
    }
}
