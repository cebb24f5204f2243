//! What a sentence has to say things with: a user of its own, and the requests that it makes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::keystone::wire::{by_application_credential, by_password};
use crate::keystone::{Admin, Http, Reply};

/// How long something that must come true by itself may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A user with the roles `member` and one of its own, on a project of its own.
pub(super) struct World {
    pub(super) admin: Arc<Admin>,
    pub(super) user: String,
    pub(super) user_id: String,
    pub(super) password: String,
    pub(super) project: String,
    pub(super) project_id: String,
    pub(super) role: String,
}

/// Another domain, with a user and a project of the same names as the world's own. The user has no role yet.
pub(super) struct Elsewhere {
    pub(super) domain: String,
    pub(super) domain_id: String,
    pub(super) user_id: String,
    pub(super) password: String,
    pub(super) project_id: String,
}

impl Elsewhere {
    pub(super) async fn new(world: &World) -> anyhow::Result<Self> {
        let domain = format!("domain-of-{}", world.user);
        let password = format!("another-{}", world.password);
        let domain_id = world.admin.create_domain(&domain).await?;
        let user_id = world
            .admin
            .create_user_in(&domain_id, &world.user, &password)
            .await?;
        let project_id = world
            .admin
            .create_project_in(&domain_id, &world.project)
            .await?;
        Ok(Self {
            domain,
            domain_id,
            user_id,
            password,
            project_id,
        })
    }
}

/// An application credential that was made.
pub(super) struct Made {
    pub(super) id: String,
    pub(super) secret: String,
}

impl World {
    pub(super) async fn new(admin: Arc<Admin>) -> anyhow::Result<Self> {
        let mark = format!("{:08x}", rand::random::<u32>());
        let (user, project, role) = (
            format!("user-{mark}"),
            format!("project-{mark}"),
            format!("role-{mark}"),
        );
        let password = format!("password-{mark}");
        let user_id = admin.create_user(&user, &password).await?;
        let project_id = admin.create_project(&project).await?;
        admin.create_role(&role).await?;
        for role in ["member", &role] {
            admin.assign_role(&user, &project, role).await?;
        }
        Ok(Self {
            admin,
            user,
            user_id,
            password,
            project,
            project_id,
            role,
        })
    }

    pub(super) fn http(&self) -> &Http {
        self.admin.http()
    }

    /// Logs the user in to its project with its password.
    pub(super) async fn log_in(&self, password: &str) -> anyhow::Result<Reply> {
        let login = by_password(&self.user, password, &self.project);
        self.http().log_in(&login).await
    }

    /// A token of the user's.
    pub(super) async fn token(&self) -> anyhow::Result<String> {
        let reply = self.log_in(&self.password).await?;
        let reply = reply.expect("logging in with the password", 201)?;
        reply.token().context("a login without a token")
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        self.http().send(method, path, token, body).await
    }

    /// Where the user's application credentials are.
    pub(super) fn path(&self) -> String {
        format!("/v3/users/{}/application_credentials", self.user_id)
    }

    pub(super) fn path_of(&self, id: &str) -> String {
        format!("{}/{id}", self.path())
    }

    pub(super) fn rules_path(&self) -> String {
        format!("/v3/users/{}/access_rules", self.user_id)
    }

    /// Asks for an application credential.
    pub(super) async fn create(&self, token: &str, wanted: &Value) -> anyhow::Result<Reply> {
        let body = json!({ "application_credential": wanted });
        self.send(Method::POST, &self.path(), token, Some(&body))
            .await
    }

    /// Makes an application credential, with a name of its own unless one is given.
    pub(super) async fn made(&self, token: &str, mut wanted: Value) -> anyhow::Result<Made> {
        if wanted.get("name").is_none() {
            wanted["name"] = json!(format!("name-{:08x}", rand::random::<u32>()));
        }
        let reply = self.create(token, &wanted).await?;
        let reply = reply.expect("creating an application credential", 201)?;
        Ok(Made {
            id: reply.text("/application_credential/id")?,
            secret: reply.text("/application_credential/secret")?,
        })
    }

    pub(super) async fn list(&self, token: &str) -> anyhow::Result<Reply> {
        self.send(Method::GET, &self.path(), token, None).await
    }

    pub(super) async fn show(&self, token: &str, id: &str) -> anyhow::Result<Reply> {
        self.send(Method::GET, &self.path_of(id), token, None).await
    }

    pub(super) async fn delete(&self, token: &str, id: &str) -> anyhow::Result<Reply> {
        self.send(Method::DELETE, &self.path_of(id), token, None)
            .await
    }

    pub(super) async fn log_in_with(&self, made: &Made) -> anyhow::Result<Reply> {
        let login = by_application_credential(&made.id, &made.secret);
        self.http().log_in(&login).await
    }

    /// A token got with an application credential.
    pub(super) async fn token_with(&self, made: &Made) -> anyhow::Result<String> {
        let reply = self.log_in_with(made).await?;
        let reply = reply.expect("logging in with the application credential", 201)?;
        reply.token().context("a login without a token")
    }

    /// The administrator looks at a token, as a service would.
    pub(super) async fn look_at(
        &self,
        token: &str,
        more: &[(&'static str, &str)],
    ) -> anyhow::Result<Reply> {
        let admin = self.admin.token().await?;
        let headers = [&[("x-subject-token", token)], more].concat();
        self.http()
            .send_with(Method::GET, "/v3/auth/tokens", &admin, &headers, None)
            .await
    }

    /// A token that is of use: tokens of the second of a password change or of the user's being disabled are not.
    pub(super) async fn working_token(&self, password: &str) -> anyhow::Result<String> {
        let begun = Instant::now();
        loop {
            let reply = self.log_in(password).await?;
            if let Some(token) = reply.token()
                && self.list(&token).await?.status == 200
            {
                return Ok(token);
            }
            ensure!(begun.elapsed() < PATIENCE, "no token that works");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Asks again until the answer has this status.
pub(super) async fn eventually(
    what: &str,
    status: u16,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Reply>,
) -> anyhow::Result<Reply> {
    let begun = Instant::now();
    loop {
        let reply = ask().await?;
        if reply.status == status {
            return Ok(reply);
        }
        ensure!(
            begun.elapsed() < PATIENCE,
            "{what}: still {} instead of {status}",
            reply.status
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Fails unless both are the same.
#[expect(
    clippy::needless_pass_by_value,
    reason = "values and references are compared alike"
)]
pub(super) fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    is: T,
    should_be: T,
) -> anyhow::Result<()> {
    ensure!(is == should_be, "{what}: {is:?} instead of {should_be:?}");
    Ok(())
}

/// Fails unless Keystone's explanation contains this.
pub(super) fn says(reply: &Reply, text: &str) -> anyhow::Result<()> {
    ensure!(
        reply.message().contains(text),
        "says {:?}, without {text:?}",
        reply.message()
    );
    Ok(())
}

/// This much from now, as Keystone takes it.
#[expect(
    clippy::disallowed_methods,
    reason = "the server's clock is the real one"
)]
pub(super) fn from_now(time: Duration) -> String {
    let then = Timestamp::now() + time;
    then.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// The names in a list of roles, in order.
pub(super) fn names(list: &Value) -> Vec<String> {
    let mut names: Vec<String> = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| Some(item["name"].as_str()?.to_owned()))
        .collect();
    names.sort();
    names
}
