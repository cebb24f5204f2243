//! How each deed is done, and how it is undone.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testbed::issuer::Fault;

#[allow(
    clippy::enum_glob_use,
    reason = "every deed is spelled out, again and again"
)]
use crate::deeds::Deed::*;
use crate::deeds::{Deed, HOLDER};
use crate::residents::{Resident, Way};
use crate::town::Town;

const LEDGER: &str = "keyward.dev/ledger";

impl Deed {
    /// Does it, and says what it is about.
    pub(crate) async fn is_done(self, town: &mut Town, to: &Resident, token: usize) -> String {
        let object = town.stored(to);
        let object = object.as_deref().cloned().unwrap_or_default();
        let published = to.published(town, &object);
        let secret = published.secret.as_str();
        match self {
            AskForRotation if to.is_minted() => {
                let token = format!("asked-{token}");
                to.is_annotated(town, "keyward.dev/rotate", Some(&token))
                    .await;
                return if object.is_null() {
                    String::new()
                } else {
                    token
                };
            }
            AskForRotation => to.is_given_another(town, false).await,
            RevokeNow => {
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
                to.is_annotated(town, "keyward.dev/revoke-now", Some(uid))
                    .await;
                return published.id;
            }
            Suspend => {
                to.is_annotated(town, "keyward.dev/suspend", Some("true"))
                    .await;
            }
            EditSpec => to.is_patched(town, edited(to, &object)).await,
            BreakSpec => to.is_patched(town, broken(to)).await,
            StripLedger => to.is_annotated(town, LEDGER, None).await,
            GarbleLedger => to.is_annotated(town, LEDGER, Some("{\"v\":2,")).await,
            StripStatus => {
                let patch = json!({ "status": null });
                let params = PatchParams::default();
                let api = to.api(town);
                let _ = api
                    .patch_status(to.name, &params, &Patch::Merge(&patch))
                    .await;
            }
            StripGuard => {
                let metadata = json!({ "metadata": { "finalizers": without_guard(&object) } });
                to.is_patched(town, metadata).await;
            }
            HoldResource => {
                let metadata = json!({ "metadata": { "finalizers": with_holder(&object) } });
                to.is_patched(town, metadata).await;
            }
            Delete => to.is_deleted(town).await,
            DeleteByForce => {
                to.is_patched(town, json!({ "metadata": { "finalizers": [] } }))
                    .await;
                to.is_deleted(town).await;
                to.is_patched(town, json!({ "metadata": { "finalizers": [] } }))
                    .await;
            }
            Hold => {
                if town.change_secret(secret, holding).await {
                    return published.id;
                }
            }
            StripSecretLabels => {
                town.patch_secret(secret, json!({ "labels": null })).await;
            }
            StripSecretAnnotations => {
                town.patch_secret(secret, json!({ "annotations": null }))
                    .await;
            }
            StripSecretOwner => {
                town.patch_secret(secret, json!({ "ownerReferences": [] }))
                    .await;
            }
            StripSecretGuard => {
                town.change_secret(
                    secret,
                    |secret| json!({ "finalizers": without_guard(secret) }),
                )
                .await;
            }
            DeleteSecret => town.delete_secret(secret).await,
            CopySecret => {
                let name = format!("copy-{token}");
                town.copy_secret(secret, &name).await;
                return name;
            }
            HoldEverySecret => {
                for name in town.secrets_of(&object) {
                    town.change_secret(&name, holding).await;
                }
            }
            RemoveLogin => {
                let kept = town.stored_secret(&to.login());
                town.delete_secret(&to.login()).await;
                return kept
                    .map(|kept| kept["data"].to_string())
                    .unwrap_or_default();
            }
            SpoilLogin => {
                let kept = town.stored_secret(&to.login());
                let key = match to.way {
                    Way::Demo(..) => "login",
                    Way::AppCred(_) => "password",
                    Way::Project | Way::Group | Way::Personal => "token",
                };
                let wrong = json!({ key: format!("wrong-{token}") });
                let _ = town.cluster.write(&to.login(), &wrong).await;
                return kept
                    .map(|kept| kept["data"].to_string())
                    .unwrap_or_default();
            }
            ChangePassword => {
                let Way::AppCred(user) = to.way else {
                    return String::new();
                };
                let password = format!("changed-{token}");
                town.keystone.set_password(user, &password);
                return password;
            }
            IssuerDown => town.weather.is(to, Some(Fault::Error(503))),
            IssuerRefuses => town.weather.is(to, Some(Fault::Error(403))),
            IssuerNeverAnswers => town.weather.is(to, Some(Fault::TimeoutNotApplied)),
            LoseAReply => {
                town.weather.loses_a_reply(to);
                let token = format!("asked-{token}");
                to.is_annotated(town, "keyward.dev/rotate", Some(&token))
                    .await;
                return if object.is_null() {
                    String::new()
                } else {
                    token
                };
            }
            DisableUser => match to.way {
                Way::AppCred(user) => town.keystone.disable_user(user),
                Way::Demo(..) | Way::Project | Way::Group | Way::Personal => {
                    town.issuer.disable_login(to.name);
                }
            },
            RemoveProject => {
                if let Some(project) = town.corner_of(to) {
                    town.gitlab.remove(project);
                    town.is_at(to, None);
                }
            }
            KeystoneNotReady => town.keystone_is_ready(false).await,
            RestartOperator => {
                town.kill_operator();
                town.start_operator().await;
            }
            StopOperator => town.kill_operator(),
            ClockAhead => town.cluster.clock.jump(3 * 3600),
            ClockBehind => town.cluster.clock.jump(-3 * 3600),
        }
        String::new()
    }

    /// Undoes it.
    pub(crate) async fn ends(self, town: &mut Town, to: &Resident, about: &str) {
        match self {
            Suspend => to.is_annotated(town, "keyward.dev/suspend", None).await,
            BreakSpec => {
                let spec = to.spec(town);
                to.is_patched(town, json!({ "spec": spec })).await;
            }
            HoldResource => {
                let object = town.stored(to);
                let object = object.as_deref().cloned().unwrap_or_default();
                let metadata = json!({ "metadata": { "finalizers": without_holder(&object) } });
                to.is_patched(town, metadata).await;
            }
            Delete | DeleteByForce => to.is_created(town).await,
            Hold | HoldEverySecret => {
                for name in town.every_secret_of(to) {
                    town.change_secret(
                        &name,
                        |secret| json!({ "finalizers": without_holder(secret) }),
                    )
                    .await;
                }
            }
            CopySecret => {
                town.patch_secret(about, json!({ "finalizers": [] })).await;
                town.delete_secret(about).await;
            }
            RemoveLogin | SpoilLogin => {
                let data: Value = serde_json::from_str(about).unwrap_or_default();
                town.put_login_back(&to.login(), data).await;
            }
            ChangePassword => {
                let data = json!({ "password": about });
                let _ = town.cluster.write(&to.login(), &data).await;
            }
            IssuerDown | IssuerRefuses | IssuerNeverAnswers => town.weather.is(to, None),
            DisableUser => match to.way {
                Way::AppCred(user) => town.keystone.enable_user(user),
                Way::Demo(..) | Way::Project | Way::Group | Way::Personal => {
                    town.issuer.enable_login(to.name);
                }
            },
            RemoveProject => to.corner_is_there(town),
            KeystoneNotReady => town.keystone_is_ready(true).await,
            StopOperator => {
                if town.operator.is_none() {
                    town.start_operator().await;
                }
            }
            ClockAhead => town.cluster.clock.jump(-3 * 3600),
            ClockBehind => town.cluster.clock.jump(3 * 3600),
            AskForRotation
            | RevokeNow
            | EditSpec
            | StripLedger
            | GarbleLedger
            | StripStatus
            | StripGuard
            | StripSecretLabels
            | StripSecretAnnotations
            | StripSecretOwner
            | StripSecretGuard
            | DeleteSecret
            | LoseAReply
            | RestartOperator => {}
        }
    }
}

fn finalizers(object: &Value) -> Vec<String> {
    let all = object["metadata"]["finalizers"].as_array().into_iter();
    let all = all.flatten().filter_map(Value::as_str);
    all.map(ToOwned::to_owned).collect()
}

fn without_guard(object: &Value) -> Vec<String> {
    let all = finalizers(object).into_iter();
    all.filter(|one| one == HOLDER).collect()
}

fn without_holder(object: &Value) -> Vec<String> {
    let all = finalizers(object).into_iter();
    all.filter(|one| one != HOLDER).collect()
}

fn with_holder(object: &Value) -> Vec<String> {
    let mut all = without_holder(object);
    all.push(HOLDER.to_owned());
    all
}

fn holding(secret: &Value) -> Value {
    json!({ "finalizers": with_holder(secret) })
}

/// Something else is asked for, so that another credential has to be made.
fn edited(to: &Resident, object: &Value) -> Value {
    match to.way {
        Way::Demo(..) => {
            let is_more = object["spec"]["rights"]
                .as_array()
                .is_some_and(|all| all.len() > 1);
            let rights = if is_more {
                json!(["read"])
            } else {
                json!(["read", "write"])
            };
            json!({ "spec": { "rights": rights } })
        }
        Way::AppCred(_) => {
            let is = object["spec"]["unrestricted"] == true;
            json!({ "spec": { "unrestricted": !is } })
        }
        Way::Project | Way::Group | Way::Personal => {
            let is_more = object["spec"]["scopes"]
                .as_array()
                .is_some_and(|all| all.len() > 1);
            let scopes = if is_more {
                json!(["read_api"])
            } else {
                json!(["read_api", "read_repository"])
            };
            json!({ "spec": { "scopes": scopes } })
        }
    }
}

/// What no definition refuses and nobody can serve.
fn broken(to: &Resident) -> Value {
    match to.way {
        Way::Demo(..) => {
            json!({ "spec": { "issuer": { "url": "http://127.0.0.1:80@evil.example" } } })
        }
        Way::AppCred(_) => json!({ "spec": { "userName": "nobody/such" } }),
        Way::Project | Way::Group | Way::Personal => {
            json!({ "spec": { "rotationSchedule": "61 3 * * *" } })
        }
    }
}
