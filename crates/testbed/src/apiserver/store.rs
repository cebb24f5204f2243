//! The memory of the server: every object, its last versions, and the log of changes that watches read.
//!
//! Synchronous and deterministic; it knows nothing of HTTP, kinds or validation.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use serde_json::{Value, json};

/// How many versions of one object stay readable for stale reads and consistent paging.
const VERSIONS_KEPT: usize = 16;

/// Where an object lives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `secrets`, or `widgets.example.dev`.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// One entry of the change log.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) kind: ChangeKind,
    /// For a deletion: the last state, stamped with the version of the deletion.
    pub(crate) object: Arc<Value>,
    pub(crate) before: Option<Arc<Value>>,
}

#[derive(Debug, Default)]
struct Record {
    current: Option<Arc<Value>>,
    /// Oldest first; `None` where the object did not exist.
    versions: VecDeque<(u64, Option<Arc<Value>>)>,
}

#[derive(Debug)]
pub(crate) struct Store {
    version: u64,
    records: BTreeMap<Key, Record>,
    by_uid: HashMap<String, Key>,
    log: VecDeque<Change>,
    log_length: usize,
    /// Watches and pages from before this version are told 410 Gone.
    compacted: u64,
    /// Counts forced expiries: an open watch that sees it change must end.
    epoch: u64,
}

impl Store {
    pub(crate) fn new(log_length: usize) -> Self {
        Self {
            version: 1,
            records: BTreeMap::new(),
            by_uid: HashMap::new(),
            log: VecDeque::new(),
            log_length,
            compacted: 0,
            epoch: 0,
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.records.get(key)?.current.as_ref()
    }

    pub(crate) fn of_uid(&self, uid: &str) -> Option<&Arc<Value>> {
        self.get(self.by_uid.get(uid)?)
    }

    /// Objects of a resource in key order; an empty namespace means all of them.
    pub(crate) fn list<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        self.range(resource, namespace)
            .filter_map(|(key, record)| Some((key, record.current.as_ref()?)))
    }

    /// As [`Store::list`], as it was at an earlier version.
    pub(crate) fn list_at<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
        version: u64,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        self.range(resource, namespace)
            .filter_map(move |(key, record)| Some((key, record.at(version)?)))
    }

    pub(crate) fn get_at(&self, key: &Key, version: u64) -> Option<&Arc<Value>> {
        self.records.get(key)?.at(version)
    }

    fn range<'a>(
        &'a self,
        resource: &'a str,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Record)> {
        let start = Key {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        self.records.range(start..).take_while(move |(key, _)| {
            key.resource == resource && (namespace.is_empty() || key.namespace == namespace)
        })
    }

    /// Every object there is.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.records
            .iter()
            .filter_map(|(key, record)| Some((key, record.current.as_ref()?)))
    }

    /// The version at which the `back`-th last write to this object (or collection, with an empty name)
    /// had not happened yet.
    pub(crate) fn version_before(&self, key: &Key, back: usize) -> u64 {
        let mut writes = self.log.iter().rev().filter(|c| {
            c.key.resource == key.resource
                && (key.namespace.is_empty() || c.key.namespace == key.namespace)
                && (key.name.is_empty() || c.key.name == key.name)
        });
        match back {
            0 => self.version,
            _ => writes.nth(back - 1).map_or(self.version, |c| c.version - 1),
        }
    }

    /// Stores an object under the next version and returns it as stored.
    pub(crate) fn put(&mut self, key: &Key, object: Value) -> Arc<Value> {
        self.put_at(key, object, self.version + 1)
    }

    /// As [`Store::put`], under this version or the next: versions only grow.
    pub(crate) fn put_at(&mut self, key: &Key, mut object: Value, version: u64) -> Arc<Value> {
        self.version = version.max(self.version + 1);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if let Some(uid) = object["metadata"]["uid"].as_str() {
            self.by_uid.insert(uid.to_owned(), key.clone());
        }
        let object = Arc::new(object);
        let record = self.records.entry(key.clone()).or_default();
        let before = record.current.replace(object.clone());
        record.remember(self.version, Some(object.clone()));
        let kind = if before.is_some() {
            ChangeKind::Modified
        } else {
            ChangeKind::Added
        };
        self.append(Change {
            version: self.version,
            key: key.clone(),
            kind,
            object: object.clone(),
            before,
        });
        object
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let record = self.records.get_mut(key)?;
        let before = record.current.take()?;
        self.version += 1;
        record.remember(self.version, None);
        if let Some(uid) = before["metadata"]["uid"].as_str() {
            self.by_uid.remove(uid);
        }
        let mut last = Value::clone(&before);
        last["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let last = Arc::new(last);
        self.append(Change {
            version: self.version,
            key: key.clone(),
            kind: ChangeKind::Deleted,
            object: last.clone(),
            before: Some(before),
        });
        Some(last)
    }

    fn append(&mut self, change: Change) {
        self.log.push_back(change);
        while self.log.len() > self.log_length {
            self.drop_oldest_change();
        }
    }

    fn drop_oldest_change(&mut self) {
        let Some(oldest) = self.log.pop_front() else {
            return;
        };
        self.compacted = oldest.version;
        // A tombstone that no watch or page can reach any more only costs memory.
        let forgotten = self.records.get(&oldest.key).is_some_and(|r| {
            r.current.is_none() && r.versions.back().is_none_or(|(v, _)| *v <= oldest.version)
        });
        if forgotten {
            self.records.remove(&oldest.key);
        }
    }

    /// Forgets the log: open watches and continued lists are told that they are too old.
    pub(crate) fn expire(&mut self) {
        while !self.log.is_empty() {
            self.drop_oldest_change();
        }
        self.compacted = self.version;
        self.epoch += 1;
    }

    /// Changes after a version, oldest first.
    pub(crate) fn changes_after(&self, version: u64) -> impl Iterator<Item = &Change> {
        let first = self.log.partition_point(|c| c.version <= version);
        self.log.range(first..)
    }
}

impl Record {
    fn remember(&mut self, version: u64, object: Option<Arc<Value>>) {
        self.versions.push_back((version, object));
        if self.versions.len() > VERSIONS_KEPT {
            self.versions.pop_front();
        }
    }

    fn at(&self, version: u64) -> Option<&Arc<Value>> {
        let after = self.versions.partition_point(|(v, _)| *v <= version);
        self.versions.get(after.checked_sub(1)?)?.1.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key {
            resource: "secrets".into(),
            namespace: "a".into(),
            name: name.into(),
        }
    }

    #[test]
    fn an_older_state_of_the_whole_store_can_be_read() {
        let mut store = Store::new(100);
        store.put(&key("x"), json!({"metadata": {}, "data": 1}));
        let then = store.version();
        store.put(&key("x"), json!({"metadata": {}, "data": 2}));
        store.put(&key("y"), json!({"metadata": {}}));
        store.remove(&key("x"));
        assert!(store.get(&key("x")).is_none());
        assert_eq!(store.get_at(&key("x"), then).unwrap()["data"], 1);
        assert_eq!(store.list_at("secrets", "a", then).count(), 1);
        let back = store.version_before(&key("x"), 1);
        assert_eq!(store.get_at(&key("x"), back).unwrap()["data"], 2);
    }

    #[test]
    fn tombstones_do_not_outlive_the_log() {
        let mut store = Store::new(2);
        for n in 0..50 {
            store.put(&key(&n.to_string()), json!({"metadata": {}}));
            store.remove(&key(&n.to_string()));
        }
        assert!(store.records.len() <= 2, "{}", store.records.len());
    }
}
