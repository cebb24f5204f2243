//! A key as its user would use it, at every gateway.

use lifecycle::TroubleKind;
use reqwest::StatusCode;

use super::said::Said;
use super::sign::Login;
use super::store::Store;
use crate::http::Http;
use crate::{SecretValue, SourceError};

/// What a gateway answers to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    LetIn,
    /// It is known and may not list buckets. A key that lost a race for its name looks the same.
    MayNotLook,
    /// The gateway does not know the access key, or it was deactivated.
    Unknown,
    WrongSecret,
    /// The key is known, and its user was suspended.
    Suspended,
}

impl Store {
    /// Tries a key at every gateway: the answers, in their order. It stops at the first that lets nobody in.
    pub(super) async fn try_everywhere(
        &self,
        act: &str,
        login: &Login,
    ) -> Result<Vec<Tried>, SourceError> {
        let mut answers = Vec::new();
        for gateway in self.gateways() {
            let tried = self.try_at(gateway, act, login).await?;
            answers.push(tried);
            match tried {
                Tried::LetIn | Tried::MayNotLook => {}
                Tried::Unknown | Tried::WrongSecret | Tried::Suspended => break,
            }
        }
        Ok(answers)
    }

    /// Whether no gateway knows this access key. Its secret key is not needed: that is only looked at when the access key is
    /// known.
    pub(super) async fn is_unknown_everywhere(
        &self,
        act: &str,
        access_key: &str,
    ) -> Result<bool, SourceError> {
        let nobody = Login {
            access_key: access_key.to_owned(),
            secret_key: SecretValue::new("is not known here"),
        };
        for gateway in self.gateways() {
            match self.try_at(gateway, act, &nobody).await? {
                Tried::Unknown => {}
                Tried::LetIn | Tried::MayNotLook | Tried::WrongSecret | Tried::Suspended => {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    async fn try_at(&self, gateway: &Http, act: &str, login: &Login) -> Result<Tried, SourceError> {
        let reply = self.buckets(gateway, act, login).await?;
        match (reply.status(), Said::by(&reply).code.as_str()) {
            (StatusCode::OK, _) => Ok(Tried::LetIn),
            (StatusCode::FORBIDDEN, "AccessDenied") => Ok(Tried::MayNotLook),
            (StatusCode::FORBIDDEN, "InvalidAccessKeyId") => Ok(Tried::Unknown),
            (StatusCode::FORBIDDEN, "SignatureDoesNotMatch") => Ok(Tried::WrongSecret),
            (StatusCode::FORBIDDEN, "UserSuspended") => Ok(Tried::Suspended),
            (StatusCode::FORBIDDEN, _) => Err(reply.error(
                TroubleKind::Unexpected,
                "the gateway refuses the key for a reason of its own, such as clocks that are too far apart",
            )),
            _ => Err(reply.refusal()),
        }
    }
}
