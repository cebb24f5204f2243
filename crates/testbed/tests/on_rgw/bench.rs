//! A store behind a proxy that can make things go wrong, for the contract of all sources.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::SignedDuration;
use lifecycle::{IssuedId, Owner};
use sources::contract::Bench;
use sources::rgw::{ACCESS_KEY, SECRET_KEY, UserKeys, access_key, tag_of};
use sources::{SecretValue, Source, Values};
use testbed::proxy::{self, Fault, Proxy};
use testbed::rgw;

use super::{administrator, administrator_as, by_hand, owner, uid, user_with_keys};

const WRONG: &str = "a-secret-key-that-is-wrong";

pub(crate) struct OnRgw {
    proxy: Proxy,
    behind: Vec<String>,
    /// Through the proxy, and the second gateway past it.
    urls: Vec<String>,
    uid: String,
    owner: Owner,
}

impl OnRgw {
    pub(crate) async fn new(behind: &[String]) -> Self {
        let proxy = Proxy::start(&behind[0], proxy::Options::default()).unwrap();
        let uid = uid();
        let owner = owner(&uid);
        user_with_keys(behind, &uid, &owner).await;
        Self {
            urls: vec![proxy.url(), behind[1].clone()],
            proxy,
            behind: behind.to_vec(),
            uid,
            owner,
        }
    }

    fn keys(&self, admin: sources::rgw::Administrator) -> Arc<dyn Source> {
        let tag = tag_of(&self.owner);
        Arc::new(UserKeys::new(admin, &self.uid, &tag, Values::new()))
    }

    async fn add(&self, access_key: &str) -> (IssuedId, Values) {
        let query = [("key", ""), ("uid", &self.uid), ("access-key", access_key)];
        let made = by_hand(&self.behind, "PUT", "user", &query).await;
        let keys = made.expect("making a key by hand", 200).unwrap().json();
        let keys = keys.as_array().unwrap();
        let key = keys.iter().find(|key| key["access_key"] == access_key);
        let secret = key.unwrap()["secret_key"].as_str().unwrap();
        let values = Values::new()
            .with(ACCESS_KEY, SecretValue::new(access_key))
            .with(SECRET_KEY, SecretValue::new(secret));
        (IssuedId::from(access_key), values)
    }

    fn next(&self, fault: Fault) -> bool {
        self.proxy.faults().nth_where(|_| true, 1, fault);
        true
    }

    fn next_mint(&self, fault: Fault) -> bool {
        self.proxy.faults().next("PUT /admin/user", fault);
        true
    }
}

#[async_trait]
impl Bench for OnRgw {
    fn source(&self) -> Arc<dyn Source> {
        self.keys(administrator(&self.urls))
    }

    async fn wrong_login(&self) -> Arc<dyn Source> {
        let login = rgw::admin();
        self.keys(administrator_as(&self.urls, &login.access_key, WRONG))
    }

    async fn nobody_there(&self) -> Arc<dyn Source> {
        self.keys(administrator(&["http://127.0.0.1:1".to_owned()]))
    }

    fn spoiled(&self, values: &Values) -> Values {
        values
            .clone()
            .with(SECRET_KEY, SecretValue::new("another-secret-key"))
    }

    async fn add_foreign(&self, name: &str) -> Option<IssuedId> {
        let plain = |letter: char| {
            let fits = letter.is_ascii_alphanumeric() || letter == '-';
            if fits { letter } else { '_' }
        };
        let access_key: String = name.chars().map(plain).collect();
        Some(self.add(&access_key).await.0)
    }

    async fn add_predecessors(&self) -> Option<(IssuedId, Values)> {
        let access_key = format!("ROOK{:016X}", rand::random::<u64>());
        Some(self.add(&access_key).await)
    }

    async fn kill(&self, id: &IssuedId) -> bool {
        let query = [
            ("key", ""),
            ("uid", &self.uid),
            ("access-key", access_key(id)),
        ];
        let killed = by_hand(&self.behind, "DELETE", "user", &query).await;
        killed.status == 200
    }

    async fn lose_next_mint_reply(&self) -> bool {
        self.next_mint(Fault::DropApplied)
    }

    async fn cut_next_mint_reply(&self) -> bool {
        self.next_mint(Fault::CutBody)
    }

    async fn throttle_next(&self, wait: SignedDuration) -> bool {
        let seconds = u32::try_from(wait.as_secs()).unwrap();
        self.next(Fault::Throttle(seconds))
    }

    async fn fail_next(&self) -> bool {
        self.next(Fault::Error(503))
    }

    fn secrets(&self) -> Vec<SecretValue> {
        let admin = rgw::admin();
        vec![
            SecretValue::new(admin.secret_key.reveal()),
            SecretValue::new(WRONG),
        ]
    }

    fn is_secret(&self, key: &str) -> bool {
        key == SECRET_KEY
    }
}

/// The whole contract of sources; nothing is skipped that a key could show.
pub(crate) async fn keys_keep_the_contract_of_sources(urls: &[String]) {
    let bench = OnRgw::new(urls).await;
    let report = sources::contract::run(&bench).await;
    let skipped: Vec<_> = report.skipped.iter().map(|(name, _)| *name).collect();
    let of_other_kinds = [
        "a_completed_draft_equals_what_the_mint_returned",
        "a_rotation_kills_the_value_it_replaces",
        "a_provided_value_is_judged_and_nothing_can_be_minted",
    ];
    assert_eq!(skipped, of_other_kinds);
    assert!(report.passed.len() >= 20, "{:?}", report.passed);
}
