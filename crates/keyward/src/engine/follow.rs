//! Following one watch forever, and reporting interruptions: once when one begins or changes, once when it is over.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::Api;
use kube::api::PartialObjectMeta;
use kube::core::Status;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff, Event, watcher};

use super::readiness::Watch;
use super::trouble;
use super::world::World;

type Events<K> = futures::stream::BoxStream<'static, watcher::Result<Event<PartialObjectMeta<K>>>>;

/// What is done with what a watch shows.
pub(super) trait Follower<K>: Send + 'static {
    fn seen(&mut self, world: &World, object: &PartialObjectMeta<K>, listing: bool);
    fn gone(&mut self, world: &World, object: &PartialObjectMeta<K>);
    /// Everything was listed again, in this namespace or in all.
    fn listed(&mut self, world: &World, namespace: Option<&str>);
    fn begins(&mut self);
}

/// Follows one watch forever. A watch that fails is tried again with growing pauses; a list that never ends, which
/// nothing else would notice, is given up and begun again.
pub(super) async fn follow<K, F>(
    world: Arc<World>,
    watch: Watch,
    api: Api<PartialObjectMeta<K>>,
    mut follower: F,
) where
    K: kube::Resource + Clone + std::fmt::Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Send + Sync,
    F: Follower<K>,
    PartialObjectMeta<K>: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patience = world.options.effect_timeout * 2;
    let mut told = Told::default();
    loop {
        let mut events: Events<K> = watcher(api.clone(), watcher::Config::default())
            .backoff(Pauses::default())
            .boxed();
        let mut listing = true;
        loop {
            let limit = if listing {
                Some(patience)
            } else {
                told.last.is_some().then_some(QUIET)
            };
            let next = match limit {
                Some(limit) => tokio::time::timeout(limit, events.next()).await,
                None => Ok(events.next().await),
            };
            let Ok(next) = next else {
                if listing {
                    told.interrupted(&world, &watch, Interruption::NoList);
                    break;
                }
                told.over(&world, &watch);
                continue;
            };
            match next {
                Some(Ok(Event::Apply(object))) => {
                    told.over(&world, &watch);
                    follower.seen(&world, &object, false);
                }
                Some(Ok(Event::InitApply(object))) => follower.seen(&world, &object, true),
                Some(Ok(Event::Delete(object))) => {
                    told.over(&world, &watch);
                    follower.gone(&world, &object);
                }
                Some(Ok(Event::Init)) => {
                    listing = true;
                    follower.begins();
                }
                Some(Ok(Event::InitDone)) => {
                    listing = false;
                    follower.listed(&world, watch.namespace.as_deref());
                    world.ready.listed(&watch);
                    told.over(&world, &watch);
                }
                Some(Err(error)) => told.interrupted(&world, &watch, Interruption::of(&error)),
                None => break,
            }
        }
    }
}

/// The usual growing pauses, but never so long that an API server which is back for minutes looks gone to us: a watch
/// needs two tries then, the first to hear that what it knew has expired.
#[derive(Default)]
struct Pauses(DefaultBackoff);

const LONGEST_PAUSE: Duration = Duration::from_secs(8);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|pause| pause.min(LONGEST_PAUSE))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// Why a watch does not go on. The client's own text can be a page, and says nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Interruption {
    /// What it knew is too old, and everything is listed again. This is how watches age, and no trouble.
    Expired,
    /// It stays so until somebody grants the right.
    Forbidden {
        code: u16,
        reason: String,
    },
    NotInstalled,
    Answered {
        code: u16,
    },
    Unreachable,
    NoList,
}

impl Interruption {
    fn of(error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchFailed(kube::Error::Api(status))
            | watcher::Error::WatchError(status) => Self::answered(status),
            watcher::Error::InitialListFailed(_)
            | watcher::Error::WatchStartFailed(_)
            | watcher::Error::WatchFailed(_)
            | watcher::Error::NoResourceVersion => Self::Unreachable,
        }
    }

    fn answered(status: &Status) -> Self {
        match status.code {
            410 => Self::Expired,
            404 => Self::NotInstalled,
            code @ (401 | 403) => Self::Forbidden {
                code,
                reason: trouble::short(&status.reason),
            },
            code => Self::Answered { code },
        }
    }

    /// Whether the API server will say the same until somebody changes something there.
    fn is_a_refusal(&self) -> bool {
        match self {
            Self::Forbidden { .. } | Self::NotInstalled => true,
            Self::Expired | Self::Answered { .. } | Self::Unreachable | Self::NoList => false,
        }
    }
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("what it knew is too old"),
            Self::Forbidden { code, reason } => write!(
                f,
                "the API server refused ({code} {reason}); grant the operator list and watch on it"
            ),
            Self::NotInstalled => f.write_str("the API server has no such kind; install it"),
            Self::Answered { code } => write!(f, "the API server answered {code}"),
            Self::Unreachable => f.write_str("the API server could not be reached"),
            Self::NoList => f.write_str("the list did not come in time"),
        }
    }
}

/// Tries are seconds apart. When none failed for so long, the watch stands, though it has nothing to show.
const QUIET: Duration = Duration::from_secs(30);

/// What the log has of a watch.
#[derive(Debug, Default)]
struct Told {
    last: Option<Interruption>,
}

impl Told {
    fn interrupted(&mut self, world: &World, watch: &Watch, why: Interruption) {
        world.telemetry.watch_failed(&watch.resource);
        if why.is_a_refusal() {
            world.ready.refused(watch, why.to_string());
        }
        if why == Interruption::Expired {
            tracing::debug!(watch = watch.resource, "{why}; listing anew");
            return;
        }
        if self.last.as_ref() != Some(&why) {
            tracing::warn!(
                watch = watch.resource,
                namespace = watch.namespace,
                trouble = %why,
                "a watch is interrupted; it is tried again"
            );
        }
        self.last = Some(why);
    }

    fn over(&mut self, world: &World, watch: &Watch) {
        if self.last.take().is_some() {
            world.ready.listed(watch);
            tracing::info!(
                watch = watch.resource,
                namespace = watch.namespace,
                "the watch stands again"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api_error(code: u16, reason: &str) -> kube::Error {
        let message = "a page of what was asked for and by whom";
        kube::Error::Api(Status::failure(message, reason).with_code(code).boxed())
    }

    #[test]
    fn what_the_api_server_says_becomes_one_line_of_ours() {
        for (error, wanted) in [
            (
                watcher::Error::InitialListFailed(api_error(403, "Forbidden")),
                "the API server refused (403 Forbidden); grant the operator list and watch on it",
            ),
            (
                watcher::Error::WatchStartFailed(api_error(404, "NotFound")),
                "the API server has no such kind; install it",
            ),
            (
                watcher::Error::WatchFailed(api_error(500, "a\nb")),
                "the API server answered 500",
            ),
            (
                watcher::Error::NoResourceVersion,
                "the API server could not be reached",
            ),
        ] {
            assert_eq!(Interruption::of(&error).to_string(), wanted);
        }
    }
}
