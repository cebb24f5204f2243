//! Ending a user's credentials as the administrator, where the user's own login cannot.
//!
//! Keystone lets an administrator look at anybody's application credentials and delete them, but not make them. It is
//! used only if whoever runs Keystone offers it, and only after the user's own login was refused.

use std::sync::Arc;

use lifecycle::TroubleKind;
use reqwest::{Method, StatusCode};

use super::end::Ended;
use super::session::{Session, Who};
use super::wire::{Credential, Domains, Users};
use super::{Keystone, Name};
use crate::http::Reply;
use crate::{Proof, Source, SourceError};

/// Who steps in where a user's own login is refused.
#[derive(Debug, Clone, Default)]
pub enum Administrator {
    /// Nobody: it was not offered.
    #[default]
    None,
    /// It was offered, and this is what is missing.
    Missing(String),
    Is(Arc<Session>),
}

impl Keystone {
    /// Lets the administrator end credentials that their user's own login cannot end.
    #[must_use]
    pub fn with_administrator(self, admin: Administrator) -> Self {
        Self { admin, ..self }
    }

    /// Ends one credential as the user itself and, where that login is refused or may not do it, as the administrator.
    /// Says who did it.
    ///
    /// *Safe to repeat because* what was refused had no effect, so that asking as somebody else is not asking twice.
    pub(super) async fn end_as_either(
        &self,
        what: &str,
        proof: &Proof<'_>,
        name: &Name<'_>,
    ) -> Result<(Ended, &Session), SourceError> {
        match self.end(what, proof, name, &self.session).await {
            Err(denied) if denied.kind == TroubleKind::Denied => {
                if self.went_with_its_user(name) {
                    self.must_be_known_here(what, name)?;
                    return Ok((Ended::Unseen, &self.session));
                }
                let admin = match self.instead_of_user(what, name, denied).await {
                    Err(_) if self.is_unknown(proof.values, name).await? => {
                        self.must_be_known_here(what, name)?;
                        return Ok((Ended::Unseen, &self.session));
                    }
                    admin => admin?,
                };
                let ended = self.end(what, proof, name, admin).await;
                Ok((ended.map_err(neither)?, admin))
            }
            ended => Ok((ended?, &self.session)),
        }
    }

    /// Looks at one credential, in the same way.
    pub(super) async fn look_as_either(
        &self,
        what: &str,
        name: &Name<'_>,
    ) -> Result<Reply, SourceError> {
        match self.look(what, name, &self.session).await {
            Err(denied) if denied.kind == TroubleKind::Denied => {
                let admin = self.instead_of_user(what, name, denied).await?;
                self.look(what, name, admin).await.map_err(neither)
            }
            seen => seen,
        }
    }

    /// As [`Self::instead_of`], for one credential: an administrator has to know whose it is.
    async fn instead_of_user(
        &self,
        what: &str,
        name: &Name<'_>,
        denied: SourceError,
    ) -> Result<&Session, SourceError> {
        let why = "it is not recorded whose it is";
        match self.instead_of(&denied) {
            Ok(_) if name.user.is_none() => Err(nor_as_administrator(&denied, why)),
            Err(error) => Err(self.unless_made_elsewhere(what, name, error).await),
            admin => admin,
        }
    }

    /// The administrator, or else the refusal of the user's own login, with what is missing.
    fn instead_of(&self, denied: &SourceError) -> Result<&Session, SourceError> {
        match &self.admin {
            Administrator::Is(admin) => Ok(admin),
            Administrator::Missing(why) => Err(nor_as_administrator(denied, why)),
            Administrator::None => Err(denied.clone()),
        }
    }

    /// Every credential of the user. What a leaving resource may have left is looked for by the administrator if the
    /// user cannot: without that last look nobody could say that nothing is left.
    pub(super) async fn list_all(&self) -> Result<Arc<Vec<Credential>>, SourceError> {
        match self.session.list().await {
            Err(denied) if self.leaving && denied.kind == TroubleKind::Denied => {
                let admin = self.instead_of(&denied)?;
                admin.list_of(self.session.who()).await
            }
            listed => listed,
        }
    }

    pub(super) fn as_leaving(&self) -> Option<Arc<dyn Source>> {
        match self.admin {
            Administrator::None => None,
            Administrator::Missing(_) | Administrator::Is(_) => Some(Arc::new(Self {
                leaving: true,
                ..self.clone()
            })),
        }
    }
}

/// First what a person can fix: long texts are cut at their end.
fn nor_as_administrator(denied: &SourceError, why: &str) -> SourceError {
    SourceError {
        detail: format!(
            "the administrator cannot step in: {why}. The user's own login: {}",
            denied.detail
        ),
        ..denied.clone()
    }
}

fn neither(error: SourceError) -> SourceError {
    SourceError {
        detail: format!(
            "neither the user's own login can do it nor the administrator's: {}",
            error.detail
        ),
        ..error
    }
}

/// What an administrator's login looks up.
impl Session {
    /// Every application credential of another user, from a list begun after this call.
    async fn list_of(&self, other: &Who) -> Result<Arc<Vec<Credential>>, SourceError> {
        let rounds = self.rounds_for(other);
        let (patience, busy) = self.busy();
        let ask = self.list_of_now(other);
        rounds.join(patience, busy, ask).await
    }

    /// A user that is not there any more has none: Keystone deletes them with their user.
    async fn list_of_now(&self, other: &Who) -> Result<Vec<Credential>, SourceError> {
        let mut all = Vec::new();
        for user in self.users_named(other).await? {
            all.extend(self.list_by_id(&other.user, Some(&user)).await?);
        }
        Ok(all)
    }

    /// The ids of the user of this name in its domain: one or none.
    async fn users_named(&self, other: &Who) -> Result<Vec<String>, SourceError> {
        let Who {
            user, user_domain, ..
        } = other;
        let act = format!("looking for user {user} as the administrator");
        let reply = self
            .ask(&act, |server, _| {
                let request = server.request(&act, Method::GET, ["domains"]);
                request.query([("name", user_domain.as_str())])
            })
            .await?
            .expect(&[StatusCode::OK])?;
        let Some(domain) = reply.json::<Domains>()?.named(user_domain) else {
            let detail = format!("Keystone knows no domain {user_domain}");
            return Err(reply.error(TroubleKind::Rejected, detail));
        };
        let reply = self
            .ask(&act, |server, _| {
                let request = server.request(&act, Method::GET, ["users"]);
                request.query([("name", user.as_str()), ("domain_id", domain.as_str())])
            })
            .await?
            .expect(&[StatusCode::OK])?;
        Ok(reply.json::<Users>()?.named(user, &domain))
    }
}
