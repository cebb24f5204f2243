//! Every place where a pod's spec names a Secret.

use serde::Serialize;
use serde_json::Value;

/// One place in a pod's spec that names a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reference {
    /// A JSON pointer into the pod's spec, to the very string.
    pub path: String,
    /// What stands there.
    pub secret: String,
}

/// The fields of a volume that name a Secret, beside `secret` and `projected`.
const SECRETS_OF_VOLUMES: &[&str] = &[
    "/azureFile/secretName",
    "/cephfs/secretRef/name",
    "/csi/nodePublishSecretRef/name",
    "/flexVolume/secretRef/name",
    "/iscsi/secretRef/name",
    "/rbd/secretRef/name",
    "/scaleIO/secretRef/name",
    "/storageos/secretRef/name",
];

/// Every place in this pod spec that names a Secret: volumes, projected ones too; the environment of every container,
/// whole or key by key; and what images are pulled with.
pub fn in_pod_spec(spec: &Value) -> Vec<Reference> {
    let mut found = Vec::new();
    for (nth, volume) in list(spec, "volumes") {
        let at = format!("/volumes/{nth}");
        note(&mut found, spec, format!("{at}/secret/secretName"));
        for (source, _) in list(&volume["projected"], "sources") {
            let path = format!("{at}/projected/sources/{source}/secret/name");
            note(&mut found, spec, path);
        }
        for place in SECRETS_OF_VOLUMES {
            note(&mut found, spec, format!("{at}{place}"));
        }
    }
    for containers in ["containers", "initContainers", "ephemeralContainers"] {
        for (nth, container) in list(spec, containers) {
            let at = format!("/{containers}/{nth}");
            for (env, _) in list(container, "env") {
                let path = format!("{at}/env/{env}/valueFrom/secretKeyRef/name");
                note(&mut found, spec, path);
            }
            for (from, _) in list(container, "envFrom") {
                note(
                    &mut found,
                    spec,
                    format!("{at}/envFrom/{from}/secretRef/name"),
                );
            }
        }
    }
    for (nth, _) in list(spec, "imagePullSecrets") {
        note(&mut found, spec, format!("/imagePullSecrets/{nth}/name"));
    }
    found
}

/// Whether this pod spec names the Secret anywhere.
pub fn refers(spec: &Value, secret: &str) -> bool {
    in_pod_spec(spec).iter().any(|one| one.secret == secret)
}

fn list<'a>(of: &'a Value, key: &str) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
    let items = of.get(key).and_then(Value::as_array);
    items.into_iter().flatten().enumerate()
}

fn note(found: &mut Vec<Reference>, spec: &Value, path: String) {
    let named = spec.pointer(&path).and_then(Value::as_str);
    if let Some(secret) = named.filter(|name| !name.is_empty()) {
        let secret = secret.to_owned();
        found.push(Reference { path, secret });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_way_a_pod_can_refer_to_a_secret_is_seen() {
        let ways = [
            json!({ "containers": [], "volumes": [{ "name": "v", "secret": { "secretName": "s" } }] }),
            json!({ "containers": [], "volumes": [{ "name": "v", "projected": { "sources": [{ "configMap": {} }, { "secret": { "name": "s" } }] } }] }),
            json!({ "containers": [], "volumes": [{ "name": "v", "csi": { "driver": "d", "nodePublishSecretRef": { "name": "s" } } }] }),
            json!({ "containers": [], "volumes": [{ "name": "v", "rbd": { "secretRef": { "name": "s" } } }] }),
            json!({ "containers": [], "volumes": [{ "name": "v", "azureFile": { "secretName": "s" } }] }),
            json!({ "containers": [{ "name": "c", "envFrom": [{ "secretRef": { "name": "s" } }] }] }),
            json!({ "containers": [{ "name": "c", "env": [{ "name": "P", "value": "s" }, { "name": "E", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }] }] }),
            json!({ "containers": [], "initContainers": [{ "name": "c", "envFrom": [{ "secretRef": { "name": "s" } }] }] }),
            json!({ "containers": [], "ephemeralContainers": [{ "name": "c", "envFrom": [{ "secretRef": { "name": "s" } }] }] }),
            json!({ "containers": [], "imagePullSecrets": [{ "name": "s" }] }),
        ];
        for way in ways {
            assert!(refers(&way, "s"), "{way}");
            assert!(!refers(&way, "other"), "{way}");
            let found = in_pod_spec(&way);
            assert_eq!(found.len(), 1, "{way}");
            assert_eq!(way.pointer(&found[0].path), Some(&json!("s")), "{way}");
        }
    }

    #[test]
    fn what_only_looks_like_a_reference_is_none() {
        let spec = json!({
            "containers": [{ "name": "s", "image": "s", "env": [{ "name": "s", "value": "s" }], "envFrom": [{ "configMapRef": { "name": "s" } }] }],
            "volumes": [{ "name": "s", "configMap": { "name": "s" } }, { "name": "t", "secret": { "secretName": "" } }],
            "serviceAccountName": "s",
        });
        assert_eq!(in_pod_spec(&spec), []);
        assert_eq!(in_pod_spec(&Value::Null), []);
        assert_eq!(
            in_pod_spec(&json!({ "volumes": "odd", "containers": [3] })),
            []
        );
    }
}
