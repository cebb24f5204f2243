//! From a decoded request to an answer, under one lock: what the wire asks, the core does.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    core::{Core, Origin, WriteOptions, key_of},
    delete::DeleteOptions,
    form::outgoing,
    kinds::Kind,
    patch,
    reads::ListParams,
    request::{Query, Target, Verb},
    selectors::Selector,
    status::Failure,
    wire::{self, Format},
};

/// A request with everything it carries.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) format: Format,
    pub(crate) user_agent: String,
    pub(crate) user: String,
    pub(crate) body: Vec<u8>,
}

/// A status code and the body that goes with it.
pub(crate) type Answer = Result<(u16, Value), Failure>;

const PATCH_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

impl Call {
    fn options(&self) -> WriteOptions {
        let manager = self.query.text("fieldManager");
        let is_apply = self.verb == Verb::Patch && self.content_type.contains("apply-patch");
        WriteOptions {
            dry_run: self.query.get("dryRun").is_some(),
            // As the real server does: what calls itself nothing is named after its program.
            field_manager: if manager.is_empty() && !is_apply {
                let program = self.user_agent.split('/').next().unwrap_or_default();
                if program.is_empty() {
                    "unknown"
                } else {
                    program
                }
                .to_owned()
            } else {
                manager.to_owned()
            },
            force: self.query.flag("force"),
            strict: self.query.text("fieldValidation") == "Strict",
        }
    }

    fn json_body(&self) -> Result<Value, Failure> {
        let content_type = self.content_type.as_str();
        if content_type.contains("protobuf") {
            return super::protobuf::read(&self.body);
        }
        if !(content_type.is_empty()
            || content_type.contains("json")
            || content_type.contains("yaml"))
        {
            return Err(Failure::unsupported_media_type("application/json"));
        }
        serde_json::from_slice(&self.body).map_err(|e| {
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): {e}",
                self.target.resource
            ))
        })
    }

    fn list_params(&self, kind: &Kind) -> Result<ListParams, Failure> {
        Ok(ListParams {
            selector: Selector::parse(
                kind,
                self.query.text("labelSelector"),
                self.query.text("fieldSelector"),
            )?,
            limit: usize::try_from(self.query.number("limit").unwrap_or(0)).unwrap_or(0),
            continue_from: self.query.text("continue").to_owned(),
            resource_version: self.query.text("resourceVersion").to_owned(),
            exact: self.query.text("resourceVersionMatch") == "Exact",
        })
    }
}

impl Core {
    /// Finds the served kind, and refuses subresources that it does not have.
    pub(crate) fn kind_of(&self, target: &Target) -> Result<Arc<Kind>, Failure> {
        let kind = self
            .kinds
            .find(&target.group, &target.version, &target.resource)
            .ok_or_else(Failure::no_such_path)?;
        let known_part = match target.subresource.as_str() {
            "" => true,
            "status" => kind.has_status,
            "finalize" => kind.is_core("namespaces"),
            _ => false,
        };
        if known_part {
            Ok(kind)
        } else {
            Err(Failure::no_such_path())
        }
    }

    /// Answers everything but watches. `stale` is how many writes behind a read answers.
    pub(crate) fn answer(&mut self, call: &Call, stale: usize) -> Answer {
        let target = &call.target;
        let kind = self.kind_of(target)?;
        let now = (self.clock)();
        let show = |object: &Arc<Value>| wire::object(&kind, object, call.format, now);
        let key = key_of(&kind, &target.namespace, &target.name);
        if kind.namespaced && target.namespace.is_empty() && call.verb.is_write() {
            return Err(Failure::method_not_allowed());
        }
        match call.verb {
            Verb::Get => Ok((200, show(&self.get(&kind, &key, stale)?))),
            Verb::List => {
                let page = self.list(&kind, &target.namespace, &call.list_params(&kind)?, stale)?;
                Ok((200, wire::list(&kind, &page, call.format, now)))
            }
            Verb::Watch => Err(Failure::method_not_allowed()),
            Verb::Create if !target.name.is_empty() => Err(Failure::method_not_allowed()),
            Verb::Create => {
                let body = call.json_body()?;
                let stored = self.create(&kind, &target.namespace, body, &call.options())?;
                Ok((201, show(&outgoing(&kind, &stored))))
            }
            Verb::Update => {
                let body = call.json_body()?;
                let options = call.options();
                let existed = self.store.get(&key).is_some();
                let stored = self.update(
                    &kind,
                    &key,
                    &target.subresource,
                    body,
                    Origin::Put,
                    &options,
                )?;
                let code = if existed { 200 } else { 201 };
                Ok((code, show(&outgoing(&kind, &stored))))
            }
            Verb::Patch => {
                let (stored, created) = self.patch(&kind, call)?;
                let code = if created { 201 } else { 200 };
                Ok((code, show(&outgoing(&kind, &stored))))
            }
            Verb::Delete => {
                let options = Self::delete_options(call)?;
                let deleted = self.delete(&kind, &key, &options)?;
                Ok((200, deleted.reply(&kind)))
            }
            Verb::DeleteCollection => {
                let options = Self::delete_options(call)?;
                let page = self.list(&kind, &target.namespace, &call.list_params(&kind)?, 0)?;
                for object in &page.items {
                    let metadata = &object["metadata"];
                    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
                    let key = key_of(&kind, text("namespace"), text("name"));
                    // One may have gone with its owner while the others were deleted.
                    let _gone_already = self.delete(&kind, &key, &options);
                }
                Ok((200, wire::list(&kind, &page, call.format, now)))
            }
        }
    }

    fn patch(&mut self, kind: &Kind, call: &Call) -> Result<(Arc<Value>, bool), Failure> {
        let target = &call.target;
        let key = key_of(kind, &target.namespace, &target.name);
        let options = call.options();
        let body = call.json_body()?;
        if call.content_type.contains("apply-patch") {
            return self.apply(kind, &key, &target.subresource, body, &options);
        }
        let current = self.get(kind, &key, 0)?;
        let mut patched = Value::clone(&current);
        let media_type = call
            .content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        match media_type {
            "application/merge-patch+json" => patch::merge(&mut patched, &body),
            "application/json-patch+json" => patch::json(&mut patched, &body)?,
            "application/strategic-merge-patch+json" if kind.custom.is_none() => {
                patch::strategic(&mut patched, &body);
            }
            _ => return Err(Failure::unsupported_media_type(PATCH_TYPES)),
        }
        let stored = self.update(
            kind,
            &key,
            &target.subresource,
            patched,
            Origin::Patch,
            &options,
        )?;
        Ok((stored, false))
    }

    fn delete_options(call: &Call) -> Result<DeleteOptions, Failure> {
        let body = if call.body.is_empty() {
            None
        } else {
            Some(call.json_body()?)
        };
        Ok(DeleteOptions::read(body.as_ref(), |name| {
            call.query.get(name).map(str::to_owned)
        }))
    }
}

/// The answer to "may I?": the rules that would be asked anyway.
pub(crate) fn access_review(call: &Call, allowed: impl Fn(Verb, &Target) -> bool) -> Answer {
    let mut review = call.json_body()?;
    if !review.is_object() {
        return Err(Failure::bad_request("a review is an object"));
    }
    let asked = review["spec"]["resourceAttributes"].clone();
    let text = |field: &str| asked[field].as_str().unwrap_or_default().to_owned();
    let target = Target {
        group: text("group"),
        version: text("version"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
    };
    let verbs = [
        Verb::Get,
        Verb::List,
        Verb::Watch,
        Verb::Create,
        Verb::Update,
        Verb::Patch,
        Verb::Delete,
        Verb::DeleteCollection,
    ];
    let verb = text("verb");
    let may = verbs
        .iter()
        .filter(|v| verb == "*" || v.as_str() == verb)
        .all(|v| allowed(*v, &target));
    review["status"] = json!({"allowed": may});
    Ok((201, review))
}
