//! From bytes to a call, through the planned fault, and back.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::Arc;

use futures::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::faults::{Fault, RequestLine, Verb};
use super::state::{Answer, Call};
use super::{Parked, Shared, control};

pub(super) type ReplyBody = BoxBody<Bytes, io::Error>;
pub(super) type Reply = Response<ReplyBody>;

const BODY_LIMIT: usize = 1 << 20;

/// Serves until dropped; every connection ends with it.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        // A failure only means that small replies wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        while connections.try_join_next().is_some() {}
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| handle(Arc::clone(&shared), request));
            // A broken connection is the client's business.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// An error closes the connection without a word.
async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Reply, io::Error> {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_LIMIT).collect().await else {
        return Ok(plain(&Answer::error(413, "too long")));
    };
    let body = body.to_bytes();
    let path = decoded_path(head.uri.path());
    let segments: Vec<&str> = path.iter().map(String::as_str).collect();
    if shared.control && segments.first() == Some(&"control") {
        return Ok(control::answer(
            &shared,
            &head.method,
            &segments[1..],
            &body,
        ));
    }
    let prefix = query_prefix(head.uri.query());
    let (realm, call) = match understand(&head.method, &segments, prefix, &body) {
        Ok(understood) => understood,
        Err(answer) => return Ok(plain(&answer)),
    };
    let login = head
        .headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "))
        .map(str::to_owned);
    let _under_way = shared.faults.arrived();
    let (place, line, fault) = shared.faults.meet(|n| line_of(n, &realm, &call));
    let asked = Parked { realm, login, call };
    let apply = |asked| {
        let answer = shared.apply(asked);
        shared.faults.ended(place, answer.status);
        answer
    };
    match fault {
        Fault::Pass => Ok(plain(&apply(asked))),
        Fault::CrashBefore => {
            shared.faults.crash(&line);
            pending().await
        }
        Fault::CrashAfter => {
            apply(asked);
            shared.faults.crash(&line);
            pending().await
        }
        Fault::Error(status) => {
            shared.faults.ended(place, status);
            Ok(plain(&Answer::error(status, "as planned")))
        }
        Fault::ErrorApplied(status) => {
            apply(asked);
            Ok(plain(&Answer::error(status, "as planned")))
        }
        Fault::DropNotApplied => Err(broken()),
        Fault::DropApplied => {
            apply(asked);
            Err(broken())
        }
        Fault::TimeoutNotApplied => pending().await,
        Fault::TimeoutApplied => {
            apply(asked);
            pending().await
        }
        Fault::CutBody => cut(&apply(asked)),
        Fault::Throttle(seconds) => {
            shared.faults.ended(place, 429);
            let mut reply = plain(&Answer::error(429, "too many requests"));
            reply.headers_mut().insert(RETRY_AFTER, seconds.into());
            Ok(reply)
        }
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            Ok(plain(&apply(asked)))
        }
        Fault::DelayReply(time) => {
            let answer = apply(asked);
            tokio::time::sleep(time).await;
            Ok(plain(&answer))
        }
        Fault::Twice => {
            apply(asked.clone());
            Ok(plain(&apply(asked)))
        }
        Fault::Park => {
            shared.park(asked);
            pending().await
        }
        Fault::Hold => {
            shared.released().await;
            Ok(plain(&apply(asked)))
        }
    }
}

fn understand(
    method: &Method,
    segments: &[&str],
    prefix: String,
    body: &[u8],
) -> Result<(String, Call), Answer> {
    let ["v1", realm, rest @ ..] = segments else {
        return Err(Answer::error(404, "no such path"));
    };
    let call = match (method, rest) {
        (&Method::GET, ["credentials"]) => Call::List { prefix },
        (&Method::POST, ["credentials"]) => Call::Mint(parsed(body)?),
        (&Method::GET, ["credentials", id]) => Call::Look { id: (*id).into() },
        (&Method::DELETE, ["credentials", id]) => Call::Revoke { id: (*id).into() },
        (&Method::GET, ["values", name]) => Call::ReadValue {
            name: (*name).into(),
        },
        (&Method::POST, ["rotate"]) => Call::Rotate(parsed(body)?),
        (&Method::POST, ["login"]) => Call::Login(parsed(body)?),
        _ => return Err(Answer::error(404, "no such path")),
    };
    Ok(((*realm).into(), call))
}

fn parsed<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Answer> {
    serde_json::from_slice(body).map_err(|_| Answer::error(400, "not the JSON this call needs"))
}

fn line_of(n: u64, realm: &str, call: &Call) -> RequestLine {
    let (verb, what, name) = match call {
        Call::List { prefix } => (Verb::List, "", prefix.as_str()),
        Call::Look { id } => (Verb::Look, id.as_str(), ""),
        Call::ReadValue { name } => (Verb::ReadValue, "", name.as_str()),
        Call::Mint(new) => (Verb::Mint, "", new.name.as_str()),
        Call::Rotate(_) => (Verb::Rotate, "", ""),
        Call::Revoke { id } => (Verb::Revoke, id.as_str(), ""),
        Call::Login(_) => (Verb::Login, "", ""),
    };
    RequestLine {
        n,
        verb,
        realm: realm.into(),
        what: what.into(),
        name: name.into(),
    }
}

pub(super) fn plain(answer: &Answer) -> Reply {
    let body = answer.body.as_ref().map(ToString::to_string);
    let full = Full::new(Bytes::from(body.unwrap_or_default()));
    let body = full.map_err(|never: Infallible| match never {}).boxed();
    reply(answer.status, body)
}

fn reply(status: u16, body: ReplyBody) -> Reply {
    let mut reply = Response::new(body);
    if let Ok(status) = status.try_into() {
        *reply.status_mut() = status;
    }
    let json = hyper::header::HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, json);
    reply
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "cut as planned")
}

/// Announces the whole body and sends the first half of it. An answer without a body breaks off before its first byte.
fn cut(answer: &Answer) -> Result<Reply, io::Error> {
    let Some(body) = &answer.body else {
        return Err(broken());
    };
    let mut bytes = Bytes::from(body.to_string());
    let announced = bytes.len();
    bytes.truncate(announced / 2);
    let frames = [Ok(Frame::data(bytes)), Err(broken())];
    let body = StreamBody::new(stream::iter(frames)).boxed();
    let mut reply = reply(answer.status, body);
    reply.headers_mut().insert(CONTENT_LENGTH, announced.into());
    Ok(reply)
}

fn decoded_path(path: &str) -> Vec<String> {
    path.trim_start_matches('/')
        .split('/')
        .map(decoded)
        .collect()
}

fn query_prefix(query: Option<&str>) -> String {
    let mut pairs = query.unwrap_or_default().split('&');
    let prefix = pairs.find_map(|pair| pair.strip_prefix("prefix="));
    prefix.map(decoded).unwrap_or_default()
}

/// Undoes percent-escapes; what is not one stays as it is.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%')
            .then(|| std::str::from_utf8(tail.get(..2)?).ok())
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let Some(byte) = escaped {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_segment_by_segment() {
        assert_eq!(decoded_path("/v1/a%2Fb/%7Ex%"), ["v1", "a/b", "~x%"]);
        assert_eq!(query_prefix(Some("a=b&prefix=kw1%2D")), "kw1-");
        assert_eq!(query_prefix(None), "");
    }
}
