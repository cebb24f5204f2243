//! A namespace with an operator of its own, whoever issues what is kept there.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde::Serialize;
use serde_json::json;
use testbed::canary::Canaries;
use testbed::proxy::Faults;

use super::leaks::Written;
use super::operator::{Launch, Operator};
use super::{Credential, Stage, put};

pub(crate) struct OwnNamespace {
    pub(crate) stage: Stage,
    pub(crate) namespace: String,
    /// As whom the operator acts on the API server.
    pub(crate) operator_user: String,
}

impl OwnNamespace {
    pub(crate) async fn new(stage: &Stage, namespace: &str) -> Self {
        let operator_user = format!("keyward-{namespace}");
        stage.namespace(namespace, &operator_user).await;
        Self {
            stage: stage.clone(),
            namespace: namespace.to_owned(),
            operator_user,
        }
    }

    /// The operator of this namespace; by way of a proxy to the API server, if one is given.
    pub(crate) fn launch(&self, proxy: Option<&str>) -> Launch {
        let namespaces = std::slice::from_ref(&self.namespace);
        self.stage
            .launch(&self.namespace, &self.operator_user, namespaces, proxy)
    }

    pub(crate) fn credential(&self, name: &str) -> Credential {
        self.stage.credential(&self.namespace, name)
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        self.stage.secrets_in(&self.namespace)
    }

    pub(crate) async fn put_secret(&self, name: &str, data: impl Serialize) {
        let secret = json!({ "metadata": { "name": name }, "stringData": data });
        put(&self.secrets(), &serde_json::from_value(secret).unwrap()).await;
    }

    /// What kubectl prints, as the administrator.
    pub(crate) fn kubectl(&self, args: &[&str]) -> String {
        self.stage.kubectl(&self.namespace, args)
    }

    /// What the program prints, as the administrator.
    pub(crate) fn keyward(&self, args: &[&str]) -> String {
        self.stage.keyward(&self.namespace, args)
    }

    /// Everything that can be read of the operator and of the namespace, and whether a value is in it, or the beginning
    /// of one that nobody knows.
    pub(crate) async fn leaks_of(
        &self,
        values: &Canaries,
        begins: &str,
        written: &mut Written,
        launch: &Launch,
        operator: Option<&Operator>,
    ) -> Vec<String> {
        written
            .add_all(&self.stage, &self.namespace, launch, operator)
            .await;
        let found = written.leaks_of(values);
        let mut leaks: Vec<String> = found.iter().map(ToString::to_string).collect();
        leaks.extend(written.beginnings(begins));
        leaks
    }

    pub(crate) async fn assert_none_of(
        &self,
        values: &Canaries,
        begins: &str,
        launch: &Launch,
        operator: Option<&Operator>,
    ) {
        let mut written = Written::default();
        let leaks = self
            .leaks_of(values, begins, &mut written, launch, operator)
            .await;
        assert!(leaks.is_empty(), "{leaks:#?}");
        assert!(!launch.logged().is_empty());
    }
}

/// For people who must find out why a test failed. No values.
pub(crate) fn describe(credential: &Credential, asked: &Faults) -> String {
    let log = asked.log();
    let asked: Vec<String> = log
        .iter()
        .rev()
        .take(12)
        .map(|asked| format!("{} {:?} {:?}", asked.line, asked.fault, asked.status))
        .collect();
    format!(
        "{}\nasked of the issuer, newest first {asked:#?}",
        credential.describe()
    )
}
