//! The namespace that is measured in: passwords, the address of Keystone, and the resources. Made, rotated and watched
//! with the administrator's own client, so that none of it is counted as anybody else's.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};

use super::super::load::made;
use crate::keystone::{SERVICE_USERS, password_of};

/// So many users share the credentials.
pub(super) const USERS: usize = 5;
const AT_ONCE: usize = 32;
const PASSWORDS: &str = "osp-secret";
/// Without any news for this long something is wrong, however busy the machine is.
const STUCK: Duration = Duration::from_mins(3);

/// One namespace with N resources in it.
#[derive(Clone)]
pub(super) struct Cloud {
    client: Client,
    pub(super) namespace: String,
    pub(super) n: u32,
}

pub(super) fn user_of(index: u32) -> &'static str {
    SERVICE_USERS[index as usize % USERS]
}

pub(super) fn name_of(index: u32) -> String {
    format!("ac-bench-{index:04}")
}

pub(super) fn resource(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        "keystone.openstack.org",
        "v1beta1",
        kind,
    ))
}

pub(super) fn credentials(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource = resource("KeystoneApplicationCredential");
    Api::namespaced_with(client.clone(), namespace, &resource)
}

impl Cloud {
    /// Makes everything, the resources last: whoever starts after it finds all of its work at once.
    pub(super) async fn make(
        client: Client,
        namespace: &str,
        n: u32,
        keystone: &str,
    ) -> anyhow::Result<Self> {
        let cloud = Self {
            client,
            namespace: namespace.to_owned(),
            n,
        };
        let params = PostParams::default();
        Api::<Namespace>::all(cloud.client.clone())
            .create(
                &params,
                &made(json!({ "metadata": { "name": namespace } }))?,
            )
            .await
            .context("making the namespace")?;
        let passwords: Map<String, Value> = SERVICE_USERS[..USERS]
            .iter()
            .map(|user| ((*user).to_owned(), password_of(user).into()))
            .collect();
        let secret = json!({ "metadata": { "name": PASSWORDS }, "stringData": passwords });
        Api::<Secret>::namespaced(cloud.client.clone(), namespace)
            .create(&params, &made(secret)?)
            .await
            .context("storing the passwords")?;
        cloud.show_keystone(keystone).await?;
        futures::stream::iter(0..n)
            .map(|index| cloud.create(index))
            .buffer_unordered(AT_ONCE)
            .try_for_each(|()| async { Ok(()) })
            .await?;
        Ok(cloud)
    }

    /// As the operator that runs Keystone would write it.
    async fn show_keystone(&self, url: &str) -> anyhow::Result<()> {
        let kind = resource("KeystoneAPI");
        let all: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &kind);
        let keystone = made(json!({
            "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneAPI",
            "metadata": { "name": "keystone" }, "spec": {},
        }))?;
        all.create(&PostParams::default(), &keystone).await?;
        let status = json!({ "status": {
            "apiEndpoints": { "internal": url },
            "conditions": [{ "type": "Ready", "status": "True" }],
        } });
        all.patch_status("keystone", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .context("saying where Keystone is")?;
        Ok(())
    }

    async fn create(&self, index: u32) -> anyhow::Result<()> {
        let user = user_of(index);
        let credential = made(json!({
            "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneApplicationCredential",
            "metadata": {
                "name": name_of(index),
                // Nobody holds them: without an overlap the old version goes at once.
                "annotations": { "keyward.dev/minimum-overlap": "0s" },
            },
            "spec": {
                "userName": user, "secret": PASSWORDS, "passwordSelector": user, "roles": ["service"],
                "expirationDays": 365, "gracePeriodDays": 182, "unrestricted": false,
            },
        }))?;
        credentials(&self.client, &self.namespace)
            .create(&PostParams::default(), &credential)
            .await
            .with_context(|| format!("creating {}", name_of(index)))?;
        Ok(())
    }

    /// Asks for a rotation of every credential.
    pub(super) async fn rotate(&self, token: &str) -> anyhow::Result<()> {
        let patch = json!({ "metadata": { "annotations": { "keyward.dev/rotate": token } } });
        let patch = &patch;
        let all = &credentials(&self.client, &self.namespace);
        futures::stream::iter(0..self.n)
            .map(|index| async move {
                all.patch_metadata(
                    &name_of(index),
                    &PatchParams::default(),
                    &Patch::Merge(patch),
                )
                .await
                .with_context(|| format!("rotating {}", name_of(index)))
            })
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    /// Watches until each was seen with a status that `is_done`; says when the last was. `say` hears how many are.
    pub(super) async fn until_all(
        &self,
        is_done: impl Fn(&Value) -> bool,
        say: impl Fn(usize),
    ) -> anyhow::Result<Instant> {
        let all = credentials(&self.client, &self.namespace);
        let watch = watcher(all, watcher::Config::default())
            .default_backoff()
            .applied_objects();
        let mut watch = std::pin::pin!(watch);
        let mut done = HashSet::new();
        let mut said = Instant::now();
        loop {
            let next = match tokio::time::timeout(STUCK, watch.next()).await {
                Ok(Some(Ok(next))) => next,
                // It begins again by itself.
                Ok(Some(Err(_))) => continue,
                Ok(None) | Err(_) => {
                    bail!("{} of {} are done, and no more come", done.len(), self.n)
                }
            };
            if is_done(&next.data["status"]) {
                done.insert(next.name_any());
            }
            if done.len() == self.n as usize {
                return Ok(Instant::now());
            }
            if said.elapsed() >= Duration::from_secs(10) {
                said = Instant::now();
                say(done.len());
            }
        }
    }
}

pub(super) fn is_ready(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// The new version is Ready, the old one revoked.
pub(super) fn is_rotated(status: &Value, token: &str) -> bool {
    is_ready(status) && status["live"] == 1 && status["handledRotate"] == token
}
