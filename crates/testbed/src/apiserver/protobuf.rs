//! The few protobuf bodies that kubectl sends of its own accord (`kubectl create secret`, `auth can-i`),
//! read into JSON. Everything else it sends as JSON.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::status::Failure;

const MAGIC: &[u8] = b"k8s\0";

enum Shape {
    Text,
    Bytes,
    Bool,
    Number,
    Message(&'static [Field]),
    Texts,
    Messages(&'static [Field]),
    /// Text keys, and values of one shape.
    MapOf(&'static Shape),
}

type Field = (u64, &'static str, Shape);

const OWNER: &[Field] = &[
    (1, "kind", Shape::Text),
    (3, "name", Shape::Text),
    (4, "uid", Shape::Text),
    (5, "apiVersion", Shape::Text),
    (6, "controller", Shape::Bool),
    (7, "blockOwnerDeletion", Shape::Bool),
];

const METADATA: &[Field] = &[
    (1, "name", Shape::Text),
    (2, "generateName", Shape::Text),
    (3, "namespace", Shape::Text),
    (5, "uid", Shape::Text),
    (6, "resourceVersion", Shape::Text),
    (11, "labels", Shape::MapOf(&Shape::Text)),
    (12, "annotations", Shape::MapOf(&Shape::Text)),
    (13, "ownerReferences", Shape::Messages(OWNER)),
    (14, "finalizers", Shape::Texts),
];

const PLAIN: &[Field] = &[(1, "metadata", Shape::Message(METADATA))];

const SECRET: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (2, "data", Shape::MapOf(&Shape::Bytes)),
    (3, "type", Shape::Text),
    (4, "stringData", Shape::MapOf(&Shape::Text)),
    (5, "immutable", Shape::Bool),
];

const CONFIG_MAP: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (2, "data", Shape::MapOf(&Shape::Text)),
    (3, "binaryData", Shape::MapOf(&Shape::Bytes)),
    (4, "immutable", Shape::Bool),
];

const RESOURCE_ATTRIBUTES: &[Field] = &[
    (1, "namespace", Shape::Text),
    (2, "verb", Shape::Text),
    (3, "group", Shape::Text),
    (4, "version", Shape::Text),
    (5, "resource", Shape::Text),
    (6, "subresource", Shape::Text),
    (7, "name", Shape::Text),
];

const ACCESS_REVIEW: &[Field] = &[
    (1, "metadata", Shape::Message(METADATA)),
    (
        2,
        "spec",
        Shape::Message(&[(1, "resourceAttributes", Shape::Message(RESOURCE_ATTRIBUTES))]),
    ),
];

const DELETE_OPTIONS: &[Field] = &[
    (1, "gracePeriodSeconds", Shape::Number),
    (
        2,
        "preconditions",
        Shape::Message(&[(1, "uid", Shape::Text), (2, "resourceVersion", Shape::Text)]),
    ),
    (4, "propagationPolicy", Shape::Text),
    (5, "dryRun", Shape::Texts),
];

const ENVELOPE: &[Field] = &[
    (
        1,
        "type",
        Shape::Message(&[(1, "apiVersion", Shape::Text), (2, "kind", Shape::Text)]),
    ),
    (2, "raw", Shape::Bytes),
];

/// Reads a body of type `application/vnd.kubernetes.protobuf`.
pub(crate) fn read(body: &[u8]) -> Result<Value, Failure> {
    let unknown = || Failure::unsupported_media_type("application/json");
    let envelope = body.strip_prefix(MAGIC).ok_or_else(unknown)?;
    let envelope = message(envelope, ENVELOPE).ok_or_else(unknown)?;
    let fields = match envelope["type"]["kind"].as_str() {
        Some("Namespace" | "ServiceAccount") => PLAIN,
        Some("Secret") => SECRET,
        Some("ConfigMap") => CONFIG_MAP,
        Some("SelfSubjectAccessReview") => ACCESS_REVIEW,
        Some("DeleteOptions") => DELETE_OPTIONS,
        Some(_) | None => return Err(unknown()),
    };
    let raw = envelope["raw"].as_str().unwrap_or_default();
    let raw = base64::prelude::BASE64_STANDARD
        .decode(raw)
        .map_err(|_| unknown())?;
    let mut object = message(&raw, fields).ok_or_else(unknown)?;
    object["apiVersion"] = envelope["type"]["apiVersion"].clone();
    object["kind"] = envelope["type"]["kind"].clone();
    Ok(object)
}

/// One field as it lies on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn message(mut bytes: &[u8], fields: &[Field]) -> Option<Value> {
    let mut object = Map::new();
    while !bytes.is_empty() {
        let (number, wire) = next(&mut bytes)?;
        let Some((_, name, shape)) = fields.iter().find(|(n, _, _)| *n == number) else {
            continue;
        };
        let value = value(&wire, shape)?;
        match (shape, value) {
            (Shape::Texts | Shape::Messages(_), one) => {
                let list = object.entry(*name).or_insert_with(|| json!([]));
                list.as_array_mut()?.push(one);
            }
            (Shape::MapOf(_), Value::Object(entry)) => {
                let map = object.entry(*name).or_insert_with(|| json!({}));
                map.as_object_mut()?.extend(entry);
            }
            // An empty text is how Go says that there is none.
            (Shape::Text, Value::String(text)) if text.is_empty() => {}
            (_, value) => {
                object.insert((*name).to_owned(), value);
            }
        }
    }
    Some(Value::Object(object))
}

fn value(wire: &Wire<'_>, shape: &Shape) -> Option<Value> {
    Some(match (wire, shape) {
        (Wire::Number(n), Shape::Bool) => json!(*n != 0),
        (Wire::Number(n), Shape::Number) => json!(*n),
        (Wire::Bytes(b), Shape::Text | Shape::Texts) => json!(std::str::from_utf8(b).ok()?),
        (Wire::Bytes(b), Shape::Bytes) => json!(base64::prelude::BASE64_STANDARD.encode(b)),
        (Wire::Bytes(b), Shape::Message(fields) | Shape::Messages(fields)) => message(b, fields)?,
        (Wire::Bytes(b), Shape::MapOf(of)) => {
            let mut entry = *b;
            let (mut key, mut found) = (String::new(), json!(""));
            while !entry.is_empty() {
                let (number, wire) = next(&mut entry)?;
                if number == 1 {
                    value(&wire, &Shape::Text)?.as_str()?.clone_into(&mut key);
                } else {
                    found = value(&wire, of)?;
                }
            }
            json!({key: found})
        }
        (Wire::Number(_) | Wire::Bytes(_), _) => return None,
    })
}

fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = varint(bytes)?;
    let wire = match tag & 7 {
        0 => Wire::Number(varint(bytes)?),
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            let (content, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Wire::Bytes(content)
        }
        _ => return None,
    };
    Some((tag >> 3, wire))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_from_kubectl_is_read() {
        let field = |number: u8, content: &[u8]| {
            let length = u8::try_from(content.len()).unwrap();
            [&[number << 3 | 2, length], content].concat()
        };
        let entry = [field(1, b"key"), field(2, b"value")].concat();
        let metadata = [field(1, b"door"), field(3, b"")].concat();
        let raw = [
            field(1, &metadata),
            field(2, &entry),
            field(3, b"Opaque"),
            vec![5 << 3, 1],
        ]
        .concat();
        let type_meta = [field(1, b"v1"), field(2, b"Secret")].concat();
        let body = [MAGIC, &field(1, &type_meta), &field(2, &raw)].concat();
        assert_eq!(
            read(&body).unwrap(),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "door"},
                "data": {"key": "dmFsdWU="}, "type": "Opaque", "immutable": true})
        );
        assert!(read(b"k8s\0\xff\xff").is_err());
    }
}
