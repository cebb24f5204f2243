//! What differs between what is rendered and what is in the cluster. Values are compared, never shown: only digests with a
//! salt that is thrown away.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::manifests::Manifest;

/// One object, compared.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Difference {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) change: Change,
    pub(super) keys: Vec<KeyChange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Change {
    Create,
    Update,
    None,
}

impl Change {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::None => "none",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct KeyChange {
    pub(super) key: String,
    /// A digest of what is in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) live: Option<String>,
    /// A digest of what is rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wanted: Option<String>,
}

/// Compares one manifest with what the cluster has under its name.
pub(super) fn compare(manifest: &Manifest, live: Option<&Value>, salt: &[u8]) -> Difference {
    let keys = match live {
        None => Vec::new(),
        Some(live) => changes(manifest, live, salt),
    };
    Difference {
        kind: manifest.kind().to_owned(),
        namespace: manifest.namespace().to_owned(),
        name: manifest.name().to_owned(),
        change: match live {
            None => Change::Create,
            Some(_) if keys.is_empty() => Change::None,
            Some(_) => Change::Update,
        },
        keys,
    }
}

fn changes(manifest: &Manifest, live: &Value, salt: &[u8]) -> Vec<KeyChange> {
    let wanted = &manifest.object;
    let mut found = Vec::new();
    match manifest.kind() {
        "Secret" => {
            found.extend(maps(&wanted["data"], &live["data"], "data", true, salt));
            for part in ["labels", "annotations"] {
                let (want, have) = (&wanted["metadata"][part], &live["metadata"][part]);
                found.extend(maps(want, have, &format!("metadata.{part}"), false, salt));
            }
        }
        // What else the installer wrote into it is not ours to judge: only which Secret it names.
        "ConfigMap" => {
            let named = |object: &Value| secret_named(object["data"]["config"].as_str()?);
            let (want, have) = (named(wanted), named(live));
            if want != have {
                found.push(KeyChange {
                    key: "data.config (secretName)".to_owned(),
                    live: have,
                    wanted: want,
                });
            }
        }
        _ => {
            if wanted["rules"] != live["rules"] {
                found.push(KeyChange {
                    key: "rules".to_owned(),
                    live: Some(digest(salt, "rules", &live["rules"])),
                    wanted: Some(digest(salt, "rules", &wanted["rules"])),
                });
            }
        }
    }
    found
}

/// In either of its forms.
fn secret_named(config: &str) -> Option<String> {
    let line = config.lines().find_map(|line| {
        let line = line.trim();
        let yaml = line.strip_prefix("secretName:");
        yaml.or_else(|| {
            line.strip_prefix("secret-name")?
                .trim_start()
                .strip_prefix('=')
        })
    })?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// `whole`: what is there beside the wanted keys is a difference too.
fn maps(wanted: &Value, live: &Value, at: &str, whole: bool, salt: &[u8]) -> Vec<KeyChange> {
    let empty = Map::new();
    let wanted = wanted.as_object().unwrap_or(&empty);
    let live = live.as_object().unwrap_or(&empty);
    let mut keys: BTreeSet<&String> = wanted.keys().collect();
    if whole {
        keys.extend(live.keys());
    }
    let changed = keys.into_iter().filter(|key| {
        wanted.get(*key) != live.get(*key) && !same_label(wanted.get(*key), live.get(*key), at)
    });
    changed
        .map(|key| KeyChange {
            key: format!("{at}.{key}"),
            live: live.get(key).map(|value| digest(salt, key, value)),
            wanted: wanted.get(key).map(|value| digest(salt, key, value)),
        })
        .collect()
}

/// The cluster's own operator writes `true` where the design says `yes`; both count.
fn same_label(wanted: Option<&Value>, live: Option<&Value>, at: &str) -> bool {
    at == "metadata.labels"
        && wanted.and_then(Value::as_str) == Some("yes")
        && live.and_then(Value::as_str) == Some("true")
}

fn digest(salt: &[u8], key: &str, value: &Value) -> String {
    let mut hash = Sha256::new();
    hash.update(salt);
    hash.update(key);
    hash.update(value.to_string());
    let mut text = format!("{:x}", hash.finalize());
    text.truncate(8);
    text
}
