#![expect(
    clippy::needless_pass_by_value,
    reason = "values are written down where they are used"
)]

use super::*;
use crate::controllers::openstack::services::SERVICES;

fn service(name: &str) -> &'static Service {
    SERVICES
        .iter()
        .find(|service| service.name == name)
        .expect("a service")
}

/// The wish of one service of a control plane with these settings for all and for it.
fn asked(name: &str, global: Value, section: Value) -> Wish {
    let service = service(name);
    let spec = json!({
        "secret": "osp-secret", "applicationCredential": global,
        service.at: { "enabled": true, service.section: section, "template": { "autoscaling": {}, "ceilometer": {}, "cloudkitty": {} } },
    });
    wish(&spec, service)
}

fn wanted(wish: Wish) -> Value {
    match wish {
        Wish::Wants(wanted) => wanted,
        Wish::Off | Wish::Refused(_) => panic!("{wish:?}"),
    }
}

fn refused(wish: Wish) -> String {
    match wish {
        Wish::Refused(why) => why,
        Wish::Off | Wish::Wants(_) => panic!("{wish:?}"),
    }
}

fn on() -> Value {
    json!({ "enabled": true })
}

#[test]
fn what_nobody_says_is_as_designed() {
    let expected = json!({
        "secret": "osp-secret", "passwordSelector": "BarbicanPassword", "userName": "barbican",
        "expirationDays": 730, "gracePeriodDays": 364, "roles": ["admin", "service"],
        "unrestricted": false,
    });
    assert_eq!(wanted(asked("barbican", on(), on())), expected);
}

#[test]
fn both_switches_must_be_on_and_the_service_there() {
    for (global, own) in [
        (json!({ "enabled": false }), on()),
        (on(), json!({ "enabled": false })),
        (on(), json!({})),
        (on(), Value::Null),
        (Value::Null, on()),
        (json!({ "enabled": "true" }), on()),
    ] {
        assert_eq!(asked("barbican", global, own), Wish::Off);
    }
    let barbican = service("barbican");
    let mut spec = json!({
        "secret": "s", "applicationCredential": on(), "barbican": { "applicationCredential": on() },
    });
    assert!(matches!(wish(&spec, barbican), Wish::Wants(_)));
    spec["barbican"]["enabled"] = false.into();
    assert_eq!(wish(&spec, barbican), Wish::Off);
    spec["barbican"] = Value::Null;
    assert_eq!(wish(&spec, barbican), Wish::Off);
}

#[test]
fn what_a_service_says_replaces_and_lists_do_not_add_up() {
    let global = json!({
        "enabled": true, "expirationDays": 500, "gracePeriodDays": 200, "roles": ["admin", "service"],
        "unrestricted": true, "accessRules": [{ "service": "image", "path": "/v2", "method": "GET" }],
    });
    let rule = json!({ "service": "compute", "path": "/v2.1/**", "method": "POST" });
    for (own, field, expected) in [
        (
            json!({ "expirationDays": 300 }),
            "expirationDays",
            json!(300),
        ),
        (
            json!({ "expirationDays": 300 }),
            "gracePeriodDays",
            json!(200),
        ),
        (
            json!({ "gracePeriodDays": 60 }),
            "expirationDays",
            json!(500),
        ),
        (json!({ "roles": ["service"] }), "roles", json!(["service"])),
        (json!({ "roles": [] }), "roles", json!(["admin", "service"])),
        (
            json!({ "unrestricted": false }),
            "unrestricted",
            json!(false),
        ),
        (json!({}), "unrestricted", json!(true)),
        (
            json!({ "accessRules": [rule] }),
            "accessRules",
            json!([rule]),
        ),
        (
            json!({ "accessRules": [] }),
            "accessRules",
            global["accessRules"].clone(),
        ),
    ] {
        let mut section = own.clone();
        section["enabled"] = true.into();
        let wanted = wanted(asked("cinder", global.clone(), section));
        assert_eq!(wanted[field], expected, "{own} {field}");
    }
}

/// Admission cannot see these: each part is sound by itself, or the rule is the application credential's.
#[test]
fn what_would_be_refused_later_is_told_by_service_and_field() {
    let rule = |service: &str, path: &str, method: &str| json!({ "enabled": true, "accessRules": [{ "service": service, "path": path, "method": method }] });
    for (own, part) in [
        (
            json!({ "enabled": true, "expirationDays": 100 }),
            "spec.applicationCredential.gracePeriodDays (364) must be smaller than spec.barbican.applicationCredential.expirationDays (100)",
        ),
        (
            json!({ "enabled": true, "gracePeriodDays": 730 }),
            "spec.barbican.applicationCredential.gracePeriodDays (730)",
        ),
        (
            json!({ "enabled": true, "expirationDays": 40000 }),
            "spec.barbican.applicationCredential.expirationDays must be",
        ),
        (
            rule("compute", "/v2", "FETCH"),
            "spec.barbican.applicationCredential.accessRules[0].method",
        ),
        (rule("compute", "v2", "GET"), "accessRules[0].path"),
        (rule("com pute", "/v2", "GET"), "accessRules[0].service"),
        (
            json!({ "enabled": true, "roles": [""] }),
            "spec.barbican.applicationCredential.roles",
        ),
        (
            json!({ "enabled": true, "unrestricted": "no" }),
            "spec.barbican.applicationCredential.unrestricted",
        ),
    ] {
        let why = refused(asked("barbican", on(), own));
        assert!(why.starts_with("barbican: ") && why.contains(part), "{why}");
    }
    let spec = json!({
        "applicationCredential": on(), "barbican": { "applicationCredential": on() },
    });
    let why = refused(wish(&spec, service("barbican")));
    assert!(why.contains("spec.secret"), "{why}");
}

#[test]
fn telemetry_has_three_sections_each_with_a_switch_of_its_own() {
    let mut spec = json!({
        "secret": "s", "applicationCredential": on(),
        "telemetry": {
            "enabled": true,
            "applicationCredentialAodh": { "enabled": true, "roles": ["a"] },
            "applicationCredentialCeilometer": { "enabled": true, "roles": ["b"] },
            "applicationCredentialCloudKitty": { "enabled": true, "roles": ["c"] },
            "template": {
                "autoscaling": { "enabled": true, "aodh": { "serviceUser": "alarms", "passwordSelectors": { "aodhService": "A" } } },
                "ceilometer": { "enabled": true, "secret": "other" }, "cloudkitty": { "enabled": false },
            },
        },
    });
    let aodh = wanted(wish(&spec, service("aodh")));
    assert_eq!(
        (&aodh["roles"], &aodh["userName"], &aodh["passwordSelector"]),
        (&json!(["a"]), &json!("alarms"), &json!("A"))
    );
    let ceilometer = wanted(wish(&spec, service("ceilometer")));
    assert_eq!(
        (&ceilometer["roles"], &ceilometer["secret"]),
        (&json!(["b"]), &json!("other"))
    );
    assert_eq!(wish(&spec, service("cloudkitty")), Wish::Off);
    spec["telemetry"]["enabled"] = false.into();
    assert_eq!(wish(&spec, service("aodh")), Wish::Off);
}

#[test]
fn one_section_of_ironic_is_for_two() {
    let spec = json!({
        "secret": "s", "applicationCredential": on(),
        "ironic": {
            "applicationCredential": { "enabled": true, "expirationDays": 400 },
            "template": { "secret": "metal", "ironicInspector": { "passwordSelectors": { "service": "Inspect" } } },
        },
    });
    let itself = wanted(wish(&spec, service("ironic")));
    let inspector = wanted(wish(&spec, service("ironic-inspector")));
    for wanted in [&itself, &inspector] {
        assert_eq!(wanted["expirationDays"], 400);
        assert_eq!(wanted["secret"], "metal");
    }
    assert_eq!(itself["userName"], "ironic");
    assert_eq!(itself["passwordSelector"], "IronicPassword");
    assert_eq!(inspector["userName"], "ironic-inspector");
    assert_eq!(inspector["passwordSelector"], "Inspect");
}
