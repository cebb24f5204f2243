//! Watches: a position in the change log, and what the watcher is told from there.

use std::{collections::VecDeque, sync::Arc};

use serde_json::{Value, json};

use super::{
    core::Core,
    form::outgoing,
    kinds::Kind,
    request::Query,
    selectors::Selector,
    status::Failure,
    store::{Change, ChangeKind},
    wire::{self, Format},
};

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

#[derive(Debug)]
pub(crate) struct Watch {
    kind: Arc<Kind>,
    namespace: String,
    selector: Selector,
    format: Format,
    pub(crate) wants_bookmarks: bool,
    position: u64,
    epoch: u64,
    /// Events that are due before anything from the log.
    due: VecDeque<Value>,
    ended: bool,
}

/// What a watcher is told next.
#[derive(Debug)]
pub(crate) enum Next {
    Events(Vec<Value>),
    /// The last events; the stream ends after them.
    Last(Vec<Value>),
    Nothing,
}

impl Watch {
    pub(crate) fn open(
        core: &Core,
        kind: Arc<Kind>,
        namespace: &str,
        name: &str,
        query: &Query,
        format: Format,
    ) -> Result<Self, Failure> {
        let mut fields = query.text("fieldSelector").to_owned();
        if !name.is_empty() {
            let separator = if fields.is_empty() { "" } else { "," };
            fields = format!("{fields}{separator}metadata.name={name}");
        }
        let selector = Selector::parse(&kind, query.text("labelSelector"), &fields)?;
        let current = core.store.version();
        let mut watch = Self {
            kind,
            namespace: namespace.to_owned(),
            selector,
            format,
            wants_bookmarks: query.flag("allowWatchBookmarks"),
            position: current,
            epoch: core.store.epoch(),
            due: VecDeque::new(),
            ended: false,
        };
        let streams_list = query.flag("sendInitialEvents");
        match query.text("resourceVersion") {
            "" | "0" => watch.start_with_everything(core, streams_list),
            _ if streams_list => watch.start_with_everything(core, true),
            text => {
                let from: u64 = text.parse().map_err(|_| {
                    Failure::bad_request(format!("invalid resource version \"{text}\""))
                })?;
                if from > current {
                    return Err(Failure::too_large_version(from, current));
                }
                watch.position = from;
                if from < core.store.compacted() {
                    watch.tell_expired(from, core.store.compacted());
                }
            }
        }
        Ok(watch)
    }

    fn start_with_everything(&mut self, core: &Core, streams_list: bool) {
        let storage = self.kind.storage();
        let events: Vec<Value> = core
            .store
            .list(&storage, &self.namespace)
            .map(|(_, object)| outgoing(&self.kind, object))
            .filter(|object| self.selector.matches(object))
            .map(|object| self.event("ADDED", &object, core))
            .collect();
        self.due.extend(events);
        if streams_list {
            let mut bookmark = self.bookmark();
            bookmark["object"]["metadata"]["annotations"] = json!({INITIAL_EVENTS_END: "true"});
            self.due.push_back(bookmark);
        }
    }

    fn tell_expired(&mut self, from: u64, oldest: u64) {
        let gone = Failure::expired(format!("too old resource version: {from} ({oldest})"));
        self.due
            .push_back(json!({"type": "ERROR", "object": gone.to_json()}));
        self.ended = true;
    }

    /// Everything that happened since the last call.
    pub(crate) fn next(&mut self, core: &Core) -> Next {
        let mut events: Vec<Value> = self.due.drain(..).collect();
        if self.ended {
            return Next::Last(events);
        }
        if self.epoch != core.store.epoch() || self.position < core.store.compacted() {
            self.tell_expired(self.position, core.store.compacted());
            events.extend(self.due.drain(..));
            return Next::Last(events);
        }
        let storage = self.kind.storage();
        for change in core.store.changes_after(self.position) {
            let ours = change.key.resource == storage
                && (self.namespace.is_empty() || self.namespace == change.key.namespace);
            if ours {
                events.extend(self.told(change, core));
            }
        }
        self.position = core.store.version();
        if events.is_empty() {
            Next::Nothing
        } else {
            Next::Events(events)
        }
    }

    /// A change as this watcher sees it: what leaves the selection is deleted for it, what enters is new.
    fn told(&self, change: &Change, core: &Core) -> Option<Value> {
        let object = outgoing(&self.kind, &change.object);
        let before = change.before.as_ref().map(|b| outgoing(&self.kind, b));
        let was = before.as_ref().is_some_and(|b| self.selector.matches(b));
        let is = change.kind != ChangeKind::Deleted && self.selector.matches(&object);
        match (was, is) {
            (true, true) => Some(self.event("MODIFIED", &object, core)),
            (false, true) => Some(self.event("ADDED", &object, core)),
            (true, false) => {
                let mut last = Value::clone(before.as_deref()?);
                last["metadata"]["resourceVersion"] = json!(change.version.to_string());
                Some(self.event("DELETED", &Arc::new(last), core))
            }
            (false, false) => None,
        }
    }

    fn event(&self, kind: &str, object: &Arc<Value>, core: &Core) -> Value {
        let object = wire::object(&self.kind, object, self.format, (core.clock)());
        json!({"type": kind, "object": object})
    }

    /// Says how far the watcher has been told everything.
    pub(crate) fn bookmark(&self) -> Value {
        let (kind, api_version) = match self.format {
            Format::Metadata => (
                "PartialObjectMetadata".to_owned(),
                "meta.k8s.io/v1".to_owned(),
            ),
            Format::Full => (self.kind.kind.clone(), self.kind.api_version()),
            Format::Table => ("Table".to_owned(), "meta.k8s.io/v1".to_owned()),
        };
        json!({"type": "BOOKMARK", "object": {
            "kind": kind,
            "apiVersion": api_version,
            "metadata": {"resourceVersion": self.position.to_string(), "creationTimestamp": null},
        }})
    }
}
