//! Where a store is found, and who may use it.
#![expect(
    clippy::needless_pass_by_value,
    reason = "values are written down where they are used"
)]

use super::*;
use serde_json::json;

fn store(spec: serde_json::Value, status: serde_json::Value, note: Option<&str>) -> Vec<String> {
    let annotations = note.map(|note| json!({ GATEWAYS: note }));
    let object = json!({ "metadata": { "name": "s", "annotations": annotations }, "spec": spec, "status": status });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let (spec, status) = read(&object).unwrap();
    gateways(&object, &spec, &status)
}

#[test]
fn gateways_inside_and_outside_are_found_the_same_way() {
    let inside = json!({ "info": { "endpoint": "http://rgw.ceph.svc:80" } });
    assert_eq!(
        store(json!({}), inside.clone(), None),
        ["http://rgw.ceph.svc:80"]
    );
    let both = json!({ "info": { "endpoint": "http://a", "secureEndpoint": "https://a" } });
    assert_eq!(store(json!({}), both, None), ["https://a"]);
    let outside = json!({ "gateway": { "port": 8080, "externalRgwEndpoints": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1", "hostname": "" }, { "ip": "1.2.3.4", "hostname": "rgw.example" }] } });
    assert_eq!(
        store(outside, inside.clone(), None),
        [
            "http://10.0.0.1:8080",
            "http://[fd00::1]:8080",
            "http://rgw.example:8080"
        ]
    );
    let secure = json!({ "gateway": { "port": 80, "securePort": 443, "externalRgwEndpoints": [{ "hostname": "rgw.example" }] } });
    assert_eq!(store(secure, json!({}), None), ["https://rgw.example:443"]);
    assert_eq!(
        store(json!({}), inside, Some("http://a, http://b")),
        ["http://a", "http://b"]
    );
    assert!(store(json!({}), json!({}), None).is_empty());
}

#[test]
fn without_a_list_only_a_service_of_the_stores_namespace_is_spoken_to() {
    let none = Allowed::default();
    assert_eq!(not_allowed(&none, "ceph", "http://rgw.ceph.svc:80"), None);
    for bad in [
        "http://rgw.other.svc",
        "http://169.254.169.254",
        "http://rgw.example",
    ] {
        assert!(
            not_allowed(&none, "ceph", bad)
                .unwrap()
                .contains("--allow-rgw-url")
        );
    }
}

#[test]
fn a_private_key_is_not_taken_for_something_to_trust() {
    let pem = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----\ny\n-----END CERTIFICATE-----\n";
    let kept = String::from_utf8(only_certificates(pem.as_bytes())).unwrap();
    assert_eq!(
        kept,
        "-----BEGIN CERTIFICATE-----\ny\n-----END CERTIFICATE-----\n"
    );
}
