//! Situations of GitLab tokens.

use serde_json::{Value, json};
use testbed::gitlab::{ROTATE_SELF, Settings, StandIn, level};
use testbed::proxy::Fault;

use crate::Subject;
use crate::stage::Stage;

const IT: Subject = "glprat/app";
const PERSONAL: Subject = "glpat/root";
const ROOT: &str = "gitlab-root";
/// Longer than a self-rotation is waited for.
const TEN_MINUTES: i64 = 600;

/// A GitLab with a project, and a login for it that a person made.
async fn forge(stage: &Stage) -> StandIn {
    let gitlab = StandIn::start(Settings::default()).unwrap();
    let group = gitlab.add_group("team");
    gitlab.add_project("team/app");
    let owner = gitlab.add_user("olga");
    gitlab.add_member(group, owner, level::OWNER);
    let login = gitlab.add_token(owner, "login", &["api"], None);
    let metadata = json!({ "name": ROOT, "annotations": { "keyward.dev/adoptable-by": "root" } });
    let data = json!({ "token": login.value.reveal() });
    stage.add_secret(metadata, data).await;
    gitlab
}

fn spec(gitlab: &StandIn, change: &Value) -> Value {
    let mut spec = json!({
        "project": "team/app", "accessLevel": "Developer", "scopes": ["read_api"],
        "rotationSchedule": "0 3 * * *", "baseURL": gitlab.url(),
        "export": { "type": "Secret", "name": "app-token" },
        "apiTokenSecretRef": { "name": ROOT },
    });
    for (key, value) in change.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

/// A project token with this in its spec.
async fn token(stage: &Stage, change: Value) {
    let gitlab = forge(stage).await;
    stage.operator().await;
    stage.create("glprat", "app", spec(&gitlab, &change)).await;
    stage.keep(gitlab);
}

pub(crate) async fn the_schedule_cannot_be_read(stage: &Stage) -> Subject {
    token(stage, json!({ "rotationSchedule": "61 3 * * *" })).await;
    stage.until_it_says(IT, "ScheduleInvalid").await;
    IT
}

pub(crate) async fn the_grace_period_is_too_long(stage: &Stage) -> Subject {
    let keep_old = json!({ "type": "KeepOld", "keepOld": { "gracePeriod": "2h" } });
    let change = json!({ "rotationSchedule": "0 * * * *", "rotationStrategy": keep_old });
    token(stage, change).await;
    stage.until_it_says(IT, "InvalidGracePeriod").await;
    IT
}

pub(crate) async fn the_project_does_not_exist(stage: &Stage) -> Subject {
    token(stage, json!({ "project": "team/missing" })).await;
    stage.until_it_says(IT, "IssuerRejected").await;
    IT
}

pub(crate) async fn the_secret_is_somebody_elses(stage: &Stage) -> Subject {
    let data = json!({ "token": "made by hand" });
    stage.add_secret(json!({ "name": "app-token" }), data).await;
    token(stage, json!({})).await;
    stage.until_it_says(IT, "SecretNotAdopted").await;
    IT
}

pub(crate) async fn the_secret_is_another_resources(stage: &Stage) -> Subject {
    let gitlab = forge(stage).await;
    stage.operator().await;
    let one = spec(&gitlab, &json!({}));
    stage.create("glprat", "one", one.clone()).await;
    stage.until_settled("glprat/one").await;
    stage.create("glprat", "app", one).await;
    stage.until_it_says(IT, "SecretNotAdopted").await;
    stage.keep(gitlab);
    IT
}

pub(crate) async fn two_tokens_log_in_with_each_other(stage: &Stage) -> Subject {
    let gitlab = forge(stage).await;
    stage.operator().await;
    let other = json!({
        "export": { "type": "Secret", "name": "other-token" },
        "apiTokenSecretRef": { "name": "app-token" },
    });
    stage.create("glprat", "other", spec(&gitlab, &other)).await;
    let this = json!({ "apiTokenSecretRef": { "name": "other-token" } });
    stage.create("glprat", "app", spec(&gitlab, &this)).await;
    stage.until_it_says(IT, "DependencyCycle").await;
    stage.until_it_says("glprat/other", "DependencyCycle").await;
    stage.keep(gitlab);
    IT
}

pub(crate) async fn the_old_token_is_in_its_grace_period(stage: &Stage) -> Subject {
    let keep_old = json!({ "type": "KeepOld", "keepOld": { "gracePeriod": "2h" } });
    token(stage, json!({ "rotationStrategy": keep_old })).await;
    stage.until_settled(IT).await;
    stage.annotate(IT, "keyward.dev/rotate", "1").await;
    stage.until_it_says(IT, "InGrace").await;
    IT
}

/// A personal token that was adopted and rotated once. The operator's clock is behind, so that it can come to be right.
async fn adopted(stage: &Stage) -> StandIn {
    let gitlab = forge(stage).await;
    stage.clock.jump(-TEN_MINUTES);
    stage.operator().await;
    let spec = json!({
        "rotationSchedule": "0 4 * * *", "baseURL": gitlab.url(),
        "export": { "type": "Secret", "name": ROOT }, "adoptExistingSecret": true,
    });
    stage.create("glpat", "root", spec).await;
    stage.until_settled(PERSONAL).await;
    gitlab
}

/// A self-rotation is asked for, and meets with this.
async fn rotate_into(stage: &Stage, fault: Fault) -> StandIn {
    let gitlab = adopted(stage).await;
    gitlab.faults().next(ROTATE_SELF, fault);
    stage.annotate(PERSONAL, "keyward.dev/rotate", "1").await;
    gitlab
}

/// GitLab said that it failed, and the value still works: nothing happened, and it is tried again later.
pub(crate) async fn a_self_rotation_was_answered_with_an_error(stage: &Stage) -> Subject {
    let gitlab = adopted(stage).await;
    gitlab.faults().every(ROTATE_SELF, Fault::Error(500));
    stage.annotate(PERSONAL, "keyward.dev/rotate", "1").await;
    stage.until_it_says(PERSONAL, "RotationUndone").await;
    stage.keep(gitlab);
    PERSONAL
}

pub(crate) async fn no_answer_came_to_a_self_rotation(stage: &Stage) -> Subject {
    let gitlab = rotate_into(stage, Fault::DropNotApplied).await;
    stage.until_it_says(PERSONAL, "RotationUnanswered").await;
    stage.keep(gitlab);
    PERSONAL
}

pub(crate) async fn nobody_knows_whether_a_self_rotation_happened(stage: &Stage) -> Subject {
    let gitlab = rotate_into(stage, Fault::DropNotApplied).await;
    stage.until_it_says(PERSONAL, "RotationUnanswered").await;
    stage.later(TEN_MINUTES);
    stage.until_it_says(PERSONAL, "RotationUnconfirmed").await;
    stage.keep(gitlab);
    PERSONAL
}

pub(crate) async fn the_answer_to_a_self_rotation_was_lost(stage: &Stage) -> Subject {
    let gitlab = rotate_into(stage, Fault::DropApplied).await;
    stage.until_it_says(PERSONAL, "RotationUnanswered").await;
    stage.later(TEN_MINUTES);
    stage.until_it_says(PERSONAL, "RootCredentialLost").await;
    stage.keep(gitlab);
    PERSONAL
}

pub(crate) async fn a_tool_brought_a_dead_token_back(stage: &Stage) -> Subject {
    let gitlab = adopted(stage).await;
    let dead = json!({ "stringData": { "token": "glpat-from-git" } });
    stage.patch_secret(ROOT, dead).await;
    stage.until_it_says(PERSONAL, "BootstrapReverted").await;
    stage.keep(gitlab);
    PERSONAL
}
