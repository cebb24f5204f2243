//! A namespace with a stand-in GitLab for it, the login of somebody who owns a project and a group there, and an
//! auditor's look into that GitLab.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use keyward::api::gitlab::{
    GitLabGroupAccessToken, GitLabPersonalAccessToken, GitLabProjectAccessToken,
};
use kube::api::{ApiResource, Patch, PatchParams};
use serde_json::{Value, json};
use testbed::canary::Canaries;
use testbed::controlplane::ControlPlane;
use testbed::gitlab::{Settings, StandIn, Use, level};
use testbed::proxy::Faults;

use super::leaks::Written;
use super::operator::{Launch, Operator};
use super::{Credential, OwnNamespace, Stage, own_namespace, until};

/// The Secret with the login, and the one that the first token is put into.
pub(crate) const ROOT: &str = "gitlab-root";
pub(crate) const EXPORT: &str = "app-token";
pub(crate) const PROJECT: &str = "team/app";
pub(crate) const GROUP: &str = "team";
/// How every value of GitLab's begins.
const VALUES_BEGIN: &str = "glpat-";

/// Longer than any back-off that a test can lead to.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Project,
    Group,
    Personal,
}

impl Kind {
    pub(crate) fn resource(self) -> ApiResource {
        match self {
            Self::Project => ApiResource::erase::<GitLabProjectAccessToken>(&()),
            Self::Group => ApiResource::erase::<GitLabGroupAccessToken>(&()),
            Self::Personal => ApiResource::erase::<GitLabPersonalAccessToken>(&()),
        }
    }
}

/// A stage for tokens of this kind.
pub(crate) async fn stage(plane: &'static ControlPlane, kind: Kind) -> Stage {
    Stage::with(plane, kind.resource(), "gitlab").await
}

pub(crate) struct Forge {
    own: OwnNamespace,
    pub(crate) gitlab: Arc<StandIn>,
    /// The person whose personal token is the login, and that token's id.
    pub(crate) owner: u64,
    pub(crate) login: u64,
}

impl Deref for Forge {
    type Target = OwnNamespace;

    fn deref(&self) -> &OwnNamespace {
        &self.own
    }
}

impl Forge {
    pub(crate) async fn new(stage: &Stage, namespace: &str) -> Self {
        Self::with(stage, namespace, Settings::default()).await
    }

    pub(crate) async fn with(stage: &Stage, namespace: &str, settings: Settings) -> Self {
        let own = OwnNamespace::new(stage, namespace).await;
        let gitlab = StandIn::start(settings).unwrap();
        let group = gitlab.add_group(GROUP);
        gitlab.add_project(PROJECT);
        let owner = gitlab.add_user("olga");
        gitlab.add_member(group, owner, level::OWNER);
        let login = gitlab.add_token(owner, "login", &["api"], None);
        let forge = Self {
            own,
            gitlab: Arc::new(gitlab),
            owner,
            login: login.id,
        };
        forge
            .put_secret(ROOT, json!({ "token": login.value.reveal() }))
            .await;
        // As the sample has it.
        forge.let_adopt(ROOT).await;
        forge
    }

    /// The owner of the login lets this resource take it over.
    pub(crate) async fn let_adopt(&self, by: &str) {
        let patch = json!({ "metadata": { "annotations": { "keyward.dev/adoptable-by": by } } });
        self.secrets()
            .patch(ROOT, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    /// Somebody writes a value into a Secret that is there.
    pub(crate) async fn write(&self, secret: &str, value: &str) {
        let patch = json!({ "stringData": { "token": value } });
        self.secrets()
            .patch(secret, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.gitlab.faults()
    }

    /// The operator of this namespace, allowed to speak to this GitLab.
    pub(crate) fn launch(&self, proxy: Option<&str>) -> Launch {
        let mut launch = self.own.launch(proxy);
        launch.more = vec!["--allow-base-url".to_owned(), self.gitlab.url()];
        launch
    }

    /// A spec of this kind, rotated once a day, with these fields beside.
    pub(crate) fn spec(&self, kind: Kind, more: &Value) -> Value {
        let mut spec = json!({ "rotationSchedule": "0 3 * * *", "baseURL": self.gitlab.url() });
        let own = match kind {
            Kind::Personal => json!({
                "export": { "type": "Secret", "name": ROOT }, "adoptExistingSecret": true,
            }),
            Kind::Project | Kind::Group => json!({
                "accessLevel": "Developer", "scopes": ["read_api"],
                "export": { "type": "Secret", "name": EXPORT },
                "apiTokenSecretRef": { "name": ROOT },
            }),
        };
        let place = match kind {
            Kind::Project => json!({ "project": PROJECT }),
            Kind::Group => json!({ "group": GROUP }),
            Kind::Personal => json!({}),
        };
        for fields in [&own, &place, more] {
            for (key, value) in fields.as_object().unwrap() {
                spec[key] = value.clone();
            }
        }
        spec
    }

    pub(crate) async fn value_in(&self, secret: &str) -> Option<String> {
        let secret = self.secrets().get_opt(secret).await.unwrap()?;
        let value = secret.data?.get("token")?.0.clone();
        String::from_utf8(value).ok()
    }

    /// What a consumer meets with what is in a Secret.
    pub(crate) async fn use_exported(&self, secret: &str) -> Use {
        let value = self.value_in(secret).await.unwrap_or_default();
        self.gitlab.use_token(&value)
    }

    /// Ids of everything that lets somebody in.
    pub(crate) fn live(&self) -> BTreeSet<u64> {
        self.gitlab.live().into_iter().map(|live| live.id).collect()
    }

    /// Waits for exactly these to be alive.
    pub(crate) async fn until_live(&self, wanted: &[u64], when: &str) -> Result<(), String> {
        let wanted: BTreeSet<u64> = wanted.iter().copied().collect();
        let alone = async || self.live() == wanted;
        let outcome = until(when, PATIENCE, alone).await;
        outcome.map_err(|error| {
            let live = self.live();
            format!("orphan: {error}: {live:?} are alive, and not {wanted:?}")
        })
    }

    pub(crate) fn describe(&self, credential: &Credential) -> String {
        own_namespace::describe(credential, self.faults())
    }

    fn canaries(&self) -> Canaries {
        let canaries = Canaries::new();
        for (n, value) in self.gitlab.every_value().iter().enumerate() {
            canaries.add(&format!("value {n}"), value.reveal());
        }
        canaries
    }

    /// Everything that can be read of the operator and of the namespace, and whether a value is in it.
    pub(crate) async fn leaks(
        &self,
        written: &mut Written,
        launch: &Launch,
        operator: Option<&Operator>,
    ) -> Vec<String> {
        self.leaks_of(&self.canaries(), VALUES_BEGIN, written, launch, operator)
            .await
    }

    pub(crate) async fn assert_no_leak(&self, launch: &Launch, operator: Option<&Operator>) {
        self.assert_none_of(&self.canaries(), VALUES_BEGIN, launch, operator)
            .await;
    }
}

/// The id of the current token by status.
pub(crate) fn current(credential: &Credential) -> Option<u64> {
    let object = credential.seen()?;
    let id = &object.data["status"]["currentTokenRef"]["id"];
    id.as_str()?.parse().ok()
}
