//! The form of an answer: whole objects, metadata only, or a table for people.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{kinds::Kind, reads::Page, table};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Full,
    Metadata,
    Table,
}

impl Format {
    /// The first wish in an Accept header that can be granted.
    pub(crate) fn wanted(accept: &str) -> Self {
        for wish in accept.split(',') {
            if wish.contains("as=Table") && wish.contains("v=v1") && !wish.contains("v1beta1") {
                return Self::Table;
            }
            if wish.contains("as=PartialObjectMetadata") {
                return Self::Metadata;
            }
        }
        Self::Full
    }
}

pub(crate) fn object(kind: &Kind, object: &Arc<Value>, format: Format, now: Timestamp) -> Value {
    match format {
        Format::Full => Value::clone(object),
        Format::Metadata => metadata_of(object),
        Format::Table => table::table(kind, std::slice::from_ref(object), &json!({}), now),
    }
}

pub(crate) fn metadata_of(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

pub(crate) fn list(kind: &Kind, page: &Page, format: Format, now: Timestamp) -> Value {
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if let Some(token) = &page.continue_from {
        metadata["continue"] = json!(token);
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    match format {
        Format::Full => json!({
            "kind": kind.list_kind,
            "apiVersion": kind.api_version(),
            "metadata": metadata,
            "items": page.items.iter().map(|o| Value::clone(o)).collect::<Vec<_>>(),
        }),
        Format::Metadata => json!({
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": page.items.iter().map(|o| metadata_of(o)).collect::<Vec<_>>(),
        }),
        Format::Table => table::table(kind, &page.items, &metadata, now),
    }
}
