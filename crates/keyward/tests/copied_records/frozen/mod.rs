//! What an earlier Keyward wrote, kept in files: resources with their ledgers, Secrets, and what their issuer knew. The
//! present one serves it. What rests goes on resting, what was in the midst of something comes to its end.
//!
//! `KEYWARD_FREEZE=name cargo test -p keyward --test copied_records frozen` plays every scene and writes it down under
//! `frozen/name`. It is done once for each version whose records must be served for ever; nobody edits the files.

mod cloud_scenes;
mod demo_scenes;
mod forge_scenes;
mod scenery;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use keyward::engine::world::Clock;
use serde_json::{Value, json};

use scenery::Scenery;

/// How far a credential had come when its operator stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Situation {
    AtRest,
    /// It was rotated, and a consumer keeps the version before.
    OldVersionHeld,
    /// It was rotated, and the version before lives on for a while.
    InWindow,
    /// The issuer has made the next version, and its operator died before it knew.
    AmidMint,
    /// The resource is deleted, and a consumer keeps its Secret.
    LeavingWhileHeld,
}

use Situation::{AmidMint, AtRest, InWindow, LeavingWhileHeld, OldVersionHeld};

/// The versions of Keyward whose records are kept.
const VERSIONS: [&str; 1] = ["a05cb6f"];

#[tokio::test]
async fn what_an_earlier_keyward_wrote_is_served_unchanged() {
    for version in VERSIONS {
        let mut scenes = 0;
        for file in std::fs::read_dir(folder(version)).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            serve(&format!("{version}/{name}"), &name, &text).await;
            scenes += 1;
        }
        assert_eq!(scenes, every_scene().len(), "{version}");
    }
}

/// The scenes of today are served as well: this is how the files come about.
#[tokio::test]
async fn what_this_keyward_writes_is_served_by_the_next_process() {
    for (name, scene) in every_scene() {
        let text = play(scene).await;
        if let Some(version) = std::env::var_os("KEYWARD_FREEZE") {
            let folder = folder(version.to_str().unwrap());
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("{name}.json")), &text).unwrap();
        }
        serve(&format!("today/{name}"), name, &text).await;
    }
}

fn folder(version: &str) -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.join("tests/copied_records/frozen").join(version)
}

#[derive(Debug, Clone, Copy)]
enum Scene {
    Demo(demo_scenes::Way, Situation),
    AppCred(Situation),
    GitLab(forge_scenes::Token, Situation),
}

fn every_scene() -> BTreeMap<&'static str, Scene> {
    use demo_scenes::Way::{Chosen, ReadBack, SelfRotating, ShownOnce, ShownOnceInPlace};
    use forge_scenes::Token::{Group, Personal, Project};
    BTreeMap::from([
        ("demo-chosen-at-rest", Scene::Demo(Chosen, AtRest)),
        ("demo-read-back-at-rest", Scene::Demo(ReadBack, AtRest)),
        ("demo-shown-once-at-rest", Scene::Demo(ShownOnce, AtRest)),
        (
            "demo-in-place-at-rest",
            Scene::Demo(ShownOnceInPlace, AtRest),
        ),
        (
            "demo-self-rotating-at-rest",
            Scene::Demo(SelfRotating, AtRest),
        ),
        ("demo-chosen-held", Scene::Demo(Chosen, OldVersionHeld)),
        (
            "demo-shown-once-held",
            Scene::Demo(ShownOnce, OldVersionHeld),
        ),
        ("demo-chosen-in-window", Scene::Demo(Chosen, InWindow)),
        (
            "demo-in-place-in-window",
            Scene::Demo(ShownOnceInPlace, InWindow),
        ),
        ("demo-chosen-amid-mint", Scene::Demo(Chosen, AmidMint)),
        ("demo-read-back-amid-mint", Scene::Demo(ReadBack, AmidMint)),
        (
            "demo-shown-once-amid-mint",
            Scene::Demo(ShownOnce, AmidMint),
        ),
        (
            "demo-in-place-amid-mint",
            Scene::Demo(ShownOnceInPlace, AmidMint),
        ),
        ("demo-chosen-leaving", Scene::Demo(Chosen, LeavingWhileHeld)),
        ("appcred-at-rest", Scene::AppCred(AtRest)),
        ("appcred-held", Scene::AppCred(OldVersionHeld)),
        ("appcred-in-window", Scene::AppCred(InWindow)),
        ("appcred-amid-mint", Scene::AppCred(AmidMint)),
        ("appcred-leaving", Scene::AppCred(LeavingWhileHeld)),
        ("gitlab-project-at-rest", Scene::GitLab(Project, AtRest)),
        ("gitlab-group-at-rest", Scene::GitLab(Group, AtRest)),
        ("gitlab-personal-at-rest", Scene::GitLab(Personal, AtRest)),
        ("gitlab-project-in-window", Scene::GitLab(Project, InWindow)),
        ("gitlab-project-amid-mint", Scene::GitLab(Project, AmidMint)),
        (
            "gitlab-project-leaving",
            Scene::GitLab(Project, LeavingWhileHeld),
        ),
    ])
}

/// Brings about what the scene is named after, stops the operator, and writes everything down.
async fn play(scene: Scene) -> String {
    match scene {
        Scene::Demo(way, situation) => write_down(&demo_scenes::play(way, situation).await),
        Scene::AppCred(situation) => write_down(&cloud_scenes::play(situation).await),
        Scene::GitLab(token, situation) => write_down(&forge_scenes::play(token, situation).await),
    }
}

/// Puts what was written down before a new operator, and looks what it makes of it.
async fn serve(what: &str, name: &str, text: &str) {
    match every_scene()[name] {
        Scene::Demo(way, situation) => {
            let stage = demo_scenes::empty(way);
            judge(&thawed(stage, text), situation, what).await;
        }
        Scene::AppCred(situation) => {
            let cloud = cloud_scenes::empty();
            judge(&thawed(cloud, text), situation, what).await;
        }
        Scene::GitLab(token, situation) => {
            let forge = forge_scenes::empty(token).await;
            judge(&thawed(forge, text), situation, what).await;
        }
    }
}

/// Addresses, and what was reckoned from them, differ from one run to the next.
fn write_down<S: Scenery>(scenery: &S) -> String {
    let frozen = json!({
        "at": scenery.clocks().map(Clock::now), "cluster": scenery.server().freeze(), "issuer": scenery.issuer_knows(),
    });
    let mut text = serde_json::to_string_pretty(&frozen).unwrap();
    if let Some(print) = scenery.fingerprint() {
        assert!(text.contains(&print), "the fingerprint is recorded");
        text = text.replace(&print, "{fingerprint}");
    }
    text.replace(authority(&scenery.url()), "{issuer}") + "\n"
}

fn thawed<S: Scenery>(scenery: S, text: &str) -> S {
    let mut text = text.replace("{issuer}", authority(&scenery.url()));
    if let Some(print) = scenery.fingerprint() {
        text = text.replace("{fingerprint}", &print);
    }
    let mut frozen: Value = serde_json::from_str(&text).unwrap();
    scenery.set_clocks(serde_json::from_value(frozen["at"].take()).unwrap());
    scenery.issuer_is_told(frozen["issuer"].take());
    let objects = serde_json::from_value(frozen["cluster"].take()).unwrap();
    scenery.server().thaw(objects);
    scenery
}

/// Some records hold the address without its scheme.
fn authority(url: &str) -> &str {
    url.strip_prefix("http://").unwrap()
}

async fn judge<S: Scenery>(scenery: &S, situation: Situation, what: &str) {
    let (alive, secrets) = (scenery.alive(), secrets(scenery));
    assert!(!alive.is_empty(), "{what}: something is kept");
    let operator = scenery.started().await;
    match situation {
        AtRest | OldVersionHeld | InWindow | LeavingWhileHeld => {
            // Longer than any pause but the windows, so that what would be done is done.
            for _ in 0..4 {
                scenery.let_time_pass(&operator, 301).await;
            }
            assert_eq!(scenery.alive(), alive, "{what}: none made, none ended");
            assert_eq!(scenery.ended_or_made(), 0, "{what}: none made, none ended");
            assert_eq!(
                self::secrets(scenery),
                secrets,
                "{what}: no Secret is written"
            );
        }
        AmidMint => {}
    }
    match situation {
        AtRest => scenery.rotate("after the upgrade").await,
        OldVersionHeld | LeavingWhileHeld => scenery.everybody_lets_go().await,
        InWindow => scenery.let_time_pass(&operator, 7 * 3600).await,
        AmidMint => {}
    }
    for _ in 0..40 {
        if ends_well(scenery, situation, &alive) {
            return;
        }
        scenery.let_time_pass(&operator, 901).await;
    }
    panic!(
        "{what} does not come to its end: {:#}\nalive {:?}, before {alive:?}",
        scenery.resource().unwrap_or_default(),
        scenery.alive()
    );
}

fn ends_well<S: Scenery>(
    scenery: &S,
    situation: Situation,
    before: &std::collections::BTreeSet<String>,
) -> bool {
    let alive = scenery.alive();
    let is_new = !alive.is_subset(before);
    let one_works = scenery.is_settled() && scenery.published_works() && alive.len() == 1;
    match situation {
        AtRest => is_new && one_works,
        OldVersionHeld | InWindow | AmidMint => one_works,
        LeavingWhileHeld => scenery.resource().is_none() && alive.is_empty(),
    }
}

/// Every Secret, by its name, with the version that its last write gave it.
fn secrets<S: Scenery>(scenery: &S) -> BTreeMap<String, String> {
    let secrets = scenery.server().objects("secrets");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let both = |secret: &Value| {
        let metadata = &secret["metadata"];
        (text(&metadata["name"]), text(&metadata["resourceVersion"]))
    };
    secrets.iter().map(|secret| both(secret)).collect()
}

/// The digest by which the frozen versions told whether a spec asks for something else. If it comes out otherwise for
/// the same spec, an upgrade rotates every credential there is.
fn fingerprint_of<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    use sha2::{Digest, Sha256};
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let bytes = digest.finalize();
    let mut hex = String::new();
    for byte in &bytes[..12] {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
