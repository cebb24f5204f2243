//! What the server says about itself: versions, groups, resources, and enough `OpenAPI` for kubectl.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::kinds::{Kind, Kinds};

const ACCESS_REVIEWS: (&str, &str) = ("authorization.k8s.io", "v1");

/// The answer to a path that names no resource; `None` if there is nothing there.
pub(crate) fn answer(kinds: &Kinds, path: &str, address: &str) -> Option<Value> {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    match parts.as_slice() {
        ["api"] => Some(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
        })),
        ["api", version] => resources(kinds, "", version),
        ["apis"] => Some(json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": groups(kinds).iter().map(|(g, v)| group(g, v)).collect::<Vec<_>>(),
        })),
        ["apis", name] => groups(kinds).get(*name).map(|versions| {
            let mut one = group(name, versions);
            one["kind"] = json!("APIGroup");
            one["apiVersion"] = json!("v1");
            one
        }),
        ["apis", group, version] => resources(kinds, group, version),
        ["version"] => Some(json!({
            "major": "1",
            "minor": "33",
            "gitVersion": "v1.33.0-keyward-testbed",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "rustc",
            "platform": "in-process",
        })),
        ["openapi", "v3"] => Some(openapi_index(kinds)),
        ["openapi", "v3", "api", version] => openapi(kinds, "", version),
        ["openapi", "v3", "apis", group, version] => openapi(kinds, group, version),
        _ => None,
    }
}

fn groups(kinds: &Kinds) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    groups.insert(ACCESS_REVIEWS.0.into(), vec![ACCESS_REVIEWS.1.into()]);
    for kind in kinds.all().iter().filter(|k| !k.group.is_empty()) {
        let versions = groups.entry(kind.group.clone()).or_default();
        if !versions.contains(&kind.version) {
            versions.push(kind.version.clone());
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|v| std::cmp::Reverse(priority(v)));
    }
    groups
}

/// v2 before v1 before v1beta1 before v1alpha1.
fn priority(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| {
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    let rest = version.trim_start_matches('v');
    let major = number(rest);
    if let Some((_, beta)) = rest.split_once("beta") {
        (1, major, number(beta))
    } else if let Some((_, alpha)) = rest.split_once("alpha") {
        (0, major, number(alpha))
    } else {
        (2, major, 0)
    }
}

fn group(name: &str, versions: &[String]) -> Value {
    let entry = |v: &String| json!({"groupVersion": format!("{name}/{v}"), "version": v});
    json!({
        "name": name,
        "versions": versions.iter().map(entry).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(entry),
    })
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let mut listed = Vec::new();
    for kind in kinds
        .all()
        .iter()
        .filter(|k| k.group == group && k.version == version)
    {
        let mut entry = json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        });
        if !kind.short_names.is_empty() {
            entry["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            entry["categories"] = json!(kind.categories);
        }
        listed.push(entry);
        if kind.has_status {
            listed.push(json!({
                "name": format!("{}/status", kind.plural),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": ["get", "patch", "update"],
            }));
        }
    }
    if (group, version) == ACCESS_REVIEWS {
        listed.push(json!({
            "name": "selfsubjectaccessreviews",
            "singularName": "selfsubjectaccessreview",
            "namespaced": false,
            "kind": "SelfSubjectAccessReview",
            "verbs": ["create"],
        }));
    }
    if listed.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": listed,
    }))
}

fn openapi_index(kinds: &Kinds) -> Value {
    let mut paths = Map::new();
    for kind in kinds.all() {
        let place = root(kind);
        paths.insert(
            place.trim_start_matches('/').to_owned(),
            json!({"serverRelativeURL": format!("/openapi/v3{place}")}),
        );
    }
    json!({"paths": paths})
}

fn root(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    }
}

/// One document per group version. kubectl asks it two things: whether the server validates fields by itself
/// (the parameter of the patch operation), and what a kind looks like (`kubectl explain`).
fn openapi(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let served: Vec<_> = kinds
        .all()
        .iter()
        .filter(|k| k.group == group && k.version == version)
        .collect();
    if served.is_empty() {
        return None;
    }
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for kind in served {
        let type_name = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let place = if kind.namespaced {
            format!(
                "{}/namespaces/{{namespace}}/{}/{{name}}",
                root(kind),
                kind.plural
            )
        } else {
            format!("{}/{}/{{name}}", root(kind), kind.plural)
        };
        paths.insert(
            place,
            json!({"patch": {
                "operationId": format!("patch{}", kind.kind),
                "parameters": [
                    {"name": "dryRun", "in": "query", "schema": {"type": "string"}},
                    {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": type_name,
            }}),
        );
        let mut schema = kind
            .custom
            .as_ref()
            .map_or_else(|| json!({"type": "object"}), |c| c.schema.clone());
        schema["x-kubernetes-group-version-kind"] = json!([type_name]);
        let reversed: Vec<&str> = kind.group.split('.').rev().collect();
        schemas.insert(
            format!("{}.{}.{}", reversed.join("."), kind.version, kind.kind),
            schema,
        );
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.33.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}
