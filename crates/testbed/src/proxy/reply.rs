//! An answer as the client gets it: whole, or broken on purpose.

use std::io;

use futures::{StreamExt as _, stream};
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};

use super::front::Answered;

pub(super) type Reply = Response<BoxBody<Bytes, io::Error>>;

/// As an error of a service it closes the connection without a word.
pub(super) fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "cut as planned")
}

pub(super) fn whole(answered: Answered) -> Reply {
    let body = Full::new(answered.body).map_err(|never| match never {});
    reply(answered.status, answered.headers, body.boxed())
}

/// An answer without a body breaks off before its first byte.
pub(super) fn half(answered: Answered) -> Result<Reply, io::Error> {
    let announced = answered.body.len();
    if announced == 0 {
        return Err(broken());
    }
    let bytes = answered.body.slice(..announced / 2);
    let sent = stream::iter([Ok(Frame::data(bytes))]);
    // A moment between the two: otherwise hyper sees the end before it has sent anything.
    let end = stream::once(async {
        tokio::task::yield_now().await;
        Err(broken())
    });
    let body = BodyExt::boxed(StreamBody::new(sent.chain(end)));
    let mut reply = reply(answered.status, answered.headers, body);
    reply.headers_mut().insert(CONTENT_LENGTH, announced.into());
    Ok(reply)
}

fn reply(status: StatusCode, headers: HeaderMap, body: BoxBody<Bytes, io::Error>) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    *reply.headers_mut() = headers;
    reply
}
