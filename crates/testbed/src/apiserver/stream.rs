//! An open watch on the wire: one line per event, bookmarks in between, an end in time.

use std::{io, sync::Arc, time::Duration};

use futures::stream;
use http::Response;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use serde_json::Value;

use super::{
    dispatch::Call,
    http::{ReplyBody, Shared, refuse, with_head},
    watch::{Next, Watch},
};

const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// The real server ends watches after a random time between this and twice this.
const WATCH_LIMIT: Duration = Duration::from_mins(30);

/// State of one open watch.
struct Stream {
    shared: Arc<Shared>,
    watch: Watch,
    changed: tokio::sync::watch::Receiver<u64>,
    deadline: tokio::time::Instant,
    next_bookmark: tokio::time::Instant,
    ended: bool,
}

/// Opens a watch and answers with what it is told, as long as it lasts.
pub(crate) fn watch(shared: &Arc<Shared>, call: &Call, place: usize) -> Response<ReplyBody> {
    // Subscribed before the first look, so that no change falls between the two.
    let changed = shared.changed.subscribe();
    let opened = {
        let core = shared.core();
        core.kind_of(&call.target).and_then(|kind| {
            let target = &call.target;
            Watch::open(
                &core,
                kind,
                &target.namespace,
                &target.name,
                &call.query,
                call.format,
            )
        })
    };
    let watch = match opened {
        Ok(watch) => watch,
        Err(failure) => {
            shared.faults.ended(place, failure.code);
            return refuse(&failure);
        }
    };
    shared.faults.ended(place, 200);
    let now = tokio::time::Instant::now();
    let limit = call
        .query
        .number("timeoutSeconds")
        .filter(|s| *s > 0)
        .map_or(WATCH_LIMIT, Duration::from_secs);
    let stream = Stream {
        shared: shared.clone(),
        watch,
        changed,
        deadline: now + limit,
        next_bookmark: now + BOOKMARK_EVERY,
        ended: false,
    };
    let frames = stream::unfold(stream, Stream::next);
    with_head(
        200,
        "application/json",
        StreamBody::new(frames).boxed_unsync(),
    )
}

impl Stream {
    async fn next(mut self) -> Option<(Result<Frame<Bytes>, io::Error>, Self)> {
        loop {
            if self.ended {
                return None;
            }
            if !self.shared.is_running() {
                self.ended = true;
                return Some((Err(io::ErrorKind::ConnectionReset.into()), self));
            }
            self.changed.mark_unchanged();
            let next = self.watch.next(&self.shared.core());
            match next {
                Next::Events(events) => return Some((Ok(lines(&events)), self)),
                Next::Last(events) => {
                    self.ended = true;
                    return Some((Ok(lines(&events)), self));
                }
                Next::Nothing => {}
            }
            tokio::select! {
                _ = self.changed.changed() => {}
                () = tokio::time::sleep_until(self.deadline) => {
                    self.ended = true;
                    if self.watch.wants_bookmarks {
                        return Some((Ok(lines(&[self.watch.bookmark()])), self));
                    }
                }
                () = tokio::time::sleep_until(self.next_bookmark), if self.watch.wants_bookmarks => {
                    self.next_bookmark += BOOKMARK_EVERY;
                    return Some((Ok(lines(&[self.watch.bookmark()])), self));
                }
            }
        }
    }
}

fn lines(events: &[Value]) -> Frame<Bytes> {
    let mut text = String::new();
    for event in events {
        text.push_str(&event.to_string());
        text.push('\n');
    }
    Frame::data(Bytes::from(text))
}
