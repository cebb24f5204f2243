//! GitLab tokens as their users meet them: real kube-apiserver, real kubectl, the operator as a process of its own, and a
//! stand-in GitLab.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod real_stage;

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use real_stage::forge::{self, EXPORT, Forge, Kind, PATIENCE, ROOT, current};
use real_stage::{Credential, plane, until};
use serde_json::{Value, json};
use testbed::gitlab::{CREATE_PROJECT_TOKEN, Settings, Use};
use testbed::proxy::Fault;

const NAME: &str = "app";

async fn forge(namespace: &str) -> Forge {
    let stage = forge::stage(plane().await, Kind::Project).await;
    Forge::new(&stage, namespace).await
}

/// Fails with everything that is known.
async fn wait(forge: &Forge, credential: &Credential, what: &str, is: impl AsyncFnMut() -> bool) {
    if let Err(error) = until(what, PATIENCE, is).await {
        panic!("{error}: {}", forge.describe(credential));
    }
}

async fn settled(forge: &Forge, credential: &Credential, serial: u32) {
    let what = format!("version {serial} settles");
    wait(forge, credential, &what, async || {
        credential.settled(serial)
    })
    .await;
}

fn api(forge: &Forge, kind: Kind) -> Api<DynamicObject> {
    Api::namespaced_with(
        forge.stage.client.clone(),
        &forge.namespace,
        &kind.resource(),
    )
}

async fn create(forge: &Forge, kind: Kind, name: &str, spec: Value) {
    let created = try_create(forge, kind, name, spec, false).await;
    created.unwrap();
}

async fn try_create(
    forge: &Forge,
    kind: Kind,
    name: &str,
    spec: Value,
    dry_run: bool,
) -> kube::Result<DynamicObject> {
    let resource = kind.resource();
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": { "name": name }, "spec": spec,
    }))
    .unwrap();
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    api(forge, kind).create(&params, &object).await
}

/// The sample manifests, with the address of this GitLab in them: the one field that everybody must set for a GitLab of
/// his own.
fn samples(forge: &Forge) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples/gitlab");
    for name in [
        "project-token.yaml",
        "group-token.yaml",
        "personal-token.yaml",
    ] {
        let manifest = std::fs::read_to_string(samples.join(name)).unwrap();
        let address = format!("\nspec:\n  baseURL: {}\n", forge.gitlab.url());
        let manifest = manifest.replace("\nspec:\n", &address);
        std::fs::write(dir.path().join(name), manifest).unwrap();
    }
    dir
}

fn table(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
        })
        .map(Iterator::collect)
        .collect()
}

/// S002-15, S002-24, and the command line on these kinds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_the_samples_become_ready_and_kubectl_and_keyward_show_them() {
    let forge = forge("team-a").await;
    let launch = forge.launch(None);
    let operator = launch.start();
    let dir = samples(&forge);
    forge.kubectl(&["apply", "-f", dir.path().to_str().unwrap()]);
    forge.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "tokens",
        "--all",
        "--timeout=120s",
    ]);

    for category in ["tokens", "gitlab"] {
        let text = forge.kubectl(&["get", category]);
        let rows = table(&text);
        let titles = ["NAME", "READY", "LAST ROTATED", "NEXT ROTATION", "EXPORT"];
        let heads = rows.iter().filter(|row| row.starts_with(&titles));
        assert_eq!(heads.count(), 3, "{text}");
        assert!(rows.iter().all(|row| row.len() >= 6), "{text}");
        for (name, export) in [
            ("gitlabgroupaccesstoken", "team-reader-token"),
            ("gitlabpersonalaccesstoken", "gitlab-root"),
            ("gitlabprojectaccesstoken", "app-registry-token"),
        ] {
            let row = rows.iter().find(|row| row[0].starts_with(name)).unwrap();
            assert_eq!((row[1], row[4]), ("True", export), "{text}");
        }
    }

    // The login was adopted and rotated; the others work with what it is now.
    for secret in [ROOT, "team-reader-token", "app-registry-token"] {
        assert_eq!(forge.use_exported(secret).await, Use::Works, "{secret}");
    }
    assert_eq!(forge.live().len(), 3, "{:?}", forge.gitlab.live());
    assert!(!forge.live().contains(&forge.login));

    let status = forge.keyward(&["status"]);
    for kind in [
        "GitLabGroupAccessToken",
        "GitLabPersonalAccessToken",
        "GitLabProjectAccessToken",
    ] {
        let row = status.lines().find(|line| line.starts_with(kind));
        assert!(row.is_some_and(|row| row.contains(" True ")), "{status}");
    }
    for target in [
        "glprat/app-registry",
        "glgrat/team-reader",
        "glpat/gitlab-root",
    ] {
        let explained = forge.keyward(&["explain", target]);
        assert!(explained.contains("[UpToDate]"), "{explained}");
        // Asked itself, GitLab is spoken to only where a person allows it.
        let url = forge.gitlab.url();
        let refused = forge.keyward(&["explain", target, "--ask-issuer"]);
        assert!(refused.contains("--allow-base-url"), "{refused}");
        let asking = ["explain", target, "--ask-issuer", "--allow-base-url", &url];
        let asked = forge.keyward(&asking);
        assert!(asked.contains("[UpToDate]"), "{asked}");
    }

    // The old token of the project has a day left, which a column tells; the group's is gone at once.
    forge.keyward(&["rotate", "glprat/app-registry", "--wait"]);
    forge.keyward(&["rotate", "glgrat/team-reader", "--wait"]);
    let app = forge.credential("app-registry");
    wait(&forge, &app, "a window", async || app.shown().live == 2).await;
    let text = forge.kubectl(&["get", "glprat"]);
    assert!(table(&text)[1][5].contains(" left at "), "{text}");
    until("four are alive", PATIENCE, async || forge.live().len() == 4)
        .await
        .unwrap();
    let explained = forge.keyward(&["explain", "glprat/app-registry"]);
    assert!(explained.contains("grace"), "{explained}");
    forge.assert_no_leak(&launch, Some(&operator)).await;
}

/// S002-8, GL14, GL33: refused by the API server itself, with words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_nonsense_is_refused_by_the_api_server() {
    let forge = forge("nonsense").await;
    let keep = |grace: &str| json!({ "rotationStrategy": { "type": "KeepOld", "keepOld": { "gracePeriod": grace } } });
    let at_most = "gracePeriod must be longer than 0s and at most 168h (7 days)";
    let refused = [
        (Kind::Project, keep("169h"), at_most),
        (Kind::Group, keep("0s"), at_most),
        (Kind::Project, keep("7d"), "gracePeriod"),
        (Kind::Project, keep("-1h"), "gracePeriod"),
        (Kind::Personal, keep("1h"), "KeepOld cannot be had"),
        (
            Kind::Project,
            json!({ "rotationSchedule": "0 0 3 * * *" }),
            "rotationSchedule",
        ),
        (
            Kind::Group,
            json!({ "rotationSchedule": "@daily" }),
            "rotationSchedule",
        ),
        (
            Kind::Personal,
            json!({ "rotationSchedule": "CRON_TZ=UTC 0 3 * * *", "timeZone": "UTC" }),
            "the time zone is given twice",
        ),
        (
            Kind::Project,
            json!({ "export": { "type": "Secret", "name": ROOT } }),
            "a token cannot be stored in the Secret that holds the login it is made with",
        ),
        (
            Kind::Project,
            json!({ "export": { "type": "ConfigMap", "name": "app" } }),
            "export.type",
        ),
        (Kind::Project, json!({ "project": "/team/app" }), "project"),
        (Kind::Group, json!({ "group": "team/" }), "group"),
        (Kind::Project, json!({ "scopes": [] }), "scopes"),
        (
            Kind::Project,
            json!({ "accessLevel": "Admin" }),
            "accessLevel",
        ),
        (
            Kind::Project,
            json!({ "baseURL": "https://me:word@gitlab.example.com" }),
            "baseURL",
        ),
        (
            Kind::Project,
            json!({ "maxLifetimeDays": 3650 }),
            "maxLifetimeDays",
        ),
    ];
    for (kind, change, part) in refused {
        let spec = forge.spec(kind, &change);
        let answer = try_create(&forge, kind, NAME, spec, true).await;
        let Err(kube::Error::Api(status)) = answer else {
            panic!("{change} was taken");
        };
        assert_eq!(status.code, 422, "{change}: {}", status.message);
        assert!(status.message.contains(part), "{}", status.message);
    }
    for (kind, change) in [
        (Kind::Project, keep("168h")),
        (Kind::Group, keep("1h30m")),
        (Kind::Personal, json!({})),
    ] {
        let spec = forge.spec(kind, &change);
        let taken = try_create(&forge, kind, NAME, spec, true).await;
        taken.unwrap();
    }
    // The Secret that a token is in stays the one.
    let credential = forge.credential(NAME);
    credential
        .create(&forge.spec(Kind::Project, &json!({})))
        .await;
    let renamed = credential
        .merge(&json!({ "spec": { "export": { "name": "other" } } }))
        .await
        .unwrap_err();
    assert!(
        renamed
            .to_string()
            .contains("export.name cannot be changed"),
        "{renamed}"
    );
    assert_eq!(forge.faults().total(), 0);
}

async fn events(forge: &Forge) -> Vec<(String, String)> {
    let events: Api<Event> = Api::namespaced(forge.stage.client.clone(), &forge.namespace);
    let events = events.list(&ListParams::default()).await.unwrap();
    let said = events.items.into_iter();
    said.map(|event| {
        (
            event.reason.unwrap_or_default(),
            event.note.unwrap_or_default(),
        )
    })
    .collect()
}

/// S002-1, S002-2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_all_nine_events_of_the_design_are_written() {
    let forge = forge("events").await;
    let launch = forge.launch(None);
    let operator = launch.start();
    let credential = forge.credential(NAME);
    credential
        .create(&forge.spec(Kind::Project, &json!({})))
        .await;
    settled(&forge, &credential, 1).await;
    let fails = Fault::Error(500);
    forge.faults().next(CREATE_PROJECT_TOKEN, fails);
    credential.rotate("and it fails once").await;
    settled(&forge, &credential, 2).await;

    let half_hourly = json!({
        "rotationSchedule": "*/30 * * * *", "rotationStrategy": { "type": "KeepOld" },
        "export": { "type": "Secret", "name": "hasty-token" },
    });
    let ring = |from: &str, to: &str| {
        json!({
            "export": { "type": "Secret", "name": from }, "apiTokenSecretRef": { "name": to },
        })
    };
    let project = Kind::Project;
    for (name, change) in [
        ("hasty", half_hourly),
        ("one", ring("one-token", "two-token")),
        ("two", ring("two-token", "one-token")),
    ] {
        create(&forge, project, name, forge.spec(project, &change)).await;
    }
    forge
        .put_secret("theirs", json!({ "token": "a person's" }))
        .await;
    let theirs = json!({
        "export": { "type": "Secret", "name": "theirs" }, "adoptExistingSecret": false,
    });
    let personal = Kind::Personal;
    create(&forge, personal, "theirs", forge.spec(personal, &theirs)).await;
    forge.let_adopt("root").await;
    create(&forge, personal, "root", forge.spec(personal, &json!({}))).await;

    let wanted = BTreeSet::from([
        "RotationStarted",
        "RotationSucceeded",
        "RotationFailed",
        "TokenRevoked",
        "ExportUpdated",
        "TookOwnership",
        "DependencyCycle",
        "SecretNotAdopted",
        "InvalidGracePeriod",
    ]);
    let mut missing: Vec<&'static str> = Vec::new();
    let all = async || {
        let said = events(&forge).await;
        let said: BTreeSet<&str> = said.iter().map(|(reason, _)| reason.as_str()).collect();
        missing = wanted
            .iter()
            .filter(|reason| !said.contains(**reason))
            .copied()
            .collect();
        missing.is_empty()
    };
    let outcome = until("all nine", PATIENCE, all).await;
    assert!(outcome.is_ok(), "{missing:?}: {:#?}", events(&forge).await);

    for (name, reason) in [
        ("hasty", "InvalidGracePeriod"),
        ("one", "DependencyCycle"),
        ("two", "DependencyCycle"),
    ] {
        let other = forge.credential(name);
        let told = async || other.shown().reason == reason && !other.shown().ready;
        wait(&forge, &other, reason, told).await;
    }
    let one = forge.credential("one").shown().message;
    for name in ["one", "two"] {
        assert!(one.contains(name), "{one}");
    }
    // Nobody but the first got a token, and the login was rotated by the one who may.
    let root = async || -> Option<u64> {
        let root = api(&forge, personal).get("root").await.unwrap();
        let id = &root.data["status"]["currentTokenRef"]["id"];
        id.as_str()?.parse().ok()
    };
    // Events come before status does.
    let shown = async || root().await.is_some();
    until("root shows its token", PATIENCE, shown)
        .await
        .unwrap();
    let root = root().await.unwrap();
    let app = current(&credential).unwrap();
    forge.until_live(&[root, app], "at rest").await.unwrap();
    forge.assert_no_leak(&launch, Some(&operator)).await;
}

/// A self-managed GitLab seldom has a certificate that everybody trusts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_private_authority_is_trusted_where_its_bundle_is_named_and_nowhere_else() {
    let stage = forge::stage(plane().await, Kind::Project).await;
    let tls = Settings {
        tls: true,
        ..Settings::default()
    };
    let forge = Forge::with(&stage, "private-ca", tls).await;
    let launch = forge.launch(None);
    let operator = launch.start();
    let trusting = json!({ "caBundleSecretRef": { "name": "gitlab-ca" } });
    let credential = forge.credential(NAME);
    credential
        .create(&forge.spec(Kind::Project, &trusting))
        .await;
    let told = async || credential.shown().message.contains("gitlab-ca");
    wait(&forge, &credential, "the bundle is missed", told).await;
    let ca = forge.gitlab.ca_pem().unwrap();
    forge.put_secret("gitlab-ca", json!({ "ca.crt": ca })).await;
    settled(&forge, &credential, 1).await;
    assert_eq!(forge.use_exported(EXPORT).await, Use::Works);

    // A neighbour who names no bundle does not profit from ours.
    let doubting = json!({ "export": { "type": "Secret", "name": "other-token" } });
    let other = forge.credential("doubting");
    other.create(&forge.spec(Kind::Project, &doubting)).await;
    let refused = async || !other.shown().reason.is_empty() && other.shown().secret.is_none();
    wait(&forge, &other, "it is refused", refused).await;
    credential.rotate("again").await;
    settled(&forge, &credential, 2).await;
    assert!(!other.shown().ready, "{}", forge.describe(&other));
    let app = current(&credential).unwrap();
    forge
        .until_live(&[forge.login, app], "at rest")
        .await
        .unwrap();

    // The certificates are needed at the end too, also when the login is gone by then.
    let (secrets, by_name) = (forge.secrets(), DeleteParams::default());
    secrets.delete(ROOT, &by_name).await.unwrap();
    credential.delete().await;
    let gone = async || credential.seen().is_none();
    wait(&forge, &credential, "it is gone", gone).await;
    forge
        .until_live(&[forge.login], "after the end")
        .await
        .unwrap();
    forge.assert_no_leak(&launch, Some(&operator)).await;
}
