//! The Secret that a GitLab token is put into: whose it is, who else writes it, and what is done when somebody does.

mod forge;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forge::openings::{settled, settled_in};
use forge::{EXPORT, Forge, Kind, NAME, NAMESPACE, ROOT, hours, minutes, with};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use testbed::gitlab::Use;
use testbed::proxy::Fault;

/// GL21.
#[tokio::test]
async fn a_token_revoked_by_hand_is_noticed_and_replaced() {
    let (forge, operator, first) = settled().await;
    assert!(forge.gitlab.revoke(first));
    forge.live_through(&operator, hours(8)).await;
    let second = forge.until_rotated_from(first).await;
    forge.until_settled().await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[second]);
}

/// GL22.
#[tokio::test]
async fn a_deleted_secret_is_made_anew_with_a_new_token() {
    let (forge, _operator, first) = settled().await;
    forge.remove_secret(EXPORT).await;
    let second = forge.until_rotated_from(first).await;
    forge.until_settled().await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[second]);
}

/// GL22: an edited one, too; with a grace period the token that was in it stays valid for that long.
#[tokio::test]
async fn an_edited_secret_gets_a_new_token_and_the_old_one_its_grace() {
    let forge = Forge::new().await;
    let object = forge.keeping_old("2h");
    let (forge, operator, first) = settled_in(forge, object).await;
    forge.put(EXPORT, "token", "something else").await;
    let second = forge.until_rotated_from(first).await;
    forge
        .until("the old one is the previous", || async {
            forge.previous().await == first
        })
        .await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[first, second]);
    forge.live_through(&operator, hours(2) + minutes(1)).await;
    forge.until_settled().await;
    forge.assert_live(&[second]);
}

/// GL23: somebody who writes an old value back again and again does not make us mint again and again.
#[tokio::test]
async fn a_secret_that_is_reverted_all_the_time_does_not_cost_a_token_each_time() {
    let (forge, operator, first) = settled().await;
    let in_git = forge.exported().await;
    forge.rotate("beyond what is in git").await;
    forge.until_rotated_from(first).await;
    forge.until_settled().await;
    for _ in 0..20 {
        forge.put(EXPORT, "token", &in_git).await;
        forge
            .until("it was noticed", || async {
                forge.exported().await != in_git
                    || forge.ready(Kind::Project, NAME).await["status"] == "False"
            })
            .await;
        forge.calm(&operator).await;
    }
    assert!(forge.minted() <= 5, "{} tokens were made", forge.minted());
    // Once he has stopped, it comes right.
    forge
        .until("it works again", || async {
            forge.live_through(&operator, minutes(10)).await;
            forge.is_settled(Kind::Project, NAME).await && forge.use_exported().await == Use::Works
        })
        .await;
    let current = forge.current().await;
    forge.assert_live(&[current]);
}

/// GL25.
#[tokio::test]
async fn a_secret_that_is_not_ours_is_not_touched_and_gitlab_not_asked() {
    let forge = Forge::new().await;
    forge
        .add_secret(EXPORT, &json!({ "token": "mine", "other": "also mine" }))
        .await;
    let before = forge.secret(EXPORT).await.unwrap();
    let _operator = forge.operator().await;
    forge.create(forge.example()).await;
    let told = forge
        .until_refused(Kind::Project, NAME, "SecretNotAdopted")
        .await;
    assert!(told.contains(EXPORT), "{told}");
    assert_eq!(forge.events_of("SecretNotAdopted"), 1);
    assert_eq!(forge.secret(EXPORT).await.unwrap(), before);
    assert_eq!(forge.faults().total(), 0);
    forge.assert_live(&[]);
    // Out of the way, it goes on by itself.
    forge.remove_secret(EXPORT).await;
    forge.until_settled().await;
    let current = forge.current().await;
    forge.assert_live(&[current]);
}

/// GL26, GL28.
#[tokio::test]
async fn two_resources_on_one_secret_make_one_token() {
    let (forge, _operator, first) = settled().await;
    let asked = forge.faults().total();
    let adopt = json!({ "spec": { "adoptExistingSecret": true } });
    let second = forge.project_token("second", EXPORT, ROOT);
    forge.create(with(second, adopt)).await;
    let told = forge
        .until_refused(Kind::Project, "second", "SecretNotAdopted")
        .await;
    assert!(told.contains("GitLabProjectAccessToken app"), "{told}");
    assert_eq!(forge.faults().total(), asked, "the second asks for nothing");
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[first]);
    // When the first leaves, the second may have it.
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    forge
        .until("the second is ready", || {
            forge.is_settled(Kind::Project, "second")
        })
        .await;
    let current = forge.current_of(Kind::Project, "second").await;
    forge.assert_live(&[current]);
}

/// GL28: at the same moment.
#[tokio::test]
async fn two_resources_that_begin_at_once_make_one_token() {
    let forge = Forge::new().await;
    for name in ["one", "two"] {
        forge.create(forge.project_token(name, EXPORT, ROOT)).await;
    }
    let _operator = forge.operator().await;
    forge
        .until("one has it and the other is told", || async {
            let one = forge.ready(Kind::Project, "one").await;
            let two = forge.ready(Kind::Project, "two").await;
            let has = |ready: &serde_json::Value| ready["status"] == "True";
            let told = |ready: &serde_json::Value| ready["reason"] == "SecretNotAdopted";
            (has(&one) && told(&two)) || (has(&two) && told(&one))
        })
        .await;
    assert_eq!(forge.minted(), 1);
    assert_eq!(forge.use_exported().await, Use::Works);
    assert_eq!(forge.live().len(), 1);
}

/// GL27, S002-19: a Secret that another tool made and owns. The one field is ours from then on, and nothing else.
#[tokio::test]
async fn a_secret_of_another_tool_is_adopted_by_one_field_only() {
    let forge = Forge::new().await;
    // In the place of the other tool's own resource.
    let tool: Api<ConfigMap> = Api::namespaced(forge.client.clone(), NAMESPACE);
    let theirs = serde_json::from_value(json!({ "metadata": { "name": "external" } })).unwrap();
    let theirs = tool.create(&PostParams::default(), &theirs).await.unwrap();
    let owner = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "external",
        "uid": theirs.uid(), "controller": true,
    }]);
    let metadata = json!({
        "labels": { "app.kubernetes.io/managed-by": "external-secrets", "team": "a" },
        "annotations": { "example.org/note": "kept", "keyward.dev/adoptable-by": NAME },
        "ownerReferences": owner,
    });
    forge
        .add_secret_with(
            EXPORT,
            &json!({ "token": "first", "user": "bot" }),
            metadata,
        )
        .await;
    let operator = forge.operator().await;
    let adopt = json!({ "spec": { "adoptExistingSecret": true } });
    forge.create(with(forge.example(), adopt)).await;
    forge.until_settled().await;
    let first = forge.current().await;
    let told = forge.event("TookOwnership");
    assert_eq!(
        told,
        "TookOwnership secret=app-token; future rotations will mutate /data/token in place; ensure your bootstrap tool does not revert this field."
    );
    let secret = forge.secret(EXPORT).await.unwrap();
    assert_eq!(
        secret.labels()["app.kubernetes.io/managed-by"],
        "external-secrets"
    );
    assert_eq!(secret.labels()["team"], "a");
    assert_eq!(secret.annotations()["example.org/note"], "kept");
    let controllers: Vec<&str> = secret
        .owner_references()
        .iter()
        .filter(|owner| owner.controller == Some(true))
        .map(|owner| owner.kind.as_str())
        .collect();
    assert_eq!(controllers, ["ConfigMap"]);
    assert_eq!(forge.value_in(EXPORT, "user").await, "bot");
    assert_eq!(forge.use_exported().await, Use::Works);
    // What others do to their own keys is no business of ours.
    forge.put(EXPORT, "user", "another").await;
    forge.live_through(&operator, hours(7)).await;
    forge.live_through(&operator, hours(10) + minutes(6)).await;
    let second = forge.until_rotated_from(first).await;
    forge.until_settled().await;
    assert_eq!(forge.minted(), 2);
    assert_eq!(forge.value_in(EXPORT, "user").await, "another");
    assert_eq!(forge.use_exported().await, Use::Works);
    assert_eq!(forge.events_of("TookOwnership"), 1);
    forge.assert_live(&[second]);
}

/// GL42: who writes resources may have no say over Secrets.
#[tokio::test]
async fn a_secret_is_adopted_only_on_the_word_of_its_owner() {
    let forge = Forge::new().await;
    forge.add_secret(EXPORT, &json!({ "token": "mine" })).await;
    let before = forge.secret(EXPORT).await.unwrap();
    let _operator = forge.operator().await;
    let adopt = json!({ "spec": { "adoptExistingSecret": true } });
    forge.create(with(forge.example(), adopt)).await;
    let command =
        format!("kubectl annotate secret {EXPORT} -n {NAMESPACE} keyward.dev/adoptable-by={NAME}");
    let told = forge
        .until_refused(Kind::Project, NAME, "SecretNotAdopted")
        .await;
    assert!(told.contains(&format!("`{command}`")), "{told}");
    assert_eq!(forge.secret(EXPORT).await.unwrap(), before);
    // A word for somebody else is none.
    forge.let_adopt(EXPORT, "another").await;
    forge
        .until("the command is told as it must be now", || async {
            let ready = forge.ready(Kind::Project, NAME).await;
            ready["message"]
                .as_str()
                .is_some_and(|told| told.contains(&format!("`{command} --overwrite`")))
        })
        .await;
    assert_eq!(forge.value_in(EXPORT, "token").await, "mine");
    assert_eq!(forge.faults().total(), 0);
    forge.let_adopt(EXPORT, NAME).await;
    forge.until_settled().await;
    assert_eq!(forge.events_of("TookOwnership"), 1);
    assert_eq!(forge.use_exported().await, Use::Works);
}

/// GL42: what was adopted before there was such a word stays so.
#[tokio::test]
async fn an_adopted_secret_stays_adopted_without_the_word() {
    let forge = Forge::new().await;
    let data = json!({ "token": "mine" });
    forge.add_adoptable_secret(EXPORT, &data, NAME).await;
    let operator = forge.operator().await;
    let adopt = json!({ "spec": { "adoptExistingSecret": true } });
    forge.create(with(forge.example(), adopt)).await;
    forge.until_settled().await;
    let first = forge.current().await;
    drop(operator);
    forge.forbid_adoption(EXPORT).await;
    let operator = forge.operator().await;
    forge.rotate("again").await;
    let second = forge.until_rotated_from(first).await;
    forge.until_settled().await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[second]);
    drop(operator);
}

/// What was its owner's before is given back as he left it, but for the one field, where nothing is revoked.
#[tokio::test]
async fn an_adopted_secret_is_given_back_when_its_resource_leaves() {
    for policy in ["Orphan", "Retain"] {
        let forge = Forge::new().await;
        let metadata = json!({
            "labels": { "team": "a" },
            "annotations": { "note": "kept", "keyward.dev/adoptable-by": NAME },
        });
        let data = json!({ "token": "first", "user": "bot" });
        forge.add_secret_with(EXPORT, &data, metadata).await;
        let before = forge.secret(EXPORT).await.unwrap();
        let _operator = forge.operator().await;
        let change = json!({ "spec": { "adoptExistingSecret": true, "deletionPolicy": policy } });
        forge.create(with(forge.example(), change)).await;
        forge.until_settled().await;
        let current = forge.current().await;
        let secret = forge.secret(EXPORT).await.unwrap();
        assert!(secret.annotations().contains_key("keyward.dev/adopted"));
        forge.delete(Kind::Project, NAME).await;
        forge.until_gone(Kind::Project, NAME).await;
        let left = forge.secret(EXPORT).await.unwrap();
        assert_eq!(left.uid(), before.uid(), "{policy}");
        assert_eq!(left.labels(), before.labels(), "{policy}");
        assert_eq!(left.annotations(), before.annotations(), "{policy}");
        assert_eq!(left.owner_references(), before.owner_references());
        assert_eq!(left.finalizers(), before.finalizers(), "{policy}");
        assert_eq!(forge.value_in(EXPORT, "user").await, "bot");
        forge.assert_live(&[current]);
    }
}

/// The token is ended, and our key goes; all else in it is its owner's, and stays.
#[tokio::test]
async fn an_adopted_secret_whose_token_is_revoked_is_given_back_without_our_key() {
    let forge = Forge::new().await;
    let data = json!({ "user": "bot" });
    forge.add_adoptable_secret(EXPORT, &data, NAME).await;
    let _operator = forge.operator().await;
    let change = json!({ "spec": { "adoptExistingSecret": true, "deletionPolicy": "Revoke" } });
    forge.create(with(forge.example(), change)).await;
    forge.until_settled().await;
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    let left = forge.secret(EXPORT).await.unwrap();
    let keys: Vec<String> = left.data.unwrap_or_default().into_keys().collect();
    assert_eq!(keys, ["user"]);
    assert!(left.metadata.labels.unwrap_or_default().is_empty());
    forge.assert_live(&[]);
}

/// Whoever holds it keeps token and Secret, as with any other.
#[tokio::test]
async fn an_adopted_secret_that_somebody_holds_keeps_its_token_until_it_is_released() {
    let forge = Forge::new().await;
    forge
        .add_adoptable_secret(EXPORT, &json!({ "user": "bot" }), NAME)
        .await;
    let _operator = forge.operator().await;
    let change = json!({ "spec": { "adoptExistingSecret": true, "deletionPolicy": "Revoke" } });
    forge.create(with(forge.example(), change)).await;
    forge.until_settled().await;
    assert!(forge.hold(EXPORT, "example.org/consumer").await);
    forge.delete(Kind::Project, NAME).await;
    forge
        .until("the holder is waited for", || async {
            let status = forge.status_of(Kind::Project, NAME).await;
            status.to_string().contains("example.org/consumer")
        })
        .await;
    assert_eq!(forge.live().len(), 1);
    let held = forge.secret(EXPORT).await.unwrap();
    assert!(forge.let_go(&held, "example.org/consumer").await);
    forge.until_gone(Kind::Project, NAME).await;
    forge.assert_live(&[]);
}

/// One that was reserved and into which nothing was ever put, too.
#[tokio::test]
async fn an_adopted_secret_is_given_back_although_no_token_was_ever_made() {
    let forge = Forge::new().await;
    let data = json!({ "token": "mine" });
    forge.add_adoptable_secret(EXPORT, &data, NAME).await;
    let before = forge.secret(EXPORT).await.unwrap();
    let _operator = forge.operator().await;
    forge
        .faults()
        .every(testbed::gitlab::CREATE_PROJECT_TOKEN, Fault::Error(403));
    let adopt = json!({ "spec": { "adoptExistingSecret": true } });
    forge.create(with(forge.example(), adopt)).await;
    forge.until_told_of("RotationFailed").await;
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    let left = forge.secret(EXPORT).await.unwrap();
    assert_eq!(left.data, before.data);
    assert_eq!(left.annotations(), before.annotations());
    assert_eq!(left.finalizers(), before.finalizers());
    forge.assert_live(&[]);
}

/// What a resource with Retain left behind is nobody's, and may be adopted by the next, if somebody says so on it.
#[tokio::test]
async fn a_secret_that_was_let_go_may_be_adopted_again() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    let change = json!({ "spec": { "deletionPolicy": "Retain", "adoptExistingSecret": true } });
    forge.create(with(forge.example(), change.clone())).await;
    forge.until_settled().await;
    let left = forge.current().await;
    forge.delete(Kind::Project, NAME).await;
    forge.until_gone(Kind::Project, NAME).await;
    forge.create(with(forge.example(), change)).await;
    forge
        .until_refused(Kind::Project, NAME, "SecretNotAdopted")
        .await;
    forge.let_adopt(EXPORT, NAME).await;
    forge.until_settled().await;
    let current = forge.current().await;
    assert_ne!(left, current);
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[left, current]);
}

/// The key and the annotations of the export.
#[tokio::test]
async fn the_export_has_the_key_and_the_annotations_it_was_given() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    let change = json!({ "spec": { "export": {
        "key": "password", "namespace": NAMESPACE,
        "annotations": { "reloader.stakater.com/match": "true", "keyward.dev/keys": "all" },
    } } });
    forge.create(with(forge.example(), change)).await;
    forge.until_settled().await;
    let first = forge.current().await;
    let value = forge.value_in(EXPORT, "password").await;
    assert_eq!(forge.gitlab.use_token(&value), Use::Works);
    let secret = forge.secret(EXPORT).await.unwrap();
    assert_eq!(secret.annotations()["reloader.stakater.com/match"], "true");
    assert_eq!(secret.annotations()["keyward.dev/keys"], "password");
    // Another key is another token, and the old key goes.
    forge
        .edit_spec(json!({ "export": { "key": "token" } }))
        .await;
    let second = forge.until_rotated_from(first).await;
    forge.until_settled().await;
    assert_eq!(forge.use_exported().await, Use::Works);
    assert_eq!(forge.value_in(EXPORT, "password").await, "");
    forge.assert_live(&[second]);
}

/// An edit of the annotations needs no new token; and what somebody else does to them is his.
#[tokio::test]
async fn edited_annotations_are_written_at_once_and_without_a_new_token() {
    let forge = Forge::new().await;
    let operator = forge.operator().await;
    let annotated = |annotations: serde_json::Value| json!({ "spec": { "export": { "annotations": annotations } } });
    let first = annotated(json!({ "example.org/a": "1", "example.org/b": "1" }));
    forge.create(with(forge.example(), first)).await;
    forge.until_settled().await;
    let (current, value) = (forge.current().await, forge.exported().await);
    let notes = || async {
        let secret = forge.secret(EXPORT).await.unwrap();
        let note = |key: &str| secret.annotations().get(key).cloned();
        ["example.org/a", "example.org/b", "example.org/c"].map(note)
    };
    let is = |text: &str| Some(text.to_owned());
    let second =
        annotated(json!({ "example.org/a": "2", "example.org/b": null, "example.org/c": "2" }));
    forge.edit(Kind::Project, NAME, second).await;
    forge
        .until("they are written", || async {
            notes().await == [is("2"), None, is("2")]
        })
        .await;
    forge.calm(&operator).await;
    // Somebody else has his reasons.
    let theirs = json!({ "metadata": { "annotations": { "example.org/a": "theirs" } } });
    forge
        .secrets()
        .patch(EXPORT, &PatchParams::default(), &Patch::Merge(&theirs))
        .await
        .unwrap();
    forge.calm(&operator).await;
    let writes = forge.writes();
    forge.live_through(&operator, hours(7)).await;
    assert_eq!(notes().await, [is("theirs"), None, is("2")]);
    // And none at all: only what is still as it was written goes.
    let none = annotated(json!(null));
    forge.edit(Kind::Project, NAME, none).await;
    forge
        .until("they are gone", || async {
            notes().await == [is("theirs"), None, None]
        })
        .await;
    assert!(forge.writes() <= writes + 3, "{}", forge.writes() - writes);
    assert_eq!(forge.exported().await, value);
    assert_eq!(forge.current().await, current);
    assert_eq!(forge.minted(), 1);
    forge.assert_live(&[current]);
}

/// Somebody forbids the edit, or was faster: it is not tried for ever, and what matters goes on.
#[tokio::test]
async fn annotations_that_are_refused_hold_nothing_up() {
    use testbed::apiserver::{Fault, Verb};
    for fault in [Fault::Error(403), Fault::Error(422), Fault::Conflict] {
        let forge = Forge::new().await;
        let _operator = forge.operator().await;
        forge.create(forge.example()).await;
        forge.until_settled().await;
        let first = forge.current().await;
        let patches = Arc::new(AtomicUsize::new(0));
        let seen = patches.clone();
        forge.server.faults().plan(move |line| {
            let writes = line.resource == "secrets" && line.verb == Verb::Patch;
            let first = writes && seen.fetch_add(1, Ordering::Relaxed) == 0;
            if first { fault } else { Fault::Pass }
        });
        let edit = json!({
            "metadata": { "annotations": { "keyward.dev/rotate": "1" } },
            "spec": { "export": { "annotations": { "example.org/a": "1" } } },
        });
        forge.edit(Kind::Project, NAME, edit).await;
        forge.until_rotated_from(first).await;
        forge.until_settled().await;
        let secret = forge.secret(EXPORT).await.unwrap();
        assert_eq!(secret.annotations()["example.org/a"], "1", "{fault:?}");
        // The one that was refused, and the reservation for the value, which brought them along. Whoever was faster is looked
        // at, and then it is tried once more.
        let again = usize::from(fault == Fault::Conflict);
        assert_eq!(patches.load(Ordering::Relaxed), 2 + again, "{fault:?}");
        assert_eq!(forge.minted(), 2, "{fault:?}");
    }
}

/// S002-16: one block, one Secret, in the resource's own namespace.
#[tokio::test]
async fn no_other_namespace_is_written_to() {
    let forge = Forge::new().await;
    let _operator = forge.operator().await;
    let change = json!({ "spec": { "export": { "namespace": "team-b" } } });
    forge.create(with(forge.example(), change)).await;
    let told = forge
        .until_refused(Kind::Project, NAME, "InvalidSpec")
        .await;
    assert!(told.contains("export.namespace"), "{told}");
    assert_eq!(forge.faults().total(), 0);
    forge.assert_live(&[]);
}
