//! Ending tokens of projects and groups: which answers prove that one is dead, and which do not.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod on_gitlab;

use lifecycle::{IssuedId, Mark, TroubleKind, Verdict, Version};
use sources::gitlab::Home;
use sources::{Proof, Values};
use testbed::gitlab::{self, Settings, Use, level};
use testbed::proxy::Fault;

use on_gitlab::{OnGitLab, holding, mark, number, of, owner, value_of};

fn knowing<'a>(mark: &'a Mark, values: &'a Values) -> Proof<'a> {
    Proof {
        values: Some(values),
        ..Proof::by(mark)
    }
}

#[tokio::test]
async fn a_login_whose_role_is_too_low_is_told_401_and_nothing_is_taken_for_dead() {
    let on = OnGitLab::new(Settings::default());
    let minted = on.mint(&on.of_project(), Version::new(1, 1)).await;
    let developer = on.gitlab.add_user("dan");
    on.gitlab
        .add_member(on.project, developer, level::DEVELOPER);
    let login = on.gitlab.add_token(developer, "too low", &["api"], None);
    let low = of(
        on.server(),
        Home::Project("team/app".into()),
        Some(login.value.reveal()),
    );
    let denied = low.gone(&minted.id, None).await.unwrap_err();
    assert_eq!(denied.kind, TroubleKind::Denied);
    assert!(low.list(&owner(), &[]).await.is_err());
    // What the token says of itself does count.
    assert!(!low.gone(&minted.id, Some(&minted.values)).await.unwrap());
    on.gitlab.revoke(number(&minted.id));
    assert!(low.gone(&minted.id, Some(&minted.values)).await.unwrap());
    // A value that nobody knows proves nothing about the token.
    let unknown = holding("glpat-nobody-knows-this-one");
    assert!(low.gone(&minted.id, Some(&unknown)).await.is_err());
}

#[tokio::test]
async fn a_project_that_we_no_longer_see_is_not_a_token_that_is_gone() {
    let on = OnGitLab::new(Settings::default());
    let minted = on.mint(&on.of_project(), Version::new(1, 1)).await;
    let blind = of(
        on.server(),
        Home::Project("team/app".into()),
        Some(&on.strangers_token()),
    );
    let error = blind
        .revoke(&Proof::by(&mark()), &minted.id)
        .await
        .unwrap_err();
    assert_eq!(error.kind, TroubleKind::Rejected);
    assert!(error.detail.contains("lost sight"), "{error}");
    assert_eq!(
        on.asked(gitlab::SHOW_PROJECT),
        1,
        "the project itself was asked for"
    );
    assert!(blind.gone(&minted.id, None).await.is_err());
    assert_eq!(on.gitlab.use_token(value_of(&minted.values)), Use::Works);
    // The token itself can still be used to end it.
    blind
        .revoke(&knowing(&mark(), &minted.values), &minted.id)
        .await
        .unwrap();
    assert_eq!(on.gitlab.use_token(value_of(&minted.values)), Use::Revoked);
}

#[tokio::test]
async fn a_404_about_the_project_that_the_project_contradicts_ends_nothing() {
    let on = OnGitLab::new(Settings::default());
    let source = on.of_project();
    let minted = on.mint(&source, Version::new(1, 1)).await;
    on.gitlab
        .faults()
        .next(gitlab::REVOKE_PROJECT_TOKEN, Fault::Error(404));
    let error = source
        .revoke(&Proof::by(&mark()), &minted.id)
        .await
        .unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unexpected, "{error}");
    source
        .revoke(&Proof::by(&mark()), &minted.id)
        .await
        .unwrap();
    // And where the token is indeed gone, the look shows it.
    on.gitlab
        .faults()
        .next(gitlab::REVOKE_PROJECT_TOKEN, Fault::Error(404));
    source
        .revoke(&Proof::by(&mark()), &minted.id)
        .await
        .unwrap();
}

#[tokio::test]
async fn on_old_servers_a_second_revoke_finds_nothing_and_is_fine() {
    let settings = Settings {
        revoke_deletes_bot: Some(true),
        ..Settings::default()
    };
    let on = OnGitLab::new(settings);
    let source = on.of_project();
    let minted = on.mint(&source, Version::new(1, 1)).await;
    source
        .revoke(&Proof::by(&mark()), &minted.id)
        .await
        .unwrap();
    source
        .revoke(&Proof::by(&mark()), &minted.id)
        .await
        .unwrap();
    assert!(source.gone(&minted.id, None).await.unwrap());
    // Its value is not "revoked" there but unknown: GitLab knows the login in the same breath, so this is an answer.
    assert_eq!(
        source.verify(&minted.values).await.unwrap(),
        Verdict::Refused
    );
}

#[tokio::test]
async fn a_token_ends_itself_when_the_login_is_gone_or_may_not() {
    let on = OnGitLab::new(Settings::default());
    let source = on.of_project();
    let project = || Home::Project("team/app".into());
    let developer = on.gitlab.add_user("dan");
    on.gitlab
        .add_member(on.project, developer, level::DEVELOPER);
    let low = on.gitlab.add_token(developer, "too low", &["api"], None);
    let dead = on.gitlab.add_token(on.owner, "dead", &["api"], None);
    on.gitlab.revoke(dead.id);
    for (attempt, login) in [
        None,
        Some("glpat-nobody-knows-this-one"),
        Some(dead.value.reveal()),
        Some(low.value.reveal()),
    ]
    .into_iter()
    .enumerate()
    {
        let version = Version::new(1, u32::try_from(attempt).unwrap() + 1);
        let minted = on.mint(&source, version).await;
        let helpless = of(on.server(), project(), login);
        let mark = owner().mark(version);
        let by_mark = Proof::by(&mark);
        assert!(helpless.revoke(&by_mark, &minted.id).await.is_err());
        assert_eq!(on.gitlab.use_token(value_of(&minted.values)), Use::Works);
        let knowing = knowing(&mark, &minted.values);
        helpless.revoke(&knowing, &minted.id).await.unwrap();
        assert_eq!(on.gitlab.use_token(value_of(&minted.values)), Use::Revoked);
        helpless.revoke(&knowing, &minted.id).await.unwrap();
    }
}

#[tokio::test]
async fn whatever_stands_in_the_secret_no_other_token_is_ended_in_its_stead() {
    let on = OnGitLab::new(Settings::default());
    let minted = on.mint(&on.of_project(), Version::new(1, 1)).await;
    let innocent = on
        .gitlab
        .add_token(on.owner, "somebody's own", &["api"], None);
    let helpless = of(on.server(), Home::Project("team/app".into()), None);
    let values = holding(innocent.value.reveal());
    let error = helpless
        .revoke(&knowing(&mark(), &values), &minted.id)
        .await
        .unwrap_err();
    assert_eq!(error.kind, TroubleKind::Denied);
    assert_eq!(on.gitlab.use_token(innocent.value.reveal()), Use::Works);
    assert_eq!(on.asked(gitlab::REVOKE_SELF), 0);
}

/// Everything of ours was made here under its mark: there is no other proof, not even the value.
#[tokio::test]
async fn a_token_of_the_project_without_the_mark_is_nobodys_of_ours_to_end() {
    let on = OnGitLab::new(Settings::default());
    let scopes = ["read_api"];
    let foreign =
        on.gitlab
            .add_resource_token(on.project, on.owner, "ci", level::GUEST, &scopes, None);
    let (mark, values) = (mark(), holding(foreign.value.reveal()));
    let id = IssuedId::from(foreign.id.to_string());
    let proof = Proof {
        mark: &mark,
        recorded: true,
        values: Some(&values),
    };
    let helpless = of(on.server(), Home::Project("team/app".into()), None);
    for source in [on.of_project(), helpless] {
        let error = source.revoke(&proof, &id).await.unwrap_err();
        assert_eq!(error.kind, TroubleKind::Rejected, "{error}");
        assert!(error.detail.contains("may be anybody's"), "{error}");
    }
    assert_eq!(on.gitlab.use_token(foreign.value.reveal()), Use::Works);
    assert_eq!(on.asked(gitlab::REVOKE_PROJECT_TOKEN), 0);
    assert_eq!(on.asked(gitlab::REVOKE_SELF), 0);
}
