//! From bytes to a question to the state, and back: whose it is, and which.

use std::io;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};

use super::Shared;
use super::reply::{Done, Refusal, Tongue, on_the_wire};
use super::state::{Rights, State, User};
use crate::proxy::{Answered, Asked, Backend};
use crate::rgw::request_kind;
use crate::rgw::sigv4::{Scope, Signed, decoded, sha256};

/// What was signed longer ago, or will be, is refused.
const SKEW: SignedDuration = SignedDuration::from_mins(15);

pub(super) struct Answers {
    pub(super) shared: Arc<Shared>,
    /// The other one can be left behind.
    pub(super) first: bool,
}

impl Backend for Answers {
    fn kind(&self, asked: &Asked) -> String {
        request_kind(&asked.method, &asked.target)
    }

    fn answer(&self, asked: Asked) -> BoxFuture<'static, io::Result<Answered>> {
        let (shared, first) = (Arc::clone(&self.shared), self.first);
        async move {
            let tongue = tongue_of(&asked);
            let past = if first { None } else { shared.past().clone() };
            let ahead = shared.state().ahead;
            let answer = match past {
                Some(mut past) => Question::new(&asked).answer(&mut past, tongue),
                None => Question::new(&asked).answer(&mut shared.state(), tongue),
            };
            Ok(on_the_wire(answer, tongue, ahead))
        }
        .boxed()
    }

    fn planned(&self, status: u16) -> Answered {
        let ahead = self.shared.state().ahead;
        on_the_wire(Err(Refusal::planned(status)), Tongue::AdminOps, ahead)
    }
}

fn tongue_of(asked: &Asked) -> Tongue {
    match (asked.method.as_str(), asked.path()) {
        ("POST", "/") => Tongue::Iam,
        (_, path) if path.starts_with("/admin/") => Tongue::AdminOps,
        (_, _) => Tongue::S3,
    }
}

/// A request, taken apart.
pub(super) struct Question<'a> {
    asked: &'a Asked,
    arguments: Vec<(String, Option<String>)>,
}

impl<'a> Question<'a> {
    fn new(asked: &'a Asked) -> Self {
        let pairs = asked.query().split('&').filter(|pair| !pair.is_empty());
        let arguments = pairs.map(|pair| match pair.split_once('=') {
            Some((name, value)) => (decoded(name), Some(twice_decoded(value))),
            None => (decoded(pair), None),
        });
        Self {
            asked,
            arguments: arguments.collect(),
        }
    }

    /// The value of an argument that has one.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.arguments.iter().find(|(key, _)| key == name)?;
        value.as_deref()
    }

    /// As [`Question::get`], but for empty ones.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// What is no number counts as 0, as with gateways.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        Some(self.given(name)?.parse().unwrap_or(0))
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        Some(matches!(self.given(name)?, "true" | "1"))
    }

    fn part(&self) -> &str {
        let is_part = |name: &str| matches!(name, "key" | "caps" | "quota" | "list");
        let mut names = self.arguments.iter().filter(|(_, value)| value.is_none());
        names
            .find(|(name, _)| is_part(name))
            .map_or("", |(name, _)| name.as_str())
    }

    fn answer(&self, state: &mut State, tongue: Tongue) -> Result<Done, Refusal> {
        let method = self.asked.method.as_str();
        let by = match self.asked.headers.get("authorization") {
            Some(_) => self.whose(state)?,
            // Anybody may see that there is a gateway.
            None if (method, self.asked.path()) == ("GET", "/") => {
                return Ok(Done::Xml("<ListAllMyBucketsResult/>".to_owned()));
            }
            None => return Err(Refusal::denied()),
        };
        match tongue {
            Tongue::AdminOps => self.admin_ops(state, &by, method),
            Tongue::S3 => self.s3(state, &by, method),
            Tongue::Iam => {
                let form = String::from_utf8_lossy(&self.asked.body);
                state.iam(&by, &form)
            }
        }
    }

    fn admin_ops(&self, state: &mut State, by: &User, method: &str) -> Result<Done, Refusal> {
        let path = self.asked.path();
        let cap = match path {
            "/admin/user" => "users",
            "/admin/account" => "accounts",
            "/admin/bucket" => "buckets",
            _ => return Err(Refusal::new(405, "MethodNotAllowed")),
        };
        let wanted = Rights::named(if method == "GET" { "read" } else { "write" });
        if !by.may(cap, wanted) {
            return Err(Refusal::denied());
        }
        match (path, method, self.part()) {
            ("/admin/user", "GET", "") => state.show_user(self),
            ("/admin/user", "PUT", "") => state.create_user(self),
            ("/admin/user", "POST", "") => state.change_user(self),
            ("/admin/user", "DELETE", "") => state.delete_user(self),
            ("/admin/user", "PUT", "key") => state.put_key(self),
            ("/admin/user", "DELETE", "key") => state.delete_key(self),
            ("/admin/user", "PUT", "caps") => state.change_caps(self, true),
            ("/admin/user", "DELETE", "caps") => state.change_caps(self, false),
            ("/admin/user", "PUT", "quota") => state.set_user_quota(self),
            ("/admin/account", "GET", _) => state.show_account(self),
            ("/admin/account", "POST", "") => state.create_account(self),
            ("/admin/account", "PUT", "") => state.change_account(self),
            ("/admin/account", "PUT", "quota") => state.set_account_quota(self),
            ("/admin/account", "DELETE", "") => state.delete_account(self),
            ("/admin/bucket", "GET", _) => Ok(state.list_buckets(self)),
            (_, _, _) => Err(Refusal::new(405, "MethodNotAllowed")),
        }
    }

    fn s3(&self, state: &mut State, by: &User, method: &str) -> Result<Done, Refusal> {
        if !by.may_use_s3() {
            return Err(Refusal::denied());
        }
        let home = by.home();
        let bucket = self.asked.path().trim_matches('/').to_owned();
        match (method, bucket.as_str()) {
            ("GET", "") => {
                let buckets = state.buckets_of(&home).into_iter();
                let buckets: Vec<String> = buckets
                    .map(|name| format!("<Bucket><Name>{name}</Name></Bucket>"))
                    .collect();
                let buckets = buckets.concat();
                let (id, name) = (&by.uid, &by.display_name);
                Ok(Done::Xml(format!(
                    r#"<ListAllMyBucketsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Owner><ID>{id}</ID><DisplayName>{name}</DisplayName></Owner><Buckets>{buckets}</Buckets></ListAllMyBucketsResult>"#
                )))
            }
            ("PUT", _) if state.buckets.contains_key(&bucket) => {
                Err(Refusal::new(409, "BucketAlreadyExists"))
            }
            ("PUT", _) => {
                state.buckets.insert(bucket, home);
                Ok(Done::Nothing)
            }
            ("DELETE", _) if state.buckets.get(&bucket) == Some(&home) => {
                state.buckets.remove(&bucket);
                Ok(Done::NoContent)
            }
            ("DELETE", _) => Err(Refusal::new(404, "NoSuchBucket")),
            (_, _) => Err(Refusal::new(405, "MethodNotAllowed")),
        }
    }

    /// Who signed it.
    fn whose(&self, state: &State) -> Result<User, Refusal> {
        let headers = &self.asked.headers;
        let claim = Claim::of(headers).ok_or_else(Refusal::invalid)?;
        let user = state.owner_of(&claim.access_key);
        let user = user.ok_or_else(Refusal::unknown_access_key)?;
        let key = &user.keys[&claim.access_key];
        if !key.active {
            return Err(Refusal::unknown_access_key());
        }
        let signed_at = Timestamp::strptime("%Y%m%dT%H%M%SZ%z", format!("{}+0000", claim.time));
        // A clock that a test has moved goes on being right for those whose clock was not.
        let now = crate::rgw::wire::now();
        let since = signed_at.map(|at| at.duration_since(now));
        if !since.is_ok_and(|since| since >= -SKEW && since <= state.ahead + SKEW) {
            return Err(Refusal::new(403, "RequestTimeTooSkewed"));
        }
        let named = claim.signed_headers.iter().map(|name| {
            let value = header(headers, name).unwrap_or_default();
            (name.clone(), value.to_owned())
        });
        let named: Vec<_> = named.collect();
        let payload = match header(headers, "x-amz-content-sha256") {
            Some(hash) => hash.to_owned(),
            None => sha256(&self.asked.body),
        };
        let signed = Signed {
            method: self.asked.method.as_str(),
            path: self.asked.path(),
            query: self.asked.query(),
            headers: &named,
            payload: &payload,
            time: &claim.time,
            scope: &claim.scope,
        };
        if signed.signature(&key.secret) != claim.signature {
            return Err(Refusal::new(403, "SignatureDoesNotMatch"));
        }
        if user.suspended {
            return Err(Refusal::new(403, "UserSuspended"));
        }
        Ok(user.clone())
    }
}

/// What stands in the header of a signed request.
struct Claim {
    access_key: String,
    scope: Scope,
    signed_headers: Vec<String>,
    signature: String,
    time: String,
}

impl Claim {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let text = header(headers, "authorization")?.strip_prefix("AWS4-HMAC-SHA256")?;
        let field = |name: &str| {
            let mut fields = text.split(',').map(str::trim);
            fields.find_map(|field| field.strip_prefix(name))
        };
        let credential: Vec<&str> = field("Credential=")?.split('/').collect();
        let [access_key, date, region, service, "aws4_request"] = credential[..] else {
            return None;
        };
        Some(Self {
            access_key: access_key.to_owned(),
            scope: Scope {
                date: date.to_owned(),
                region: region.to_owned(),
                service: service.to_owned(),
            },
            signed_headers: field("SignedHeaders=")?
                .split(';')
                .map(str::to_owned)
                .collect(),
            signature: field("Signature=")?.to_owned(),
            time: header(headers, "x-amz-date")?.to_owned(),
        })
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// As gateways do it with Admin Ops; the second time, a plus sign is a space.
fn twice_decoded(text: &str) -> String {
    decoded(&decoded(text).replace('+', " "))
}
