//! Everything that a server stores, to be kept in a file and put into another server later.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::server::Server;
use super::store::{Key, Store};

/// One object, with all that only a server writes: its uid, version and times.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FrozenObject {
    /// `secrets`, or `widgets.example.dev`.
    pub resource: String,
    pub object: Value,
}

/// Definitions come from the code that is tested, and what was told is not served.
const LEFT_OUT: [&str; 3] = [
    "customresourcedefinitions.apiextensions.k8s.io",
    "events",
    "events.events.k8s.io",
];

impl Server {
    pub fn freeze(&self) -> Vec<FrozenObject> {
        let all = self.everything().into_iter();
        all.filter(|(key, _)| !LEFT_OUT.contains(&key.resource.as_str()))
            .map(|(key, object)| FrozenObject {
                resource: key.resource,
                object: (*object).clone(),
            })
            .collect()
    }

    /// Puts objects back as they were, with uid, resourceVersion and times; a backup cannot do that, only etcd's own.
    pub fn thaw(&self, frozen: Vec<FrozenObject>) {
        self.with_store(|store| {
            let mut frozen = frozen;
            frozen.sort_by_key(|one| version_of(&one.object));
            for one in frozen {
                put_back(store, one);
            }
        });
    }
}

fn version_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn put_back(store: &mut Store, FrozenObject { resource, object }: FrozenObject) {
    let text = |field: &str| {
        let value = object["metadata"][field].as_str();
        value.unwrap_or_default().to_owned()
    };
    let key = Key {
        resource,
        namespace: text("namespace"),
        name: text("name"),
    };
    store.put_at(&key, object.clone(), version_of(&object));
}
