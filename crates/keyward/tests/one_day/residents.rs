//! Who lives in the town: a resource of every kind, each with an issuer's corner of its own, so that whatever is alive
//! there is its own.

use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::issuer::Kind;

use crate::hours::Hours;
use crate::town::{NAMESPACE, Town, resource};

pub(crate) const GROUP: &str = "team";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Of the stand-in issuer: how it mints, and whether into one Secret.
    Demo(Kind, bool),
    /// Of this Keystone user.
    AppCred(&'static str),
    Project,
    Group,
    Personal,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    pub(crate) name: &'static str,
    pub(crate) way: Way,
    /// How long a version that nobody holds outlives its successor's publication, in seconds.
    pub(crate) window: i64,
    /// Seconds from one rotation to the next; 0 is never by itself.
    every: i64,
}

const fn resident(name: &'static str, way: Way, window: i64, every: i64) -> Resident {
    Resident {
        name,
        way,
        window,
        every,
    }
}

const HOUR: i64 = 3600;

pub(crate) static RESIDENTS: [Resident; 13] = [
    resident("chosen", Way::Demo(Kind::Chosen, false), 120, 2 * HOUR),
    resident("place-a", Way::Demo(Kind::Chosen, true), 0, 3 * HOUR),
    resident("read", Way::Demo(Kind::ReadBack, false), 900, 3 * HOUR),
    resident("place-b", Way::Demo(Kind::ReadBack, true), 900, 0),
    resident("once", Way::Demo(Kind::ShownOnce, false), 0, 90 * 60),
    resident("place-c", Way::Demo(Kind::ShownOnce, true), 300, 2 * HOUR),
    resident("self", Way::Demo(Kind::SelfRotating, true), 0, 4 * HOUR),
    resident("given", Way::Demo(Kind::Provided, false), 0, 0),
    resident("barbican", Way::AppCred("barbican"), 120, 0),
    resident("cinder", Way::AppCred("cinder"), 0, 0),
    resident("app", Way::Project, 1800, HOUR),
    resident("crew", Way::Group, 0, 2 * HOUR),
    resident("root", Way::Personal, 0, 4 * HOUR),
];

impl Resident {
    pub(crate) fn is_in_place(&self) -> bool {
        match self.way {
            Way::Demo(_, in_place) => in_place,
            Way::AppCred(_) => false,
            Way::Project | Way::Group | Way::Personal => true,
        }
    }

    /// Whether a version lives for as long as somebody holds its Secret, whatever the time.
    pub(crate) fn waits_for_holders(&self) -> bool {
        !self.is_in_place() && self.is_minted() && self.name != "read"
    }

    /// Whether Keyward can make another by itself.
    pub(crate) fn is_minted(&self) -> bool {
        self.way != Way::Demo(Kind::Provided, false)
    }

    pub(crate) fn rotates_itself(&self) -> bool {
        matches!(self.way, Way::Demo(Kind::SelfRotating, _) | Way::Personal)
    }

    fn resource(&self) -> ApiResource {
        match self.way {
            Way::Demo(..) => resource("demo.keyward.dev", "v1alpha1", "DemoCredential"),
            Way::AppCred(_) => resource(
                "keystone.openstack.org",
                "v1beta1",
                "KeystoneApplicationCredential",
            ),
            Way::Project => resource("token-rotator.org", "v1alpha1", "GitLabProjectAccessToken"),
            Way::Group => resource("token-rotator.org", "v1alpha1", "GitLabGroupAccessToken"),
            Way::Personal => resource("token-rotator.org", "v1alpha1", "GitLabPersonalAccessToken"),
        }
    }

    pub(crate) fn storage(&self) -> String {
        let resource = self.resource();
        format!("{}.{}", resource.plural, resource.group)
    }

    pub(crate) fn api(&self, town: &Town) -> Api<DynamicObject> {
        town.cluster.api_of(&self.resource())
    }

    /// The Secret with which its issuer is reached; of the personal token, the one it lives in.
    pub(crate) fn login(&self) -> String {
        format!("login-{}", self.name)
    }

    pub(crate) fn target(&self) -> String {
        match self.way {
            Way::Personal => self.login(),
            Way::Demo(..) | Way::AppCred(_) | Way::Project | Way::Group => {
                format!("{}-target", self.name)
            }
        }
    }

    fn project(&self) -> String {
        format!("{GROUP}/{}", self.name)
    }

    pub(crate) fn manifest(&self, town: &Town) -> Value {
        let resource = self.resource();
        let mut object = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": { "name": self.name, "namespace": NAMESPACE },
            "spec": self.spec(town),
        });
        if let Way::AppCred(_) = self.way {
            let overlap = format!("{}s", self.window);
            object["metadata"]["annotations"] = json!({ "keyward.dev/minimum-overlap": overlap });
        }
        object
    }

    pub(crate) fn spec(&self, town: &Town) -> Value {
        match self.way {
            Way::Demo(kind, in_place) => {
                let retire = if in_place || self.name == "read" {
                    json!({ "mode": "AfterGrace", "graceSeconds": self.window, "overlapSeconds": 0 })
                } else {
                    json!({ "overlapSeconds": self.window })
                };
                let mut spec = json!({
                    "issuer": { "url": town.issuer.url(), "realm": self.name, "kind": word(kind) },
                    "loginSecret": self.login(), "rights": ["read"], "retire": retire,
                });
                if self.every > 0 {
                    spec["rotateAfterSeconds"] = self.every.into();
                }
                if in_place {
                    spec["delivery"] = "InPlace".into();
                    spec["secretName"] = self.target().into();
                    spec["adoptExistingSecret"] = true.into();
                }
                spec
            }
            Way::AppCred(user) => json!({
                "expirationDays": 365, "gracePeriodDays": 182, "passwordSelector": "password",
                "roles": ["service"], "secret": self.login(), "userName": user,
            }),
            Way::Project | Way::Group | Way::Personal => {
                let hours = self.every / HOUR;
                let mut spec = json!({
                    "rotationSchedule": format!("7 */{hours} * * *"), "baseURL": town.gitlab.url(),
                    "export": { "type": "Secret", "name": self.target() },
                });
                if self.window > 0 {
                    let grace = format!("{}m", self.window / 60);
                    let strategy =
                        json!({ "type": "KeepOld", "keepOld": { "gracePeriod": grace } });
                    spec["rotationStrategy"] = strategy;
                }
                if self.way == Way::Personal {
                    spec["adoptExistingSecret"] = true.into();
                    return spec;
                }
                spec["accessLevel"] = "Developer".into();
                spec["scopes"] = json!(["read_api"]);
                spec["apiTokenSecretRef"] = json!({ "name": self.login() });
                let home = if self.way == Way::Project {
                    "project"
                } else {
                    "group"
                };
                spec[home] = match self.way {
                    Way::Project => self.project().into(),
                    _ => self.name.into(),
                };
                spec
            }
        }
    }

    /// Its corner at the issuer, its login, and the resource.
    pub(crate) async fn moves_in(&self, town: &Town) {
        if let Way::Demo(kind, _) = self.way {
            let login = town.issuer.realm(self.name, kind);
            let data = json!({ "login": login.reveal() });
            match kind {
                Kind::Provided => self.is_given_another(town, true).await,
                Kind::Chosen | Kind::ReadBack | Kind::ShownOnce | Kind::SelfRotating => {
                    town.cluster.add_secret(&self.login(), &data).await;
                }
            }
            if kind == Kind::SelfRotating {
                let added = town.issuer.add(self.name, "first").unwrap();
                let data = json!({ "id": added.id, "secret": added.value.reveal() });
                town.cluster
                    .add_adoptable_secret(&self.target(), &data, self.name)
                    .await;
            }
        }
        match self.way {
            Way::Demo(..) => {}
            Way::AppCred(user) => {
                let data = json!({ "password": town.password_of(user) });
                town.cluster.add_secret(&self.login(), &data).await;
            }
            Way::Project | Way::Group => {
                self.corner_is_there(town);
                let token = town.gitlab.add_token(town.owner, "login", &["api"], None);
                let data = json!({ "token": token.value.reveal() });
                town.cluster.add_secret(&self.login(), &data).await;
            }
            Way::Personal => {
                let user = town.gitlab.add_user(self.name);
                let token = town
                    .gitlab
                    .add_token(user, "root", &["api", "self_rotate"], None);
                let data = json!({ "token": token.value.reveal() });
                town.cluster
                    .add_adoptable_secret(&self.login(), &data, self.name)
                    .await;
            }
        }
        self.is_created(town).await;
    }

    /// Everything of it is swept away, in the cluster and at the issuer, and it moves in anew.
    pub(crate) async fn starts_over(&self, town: &Town) {
        let nobody = json!({ "metadata": { "finalizers": [] } });
        self.is_patched(town, nobody.clone()).await;
        self.is_deleted(town).await;
        self.is_patched(town, nobody).await;
        let mut secrets = town.every_secret_of(self);
        secrets.push(self.login());
        for secret in secrets {
            town.patch_secret(&secret, json!({ "finalizers": [] }))
                .await;
            town.delete_secret(&secret).await;
        }
        match self.way {
            // Its realm is made anew.
            Way::Demo(..) => {}
            Way::AppCred(user) => {
                for id in self.alive(town) {
                    town.keystone.delete_application_credential(user, &id);
                }
                town.gives_a_new_password_to(user);
            }
            Way::Project | Way::Group | Way::Personal => {
                for id in self.alive(town) {
                    town.gitlab.revoke(id.parse().unwrap());
                }
            }
        }
        town.settle().await;
        self.moves_in(town).await;
    }

    /// GitLab has the project or group.
    pub(crate) fn corner_is_there(&self, town: &Town) {
        if town.corner_of(self).is_some() {
            return;
        }
        match self.way {
            Way::Project => town.is_at(self, Some(town.gitlab.add_project(&self.project()))),
            Way::Group => {
                let group = town.gitlab.add_group(self.name);
                let owner = testbed::gitlab::level::OWNER;
                town.gitlab.add_member(group, town.owner, owner);
                town.is_at(self, Some(group));
            }
            Way::Demo(..) | Way::AppCred(_) | Way::Personal => {}
        }
    }

    /// A person puts another credential into the Secret that the resource takes it from.
    pub(crate) async fn is_given_another(&self, town: &Town, is_first: bool) {
        let added = town.issuer.add(self.name, "given").unwrap();
        let data = json!({ "id": added.id, "secret": added.value.reveal() });
        if is_first {
            town.cluster.add_secret(&self.login(), &data).await;
        } else {
            let _ = town.cluster.write(&self.login(), &data).await;
        }
    }

    pub(crate) async fn is_created(&self, town: &Town) {
        let object: DynamicObject = serde_json::from_value(self.manifest(town)).unwrap();
        // It may be there: somebody was to delete it, and it is still held.
        let _ = self.api(town).create(&PostParams::default(), &object).await;
    }

    pub(crate) async fn is_deleted(&self, town: &Town) {
        let _ = self
            .api(town)
            .delete(self.name, &DeleteParams::default())
            .await;
    }

    pub(crate) async fn is_patched(&self, town: &Town, patch: Value) {
        let _ = self
            .api(town)
            .patch(self.name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
    }

    pub(crate) async fn is_annotated(&self, town: &Town, key: &str, value: Option<&str>) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.is_patched(town, patch).await;
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Chosen => "Chosen",
        Kind::ReadBack => "ReadBack",
        Kind::ShownOnce => "ShownOnce",
        Kind::SelfRotating => "SelfRotating",
        Kind::Provided => "Provided",
    }
}
