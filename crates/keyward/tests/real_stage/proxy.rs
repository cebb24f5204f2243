//! Between the operator and the API server: counts the operator's requests and strikes at a chosen one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, Response, StatusCode, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use testbed::controlplane::ControlPlane;

/// When to strike, seen from the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The server never hears of it.
    Before,
    /// The server has done it, the operator never hears of it.
    After,
}

/// Called once, with the request at which the time has come; that request is never answered.
pub(crate) type Strike = Arc<dyn Fn(&str) + Send + Sync>;

pub(crate) struct Proxy {
    url: String,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    upstream: kube::Client,
    asked: AtomicU64,
    at: Option<(u64, Moment)>,
    strike: Strike,
}

/// A client that brings the administrator's certificate; as whom it acts is said by the operator's own headers.
pub(crate) async fn upstream(plane: &ControlPlane) -> kube::Client {
    let file = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.default_retry = false;
    config.read_timeout = None;
    kube::Client::try_from(config).unwrap()
}

impl Proxy {
    /// Strikes at the `at.0`-th request that is no watch, counting from 1.
    pub(crate) async fn start(
        upstream: kube::Client,
        at: Option<(u64, Moment)>,
        strike: Strike,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            upstream,
            asked: AtomicU64::new(0),
            at,
            strike,
        });
        let app = Router::new().fallback(forward).with_state(shared.clone());
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, app).await;
        });
        Self { url, shared, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Requests so far, without watches.
    pub(crate) fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Headers that belong to one connection, not to the request.
const OF_THE_CONNECTION: [HeaderName; 4] = [
    header::HOST,
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
];

async fn forward(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let is_watch = request.uri().query().is_some_and(|query| {
        query
            .split('&')
            .any(|part| matches!(part, "watch=true" | "watch=1"))
    });
    let due = if is_watch {
        None
    } else {
        let n = shared.asked.fetch_add(1, Ordering::SeqCst) + 1;
        shared
            .at
            .filter(|(at, _)| *at == n)
            .map(|(_, moment)| moment)
    };
    let asked = format!("{} {}", request.method(), request.uri());
    if due == Some(Moment::Before) {
        (shared.strike)(&asked);
        return std::future::pending().await;
    }
    let (mut head, body) = request.into_parts();
    for name in OF_THE_CONNECTION {
        head.headers.remove(name);
    }
    let Ok(body) = axum::body::to_bytes(body, 4 << 20).await else {
        return failed();
    };
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse().unwrap_or_default();
    let body = kube::client::Body::from(body.to_vec());
    let Ok(reply) = shared.upstream.send(Request::from_parts(head, body)).await else {
        return failed();
    };
    if due == Some(Moment::After) {
        (shared.strike)(&asked);
        return std::future::pending().await;
    }
    let (mut head, body) = reply.into_parts();
    head.headers.remove(header::CONNECTION);
    head.headers.remove(header::TRANSFER_ENCODING);
    Response::from_parts(head, Body::new(body))
}

fn failed() -> Response<Body> {
    let mut reply = Response::new(Body::empty());
    *reply.status_mut() = StatusCode::BAD_GATEWAY;
    reply
}
