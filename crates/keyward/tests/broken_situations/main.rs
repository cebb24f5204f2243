//! What a person reads when something is wrong: `kubectl get`, `keyward status`, `keyward explain` and
//! `keyward rotate --wait` in thirty-odd broken situations, each golden.
//!
//! Read a changed file in `snapshots/` as somebody would who sees Keyward for the first time. It must say what is wrong,
//! what ends it, whose move it is, and with which command.

#![allow(
    clippy::unwrap_used,
    reason = "a situation that does not come about ends the test"
)]

mod demo;
mod gitlab;
mod keystone;
mod printed;
mod stage;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use stage::Stage;

/// What a situation is about: `KIND/NAME`, as people type it.
type Subject = &'static str;

/// One test for each line: the situation is brought about, and what is printed is compared with what was reviewed.
macro_rules! situations {
    ($($stage:ident: $($situation:ident),+;)+) => {
        $($(
            #[tokio::test(flavor = "multi_thread")]
            async fn $situation() {
                let stage = Stage::new().await;
                let subject = $stage::$situation(&stage).await;
                insta::assert_snapshot!(stringify!($situation), everything(&stage, subject).await);
            }
        )+)+
    };
}

situations! {
    demo:
        no_operator_runs,
        the_login_secret_is_missing,
        the_issuer_does_not_answer,
        the_issuer_asks_to_wait,
        the_issuer_refuses_the_login_at_a_rotation,
        two_consumers_hold_the_old_version,
        a_pod_refers_to_the_old_version,
        an_old_version_is_kept_for_the_minimum_overlap,
        every_old_version_is_held_up_to_the_cap,
        it_is_suspended,
        it_was_rolled_back,
        somebody_copied_its_secret,
        its_secret_says_it_is_anothers,
        a_newer_keyward_wrote_the_ledger,
        it_was_restored_from_a_backup,
        somebody_elses_life_is_to_be_taken_over,
        it_is_deleted_while_two_hold_it,
        the_cluster_forbids_writing_secrets;
    keystone:
        there_is_no_keystone_api,
        the_keystone_api_is_not_ready,
        the_password_is_wrong,
        the_password_is_not_text,
        the_user_is_disabled,
        the_user_lost_its_role,
        every_version_of_an_application_credential_is_held,
        an_application_credential_is_deleted_while_two_hold_it;
    gitlab:
        the_schedule_cannot_be_read,
        the_grace_period_is_too_long,
        the_project_does_not_exist,
        the_secret_is_somebody_elses,
        the_secret_is_another_resources,
        two_tokens_log_in_with_each_other,
        the_old_token_is_in_its_grace_period,
        a_self_rotation_was_answered_with_an_error,
        no_answer_came_to_a_self_rotation,
        nobody_knows_whether_a_self_rotation_happened,
        the_answer_to_a_self_rotation_was_lost,
        a_tool_brought_a_dead_token_back;
}

/// All that is printed, in the order in which a person would ask. Asking for a rotation changes something, so it is last.
async fn everything(stage: &Stage, subject: Subject) -> String {
    let kind = subject.split('/').next().unwrap();
    let here = ["-n", stage::NAMESPACE];
    let mut text = format!("$ kubectl get {kind}\n{}", stage.kubectl_get(kind).await);
    let commands: [&[&str]; 3] = [
        &["status"],
        &["explain", subject],
        &["rotate", subject, "--wait", "--timeout", "2s"],
    ];
    for command in commands {
        let args = [command, &here].concat();
        let _ = writeln!(text, "\n$ keyward {}", command.join(" "));
        text += &stage.keyward(&args).await;
    }
    printed::without_what_varies(&text)
}

/// X-words: what was reviewed is all there.
#[test]
fn at_least_thirty_situations_are_printed_in_four_ways() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken_situations/snapshots");
    let reviewed = fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        (
            path.display().to_string(),
            fs::read_to_string(path).unwrap(),
        )
    });
    let reviewed: Vec<(String, String)> = reviewed.collect();
    assert!(reviewed.len() >= 30, "{}", reviewed.len());
    for command in [
        "kubectl get",
        "keyward status",
        "keyward explain",
        "keyward rotate",
    ] {
        for (path, text) in &reviewed {
            assert!(
                text.contains(&format!("\n$ {command}")),
                "{path}: {command}"
            );
        }
    }
}
