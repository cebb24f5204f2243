//! Ending one credential with one login, after it was seen to be what is to be ended.

use lifecycle::TroubleKind;
use reqwest::{Method, StatusCode};

use super::session::Session;
use super::wire::{self, Created, Credential, Missing};
use super::{AC_ID, Keystone, Name};
use crate::http::Reply;
use crate::{Borne, CORRECT_OR_DELETE, Proof, SecretValue, SourceError, Values};

/// How a credential was found ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Now,
    /// It was gone already.
    Before,
    /// It was another user's, and gone before anybody could see whose it was: nothing else is touched on its account.
    Unseen,
}

impl Keystone {
    pub(super) async fn look(
        &self,
        what: &str,
        name: &Name<'_>,
        by: &Session,
    ) -> Result<Reply, SourceError> {
        let seen = self.get(what, name, by).await?;
        seen.expect(&[StatusCode::OK, StatusCode::NOT_FOUND])
    }

    /// Ends one credential with this login.
    ///
    /// *Guarantees:* it bears the mark, or it is a predecessor's of the login's own user and proved to be the resource's;
    /// or it stays: ids come from records that whoever may edit the resource can write to, and many a login at Keystone
    /// may end anybody's credentials.
    /// *If it dies here:* it may be ended. *Safe to repeat because* one that is gone already counts as ended.
    pub(super) async fn end(
        &self,
        what: &str,
        proof: &Proof<'_>,
        name: &Name<'_>,
        by: &Session,
    ) -> Result<Ended, SourceError> {
        let own = by.user_id(&self.act(what)).await?;
        let user = name.user.unwrap_or(&own);
        let look = "looking whose an application credential is";
        let seen = self.look(look, name, by).await?;
        if seen.status() == StatusCode::NOT_FOUND {
            self.must_be_known_here(what, name)?;
            let unseen = user != own;
            return Ok(if unseen { Ended::Unseen } else { Ended::Before });
        }
        let found: Created<Credential> = seen.json()?;
        let credential = &found.application_credential;
        if credential.id != name.credential {
            let detail = "another one came back than was asked for";
            return Err(seen.error(TroubleKind::Unexpected, detail));
        }
        match proof.borne_by(&credential.name) {
            Borne::This if credential.user == user => self.session.keystone().note_known_here(name),
            Borne::Nothing if self.is_own(by) && credential.user == own && proof.recorded => {
                let over = self.is_over(&found, &seen)?;
                if !over && !self.lets_in(proof.values, name).await? {
                    let why = "its name at Keystone is not ours, and no value that lets anybody in proves it to be this resource's";
                    return Err(self.left_alone(what, by, why));
                }
            }
            Borne::This | Borne::Another | Borne::Nothing => {
                let why = "at Keystone it does not bear the name of this version, so that it may be anybody's";
                return Err(self.left_alone(what, by, why));
            }
        }
        let reply = by
            .ask(&self.act(what), |server, _| {
                let path = ["users", user, "application_credentials", name.credential];
                server.request(what, Method::DELETE, path)
            })
            .await?
            .expect(&[StatusCode::NO_CONTENT, StatusCode::NOT_FOUND])?;
        Ok(if reply.status() == StatusCode::NO_CONTENT {
            Ended::Now
        } else {
            Ended::Before
        })
    }

    /// Whether Keystone said that its user is not there any more. It deletes application credentials with their user.
    pub(super) fn went_with_its_user(&self, name: &Name<'_>) -> bool {
        let deleted = self.session.deleted_user();
        deleted.is_some() && deleted.as_deref() == name.user
    }

    /// Whether Keystone says to a login with its own value that there is no such credential. Nobody else needs to be logged
    /// in for that.
    pub(super) async fn is_unknown(
        &self,
        values: Option<&Values>,
        name: &Name<'_>,
    ) -> Result<bool, SourceError> {
        let id = values.and_then(|values| values.get(AC_ID)?.expose_str());
        let Some(values) = values.filter(|_| id == Some(name.credential)) else {
            return Ok(false);
        };
        let said = self.ask_to_log_in_with(values).await?;
        let missing = said.and_then(|reply| wire::says_missing(&reply, "", name.credential));
        Ok(missing == Some(Missing::Credential))
    }

    /// Whether it has expired, by Keystone's clock where it tells the time: then its end harms nobody.
    fn is_over(&self, found: &Created<Credential>, seen: &Reply) -> Result<bool, SourceError> {
        let expires = found.expires(&self.act("reading when an application credential ends"))?;
        let now = seen.date().unwrap_or_else(|| seen.received());
        Ok(expires.is_some_and(|expires| expires <= now))
    }

    /// Whether these values are those of this credential.
    async fn lets_in(&self, values: Option<&Values>, name: &Name<'_>) -> Result<bool, SourceError> {
        let Some(values) = values else {
            return Ok(false);
        };
        let id = values.get(AC_ID).and_then(SecretValue::expose_str);
        Ok(id == Some(name.credential)
            && self.log_in_with(values).await? == Some(StatusCode::CREATED))
    }

    fn left_alone(&self, what: &str, by: &Session, why: &str) -> SourceError {
        let user = by.user();
        self.rejected(
            what,
            format!("user {user} does not end it: {why}; {CORRECT_OR_DELETE}"),
        )
    }

    /// Keystone says that it does not know this credential. That counts only of the Keystone that made it: of another
    /// address, it is the same only if it was seen to know the credential by its mark.
    pub(super) fn must_be_known_here(
        &self,
        what: &str,
        name: &Name<'_>,
    ) -> Result<(), SourceError> {
        match name.made_elsewhere_than(self.session.address()) {
            Some(at) if !self.session.keystone().was_known_here(name) => {
                Err(self.made_elsewhere(what, at))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn made_elsewhere(&self, what: &str, at: &str) -> SourceError {
        let detail = format!(
            "it was made at Keystone {at}, and this one does not know it; point the KeystoneAPI back to that; if it is gone for good, keyward.dev/deletion-policy=Orphan lets the resource go"
        );
        self.rejected(what, detail)
    }

    /// A user who is logged in, and is not shown a credential of another Keystone's user, was not refused.
    pub(super) async fn unless_made_elsewhere(
        &self,
        what: &str,
        name: &Name<'_>,
        denied: SourceError,
    ) -> SourceError {
        match name.made_elsewhere_than(self.session.address()) {
            Some(at) if self.session.user_id(what).await.is_ok() => self.made_elsewhere(what, at),
            Some(_) | None => denied,
        }
    }
}
