//! vCenter, as far as it is needed to ask what a login may do: a few calls of its SOAP interface, which every version
//! has.
//!
//! Nothing is made or changed there. A refused password is told as such and never tried again here: vCenter locks an
//! account out after a few.

mod element;
mod wire;

use std::time::Duration;

use lifecycle::TroubleKind;
use reqwest::Method;
use reqwest::header::{COOKIE, HeaderName, SET_COOKIE};

use crate::http::{Http, Settings};
use crate::{SecretValue, SourceError};
use element::Element;
pub use wire::Object;
use wire::{Answer, Service};

const SESSION: &str = "vmware_soap_session=";
const SOAP_ACTION: HeaderName = HeaderName::from_static("soapaction");
/// A `privilegeList` has hundreds of entries; nothing that we ask for is larger.
const LONGEST: usize = 8 << 20;
/// Large inventories are slow to answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why a vCenter gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refusal {
    /// The user or the password is wrong, or the account is locked: the same words for all three.
    #[error("the login was refused")]
    InvalidLogin,
    /// The session ended in the meantime.
    #[error("the session is gone")]
    NotAuthenticated,
    /// The login may not see this.
    #[error("no permission")]
    NoPermission,
    /// Another fault, by its type.
    #[error("the vCenter answered with the fault {0}")]
    Fault(String),
    #[error(transparent)]
    Trouble(#[from] SourceError),
}

/// One vCenter, not logged in to.
#[derive(Debug)]
pub struct VCenter {
    http: Http,
    service: Service,
}

/// A login at a vCenter. It must be closed: sessions are counted there.
#[derive(Debug)]
#[must_use = "a session must be logged out of"]
pub struct Session<'a> {
    vcenter: &'a VCenter,
    cookie: SecretValue,
    user: String,
}

impl VCenter {
    /// Finds the vCenter and asks for what everybody may know.
    ///
    /// The certificate is verified: with the system's authorities, or with `ca_bundle` alone.
    pub async fn reach(
        server: &str,
        port: Option<u16>,
        ca_bundle: Option<Vec<u8>>,
    ) -> Result<Self, Refusal> {
        let settings = Settings {
            timeout: PATIENCE,
            body_limit: LONGEST,
            ca_bundle,
            ..Settings::default()
        };
        let http = Http::new(
            &format!("https://{server}:{}", port.unwrap_or(443)),
            &settings,
        )?;
        let call = wire::call("RetrieveServiceContent", &Object::service_instance(), "");
        let (found, _) = send(&http, "asking what is there", None, call).await?;
        match wire::service(&found) {
            Some(service) => Ok(Self { http, service }),
            None => Err(not_a_vcenter("asking what is there").into()),
        }
    }

    /// Logs in, once.
    pub async fn log_in(&self, user: &str, password: &SecretValue) -> Result<Session<'_>, Refusal> {
        let act = "logging in";
        let Some(login) = wire::login(user, password) else {
            let kind = TroubleKind::Rejected;
            return Err(SourceError::new(act, kind, "the password is not text").into());
        };
        let call = wire::call("Login", &self.service.sessions, &login);
        let (found, cookie) = send(&self.http, act, None, call).await?;
        match (wire::user_name(&found), cookie) {
            (Some(user), Some(cookie)) => Ok(Session {
                vcenter: self,
                cookie,
                user,
            }),
            _ => Err(not_a_vcenter(act).into()),
        }
    }

    /// The object above all others.
    pub fn root(&self) -> &Object {
        &self.service.root
    }
}

impl Session<'_> {
    /// Who we are there, in the vCenter's own spelling.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Every privilege that this vCenter knows; empty if it does not tell.
    pub async fn known_privileges(&self) -> Result<Vec<String>, Refusal> {
        let service = &self.vcenter.service;
        let arguments = wire::property(&service.authorization, "privilegeList");
        let call = wire::call("RetrievePropertiesEx", &service.properties, &arguments);
        let found = self.ask("asking which privileges there are", call).await?;
        Ok(wire::known(&found))
    }

    /// The object at an inventory path such as `/DC0/vm`; `None` if it is not there, or not to be seen.
    pub async fn find(&self, path: &str) -> Result<Option<Object>, Refusal> {
        let path = path.trim_matches('/');
        if path.is_empty() {
            return Ok(Some(self.vcenter.service.root.clone()));
        }
        let search = &self.vcenter.service.search;
        let call = wire::call("FindByInventoryPath", search, &wire::path(path));
        let found = self.ask("looking for an object", call).await?;
        Ok(wire::found(&found))
    }

    /// What this login may do with an object, by its groups too.
    pub async fn privileges_on(&self, object: &Object) -> Result<Vec<String>, Refusal> {
        let authorization = &self.vcenter.service.authorization;
        let arguments = wire::privileges_on(object, &self.user);
        let call = wire::call("FetchUserPrivilegeOnEntities", authorization, &arguments);
        let found = self.ask("asking for privileges", call).await?;
        Ok(wire::held(&found))
    }

    /// Ends the session.
    pub async fn log_out(self) -> Result<(), Refusal> {
        let call = wire::call("Logout", &self.vcenter.service.sessions, "");
        self.ask("logging out", call).await.map(|_| ())
    }

    async fn ask(&self, act: &'static str, call: String) -> Result<Element, Refusal> {
        let (found, _) = send(&self.vcenter.http, act, Some(&self.cookie), call).await?;
        Ok(found)
    }
}

/// Sends a call, once, and reads its answer and the session that it opened.
async fn send(
    http: &Http,
    act: &'static str,
    cookie: Option<&SecretValue>,
    call: String,
) -> Result<(Element, Option<SecretValue>), Refusal> {
    let mut request = http
        .request(act, Method::POST, ["sdk"])
        .header(SOAP_ACTION, "urn:vim25/6.5")
        .body("text/xml; charset=utf-8", call.into_bytes());
    if let Some(cookie) = cookie {
        request = request.secret_header(COOKIE, cookie.expose());
    }
    let reply = request.send().await?;
    let opened = reply
        .headers(&SET_COOKIE)
        .filter_map(|cookie| cookie.split(';').next())
        .find(|cookie| cookie.starts_with(SESSION))
        .map(SecretValue::new);
    // Faults come with status 500: the answer counts before the status.
    match wire::answer(reply.body()) {
        Some(Answer::Result(found)) if reply.status().is_success() => Ok((found, opened)),
        Some(Answer::Fault(fault)) => Err(match fault.as_str() {
            "InvalidLogin" => Refusal::InvalidLogin,
            "NotAuthenticated" => Refusal::NotAuthenticated,
            "NoPermission" => Refusal::NoPermission,
            _ => Refusal::Fault(fault),
        }),
        Some(Answer::Result(_)) | None if reply.status().is_success() => {
            Err(not_a_vcenter(act).into())
        }
        Some(Answer::Result(_)) | None => Err(reply.refusal().into()),
    }
}

fn not_a_vcenter(act: &str) -> SourceError {
    SourceError::new(
        act,
        TroubleKind::Unexpected,
        "the answer is not a vCenter's; check the address",
    )
}
