//! The credentials that are measured: made, rotated and looked at with the administrator's own client, so that none of
//! it is counted as the operator's.

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::issuer::{Kind, StandIn};

const AT_ONCE: usize = 32;
const PAGE: u32 = 500;
const LOGIN: &str = "login";

/// N credentials, spread over the namespaces.
pub(super) struct Load {
    client: Client,
    n: u32,
    namespaces: u32,
}

/// How far one credential is, by its status.
struct Shown {
    ready: bool,
    handled: Option<String>,
    live: Option<u64>,
}

impl Load {
    pub(super) fn new(client: Client, n: u32, namespaces: u32) -> Self {
        Self {
            client,
            n,
            namespaces: namespaces.max(1),
        }
    }

    fn place(&self, index: u32) -> (String, String) {
        (
            format!("team-{:02}", index % self.namespaces),
            format!("credential-{index:05}"),
        )
    }

    fn credentials(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("demo.keyward.dev", "v1alpha1", "DemoCredential");
        let resource = ApiResource::from_gvk(&kind);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Namespaces, each with a login for a realm of its own.
    pub(super) async fn prepare(&self, issuer: &StandIn) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        for number in 0..self.namespaces {
            let (name, _) = self.place(number);
            let namespace = made(json!({ "metadata": { "name": name } }))?;
            namespaces
                .create(&PostParams::default(), &namespace)
                .await?;
            let login = issuer.realm(&name, Kind::Chosen);
            let secret: Secret = made(json!({
                "metadata": { "name": LOGIN },
                "stringData": { "login": login.reveal() },
            }))?;
            let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &name);
            secrets
                .create(&PostParams::default(), &secret)
                .await
                .context("storing a login")?;
        }
        Ok(())
    }

    /// Creates all credentials. `say` hears how many there are.
    pub(super) async fn create(
        &self,
        issuer: &StandIn,
        mut say: impl FnMut(usize),
    ) -> anyhow::Result<()> {
        let url = issuer.url();
        let mut created = futures::stream::iter(0..self.n)
            .map(|index| self.create_one(index, &url))
            .buffer_unordered(AT_ONCE);
        let mut there = 0;
        while created.try_next().await?.is_some() {
            there += 1;
            say(there);
        }
        Ok(())
    }

    async fn create_one(&self, index: u32, issuer: &str) -> anyhow::Result<()> {
        let (namespace, name) = self.place(index);
        let credential = made(json!({
            "apiVersion": "demo.keyward.dev/v1alpha1",
            "kind": "DemoCredential",
            "metadata": { "name": name },
            "spec": {
                "issuer": { "url": issuer, "realm": namespace, "kind": "Chosen" },
                "loginSecret": LOGIN,
                "delivery": "Versioned",
                "rights": ["read", "write"],
                // Nobody holds them: without an overlap the old version goes at once.
                "retire": { "overlapSeconds": 0 },
            },
        }))?;
        self.credentials(Some(&namespace))
            .create(&PostParams::default(), &credential)
            .await
            .with_context(|| format!("creating {namespace}/{name}"))?;
        Ok(())
    }

    /// Asks for a rotation of the first `sample` credentials, all at once.
    pub(super) async fn rotate(&self, sample: u32, token: &str) -> anyhow::Result<()> {
        let patch = json!({ "metadata": { "annotations": { "keyward.dev/rotate": token } } });
        let patch = &patch;
        futures::stream::iter(0..sample)
            .map(|index| async move {
                let (namespace, name) = self.place(index);
                self.credentials(Some(&namespace))
                    .patch_metadata(&name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .with_context(|| format!("rotating {namespace}/{name}"))
            })
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    /// Secrets of a megabyte that bear the label of the first credential, as anybody can make them who may create Secrets
    /// beside it.
    pub(super) async fn plant(&self, number: u32) -> anyhow::Result<()> {
        let (namespace, name) = self.place(0);
        let owner = self.credentials(Some(&namespace)).get(&name).await?;
        let uid = owner.metadata.uid.context("a uid")?;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &namespace);
        let (secrets, uid) = (&secrets, &uid);
        let large = k8s_openapi::ByteString(vec![b'x'; 1_000_000]);
        let large = &large;
        futures::stream::iter(0..number)
            .map(|index| async move {
                let mut secret: Secret = made(json!({ "metadata": {
                    "name": format!("planted-{index:04}"),
                    "labels": {
                        "app.kubernetes.io/managed-by": "keyward",
                        "keyward.dev/owner-uid": uid,
                        "keyward.dev/version": format!("{}.1", index + 2),
                    },
                } }))?;
                secret.data = Some([("x".to_owned(), large.clone())].into());
                let planted = secrets.create(&PostParams::default(), &secret).await;
                planted.with_context(|| format!("planting Secret {index}"))
            })
            .buffer_unordered(4)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    pub(super) async fn ready(&self) -> anyhow::Result<u32> {
        self.count(|shown| shown.ready && shown.live == Some(1))
            .await
    }

    /// Those whose rotation is over: the new version is Ready, the old one revoked.
    pub(super) async fn rotated(&self, token: &str) -> anyhow::Result<u32> {
        self.count(|shown| {
            shown.ready && shown.live == Some(1) && shown.handled.as_deref() == Some(token)
        })
        .await
    }

    async fn count(&self, which: impl Fn(&Shown) -> bool) -> anyhow::Result<u32> {
        let all = self.credentials(None);
        let mut found = 0;
        let mut next = ListParams::default().limit(PAGE);
        loop {
            let page = all.list(&next).await.context("listing the credentials")?;
            for credential in &page.items {
                found += u32::from(which(&shown(&credential.data["status"])));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => next = ListParams::default().limit(PAGE).continue_token(&token),
                None => return Ok(found),
            }
        }
    }
}

fn shown(status: &Value) -> Shown {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    Shown {
        ready: conditions
            .into_iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True"),
        handled: status["handledRotate"].as_str().map(str::to_owned),
        live: status["live"].as_u64(),
    }
}

/// Gives a user every right. RBAC and fair queuing apply to it as to any user.
pub(super) async fn admit(client: &Client, user: &str) -> anyhow::Result<()> {
    let binding: ClusterRoleBinding = made(json!({
        "metadata": { "name": user },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    }))?;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&PostParams::default(), &binding).await?;
    Ok(())
}

pub(super) fn made<T: DeserializeOwned>(manifest: Value) -> anyhow::Result<T> {
    Ok(serde_json::from_value(manifest)?)
}
