//! Application credentials of one Keystone user.
//!
//! We choose the name and the value, and store the value before Keystone hears of it: whatever reply is lost, the name
//! finds the credential again. Everything is done as the user itself, for Keystone lets nobody else create them; only
//! their end may be an administrator's work ([`Administrator`]).

mod admin;
mod end;
mod id;
mod listing;
mod login_state;
mod refusals;
mod rules;
mod server;
mod session;
mod wire;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use lifecycle::{Issued, IssuedId, Issuer, Mark, Minting, Owner, TroubleKind, Verdict};
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::{Minted, Order, Proof, SecretValue, Source, SourceError, Values, listed};

pub use admin::Administrator;
use end::Ended;
pub use id::credential_id;
use id::{Name, issued_id};
pub use login_state::Password;
pub use server::Server;
pub use session::{Session, Who};
use wire::{Created, Credential};

/// Key of the credential's id in its [`Values`]; not secret.
pub const AC_ID: &str = "AC_ID";
/// Key of the credential's value in its [`Values`].
pub const AC_SECRET: &str = "AC_SECRET";

/// What an application credential must be able to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wish {
    pub roles: Vec<String>,
    pub unrestricted: bool,
    #[serde(default)]
    pub access_rules: Vec<AccessRule>,
    pub days: u32,
    /// For people who look at Keystone.
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AccessRule {
    pub service: String,
    pub path: String,
    pub method: String,
}

/// The application credentials of one user, seen by that user.
#[derive(Debug, Clone)]
pub struct Keystone {
    session: Arc<Session>,
    /// Rules that the credentials of this source may have: they outlive their credential and are removed with it.
    rules: Vec<AccessRule>,
    admin: Administrator,
    /// For a resource that is leaving: nothing is made any more.
    leaving: bool,
}

impl Keystone {
    pub fn new(session: Arc<Session>, rules: Vec<AccessRule>) -> Self {
        Self {
            session,
            rules,
            admin: Administrator::None,
            leaving: false,
        }
    }

    fn is_own(&self, session: &Session) -> bool {
        std::ptr::eq(session, Arc::as_ptr(&self.session))
    }

    fn act(&self, what: &str) -> String {
        format!("{what} of user {}", self.session.user())
    }

    fn issued_id(&self, credential: &Credential) -> IssuedId {
        let address = self.session.address();
        issued_id(&credential.id, &credential.user, address)
    }

    fn rejected(&self, what: &str, detail: impl Into<String>) -> SourceError {
        SourceError::new(self.act(what), TroubleKind::Rejected, detail)
    }
}

#[async_trait]
impl Source for Keystone {
    fn issuer(&self) -> Issuer {
        ISSUER
    }

    fn place(&self) -> &str {
        self.session.place()
    }

    fn login_name(&self) -> &str {
        self.session.login_name()
    }

    fn skew(&self) -> Option<SignedDuration> {
        self.session.keystone().skew()
    }

    fn draft(&self, _mark: &Mark, random: &[u8; 32]) -> Values {
        Values::new().with(AC_SECRET, crate::secret::text_of(random))
    }

    async fn complete(&self, draft: &Values, id: &IssuedId) -> Result<Option<Minted>, SourceError> {
        let what = "looking for an application credential";
        let name = Name::checked(&self.act(what), id)?;
        let reply = self.get(what, &name, &self.session).await?;
        if reply.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let found: Created<Credential> = reply.expect(&[StatusCode::OK])?.json()?;
        let expires = found.expires(&self.act(what))?;
        let values = draft.clone().with(
            AC_ID,
            SecretValue::new(found.application_credential.id.as_str()),
        );
        Ok(Some(Minted {
            id: id.clone(),
            values,
            expires,
        }))
    }

    async fn list(&self, owner: &Owner, recorded: &[Issued]) -> Result<Vec<Issued>, SourceError> {
        let all = self.list_all().await?;
        let issued = all.iter().filter_map(|credential| {
            let marked = owner.version_of(&credential.name);
            let is_it = |known: &&Issued| credential_id(&known.id) == credential.id;
            let of_its_version = |known: &&Issued| marked == Some(known.version);
            let mut known = recorded.iter().filter(is_it);
            let known = (known.clone().find(of_its_version)).or_else(|| known.next());
            let id = || self.issued_id(credential);
            listed(owner, &credential.name, known, id)
        });
        Ok(issued.collect())
    }

    fn lists_together(&self) -> bool {
        true
    }

    fn for_one_who_leaves(&self) -> Option<Arc<dyn Source>> {
        self.as_leaving()
    }

    async fn mint(&self, order: &Order) -> Result<Minted, SourceError> {
        let what = "creating an application credential";
        let wish = Wish::deserialize(&order.wish)
            .map_err(|_| self.rejected(what, "what is asked for is not understood"))?;
        let secret = order
            .chosen
            .as_ref()
            .and_then(|values| values.get(AC_SECRET));
        let Some(secret) = secret else {
            return Err(self.rejected(what, "no value was chosen beforehand"));
        };
        let life = SignedDuration::from_hours(24 * i64::from(wish.days));
        let Ok(expires) = order.now.checked_add(life) else {
            return Err(self.rejected(what, "its life would end beyond the end of time"));
        };
        let name = order.mark.to_string();
        let body = wire::create(&name, secret, expires, &wish)
            .ok_or_else(|| self.rejected(what, "the value chosen beforehand is not text"))?;
        let reply = self
            .session
            .ask(&self.act(what), |server, token| {
                let path = ["users", &token.user, "application_credentials"];
                server.request(what, Method::POST, path).json(body.get())
            })
            .await?;
        if reply.status() != StatusCode::CREATED {
            return Err(why_not_created(&reply, &wish));
        }
        let created: Created<Credential> = reply.json()?;
        let credential = &created.application_credential;
        let sound = wire::is_id(&credential.id) && wire::is_id(&credential.user);
        if credential.name != name || !sound {
            let detail = "another one came back than was asked for";
            return Err(reply.error(TroubleKind::Unexpected, detail));
        }
        Ok(Minted {
            id: self.issued_id(credential),
            values: Values::new()
                .with(AC_ID, SecretValue::new(credential.id.as_str()))
                .with(AC_SECRET, secret.clone()),
            expires: created.expires(&self.act(what))?,
        })
    }

    async fn read_back(&self, _mark: &Mark) -> Result<Option<Minted>, SourceError> {
        // Keystone keeps no more than a hash of the value.
        Ok(None)
    }

    async fn verify(&self, values: &Values) -> Result<Verdict, SourceError> {
        let id = values.get(AC_ID).and_then(SecretValue::expose_str);
        match (self.log_in_with(values).await?, id) {
            (Some(StatusCode::CREATED), Some(id)) => {
                self.session.saw_work(id);
                Ok(Verdict::Works)
            }
            (Some(StatusCode::UNAUTHORIZED), Some(id)) => {
                self.session.saw_fail(id);
                Ok(Verdict::Refused)
            }
            (Some(_) | None, _) => Ok(Verdict::Refused),
        }
    }

    async fn verify_as(&self, id: &IssuedId, values: &Values) -> Result<Verdict, SourceError> {
        let name = Name::checked(&self.act("trying an application credential"), id)?;
        let said = values.get(AC_ID).and_then(SecretValue::expose_str);
        let elsewhere = name.made_elsewhere_than(self.session.address());
        if said != Some(name.credential) || elsewhere.is_some() {
            return Ok(Verdict::Refused);
        }
        self.verify(values).await
    }

    async fn revoke(&self, proof: &Proof<'_>, id: &IssuedId) -> Result<(), SourceError> {
        let what = "revoking an application credential";
        let name = Name::checked(&self.act(what), id)?;
        let (ended, by) = self.end_as_either(what, proof, &name).await?;
        if !self.is_own(by) && ended == Ended::Now {
            tracing::warn!(
                place = self.session.place(),
                credential = name.credential,
                user = self.session.user(),
                administrator = by.user(),
                "revoked as the administrator, because the user's own login could not"
            );
            by.note_ended(name.credential);
        }
        if self.rules.is_empty() || ended == Ended::Unseen {
            return Ok(());
        }
        self.remove_rules(&name, by).await
    }

    async fn gone(&self, id: &IssuedId, values: Option<&Values>) -> Result<bool, SourceError> {
        let what = "looking for an application credential";
        let name = Name::checked(&self.act(what), id)?;
        if let Some(values) = values {
            match self.log_in_with(values).await? {
                // Keystone does not know the id, or not its project any more. Either way nobody gets in with it. That
                // the id is gone was answered to the revoke, which comes before this question.
                Some(StatusCode::NOT_FOUND) => {
                    return self.must_be_known_here(what, &name).map(|()| true);
                }
                Some(StatusCode::CREATED) => return Ok(false),
                Some(_) | None => {}
            }
        }
        let reply = match self.look_as_either(what, &name).await {
            Err(_) if self.went_with_its_user(&name) => {
                return self.must_be_known_here(what, &name).map(|()| true);
            }
            looked => looked?,
        };
        if reply.status() != StatusCode::NOT_FOUND {
            return Ok(false);
        }
        self.must_be_known_here(what, &name).map(|()| true)
    }
}

/// What Keystone can do, whoever logs in.
pub const ISSUER: Issuer = Issuer {
    minting: Minting::Chosen,
    lists: true,
    revokes: true,
    tells_use: false,
};

impl Keystone {
    async fn get(
        &self,
        what: &str,
        name: &Name<'_>,
        by: &Session,
    ) -> Result<crate::http::Reply, SourceError> {
        by.ask(&self.act(what), |server, token| {
            let user = name.user.unwrap_or(&token.user);
            let path = ["users", user, "application_credentials", name.credential];
            server.request(what, Method::GET, path)
        })
        .await
    }

    /// How Keystone answers a login with these values: 201, 401 or 404. `None`: they cannot be a credential.
    async fn log_in_with(&self, values: &Values) -> Result<Option<StatusCode>, SourceError> {
        let reply = self.ask_to_log_in_with(values).await?;
        Ok(reply.map(|reply| reply.status()))
    }

    /// The whole answer, where it is one of those.
    async fn ask_to_log_in_with(
        &self,
        values: &Values,
    ) -> Result<Option<crate::http::Reply>, SourceError> {
        let (Some(id), Some(secret)) = (values.get(AC_ID), values.get(AC_SECRET)) else {
            return Ok(None);
        };
        let Some(body) = wire::log_in(id, secret) else {
            return Ok(None);
        };
        let _under_way = self.session.under_way();
        let server = self.session.server().await?;
        let what = "logging in with an application credential";
        let reply = server
            .request(what, Method::POST, ["auth", "tokens"])
            .query(server::NO_CATALOGUE)
            .json(body.get())
            .send()
            .await
            .and_then(wire::from_keystone)?;
        match reply.status() {
            StatusCode::CREATED | StatusCode::UNAUTHORIZED | StatusCode::NOT_FOUND => {
                Ok(Some(reply))
            }
            _ => Err(reply.refusal()),
        }
    }
}

/// Keystone's "no" in words that say what to do. Its own text is looked at, never repeated.
fn why_not_created(reply: &crate::http::Reply, wish: &Wish) -> SourceError {
    let roles = wish.roles.join(", ");
    match reply.status() {
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => reply.error(
            TroubleKind::Rejected,
            format!(
                "Keystone refused it ({}): does the user have the roles {roles} on its project, and do the access rules follow Keystone's form?",
                reply.status().as_u16()
            ),
        ),
        StatusCode::FORBIDDEN if wire::says_limit(reply.body()) => reply.error(
            TroubleKind::Rejected,
            "the user has as many application credentials as Keystone's user_limit allows; delete some, or raise the limit",
        ),
        StatusCode::FORBIDDEN => reply.error(
            TroubleKind::Rejected,
            "Keystone does not let this user create application credentials for itself (403)",
        ),
        _ => reply.refusal(),
    }
}

/// A moment as Keystone wants it: always in UTC, always saying so.
fn keystone_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
