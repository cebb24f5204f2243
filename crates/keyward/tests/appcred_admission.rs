//! Specs that make no sense: refused at admission, and where a definition lets them through, by the operator.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::{Cloud, USER};
use serde_json::{Value, json};

/// A8, S001-9, and the access rules that Keystone would refuse.
#[tokio::test]
async fn what_makes_no_sense_is_refused_at_admission() {
    let cloud = Cloud::new().await;
    let with = |field: &str, value: Value| {
        let mut object = cloud::named("ac-x");
        object["spec"][field] = value;
        object
    };
    let mut good = with("expirationDays", 30.into());
    good["spec"]["gracePeriodDays"] = 7.into();
    cloud.create_this(good).await;
    let mut bad = with("expirationDays", 7.into());
    bad["spec"]["gracePeriodDays"] = 10.into();
    bad["metadata"]["name"] = "ac-y".into();
    let refused = cloud.try_create(bad).await.unwrap_err().to_string();
    assert!(
        refused.contains("gracePeriodDays must be smaller than expirationDays"),
        "{refused}"
    );
    let rule = |service: &str, path: &str, method: &str| json!([{ "service": service, "path": path, "method": method }]);
    let bad = [
        ("expirationDays", 1.into()),
        ("gracePeriodDays", 0.into()),
        ("roles", json!([])),
        ("roles", json!([""])),
        ("expirationDays", 36501.into()),
        ("gracePeriodDays", 36501.into()),
        ("roles", json!(vec!["service"; 65])),
        ("userName", "".into()),
        ("passwordSelector", "".into()),
        ("secret", "".into()),
        ("accessRules", rule("compute", "servers", "GET")),
        ("accessRules", rule("com pute", "/servers", "GET")),
        ("accessRules", rule("", "/servers", "GET")),
        ("accessRules", rule("compute", "/servers", "FETCH")),
        (
            "accessRules",
            rule("compute", &format!("/{}", "x".repeat(128)), "GET"),
        ),
    ];
    let too_many = (0..65).map(|n| rule("compute", &format!("/{n}"), "GET")[0].clone());
    let too_many: Vec<Value> = too_many.collect();
    for (field, value) in bad.into_iter().chain([("accessRules", too_many.into())]) {
        let mut object = with(field, value.clone());
        object["metadata"]["name"] = "ac-z".into();
        assert!(cloud.try_create(object).await.is_err(), "{field}: {value}");
    }
    // Defaults, and what is needed.
    let mut short = cloud::named("ac-short");
    short["spec"] =
        json!({ "passwordSelector": "BarbicanPassword", "userName": USER, "roles": ["service"] });
    let kept = cloud.try_create(short).await.unwrap();
    let spec = &kept.data["spec"];
    assert_eq!(spec["secret"], "osp-secret");
    assert_eq!(spec["expirationDays"], 365);
    assert_eq!(spec["gracePeriodDays"], 182);
    assert_eq!(spec["unrestricted"], false);
}

/// K3, K8: a definition of somebody else lets it through. Keystone would answer some of it with a server error.
#[tokio::test]
async fn nonsense_that_a_definition_lets_through_is_told_and_keystone_is_not_asked() {
    let cloud = Cloud::without_rules().await;
    let _operator = cloud.operator().await;
    let rule = |service: &str, path: &str, method: &str| json!([{ "service": service, "path": path, "method": method }]);
    let nonsense: [(&str, Value, &str); 11] = [
        (
            "accessRules",
            rule("compute", "servers", "GET"),
            "access rule",
        ),
        ("accessRules", rule("", "/servers", "GET"), "access rule"),
        (
            "accessRules",
            rule("com pute", "/servers", "GET"),
            "access rule",
        ),
        (
            "accessRules",
            rule("compute", &format!("/{}", "x".repeat(128)), "GET"),
            "access rule",
        ),
        ("accessRules", rule("compute", "/servers", "FETCH"), "FETCH"),
        ("roles", json!([""]), "role"),
        ("roles", json!([]), "role"),
        ("userName", "".into(), "userName"),
        ("gracePeriodDays", 365.into(), "gracePeriodDays"),
        ("gracePeriodDays", 0.into(), "gracePeriodDays"),
        ("expirationDays", 1.into(), "expirationDays"),
    ];
    for (round, (field, value, _)) in nonsense.iter().enumerate() {
        let mut object = cloud::named(&format!("ac-{round}"));
        object["spec"][field] = value.clone();
        cloud.create_this(object).await;
    }
    for (round, (field, value, part)) in nonsense.iter().enumerate() {
        let name = format!("ac-{round}");
        cloud
            .until(&format!("{field} {value} is told"), || async {
                let ready = cloud.condition(&name, "Ready").await;
                let told = ready["message"].as_str().unwrap_or_default();
                ready["status"] == "False"
                    && ready["reason"] == "InvalidSpec"
                    && told.contains(part)
            })
            .await;
        cloud.until_this_is_looked_at(&name).await;
    }
    assert_eq!(cloud.faults().total(), 0, "Keystone was not asked");
    // What makes sense is served.
    cloud.create().await;
    cloud.until_ready().await;
}
