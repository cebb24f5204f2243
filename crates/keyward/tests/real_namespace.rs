//! A namespace that is deleted with a credential in it: real kube-apiserver, real namespace controller, real Keystone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod real_stage;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use real_stage::cloud::{self, Cloud, PATIENCE};
use real_stage::operator::{Launch, Operator};
use real_stage::{Credential, plane, until};
use testbed::keystone;
use testbed::keystone::real::{Keystone, Options};

const NAME: &str = "ac-barbican";
const USER: &str = "barbican";

/// A credential that is Ready, in a namespace that is about to go.
struct Play {
    cloud: Cloud,
    credential: Credential,
    /// Id and value of the credential.
    pair: (String, String),
    launch: Launch,
    operator: Operator,
    _issuer: Keystone,
}

impl Play {
    async fn begin(namespace: &str) -> Self {
        let issuer = Keystone::start(Options::default()).await.unwrap();
        let stage = cloud::stage(plane().await).await;
        let cloud = Cloud::new(&stage, namespace, &issuer.url()).await;
        let launch = cloud.launch(None);
        let operator = launch.start();
        let credential = cloud.create(NAME, USER).await;
        Self {
            pair: cloud.settled(&credential, 1).await,
            cloud,
            credential,
            launch,
            operator,
            _issuer: issuer,
        }
    }

    /// The operator's rights are not in the namespace only.
    async fn grant_to_the_end(&self) {
        let (stage, user) = (&self.cloud.stage, &self.cloud.operator_user);
        stage.grant_to_the_end(user).await;
    }

    async fn delete_keystone_api(&self) {
        let apis = self.cloud.keystone_apis();
        apis.delete("keystone", &DeleteParams::default())
            .await
            .unwrap();
    }

    async fn delete_namespace(&self) {
        let all: Api<Namespace> = Api::all(self.cloud.stage.client.clone());
        let name = &self.cloud.namespace;
        all.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// What the namespace says about its end; `None` if it is over.
    async fn says(&self) -> Option<String> {
        let all: Api<Namespace> = Api::all(self.cloud.stage.client.clone());
        let namespace = all.get_opt(&self.cloud.namespace).await.unwrap()?;
        let conditions = namespace.status?.conditions.unwrap_or_default();
        let said = conditions.into_iter().filter_map(|one| one.message);
        Some(said.collect::<Vec<_>>().join("; "))
    }

    async fn wait(&self, what: &str, is: impl AsyncFnMut() -> bool) {
        if let Err(error) = until(what, PATIENCE, is).await {
            let resource = self.cloud.describe(&self.credential);
            let namespace = self.says().await;
            panic!("{error}: {resource}\nthe namespace says {namespace:?}");
        }
    }

    async fn until_namespace_is_gone(&self) {
        let gone = async || self.says().await.is_none();
        self.wait("the namespace is gone", gone).await;
    }

    /// Over, revoked once, and the operator minds nothing of it.
    async fn assert_ended(mut self) {
        self.until_namespace_is_gone().await;
        assert!(self.cloud.live(USER).await.is_empty());
        assert_eq!(self.cloud.log_in(&self.pair).await, 404);
        assert_eq!(self.cloud.count(keystone::DELETE, 204), 1);
        assert_eq!(self.cloud.count(keystone::CREATE, 201), 1);
        assert!(self.operator.is_running());
    }
}

/// J29.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_namespace_that_is_deleted_ends_by_itself_and_leaves_nothing_at_keystone() {
    let play = Play::begin("ends").await;
    play.grant_to_the_end().await;
    play.delete_namespace().await;
    play.assert_ended().await;
}

/// The login is still known, and good enough to end with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_namespace_whose_keystone_api_went_first_is_ended_by_the_operator_that_knew_it() {
    let play = Play::begin("known").await;
    play.grant_to_the_end().await;
    play.delete_keystone_api().await;
    play.delete_namespace().await;
    play.assert_ended().await;
}

/// Nobody knows any more where Keystone is, and nothing new can be put into the namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_namespace_that_cannot_revoke_says_what_it_waits_for_and_a_person_ends_it() {
    let mut play = Play::begin("waits").await;
    play.grant_to_the_end().await;
    play.delete_keystone_api().await;
    play.operator.kill();
    play.operator = play.launch.start();
    play.delete_namespace().await;

    let told = async || {
        let shown = play.credential.shown();
        shown.reason == "IssuerMissing" && shown.message.contains("there is no KeystoneAPI")
    };
    play.wait("the resource says what it waits for", told).await;
    let named = async || {
        let said = play.says().await.unwrap();
        said.contains("openstack.org/applicationcredential in 1 resource")
    };
    play.wait("the namespace says who waits", named).await;
    let object = play.credential.seen().unwrap();
    let id = play.pair.0.clone();
    assert!(object.annotations()["keyward.dev/ledger"].contains(&id));
    let explained = play.cloud.keyward(&["explain", &format!("appcred/{NAME}")]);
    assert!(explained.contains("no KeystoneAPI"), "{explained}");
    assert_eq!(play.cloud.log_in(&play.pair).await, 201);
    assert_eq!(play.cloud.faults().count(keystone::DELETE), 0);

    let policy = "keyward.dev/deletion-policy";
    play.credential.annotate(policy, Some("Orphan")).await;
    play.until_namespace_is_gone().await;
    // What that leaves alive is named where it still can be: a namespace that is going away takes no events.
    let alive = play.cloud.live(USER).await;
    assert_eq!(alive.len(), 1);
    assert_eq!(alive[0].id, id);
    let log = play.operator.logged();
    let named = log
        .lines()
        .any(|line| line.contains("LeftAtIssuer") && line.contains(&id));
    assert!(named, "{log}");
}

/// A namespace's deletion takes the operator's rights in it along, in no order; here they go first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_a_namespace_that_took_the_operators_rights_along_ends_when_they_are_given_again() {
    let play = Play::begin("no-rights").await;
    play.cloud.stage.deny(&play.cloud.namespace).await;
    play.delete_namespace().await;
    let named = async || {
        let said = play.says().await.unwrap();
        said.contains("openstack.org/applicationcredential in 1 resource")
    };
    play.wait("the namespace says who waits", named).await;
    assert_eq!(play.cloud.log_in(&play.pair).await, 201);

    play.grant_to_the_end().await;
    play.assert_ended().await;
}
