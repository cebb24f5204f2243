//! Reading: one object, or a list in pages, now or as it was.

use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};

use super::{
    core::Core, form::outgoing, kinds::Kind, selectors::Selector, status::Failure, store::Key,
};

#[derive(Debug, Default)]
pub(crate) struct ListParams {
    pub(crate) selector: Selector,
    pub(crate) limit: usize,
    pub(crate) continue_from: String,
    pub(crate) resource_version: String,
    pub(crate) exact: bool,
}

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) items: Vec<Arc<Value>>,
    pub(crate) version: u64,
    pub(crate) continue_from: Option<String>,
    pub(crate) remaining: Option<usize>,
}

impl Core {
    /// `stale` is how many writes of this object the answer is behind.
    pub(crate) fn get(&self, kind: &Kind, key: &Key, stale: usize) -> Result<Arc<Value>, Failure> {
        let found = match stale {
            0 => self.store.get(key),
            back => self.store.get_at(key, self.store.version_before(key, back)),
        };
        found
            .map(|object| outgoing(kind, object))
            .ok_or_else(|| Failure::not_found(kind.about(&key.name)))
    }

    pub(crate) fn list(
        &self,
        kind: &Kind,
        namespace: &str,
        params: &ListParams,
        stale: usize,
    ) -> Result<Page, Failure> {
        let storage = kind.storage();
        let (version, after) = self.page_start(params)?;
        let version = match (version, stale) {
            (Some(version), _) => Some(version),
            (None, 0) => None,
            (None, back) => {
                let collection = Key {
                    resource: storage.clone(),
                    namespace: namespace.to_owned(),
                    name: String::new(),
                };
                Some(self.store.version_before(&collection, back))
            }
        };
        let everything: Box<dyn Iterator<Item = (&Key, &Arc<Value>)>> = match version {
            Some(version) => Box::new(self.store.list_at(&storage, namespace, version)),
            None => Box::new(self.store.list(&storage, namespace)),
        };
        let version = version.unwrap_or_else(|| self.store.version());
        let mut matching = everything
            .filter(|(key, _)| {
                after
                    .as_ref()
                    .is_none_or(|a| (&key.namespace, &key.name) > (&a.0, &a.1))
            })
            .map(|(key, object)| (key, outgoing(kind, object)))
            .filter(|(_, object)| params.selector.matches(object));
        let mut items = Vec::new();
        let mut last = None;
        if params.limit == 0 {
            items.extend(matching.by_ref().map(|(_, object)| object));
        } else {
            for (key, object) in matching.by_ref().take(params.limit) {
                last = Some(key);
                items.push(object);
            }
        }
        let remaining = matching.count();
        let continue_from = last.filter(|_| remaining > 0).map(|key| {
            let token = json!({"v": version, "n": key.namespace, "k": key.name});
            base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
        });
        // The count is not offered where a selector makes it a guess.
        let remaining = (remaining > 0 && params.selector.is_everything()).then_some(remaining);
        Ok(Page {
            items,
            version,
            continue_from,
            remaining,
        })
    }

    /// The version a list is read at (now, if none), and the key it goes on after.
    #[expect(clippy::type_complexity, reason = "read once, right here")]
    fn page_start(
        &self,
        params: &ListParams,
    ) -> Result<(Option<u64>, Option<(String, String)>), Failure> {
        if !params.continue_from.is_empty() {
            let token: Value = base64::prelude::BASE64_URL_SAFE_NO_PAD
                .decode(&params.continue_from)
                .ok()
                .and_then(|bytes| serde_json::from_slice(&bytes).ok())
                .ok_or_else(|| Failure::bad_request("continue key is not valid"))?;
            let version = token["v"].as_u64().unwrap_or(0);
            if version < self.store.compacted() {
                return Err(Failure::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
                ));
            }
            let part = |name: &str| token[name].as_str().unwrap_or_default().to_owned();
            return Ok((Some(version), Some((part("n"), part("k")))));
        }
        let asked = match params.resource_version.as_str() {
            "" | "0" => return Ok((None, None)),
            text => text.parse::<u64>().map_err(|_| {
                Failure::bad_request(format!("invalid resource version \"{text}\""))
            })?,
        };
        let current = self.store.version();
        if asked > current {
            return Err(Failure::too_large_version(asked, current));
        }
        if !params.exact {
            return Ok((None, None));
        }
        if asked < self.store.compacted() {
            return Err(Failure::expired(format!(
                "The resourceVersion for the provided list is too old. ({asked})"
            )));
        }
        Ok((Some(asked), None))
    }
}
