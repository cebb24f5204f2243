//! An operator that may look at some namespaces only. Somebody may live in another one, with credentials of the same login:
//! what a record here says of him counts for nothing without his credential's value.

use k8s_openapi::api::core::v1::Secret;
use keyward::api::demo::DemoCredential;
use keyward::engine::Options;
use keyward::engine::watch::Scope;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use testbed::issuer::Kind;

use crate::people::{LEDGER, at_rest, under_another_name};
use crate::stage::{NAME, NAMESPACE, Running, Stage};

const HERE: &str = "elsewhere";

/// Somebody who lives unseen, and an operator that looks at another namespace, where the same login is.
struct Unseen {
    stage: Stage,
    operator: Running,
    id: String,
    secret: Value,
    resource: Value,
}

impl Unseen {
    async fn new() -> Self {
        let (stage, operator, id) = at_rest(Kind::Chosen, false).await;
        operator.stop().await;
        let secret = stage.stored_secret(NAMESPACE, "db-1-1").unwrap();
        let resource = stage.stored_as(NAME).unwrap();
        stage.server.create_namespace(HERE);
        let login = stage.stored_secret(NAMESPACE, "login").unwrap();
        let login = under_another_name(&login, "login");
        stage.create_secret(HERE, login).await;
        let options = Options {
            scope: Scope::Only(vec![HERE.into()]),
            ..Options::default()
        };
        let operator = stage.operator_with(options).await;
        Self {
            stage,
            operator,
            id,
            secret,
            resource,
        }
    }

    /// A Secret that says all that his does, except that it holds a value of the forger's own.
    fn forged(&self) -> Value {
        let mut forged = under_another_name(&self.secret, "db-1-1");
        let mine = self.stage.issuer.add("realm", "mine").unwrap();
        let encode = |text: &str| json!(k8s_openapi::ByteString(text.as_bytes().to_vec()));
        forged["data"]["id"] = encode(&mine.id);
        forged["data"]["secret"] = encode(mine.value.reveal());
        let source = &forged["metadata"]["annotations"]["keyward.dev/source"];
        let mut source: Value = serde_json::from_str(source.as_str().unwrap()).unwrap();
        source["namespace"] = HERE.into();
        forged["metadata"]["annotations"]["keyward.dev/source"] = source.to_string().into();
        forged["metadata"]["annotations"]["keyward.dev/created"] =
            self.stage.clock.now().to_string().into();
        forged
    }

    fn resources(&self) -> Api<DemoCredential> {
        Api::namespaced(self.stage.client.clone(), HERE)
    }

    /// A resource of this name here, with the ledger of the one that lives unseen and the word that it be taken over.
    async fn claim(&self) {
        let mut copy = under_another_name(&self.resource, NAME);
        let notes = &self.resource["metadata"]["annotations"];
        let uid = self.resource["metadata"]["uid"].clone();
        copy["metadata"]["namespace"] = HERE.into();
        copy["metadata"]["annotations"] =
            json!({ LEDGER: notes[LEDGER], "keyward.dev/take-over": uid });
        let copy: DemoCredential = serde_json::from_value(copy).unwrap();
        let params = PostParams::default();
        self.resources().create(&params, &copy).await.unwrap();
    }

    async fn claimant(&self) -> Option<DemoCredential> {
        self.resources().get_opt(NAME).await.unwrap()
    }

    async fn claimant_is_ready(&self) -> bool {
        let status = self.claimant().await.and_then(|claimant| claimant.status);
        let conditions = status.map(|status| status.conditions).unwrap_or_default();
        let mut ready = conditions.iter().filter(|one| one.kind == "Ready");
        ready.any(|one| one.status == "True")
    }
}

#[tokio::test]
async fn a_forged_secret_does_not_give_away_the_credential_of_somebody_unseen() {
    let unseen = Unseen::new().await;
    let stage = &unseen.stage;
    let mut forged = unseen.forged();
    // As after a restore: no owner, or the garbage collector would take it for remains.
    forged["metadata"]["ownerReferences"] = json!([]);
    stage.create_secret(HERE, forged).await;
    unseen.claim().await;
    stage
        .until("the claimant has its own", || unseen.claimant_is_ready())
        .await;
    stage.live_on(&unseen.operator).await;
    assert!(stage.is_alive(&unseen.id));
    let planted: Api<Secret> = Api::namespaced(stage.client.clone(), HERE);
    let planted = planted.get("db-1-1").await.unwrap();
    let uid = unseen.resource["metadata"]["uid"].as_str().unwrap();
    assert_eq!(planted.labels()["keyward.dev/owner-uid"], uid, "untouched");
    let now = DeleteParams::default();
    unseen.resources().delete(NAME, &now).await.unwrap();
    stage
        .until("the claimant is gone", || async {
            unseen.claimant().await.is_none()
        })
        .await;
    stage.live_on(&unseen.operator).await;
    assert!(stage.is_alive(&unseen.id));
}

/// Needs no more than the right to create a Secret: it tells of a resource that was never here.
#[tokio::test]
async fn a_forged_secret_does_not_make_somebody_unseen_departed() {
    let unseen = Unseen::new().await;
    let stage = &unseen.stage;
    stage.create_secret(HERE, unseen.forged()).await;
    stage.live_on(&unseen.operator).await;
    stage.let_time_pass(&unseen.operator, 600).await;
    stage.live_on(&unseen.operator).await;
    assert!(stage.is_alive(&unseen.id));
}

/// What has no Secret here may be his.
#[tokio::test]
async fn what_bears_the_mark_of_somebody_unseen_is_not_swept() {
    let unseen = Unseen::new().await;
    let stage = &unseen.stage;
    unseen.claim().await;
    stage
        .until("the claimant has its own", || unseen.claimant_is_ready())
        .await;
    stage.live_on(&unseen.operator).await;
    assert!(stage.is_alive(&unseen.id));
}
