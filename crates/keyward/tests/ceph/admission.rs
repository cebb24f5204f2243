//! What the definitions say by themselves.

use serde_json::{Value, json};

use super::stage::{ACCOUNT, Kind, STORE, Stage, USER};

/// S003-8, S003-15, RGW11, RGW24: neither changed, nor added, nor removed.
#[tokio::test]
async fn what_cannot_change_is_refused_at_the_door() {
    let stage = Stage::new().await;
    let with = json!({ "accountID": "RGW33567154695143645", "email": "a@example.com" });
    stage.create(ACCOUNT, "with", with).await;
    stage.create(ACCOUNT, "without", json!({})).await;
    stage
        .create(USER, "in", json!({ "accountRef": { "name": "with" } }))
        .await;
    stage.create(USER, "out", json!({})).await;
    let refused: Vec<(Kind, &str, Value, &str)> = vec![
        (
            ACCOUNT,
            "with",
            json!({ "accountID": "RGW33567154695143646" }),
            "accountID is immutable",
        ),
        (
            ACCOUNT,
            "with",
            json!({ "accountID": null }),
            "accountID is immutable",
        ),
        (
            ACCOUNT,
            "without",
            json!({ "accountID": "RGW33567154695143646" }),
            "accountID is immutable",
        ),
        (
            ACCOUNT,
            "with",
            json!({ "store": "another" }),
            "store is immutable",
        ),
        (
            ACCOUNT,
            "with",
            json!({ "email": null }),
            "not be taken away",
        ),
        (
            USER,
            "in",
            json!({ "accountRef": { "name": "without" } }),
            "accountRef is immutable",
        ),
        (
            USER,
            "in",
            json!({ "accountRef": null }),
            "accountRef is immutable",
        ),
        (
            USER,
            "out",
            json!({ "accountRef": { "name": "with" } }),
            "accountRef is immutable",
        ),
        (
            USER,
            "out",
            json!({ "store": "another" }),
            "store is immutable",
        ),
    ];
    for (kind, name, spec, word) in refused {
        let error = stage
            .try_patch(kind, name, json!({ "spec": spec }))
            .await
            .unwrap_err();
        assert!(error.to_string().contains(word), "{spec}: {error}");
    }
    stage
        .patch(
            ACCOUNT,
            "with",
            json!({ "spec": { "email": "b@example.com" } }),
        )
        .await;
}

/// What a definition can check, it checks.
#[tokio::test]
async fn nonsense_is_refused_at_the_door() {
    let stage = Stage::new().await;
    let refused: Vec<(Kind, Value)> = vec![
        (ACCOUNT, json!({ "store": "" })),
        (ACCOUNT, json!({ "name": "a$b" })),
        (ACCOUNT, json!({ "accountID": "RGW123" })),
        (ACCOUNT, json!({ "accountID": "XYZ33567154695143645" })),
        (
            ACCOUNT,
            json!({ "rootUser": { "displayName": "Root User" } }),
        ),
        (
            ACCOUNT,
            json!({ "rootUser": { "displayName": "a".repeat(65) } }),
        ),
        (
            ACCOUNT,
            json!({ "rootUser": { "keyRotation": { "every": "1s" } } }),
        ),
        (USER, json!({ "capabilities": { "users": "all" } })),
        (USER, json!({ "opMask": ["list"] })),
        (USER, json!({ "accountRef": {} })),
        (USER, json!({ "keyRotation": { "schedule": "@daily" } })),
        (
            USER,
            json!({ "keyRotation": { "every": "24h", "schedule": "0 3 * * *" } }),
        ),
        (USER, json!({ "keyRotation": { "overlap": "1000h" } })),
    ];
    for (kind, spec) in refused {
        let mut whole = json!({ "store": STORE });
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let made = stage.try_create(&stage.api(kind), kind, "x", whole).await;
        assert!(made.is_err(), "{spec}");
    }
}
