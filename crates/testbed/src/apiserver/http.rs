//! The wire: one request in, one answer out, with faults in between.

use std::{
    convert::Infallible,
    fmt, io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use http::{HeaderMap, Request, Response, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Bytes};
use serde_json::Value;

use super::{
    access::{self, Deny},
    core::Core,
    discovery,
    dispatch::{self, Answer, Call},
    faults::{Fault, Faults},
    request::{Query, Target, Verb},
    status::Failure,
    stream::watch,
    wire::Format,
};

const BODY_LIMIT: usize = 3 * 1024 * 1024;

pub(crate) type ReplyBody = UnsyncBoxBody<Bytes, io::Error>;

/// The server is stopped: the connection breaks instead of an answer.
#[derive(Debug)]
pub(crate) struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection refused: the API server is stopped")
    }
}

impl std::error::Error for Gone {}

/// What all connections of a server share.
pub(crate) struct Shared {
    core: Mutex<Core>,
    pub(crate) faults: Faults,
    pub(crate) denied: Mutex<Vec<Deny>>,
    /// Bearer tokens and their users; if empty, everybody is an administrator.
    pub(crate) tokens: Vec<(String, String)>,
    pub(crate) running: AtomicBool,
    /// Wakes the watches after every change.
    pub(crate) changed: tokio::sync::watch::Sender<u64>,
    pub(crate) address: String,
}

impl Shared {
    pub(crate) fn new(core: Core, tokens: Vec<(String, String)>, address: String) -> Self {
        Self {
            core: Mutex::new(core),
            faults: Faults::default(),
            denied: Mutex::default(),
            tokens,
            running: AtomicBool::new(true),
            changed: tokio::sync::watch::Sender::new(0),
            address,
        }
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }

    pub(crate) fn wake_watches(&self) {
        self.changed.send_modify(|n| *n += 1);
    }

    fn refusal(&self, user: &str, verb: Verb, target: &Target) -> Option<Failure> {
        let rules = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        access::refusal(&rules, user, verb, target)
    }

    fn user(&self, headers: &HeaderMap) -> Result<String, Failure> {
        if self.tokens.is_empty() {
            return Ok("system:admin".to_owned());
        }
        let given = text(headers, &header::AUTHORIZATION);
        let token = given.strip_prefix("Bearer ").unwrap_or_default();
        self.tokens
            .iter()
            .find(|(known, _)| known == token)
            .map(|(_, user)| user.clone())
            .ok_or_else(Failure::unauthorized)
    }

    /// Does what a call asks, under the lock, and wakes the watches.
    fn act(&self, call: &Call, stale: usize) -> Answer {
        let (before, answer, after) = {
            let mut core = self.core();
            let before = core.store.version();
            let answer = core.answer(call, stale);
            (before, answer, core.store.version())
        };
        if before != after {
            self.wake_watches();
        }
        answer
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> &'a str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Answers one request. `client` names clients that do not name themselves.
pub(crate) async fn answer<B>(
    shared: Arc<Shared>,
    client: Option<String>,
    request: Request<B>,
) -> Result<Response<ReplyBody>, Gone>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if !shared.is_running() {
        return Err(Gone);
    }
    let (head, body) = request.into_parts();
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let path = head.uri.path();
    let Some(target) = Target::parse(path) else {
        return Ok(about_itself(&shared, path));
    };
    let Ok(body) = read_all(body).await else {
        return Err(Gone);
    };
    if body.len() > BODY_LIMIT {
        return Ok(refuse(&Failure::too_large(BODY_LIMIT)));
    }
    let Some(verb) = target.verb(&head.method, &query) else {
        return Ok(refuse(&Failure::method_not_allowed()));
    };
    let user_agent = match text(&head.headers, &header::USER_AGENT) {
        "" => client.unwrap_or_default(),
        named => named.to_owned(),
    };
    let dry_run = query.get("dryRun").is_some();
    let _under_way = (verb != Verb::Watch).then(|| shared.faults.arrived(&user_agent));
    let (place, line, fault) = shared.faults.begin(verb, &target, &user_agent, dry_run);
    let user = match shared.user(&head.headers) {
        Ok(user) => user,
        Err(failure) => {
            shared.faults.ended(place, failure.code);
            return Ok(refuse(&failure));
        }
    };
    let call = Call {
        verb,
        target,
        query,
        content_type: text(&head.headers, &header::CONTENT_TYPE).to_owned(),
        format: Format::wanted(text(&head.headers, &header::ACCEPT)),
        user_agent,
        user,
        body,
    };
    if let Some(failure) = shared.refusal(&call.user, verb, &call.target) {
        shared.faults.ended(place, failure.code);
        return Ok(refuse(&failure));
    }
    if verb == Verb::Watch {
        return match fault {
            Fault::Pass
            | Fault::Conflict
            | Fault::Ignored
            | Fault::StaleRead(_)
            | Fault::DeliveredTwice => Ok(watch(&shared, &call, place)),
            Fault::Delay(time) => {
                tokio::time::sleep(time).await;
                Ok(watch(&shared, &call, place))
            }
            Fault::Error(code) => {
                shared.faults.ended(place, code);
                Ok(refuse(&Failure::injected(code)))
            }
            Fault::CrashBefore | Fault::CrashAfter => {
                shared.faults.crash(&line);
                std::future::pending().await
            }
            Fault::TimeoutNotApplied | Fault::TimeoutApplied => std::future::pending().await,
        };
    }
    let changes = matches!(verb, Verb::Update | Verb::Patch | Verb::Delete);
    let call = if fault == Fault::Ignored && changes {
        Call {
            verb: Verb::Get,
            body: Vec::new(),
            ..call
        }
    } else {
        call
    };
    let act = |stale| {
        let answer = decide(&shared, &call, stale);
        shared.faults.ended(place, code(&answer));
        answer
    };
    let answer = match fault {
        Fault::Pass | Fault::Ignored => act(0),
        Fault::CrashBefore => {
            shared.faults.crash(&line);
            return std::future::pending().await;
        }
        Fault::CrashAfter => {
            drop(act(0));
            shared.faults.crash(&line);
            return std::future::pending().await;
        }
        Fault::TimeoutNotApplied => return std::future::pending().await,
        Fault::TimeoutApplied => {
            drop(act(0));
            return std::future::pending().await;
        }
        Fault::Error(code) => {
            shared.faults.ended(place, code);
            Err(Failure::injected(code))
        }
        Fault::Conflict => match verb {
            Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
                shared.faults.ended(place, 409);
                Err(injected_conflict(&call.target))
            }
            Verb::Get | Verb::List | Verb::Watch | Verb::Create => act(0),
        },
        Fault::StaleRead(back) => act(if verb.is_write() { 0 } else { back }),
        Fault::DeliveredTwice => {
            drop(act(0));
            act(0)
        }
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            act(0)
        }
    };
    Ok(match answer {
        Ok((code, body)) => reply(code, &body),
        Err(failure) => refuse(&failure),
    })
}

/// Reads a body to its end and keeps what may be looked at. A client that is still sending would see a broken
/// pipe instead of the refusal.
async fn read_all<B: Body<Data = Bytes>>(body: B) -> Result<Vec<u8>, B::Error> {
    let mut body = std::pin::pin!(body);
    let mut kept = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data()
            && kept.len() <= BODY_LIMIT
        {
            kept.extend_from_slice(&data);
        }
    }
    Ok(kept)
}

fn decide(shared: &Shared, call: &Call, stale: usize) -> Answer {
    if call.target.group == "authorization.k8s.io"
        && call.target.resource == "selfsubjectaccessreviews"
    {
        return dispatch::access_review(call, |verb, target| {
            shared.refusal(&call.user, verb, target).is_none()
        });
    }
    shared.act(call, stale)
}

fn code(answer: &Answer) -> u16 {
    match answer {
        Ok((code, _)) => *code,
        Err(failure) => failure.code,
    }
}

fn injected_conflict(target: &Target) -> Failure {
    Failure::modified(super::status::About {
        group: &target.group,
        resource: &target.resource,
        name: &target.name,
    })
}

fn about_itself(shared: &Shared, path: &str) -> Response<ReplyBody> {
    if matches!(path, "/healthz" | "/livez" | "/readyz") {
        return whole(200, "text/plain", Bytes::from_static(b"ok"));
    }
    match discovery::answer(&shared.core().kinds, path, &shared.address) {
        Some(body) => reply(200, &body),
        None => refuse(&Failure::no_such_path()),
    }
}

pub(crate) fn refuse(failure: &Failure) -> Response<ReplyBody> {
    let mut refusal = reply(failure.code, &failure.to_json());
    if refusal.status() == http::StatusCode::TOO_MANY_REQUESTS {
        // What the real one says when it has more to do than it takes at once.
        let a_second = header::HeaderValue::from_static("1");
        refusal.headers_mut().insert(header::RETRY_AFTER, a_second);
    }
    refusal
}

fn reply(code: u16, body: &Value) -> Response<ReplyBody> {
    whole(code, "application/json", Bytes::from(body.to_string()))
}

fn whole(code: u16, content_type: &'static str, body: Bytes) -> Response<ReplyBody> {
    let body = Full::new(body)
        .map_err(|never: Infallible| match never {})
        .boxed_unsync();
    with_head(code, content_type, body)
}

pub(crate) fn with_head(
    code: u16,
    content_type: &'static str,
    body: ReplyBody,
) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static(content_type),
    );
    response
}
