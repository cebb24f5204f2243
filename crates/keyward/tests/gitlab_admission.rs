//! What the definitions of the GitLab kinds say by themselves: what is refused at the door, and what `kubectl get` shows.

mod forge;

use forge::{Forge, Kind, NAME, with};
use serde_json::{Value, json};

/// S002-8, GL14, and every other rule that a definition can state.
#[tokio::test]
async fn nonsense_is_refused_at_the_door() {
    let forge = Forge::new().await;
    let keep = |grace: &str| json!({ "rotationStrategy": { "type": "KeepOld", "keepOld": { "gracePeriod": grace } } });
    let refused: Vec<(&str, Value)> = vec![
        ("a nickname", json!({ "rotationSchedule": "@daily" })),
        ("four fields", json!({ "rotationSchedule": "0 3 * *" })),
        ("six fields", json!({ "rotationSchedule": "0 0 3 * * *" })),
        ("an odd letter", json!({ "rotationSchedule": "0 3 * * $" })),
        (
            "two time zones",
            json!({ "rotationSchedule": "CRON_TZ=UTC 0 3 * * *", "timeZone": "UTC" }),
        ),
        ("more than seven days", keep("169h")),
        ("no time at all", keep("0s")),
        ("no Go duration", keep("7d")),
        ("less than nothing", keep("-1h")),
        (
            "an unknown strategy",
            json!({ "rotationStrategy": { "type": "KeepBoth" } }),
        ),
        (
            "an unknown condition",
            json!({ "rotationStrategy": { "type": "KeepOld", "keepOld": { "revokeWhen": "Never" } } }),
        ),
        (
            "another target",
            json!({ "export": { "type": "ConfigMap" } }),
        ),
        (
            "a name of capitals",
            json!({ "export": { "name": "Token" } }),
        ),
        ("a key with a slash", json!({ "export": { "key": "a/b" } })),
        ("no project", json!({ "project": "" })),
        (
            "a path that begins with a slash",
            json!({ "project": "/team/app" }),
        ),
        (
            "a path that ends with one",
            json!({ "project": "team/app/" }),
        ),
        ("no scope", json!({ "scopes": [] })),
        ("a scope of capitals", json!({ "scopes": ["API"] })),
        ("an unknown role", json!({ "accessLevel": "Admin" })),
        (
            "no web address",
            json!({ "baseURL": "ftp://gitlab.example.com" }),
        ),
        (
            "a password in the address",
            json!({ "baseURL": "https://me:word@gitlab.example.com" }),
        ),
        (
            "a query in the address",
            json!({ "baseURL": "https://gitlab.example.com?a=b" }),
        ),
        ("an unknown policy", json!({ "deletionPolicy": "Keep" })),
        (
            "the login's own Secret",
            json!({ "export": { "name": "gitlab-root" } }),
        ),
        ("a life of a decade", json!({ "maxLifetimeDays": 3650 })),
    ];
    for (what, change) in refused {
        let object = with(forge.example(), json!({ "spec": change }));
        let answer = forge.try_create(object).await;
        let Err(kube::Error::Api(status)) = answer else {
            panic!("{what} was taken");
        };
        assert_eq!(status.code, 422, "{what}: {}", status.message);
    }
    for (number, change) in [
        json!({ "rotationSchedule": "CRON_TZ=Europe/Berlin */15 8-17 1,15 JAN-JUN MON#1" }),
        keep("168h"),
        keep("1h30m"),
        json!({ "project": "42", "accessLevel": "Planner", "scopes": ["api", "self_rotate"] }),
        json!({ "baseURL": "https://gitlab.example.com:8443/git/lab" }),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("good-{number}");
        let object = with(
            forge.project_token(&name, &format!("{name}-token"), "login"),
            json!({ "spec": change.clone() }),
        );
        if let Err(error) = forge.try_create(object).await {
            panic!("{change} was refused: {error}");
        }
    }
    assert_eq!(forge.faults().total(), 0);
    forge.assert_live(&[]);
}

/// GL33.
#[tokio::test]
async fn a_token_that_rotates_itself_cannot_keep_the_old_one() {
    let forge = Forge::new().await;
    let change = json!({ "spec": { "rotationStrategy": { "type": "KeepOld" } } });
    let answer = forge.try_create(with(forge.personal_token(), change)).await;
    let Err(kube::Error::Api(status)) = answer else {
        panic!("it was taken");
    };
    assert!(status.message.contains("KeepOld"), "{}", status.message);
    forge.assert_live(&[]);
}

/// The Secret that a token is in stays the one: nothing old is left lying about.
#[tokio::test]
async fn the_name_of_the_export_cannot_be_changed() {
    let forge = Forge::new().await;
    forge.create(forge.example()).await;
    let change = json!({ "spec": { "export": { "name": "another" } } });
    let answer = forge.try_edit(Kind::Project, NAME, change).await;
    assert!(matches!(answer, Err(kube::Error::Api(status)) if status.code == 422));
    forge.assert_live(&[]);
}

/// Defaults are filled in by the definition, so that everybody reads the same.
#[tokio::test]
async fn defaults_are_those_of_the_design() {
    let forge = Forge::new().await;
    let mut object = with(
        forge.example(),
        json!({ "spec": { "rotationStrategy": { "keepOld": {} } } }),
    );
    object["spec"].as_object_mut().unwrap().remove("baseURL");
    let made = forge.try_create(object).await.unwrap();
    let spec = &made.data["spec"];
    assert_eq!(spec["baseURL"], "https://gitlab.com");
    assert_eq!(spec["rotationStrategy"]["type"], "Immediate");
    assert_eq!(spec["rotationStrategy"]["keepOld"]["gracePeriod"], "1h");
    assert_eq!(
        spec["rotationStrategy"]["keepOld"]["revokeWhen"],
        "Deadline"
    );
    assert_eq!(spec["export"]["key"], "token");
    assert_eq!(spec["apiTokenSecretRef"]["key"], "token");
    assert_eq!(spec["deletionPolicy"], "Revoke");
    assert_eq!(spec["forceNow"], false);
    let personal = forge.try_create(forge.personal_token()).await.unwrap();
    assert_eq!(personal.data["spec"]["deletionPolicy"], "Retain");
    forge.assert_live(&[]);
}

/// S002-15, S002-24.
#[test]
fn every_kind_has_the_categories_and_columns_of_the_design() {
    let ours: Vec<_> = keyward::api::crds()
        .into_iter()
        .filter(|crd| crd.spec.group == "token-rotator.org")
        .collect();
    assert_eq!(ours.len(), 3);
    for crd in ours {
        let categories = crd.spec.names.categories.unwrap_or_default();
        for wanted in ["tokens", "gitlab"] {
            assert!(
                categories.iter().any(|known| known == wanted),
                "{categories:?}"
            );
        }
        let version = &crd.spec.versions[0];
        let columns = version
            .additional_printer_columns
            .clone()
            .unwrap_or_default();
        let shown: Vec<(&str, &str)> = columns
            .iter()
            .filter(|column| column.priority.unwrap_or(0) == 0)
            .map(|column| (column.name.as_str(), column.type_.as_str()))
            .collect();
        // A date column cannot show what is yet to come.
        assert_eq!(
            shown,
            [
                ("Ready", "string"),
                ("Last Rotated", "date"),
                ("Next Rotation", "string"),
                ("Export", "string"),
                ("Grace", "string"),
                ("Age", "date"),
            ]
        );
    }
}
