//! Looking into a Keystone and changing it, as its administrator.

use anyhow::Context as _;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::wire::{Http, Reply, by_application_credential, by_password};

/// The administrator of one Keystone. Users, projects and roles are given by name, all in the domain `Default` unless
/// it says otherwise.
#[derive(Debug)]
pub struct Admin {
    http: Http,
    token: Mutex<Option<String>>,
}

/// What an administrator sees of an application credential: everything but its secret.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ApplicationCredential {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    /// `None` where it was made with a token that was for no project.
    pub project_id: Option<String>,
    /// As Keystone writes it: UTC without a zone.
    pub expires_at: Option<String>,
    /// `None` where the creator did not say: it counts as no.
    pub unrestricted: Option<bool>,
    pub roles: Vec<Named>,
    #[serde(default)]
    pub access_rules: Vec<AccessRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Named {
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AccessRule {
    pub id: String,
    pub service: String,
    pub path: String,
    pub method: String,
}

impl Admin {
    /// Of the Keystone at this address (without `/v3`), with the testbed's own password.
    pub fn new(url: &str) -> Self {
        Self::over(Http::new(url))
    }

    /// As [`Admin::new`], over a connection of the caller's making.
    pub fn over(http: Http) -> Self {
        Self {
            http,
            token: Mutex::new(None),
        }
    }

    pub fn http(&self) -> &Http {
        &self.http
    }

    /// A token of the administrator's, in project `admin`.
    pub async fn token(&self) -> anyhow::Result<String> {
        let mut kept = self.token.lock().await;
        if let Some(token) = &*kept {
            return Ok(token.clone());
        }
        let login = by_password("admin", &super::password_of("admin"), "admin");
        let reply = self
            .http
            .log_in(&login)
            .await?
            .expect("logging in as admin", 201)?;
        let token = reply.token().context("a login without a token")?;
        *kept = Some(token.clone());
        Ok(token)
    }

    async fn token_for_the_system(&self) -> anyhow::Result<String> {
        let mut login = by_password("admin", &super::password_of("admin"), "admin");
        login["scope"] = json!({"system": {"all": true}});
        let reply = self.http.log_in(&login).await?;
        let reply = reply.expect("logging in as admin of the system", 201)?;
        reply.token().context("a login without a token")
    }

    /// Any request with the administrator's token; `path` begins with `/v3`.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let reply = self
            .http
            .send(method.clone(), path, &self.token().await?, body)
            .await?;
        if reply.status != 401 {
            return Ok(reply);
        }
        // The kept token has expired, or was revoked.
        *self.token.lock().await = None;
        self.http
            .send(method, path, &self.token().await?, body)
            .await
    }

    /// The id of the only thing of this sort with this name. Roles are in no domain.
    async fn id_of(&self, sort: &str, name: &str) -> anyhow::Result<String> {
        let domain = if sort == "roles" {
            ""
        } else {
            "&domain_id=default"
        };
        let reply = self
            .ask(
                Method::GET,
                &format!("/v3/{sort}?name={name}{domain}"),
                None,
            )
            .await?
            .expect("looking up a name", 200)?;
        reply
            .text(&format!("/{sort}/0/id"))
            .with_context(|| format!("there is no {name} among the {sort}"))
    }

    pub async fn user_id(&self, user: &str) -> anyhow::Result<String> {
        self.id_of("users", user).await
    }

    pub async fn project_id(&self, project: &str) -> anyhow::Result<String> {
        self.id_of("projects", project).await
    }

    pub async fn role_id(&self, role: &str) -> anyhow::Result<String> {
        self.id_of("roles", role).await
    }

    /// Says the new user's id. It has no role anywhere.
    pub async fn create_user(&self, user: &str, password: &str) -> anyhow::Result<String> {
        self.create_user_in("default", user, password).await
    }

    /// As [`Admin::create_user`], in the domain with this id.
    pub async fn create_user_in(
        &self,
        domain: &str,
        user: &str,
        password: &str,
    ) -> anyhow::Result<String> {
        let body = json!({"user": {"name": user, "domain_id": domain, "password": password}});
        let reply = self.ask(Method::POST, "/v3/users", Some(&body)).await?;
        reply.expect("creating a user", 201)?.text("/user/id")
    }

    pub async fn create_project(&self, project: &str) -> anyhow::Result<String> {
        self.create_project_in("default", project).await
    }

    /// As [`Admin::create_project`], in the domain with this id.
    pub async fn create_project_in(&self, domain: &str, project: &str) -> anyhow::Result<String> {
        let body = json!({"project": {"name": project, "domain_id": domain}});
        let reply = self.ask(Method::POST, "/v3/projects", Some(&body)).await?;
        reply.expect("creating a project", 201)?.text("/project/id")
    }

    /// Says the new domain's id.
    pub async fn create_domain(&self, domain: &str) -> anyhow::Result<String> {
        let body = json!({"domain": {"name": domain}});
        let reply = self.ask(Method::POST, "/v3/domains", Some(&body)).await?;
        reply.expect("creating a domain", 201)?.text("/domain/id")
    }

    pub async fn create_role(&self, role: &str) -> anyhow::Result<String> {
        let body = json!({"role": {"name": role}});
        let reply = self.ask(Method::POST, "/v3/roles", Some(&body)).await?;
        reply.expect("creating a role", 201)?.text("/role/id")
    }

    /// A group whose members hold a role on a project.
    pub async fn create_group(
        &self,
        group: &str,
        project: &str,
        role: &str,
    ) -> anyhow::Result<String> {
        let body = json!({"group": {"name": group, "domain_id": "default"}});
        let reply = self.ask(Method::POST, "/v3/groups", Some(&body)).await?;
        let id = reply.expect("creating a group", 201)?.text("/group/id")?;
        let (project, role) = (self.project_id(project).await?, self.role_id(role).await?);
        let path = format!("/v3/projects/{project}/groups/{id}/roles/{role}");
        self.ask(Method::PUT, &path, None)
            .await?
            .expect("giving a group a role", 204)?;
        Ok(id)
    }

    pub async fn add_to_group(&self, group: &str, user: &str) -> anyhow::Result<()> {
        let (group, user) = (
            self.id_of("groups", group).await?,
            self.user_id(user).await?,
        );
        let path = format!("/v3/groups/{group}/users/{user}");
        let reply = self.ask(Method::PUT, &path, None).await?;
        reply.expect("adding to a group", 204).map(drop)
    }

    pub async fn delete_user(&self, user: &str) -> anyhow::Result<()> {
        self.delete("users", user).await
    }

    pub async fn delete_project(&self, project: &str) -> anyhow::Result<()> {
        self.delete("projects", project).await
    }

    pub async fn delete_role(&self, role: &str) -> anyhow::Result<()> {
        self.delete("roles", role).await
    }

    async fn delete(&self, sort: &str, name: &str) -> anyhow::Result<()> {
        let path = format!("/v3/{sort}/{}", self.id_of(sort, name).await?);
        let reply = self.ask(Method::DELETE, &path, None).await?;
        reply.expect("deleting", 204).map(drop)
    }

    pub async fn assign_role(&self, user: &str, project: &str, role: &str) -> anyhow::Result<()> {
        let path = self.grant(user, project, role).await?;
        let reply = self.ask(Method::PUT, &path, None).await?;
        reply.expect("assigning a role", 204).map(drop)
    }

    /// As [`Admin::assign_role`], with the ids of a user and a project in any domain.
    pub async fn assign_role_by_ids(
        &self,
        user: &str,
        project: &str,
        role: &str,
    ) -> anyhow::Result<()> {
        let role = self.role_id(role).await?;
        let path = format!("/v3/projects/{project}/users/{user}/roles/{role}");
        let reply = self.ask(Method::PUT, &path, None).await?;
        reply.expect("assigning a role", 204).map(drop)
    }

    pub async fn unassign_role(&self, user: &str, project: &str, role: &str) -> anyhow::Result<()> {
        let path = self.grant(user, project, role).await?;
        let reply = self.ask(Method::DELETE, &path, None).await?;
        reply.expect("taking a role away", 204).map(drop)
    }

    async fn grant(&self, user: &str, project: &str, role: &str) -> anyhow::Result<String> {
        Ok(format!(
            "/v3/projects/{}/users/{}/roles/{}",
            self.project_id(project).await?,
            self.user_id(user).await?,
            self.role_id(role).await?
        ))
    }

    pub async fn enable_user(&self, user: &str) -> anyhow::Result<()> {
        self.change_user(user, &json!({"enabled": true})).await
    }

    pub async fn disable_user(&self, user: &str) -> anyhow::Result<()> {
        self.change_user(user, &json!({"enabled": false})).await
    }

    /// From now on this is the password; every token of the user's is dead, and so is one issued in the same second.
    pub async fn set_password(&self, user: &str, password: &str) -> anyhow::Result<()> {
        self.change_user(user, &json!({"password": password})).await
    }

    async fn change_user(&self, user: &str, change: &Value) -> anyhow::Result<()> {
        let path = format!("/v3/users/{}", self.user_id(user).await?);
        let body = json!({ "user": change });
        let reply = self.ask(Method::PATCH, &path, Some(&body)).await?;
        reply.expect("changing a user", 200).map(drop)
    }

    /// Everything there is of this user, expired ones too.
    pub async fn application_credentials(
        &self,
        user: &str,
    ) -> anyhow::Result<Vec<ApplicationCredential>> {
        let id = self.user_id(user).await?;
        self.application_credentials_of(&id).await
    }

    /// As [`Admin::application_credentials`], with the id of a user in any domain.
    pub async fn application_credentials_of(
        &self,
        id: &str,
    ) -> anyhow::Result<Vec<ApplicationCredential>> {
        let path = format!("/v3/users/{id}/application_credentials");
        let mut reply = self
            .ask(Method::GET, &path, None)
            .await?
            .expect("listing application credentials", 200)?;
        Ok(serde_json::from_value(
            reply.body["application_credentials"].take(),
        )?)
    }

    /// How many application credentials this user has, expired ones too.
    pub async fn count(&self, user: &str) -> anyhow::Result<usize> {
        Ok(self.application_credentials(user).await?.len())
    }

    pub async fn access_rules(&self, user: &str) -> anyhow::Result<Vec<AccessRule>> {
        let path = format!("/v3/users/{}/access_rules", self.user_id(user).await?);
        // The one list that being an administrator of a project is not enough for.
        let token = self.token_for_the_system().await?;
        let mut reply = self
            .http
            .send(Method::GET, &path, &token, None)
            .await?
            .expect("listing access rules", 200)?;
        Ok(serde_json::from_value(reply.body["access_rules"].take())?)
    }

    /// `false` if there was none with this id.
    pub async fn delete_application_credential(
        &self,
        user: &str,
        id: &str,
    ) -> anyhow::Result<bool> {
        let user = self.user_id(user).await?;
        let path = format!("/v3/users/{user}/application_credentials/{id}");
        let reply = self.ask(Method::DELETE, &path, None).await?;
        if reply.status == 404 {
            return Ok(false);
        }
        reply.expect("deleting an application credential", 204)?;
        Ok(true)
    }

    /// The status of a login with an application credential: 201, 401, or 404 if it is gone.
    pub async fn log_in_with_application_credential(
        &self,
        id: &str,
        secret: &str,
    ) -> anyhow::Result<u16> {
        let login = by_application_credential(id, secret);
        Ok(self.http.log_in(&login).await?.status)
    }

    /// The status of a login with a password to project `service`: 201 or 401.
    pub async fn log_in_with_password(&self, user: &str, password: &str) -> anyhow::Result<u16> {
        let login = by_password(user, password, "service");
        Ok(self.http.log_in(&login).await?.status)
    }

    /// What the catalogue says about where Keystone is (without `/v3`).
    pub async fn set_catalogue_url(&self, url: &str) -> anyhow::Result<()> {
        let reply = self.ask(Method::GET, "/v3/endpoints", None).await?;
        let reply = reply.expect("listing endpoints", 200)?;
        let endpoints = reply.body["endpoints"].as_array();
        for endpoint in endpoints.into_iter().flatten() {
            let id = endpoint["id"].as_str().unwrap_or_default();
            let change = json!({"endpoint": {"url": format!("{url}/v3")}});
            self.ask(Method::PATCH, &format!("/v3/endpoints/{id}"), Some(&change))
                .await?
                .expect("moving an endpoint", 200)?;
        }
        Ok(())
    }
}
