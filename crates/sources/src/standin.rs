//! A stand-in issuer: the source behind `keyward demo`, the tests and the benches.
//!
//! It speaks a small JSON API to a server that behaves like each of the five kinds of issuer. It keeps all the rules a
//! real source keeps, and passes the same [contract](crate::contract).

use async_trait::async_trait;
use jiff::Timestamp;
use lifecycle::{Issued, IssuedId, Issuer, Mark, Minting, Owner, TroubleKind, Verdict};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroize;

use crate::http::{Http, Reply, Settings};
use crate::{
    Borne, CORRECT_OR_DELETE, Minted, Order, Proof, SecretValue, Source, SourceError, Values,
    listed,
};

/// Key of the credential's id in its [`Values`]; not secret.
pub const ID: &str = "id";
/// Key of the credential's value in its [`Values`].
pub const SECRET: &str = "secret";

/// One realm of a stand-in issuer, reached with that realm's login.
#[derive(Debug, Clone)]
pub struct StandIn {
    http: Http,
    place: String,
    realm: String,
    login: SecretValue,
    minting: Minting,
    who: String,
}

impl StandIn {
    pub fn new(
        address: &str,
        realm: &str,
        login: SecretValue,
        minting: Minting,
        settings: &Settings,
    ) -> Result<Self, SourceError> {
        Ok(Self::over(
            Http::new(address, settings)?,
            realm,
            login,
            minting,
        ))
    }

    /// Over connections that others use too: thousands of sources need one pool.
    pub fn over(http: Http, realm: &str, login: SecretValue, minting: Minting) -> Self {
        Self {
            place: format!("{} realm {realm}", http.origin()),
            http,
            realm: realm.into(),
            login,
            minting,
            who: "keyward".into(),
        }
    }

    /// The name under which [`Source::verify`] logs in, so that the issuer can tell a consumer from the operator.
    #[must_use]
    pub fn named(mut self, who: &str) -> Self {
        self.who = who.into();
        self
    }

    fn act(&self, what: &str) -> String {
        format!("{what} realm {} of the stand-in issuer", self.realm)
    }

    fn path<'a>(&'a self, rest: &[&'a str]) -> Vec<&'a str> {
        let mut path = vec!["v1", self.realm.as_str()];
        path.extend_from_slice(rest);
        path
    }

    fn asks(&self, what: &str, method: Method, rest: &[&str]) -> crate::http::Request {
        self.http
            .request(self.act(what), method, self.path(rest))
            .bearer(&self.login)
    }

    fn not_for_this_kind(&self, what: &str, detail: &str) -> SourceError {
        SourceError::new(self.act(what), TroubleKind::Rejected, detail)
    }
}

#[async_trait]
impl Source for StandIn {
    fn issuer(&self) -> Issuer {
        let (lists, revokes) = match self.minting {
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => (true, true),
            // A successor inherits the name of its predecessor, and so bears nobody's mark.
            Minting::SelfRotating => (false, true),
            Minting::Provided => (false, false),
        };
        Issuer {
            minting: self.minting,
            lists,
            revokes,
            tells_use: false,
        }
    }

    fn place(&self) -> &str {
        &self.place
    }

    fn draft(&self, _mark: &Mark, random: &[u8; 32]) -> Values {
        match self.minting {
            Minting::Chosen => Values::new().with(SECRET, crate::secret::text_of(random)),
            Minting::ReadBack | Minting::ShownOnce | Minting::SelfRotating | Minting::Provided => {
                Values::new()
            }
        }
    }

    async fn complete(&self, draft: &Values, id: &IssuedId) -> Result<Option<Minted>, SourceError> {
        Ok(Some(Minted {
            id: id.clone(),
            values: draft.clone().with(ID, SecretValue::new(id.as_str())),
            expires: None,
        }))
    }

    async fn list(&self, owner: &Owner, _recorded: &[Issued]) -> Result<Vec<Issued>, SourceError> {
        if !self.issuer().lists {
            return Ok(Vec::new());
        }
        let prefix = owner.prefix();
        let reply = self
            .asks("listing credentials in", Method::GET, &["credentials"])
            .query([("prefix", prefix.as_str())])
            .send()
            .await?
            .expect(&[StatusCode::OK])?;
        let page: Page = reply.json()?;
        let issued = page.credentials.iter().filter_map(|credential| {
            listed(owner, &credential.name, None, || {
                credential.id.as_str().into()
            })
        });
        Ok(issued.collect())
    }

    async fn mint(&self, order: &Order) -> Result<Minted, SourceError> {
        match self.minting {
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => self.create(order).await,
            Minting::SelfRotating => self.rotate(order).await,
            Minting::Provided => Err(self.not_for_this_kind(
                "minting in",
                "credentials of this realm are provided by a person",
            )),
        }
    }

    async fn read_back(&self, mark: &Mark) -> Result<Option<Minted>, SourceError> {
        let name = mark.to_string();
        let reply = self
            .asks("reading a value in", Method::GET, &["values", &name])
            .send()
            .await?;
        if reply.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let reply = reply.expect(&[StatusCode::OK])?;
        minted(&reply, None).map(Some)
    }

    async fn verify(&self, values: &Values) -> Result<Verdict, SourceError> {
        let act = "logging in to";
        let Some(secret) = values.get(SECRET).and_then(SecretValue::expose_str) else {
            return Ok(Verdict::Refused);
        };
        let mut body = json!({ "secret": secret, "who": self.who });
        if let Some(id) = values.get(ID).and_then(SecretValue::expose_str) {
            body["id"] = id.into();
        }
        let request = self
            .http
            .request(self.act(act), Method::POST, self.path(&["login"]))
            .json(&body);
        wipe(&mut body);
        let reply = request.send().await?;
        match reply.status() {
            StatusCode::NO_CONTENT => Ok(Verdict::Works),
            StatusCode::UNAUTHORIZED => Ok(Verdict::Refused),
            _ => Err(reply.refusal()),
        }
    }

    async fn verify_as(&self, id: &IssuedId, values: &Values) -> Result<Verdict, SourceError> {
        if values.get(ID).and_then(SecretValue::expose_str) != Some(id.as_str()) {
            return Ok(Verdict::Refused);
        }
        self.verify(values).await
    }

    async fn revoke(&self, proof: &Proof<'_>, id: &IssuedId) -> Result<(), SourceError> {
        let reply = self.look(id).await?;
        if reply.status() == StatusCode::NOT_FOUND {
            return Ok(());
        }
        let found: Listed = reply.json()?;
        if found.id != id.as_str() {
            let detail = "another one came back than was asked for";
            return Err(reply.error(TroubleKind::Unexpected, detail));
        }
        if !self.is_proved(proof, &found).await? {
            let detail = format!(
                "it was not ended: at the issuer it does not bear the name of this version; {CORRECT_OR_DELETE}"
            );
            return Err(self.not_for_this_kind("revoking in", &detail));
        }
        self.asks("revoking in", Method::DELETE, &["credentials", id.as_str()])
            .send()
            .await?
            .expect(&[StatusCode::NO_CONTENT, StatusCode::NOT_FOUND])?;
        Ok(())
    }

    async fn gone(&self, id: &IssuedId, _values: Option<&Values>) -> Result<bool, SourceError> {
        Ok(self.look(id).await?.status() == StatusCode::NOT_FOUND)
    }
}

impl StandIn {
    async fn look(&self, id: &IssuedId) -> Result<Reply, SourceError> {
        let what = "looking for a credential in";
        self.asks(what, Method::GET, &["credentials", id.as_str()])
            .send()
            .await?
            .expect(&[StatusCode::OK, StatusCode::NOT_FOUND])
    }

    /// What replaced itself has the name that a person gave its first ancestor: a record of it is enough there, and so
    /// is its value. Elsewhere only a predecessor's lacks the mark, and both are needed.
    async fn is_proved(&self, proof: &Proof<'_>, found: &Listed) -> Result<bool, SourceError> {
        match (proof.borne_by(&found.name), self.minting) {
            (Borne::This, _) => Ok(true),
            (Borne::Another, _) | (Borne::Nothing, Minting::Provided) => Ok(false),
            (Borne::Nothing, Minting::SelfRotating) => {
                Ok(proof.recorded || self.is_of(proof.values, found).await?)
            }
            (Borne::Nothing, Minting::Chosen | Minting::ReadBack | Minting::ShownOnce) => {
                Ok(proof.recorded && self.is_of(proof.values, found).await?)
            }
        }
    }

    /// Whether these values are this credential's, which only who logs in with them can know.
    async fn is_of(&self, values: Option<&Values>, found: &Listed) -> Result<bool, SourceError> {
        let Some(values) = values else {
            return Ok(false);
        };
        let id = values.get(ID).and_then(SecretValue::expose_str);
        Ok(id == Some(found.id.as_str()) && self.verify(values).await? == Verdict::Works)
    }

    async fn create(&self, order: &Order) -> Result<Minted, SourceError> {
        let what = "minting in";
        let mut body = self.wish(what, order)?;
        body["name"] = order.mark.to_string().into();
        let chosen = order.chosen.as_ref().and_then(|values| values.get(SECRET));
        match (self.minting, chosen.map(SecretValue::expose_str)) {
            (Minting::Chosen, Some(Some(secret))) => body["secret"] = secret.into(),
            (Minting::Chosen, Some(None) | None) => {
                return Err(self.not_for_this_kind(what, "no value was chosen beforehand"));
            }
            (
                Minting::ReadBack | Minting::ShownOnce | Minting::SelfRotating | Minting::Provided,
                _,
            ) => {}
        }
        let request = self.asks(what, Method::POST, &["credentials"]).json(&body);
        wipe(&mut body);
        let reply = request.send().await?.expect(&[StatusCode::CREATED])?;
        minted(&reply, chosen)
    }

    async fn rotate(&self, order: &Order) -> Result<Minted, SourceError> {
        let what = "rotating a credential in";
        let mut body = self.wish(what, order)?;
        let present = order.present.as_ref().and_then(|values| values.get(SECRET));
        let Some(present) = present.and_then(SecretValue::expose_str) else {
            return Err(self.not_for_this_kind(what, "its present value is not known"));
        };
        body["secret"] = present.into();
        let request = self.asks(what, Method::POST, &["rotate"]).json(&body);
        wipe(&mut body);
        let reply = request.send().await?;
        if reply.status() == StatusCode::FORBIDDEN {
            let detail = "the present value is no longer honoured; a person must provide a new one";
            return Err(reply.error(TroubleKind::Denied, detail));
        }
        minted(&reply.expect(&[StatusCode::CREATED])?, None)
    }

    /// The wish, in the words of this issuer; anything else in it is a mistake that must be shown.
    fn wish(&self, what: &str, order: &Order) -> Result<serde_json::Value, SourceError> {
        if order.wish.is_null() {
            return Ok(json!({ "rights": [] }));
        }
        let wish = Wish::deserialize(&order.wish).map_err(|_| {
            self.not_for_this_kind(
                what,
                "the wish must be an object with rights and, optionally, lifetimeSeconds",
            )
        })?;
        let mut body = json!({ "rights": wish.rights });
        if let Some(seconds) = wish.lifetime_seconds {
            body["lifetime_seconds"] = seconds.into();
        }
        Ok(body)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wish {
    #[serde(default)]
    rights: Vec<String>,
    lifetime_seconds: Option<u32>,
}

#[derive(Deserialize)]
struct Page {
    credentials: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct Created {
    id: String,
    secret: Option<String>,
    expires_at: Option<Timestamp>,
}

impl Drop for Created {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

fn minted(reply: &Reply, chosen: Option<&SecretValue>) -> Result<Minted, SourceError> {
    let created: Created = reply.json()?;
    let secret = match (&created.secret, chosen) {
        (Some(shown), _) => SecretValue::new(shown.as_bytes()),
        (None, Some(chosen)) => chosen.clone(),
        (None, None) => {
            return Err(reply.error(TroubleKind::Unexpected, "the answer lacks the value"));
        }
    };
    Ok(Minted {
        values: Values::new()
            .with(ID, SecretValue::new(created.id.as_bytes()))
            .with(SECRET, secret),
        id: created.id.as_str().into(),
        expires: created.expires_at,
    })
}

/// The request has its own copy by now.
fn wipe(body: &mut serde_json::Value) {
    if let Some(serde_json::Value::String(secret)) = body.get_mut("secret") {
        secret.zeroize();
    }
}
