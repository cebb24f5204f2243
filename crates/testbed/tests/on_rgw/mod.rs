//! An object store of either sort, for the tests of its source: logins, a bench for the contract of sources, and what must hold
//! on both.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod accounts;
pub(crate) mod bench;
pub(crate) mod boto3;
pub(crate) mod keys;
pub(crate) mod users;

use std::sync::Arc;
use std::time::Duration;

use lifecycle::{ClusterId, Mark, Owner, TroubleKind, Version};
use serde_json::Value;
use sources::http::Settings;
use sources::rgw::{Administrator, Login, Store, UserKeys, UserWish, Users, tag_of};
use sources::{Order, SecretValue, SourceError, ThingId, Things, Values};
use testbed::rgw::{self, Http, Reply};

pub(crate) fn settings() -> Settings {
    Settings {
        timeout: Duration::from_secs(5),
        ..Settings::default()
    }
}

pub(crate) fn administrator(urls: &[String]) -> Administrator {
    let login = rgw::admin();
    administrator_as(urls, &login.access_key, login.secret_key.reveal())
}

pub(crate) fn administrator_as(urls: &[String], access_key: &str, secret: &str) -> Administrator {
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let store = Store::new(&urls, &settings()).unwrap();
    let login = Login {
        access_key: access_key.to_owned(),
        secret_key: SecretValue::new(secret),
    };
    Administrator::new(Arc::new(store), login)
}

/// A uid that no other test uses.
pub(crate) fn uid() -> String {
    let hex = format!("{:032x}", rand::random::<u128>());
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

pub(crate) fn owner(uid: &str) -> Owner {
    Owner::new(ClusterId::of_cluster("a cluster"), uid)
}

pub(crate) fn first(owner: &Owner) -> Mark {
    owner.mark(Version::new(1, 1))
}

pub(crate) fn order(mark: Mark) -> Order {
    Order {
        mark,
        chosen: None,
        present: None,
        wish: Value::Null,
        now: jiff::Timestamp::UNIX_EPOCH,
    }
}

pub(crate) fn plain_user() -> UserWish {
    UserWish {
        display_name: "a user".into(),
        account_id: String::new(),
        capabilities: None,
        op_mask: None,
        max_buckets: None,
        quota: None,
    }
}

pub(crate) fn json(wish: &impl serde::Serialize) -> Value {
    serde_json::to_value(wish).unwrap()
}

/// A user of this owner's, and the way to its keys.
pub(crate) async fn user_with_keys(urls: &[String], uid: &str, owner: &Owner) -> UserKeys {
    let users = Users::new(administrator(urls));
    let id = ThingId::from(uid);
    users.put(&id, owner, &json(&plain_user())).await.unwrap();
    keys_of(urls, uid, owner)
}

pub(crate) fn keys_of(urls: &[String], uid: &str, owner: &Owner) -> UserKeys {
    let beside = Values::new().with("Endpoint", SecretValue::new(urls[0].as_bytes()));
    UserKeys::new(administrator(urls), uid, &tag_of(owner), beside)
}

pub(crate) fn text(values: &Values, key: &str) -> String {
    values.get(key).unwrap().expose_str().unwrap().to_owned()
}

/// Whether everything that is wanted is so, whatever else is: as whoever keeps a thing compares.
pub(crate) fn has(state: &Value, wanted: &Value) -> bool {
    match (state, wanted) {
        (Value::Object(state), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| state.get(key).is_some_and(|state| has(state, wanted))),
        (state, wanted) => state == wanted,
    }
}

#[track_caller]
pub(crate) fn fails_as<T: std::fmt::Debug>(
    result: Result<T, SourceError>,
    kind: TroubleKind,
    word: &str,
) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.to_string().contains(word), "{error}");
}

/// From the side, with code of its own.
pub(crate) async fn by_hand(
    urls: &[String],
    method: &str,
    what: &str,
    query: &[(&str, &str)],
) -> Reply {
    let http = Http::new(&urls[0]);
    let method = method.parse().unwrap();
    http.admin_ops(&rgw::admin(), method, what, query)
        .await
        .unwrap()
}
