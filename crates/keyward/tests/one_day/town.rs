//! Where the day is spent: one cluster with every kind of credential, three issuers, an operator for all of it, and a
//! time that passes only when nobody has anything to do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use keyward::controllers::addresses::Allowed;
use keyward::controllers::demo::Demo;
use keyward::controllers::gitlab;
use keyward::controllers::openstack::appcred::AppCred;
use keyward::engine::Options;
use keyward::rotation::Kind;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testbed::gitlab::{Place, StandIn as GitLab, level};
use testbed::issuer::StandIn as Issuer;
use testbed::keystone;

use crate::cluster::{Cluster, Running};
use crate::hours::Hours;
use crate::residents::{GROUP, RESIDENTS, Resident};
use crate::weather::Weather;

pub(crate) const NAMESPACE: &str = "town";
/// When the day begins.
pub(crate) const MORNING: &str = "2026-01-05T00:00:00Z";

pub(crate) struct Town {
    pub(crate) cluster: Cluster,
    pub(crate) issuer: Issuer,
    pub(crate) keystone: keystone::standin::StandIn,
    pub(crate) gitlab: GitLab,
    pub(crate) weather: Weather,
    /// The person whose personal token is the operator's login at GitLab.
    pub(crate) owner: u64,
    /// Where GitLab has what a resident's tokens are for.
    corners: Mutex<BTreeMap<&'static str, Place>>,
    /// Passwords that are not those of the first day, by user.
    passwords: Mutex<BTreeMap<String, String>>,
    /// `None`: it is down.
    pub(crate) operator: Option<Running>,
    passed: i64,
}

impl Town {
    /// Everybody is there, and no resource yet.
    pub(crate) async fn new() -> Self {
        let cluster = Cluster::new(NAMESPACE, &keyward::api::crds());
        let gitlab = GitLab::start(testbed::gitlab::Settings::default()).unwrap();
        let group = gitlab.add_group(GROUP);
        let owner = gitlab.add_user("olga");
        gitlab.add_member(group, owner, level::OWNER);
        let issuer = Issuer::start().unwrap();
        let keystone = keystone::standin::StandIn::start(keystone::Options::default()).unwrap();
        let mut town = Self {
            cluster,
            weather: Weather::over(&issuer, &keystone, &gitlab),
            issuer,
            keystone,
            gitlab,
            owner,
            corners: Mutex::default(),
            passwords: Mutex::default(),
            operator: None,
            passed: 0,
        };
        town.it_is_morning();
        town.add_keystone_api().await;
        for resident in &RESIDENTS {
            resident.moves_in(&town).await;
        }
        town.start_operator().await;
        town
    }

    pub(crate) async fn start_operator(&mut self) {
        let keystone = Allowed::Only(vec![self.keystone.url().parse().unwrap()]);
        let gitlab = [self.gitlab.url().parse().unwrap()];
        let mut kinds: Vec<Arc<dyn Kind>> = vec![
            Arc::new(Demo::default()),
            Arc::new(AppCred::new(false).reaching(keystone)),
        ];
        kinds.extend(gitlab::kinds(&gitlab, false));
        let options = Options {
            // By the machine's clock: who never answers is waited for this long.
            effect_timeout: Duration::from_secs(1),
            ..Options::default()
        };
        self.operator = Some(self.cluster.start(kinds, options).await);
        self.settle().await;
    }

    pub(crate) fn kill_operator(&mut self) {
        self.operator = None;
    }

    async fn add_keystone_api(&self) {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneAPI",
            "metadata": { "name": "keystone", "namespace": NAMESPACE }, "spec": {},
        }))
        .unwrap();
        let resource = resource("keystone.openstack.org", "v1beta1", "KeystoneAPI");
        let api = self.cluster.api_of(&resource);
        api.create(&PostParams::default(), &object).await.unwrap();
        self.keystone_is_ready(true).await;
    }

    /// As the operator that runs Keystone says.
    pub(crate) async fn keystone_is_ready(&self, ready: bool) {
        let resource = resource("keystone.openstack.org", "v1beta1", "KeystoneAPI");
        let status = json!({ "status": {
            "apiEndpoints": { "internal": self.keystone.url() },
            "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }],
        } });
        let api = self.cluster.api_of(&resource);
        api.patch_status("keystone", &PatchParams::default(), &Patch::Merge(&status))
            .await
            .unwrap();
    }

    pub(crate) fn password_of(&self, user: &str) -> String {
        let changed = self.passwords.lock().unwrap().get(user).cloned();
        changed.unwrap_or_else(|| keystone::password_of(user))
    }

    /// Another than there ever was.
    pub(crate) fn gives_a_new_password_to(&self, user: &str) {
        let password = format!("anew-{}", self.now());
        self.keystone.enable_user(user);
        self.keystone.set_password(user, &password);
        self.passwords
            .lock()
            .unwrap()
            .insert(user.to_owned(), password);
    }

    /// The project or group of this resident, unless somebody removed it.
    pub(crate) fn corner_of(&self, resident: &Resident) -> Option<Place> {
        self.corners.lock().unwrap().get(resident.name).copied()
    }

    pub(crate) fn is_at(&self, resident: &Resident, corner: Option<Place>) {
        let mut corners = self.corners.lock().unwrap();
        match corner {
            Some(corner) => corners.insert(resident.name, corner),
            None => corners.remove(resident.name),
        };
    }

    // Time.

    /// Midnight of a Monday, for every clock: schedules come out the same each time.
    fn it_is_morning(&self) {
        let morning: Timestamp = MORNING.parse().unwrap();
        let ahead = morning.duration_since(self.cluster.clock.now());
        self.cluster.clock.jump(ahead.as_secs());
        self.cluster.server_clock.jump(ahead.as_secs());
        self.issuers_advance(ahead.as_secs());
    }

    /// As people write it: 07:05:30.
    pub(crate) fn o_clock(&self) -> String {
        clock_face(self.now())
    }

    /// What is stored of a resident's resource, without a request.
    pub(crate) fn stored(&self, resident: &Resident) -> Option<Arc<Value>> {
        let all = self.cluster.server.objects(&resident.storage());
        all.into_iter()
            .find(|one| one["metadata"]["name"] == resident.name)
    }

    pub(crate) fn stored_secret(&self, name: &str) -> Option<Arc<Value>> {
        let all = self.cluster.server.objects("secrets");
        all.into_iter().find(|one| one["metadata"]["name"] == name)
    }
}

impl Hours for Town {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn operator(&self) -> Option<&Running> {
        self.operator.as_ref()
    }

    fn now(&self) -> i64 {
        self.passed
    }

    fn set_now(&mut self, now: i64) {
        self.passed = now;
    }

    fn issuers_advance(&self, seconds: i64) {
        let time = SignedDuration::from_secs(seconds);
        self.issuer.advance(time);
        self.keystone.advance(time);
        self.gitlab.advance(time);
    }
}

pub(crate) fn clock_face(seconds: i64) -> String {
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

pub(crate) fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: format!("{group}/{version}"),
        kind: kind.into(),
        plural: format!("{}s", kind.to_lowercase()),
    }
}
