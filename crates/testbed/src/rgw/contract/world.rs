//! What a sentence has to say things with: a user of its own, and the requests that it makes.

use anyhow::{Context as _, ensure};
use http::Method;
use serde_json::Value;

use crate::rgw::{Http, Login, Reply, admin};

/// A user without keys or account, and whoever may change everything.
pub(super) struct World {
    /// One for each gateway.
    gateways: Vec<Http>,
    pub(super) admin: Login,
    /// A text that no other sentence uses.
    pub(super) mark: String,
    pub(super) uid: String,
}

impl World {
    pub(super) async fn new(urls: &[String]) -> anyhow::Result<Self> {
        ensure!(urls.len() > 1, "the suite needs two gateways of one store");
        let mark = format!("{:08x}", rand::random::<u32>());
        let world = Self {
            gateways: urls.iter().map(|url| Http::new(url)).collect(),
            admin: admin(),
            uid: format!("user-{mark}"),
            mark,
        };
        world.new_user(&world.uid, &[]).await?;
        Ok(world)
    }

    fn first(&self) -> &Http {
        &self.gateways[0]
    }

    pub(super) async fn user(
        &self,
        method: Method,
        query: &[(&str, &str)],
    ) -> anyhow::Result<Reply> {
        self.by(&self.admin, method, "user", query).await
    }

    pub(super) async fn account(
        &self,
        method: Method,
        query: &[(&str, &str)],
    ) -> anyhow::Result<Reply> {
        self.by(&self.admin, method, "account", query).await
    }

    /// As somebody else than the administrator.
    pub(super) async fn by(
        &self,
        login: &Login,
        method: Method,
        what: &str,
        query: &[(&str, &str)],
    ) -> anyhow::Result<Reply> {
        self.first().admin_ops(login, method, what, query).await
    }

    pub(super) async fn new_user(&self, uid: &str, more: &[(&str, &str)]) -> anyhow::Result<Reply> {
        let mut query = vec![("uid", uid), ("generate-key", "false")];
        if !more.iter().any(|(name, _)| *name == "display-name") {
            query.push(("display-name", uid));
        }
        query.extend_from_slice(more);
        let made = self.user(Method::PUT, &query).await?;
        made.expect("making a user", 200)
    }

    pub(super) async fn show(&self, uid: &str) -> anyhow::Result<Value> {
        let shown = self.user(Method::GET, &[("uid", uid)]).await?;
        Ok(shown.expect("looking at a user", 200)?.json())
    }

    pub(super) async fn put_key(
        &self,
        access_key: &str,
        more: &[(&str, &str)],
    ) -> anyhow::Result<Reply> {
        self.put_key_of(&self.uid, access_key, more).await
    }

    pub(super) async fn put_key_of(
        &self,
        uid: &str,
        access_key: &str,
        more: &[(&str, &str)],
    ) -> anyhow::Result<Reply> {
        let mut query = vec![("key", ""), ("uid", uid), ("access-key", access_key)];
        query.extend_from_slice(more);
        self.user(Method::PUT, &query).await
    }

    pub(super) async fn delete_key(&self, access_key: &str) -> anyhow::Result<Reply> {
        let query = [("key", ""), ("uid", &self.uid), ("access-key", access_key)];
        self.user(Method::DELETE, &query).await
    }

    /// A new key of this user, whose access key is chosen.
    pub(super) async fn key_of(&self, uid: &str) -> anyhow::Result<Login> {
        let access_key = format!("KEY{:016X}", rand::random::<u64>());
        let made = self.put_key_of(uid, &access_key, &[]).await?;
        login_in(&made.expect("making a key", 200)?.json(), &access_key)
    }

    pub(super) async fn key(&self) -> anyhow::Result<Login> {
        self.key_of(&self.uid).await
    }

    /// What each gateway answers to somebody who asks for buckets: the status, and the code where it is an error.
    pub(super) async fn tried(&self, login: &Login) -> anyhow::Result<Vec<(u16, String)>> {
        let mut answers = Vec::new();
        for gateway in &self.gateways {
            let reply = gateway.s3(login, Method::GET, "/").await?;
            answers.push((reply.status, reply.code()));
        }
        Ok(answers)
    }

    pub(super) async fn lets_in_everywhere(&self, login: &Login) -> anyhow::Result<()> {
        let tried = self.tried(login).await?;
        ensure!(tried.iter().all(|(status, _)| *status == 200), "{tried:?}");
        Ok(())
    }

    pub(super) async fn is_refused_everywhere(
        &self,
        login: &Login,
        code: &str,
    ) -> anyhow::Result<()> {
        let tried = self.tried(login).await?;
        let refused = (403, code.to_owned());
        ensure!(tried.iter().all(|answer| *answer == refused), "{tried:?}");
        Ok(())
    }

    pub(super) async fn s3(
        &self,
        login: &Login,
        method: Method,
        path: &str,
    ) -> anyhow::Result<Reply> {
        self.first().s3(login, method, path).await
    }

    pub(super) async fn iam(
        &self,
        login: &Login,
        action: &str,
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<Reply> {
        self.first().iam(login, action, parameters).await
    }

    /// A new account and the login of its root user.
    pub(super) async fn account_with_root(&self) -> anyhow::Result<(String, Login)> {
        let id = new_account_id();
        let name = format!("account-{}", self.mark);
        let query = [("id", id.as_str()), ("name", &name)];
        let made = self.account(Method::POST, &query).await?;
        made.expect("making an account", 200)?;
        let root = format!("root-{}", self.mark);
        let in_it = [("account-id", id.as_str()), ("account-root", "true")];
        self.new_user(&root, &in_it).await?;
        let login = self.key_of(&root).await?;
        Ok((id, login))
    }
}

/// The key with this access key, out of a list of keys.
pub(super) fn login_in(keys: &Value, access_key: &str) -> anyhow::Result<Login> {
    let keys = keys.as_array().context("no list of keys")?;
    let key = keys.iter().find(|key| key["access_key"] == access_key);
    let secret = key.and_then(|key| key["secret_key"].as_str());
    Ok(Login::new(access_key, secret.context("no such key")?))
}

pub(super) fn new_account_id() -> String {
    format!("RGW{:017}", rand::random::<u64>() % 100_000_000_000_000_000)
}
