//! A listener whose every request passes a plan of faults before something answers it.

use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use anyhow::Context as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio_rustls::TlsAcceptor;

use super::faults::{Faults, RequestLine};
use super::reply::{Reply, broken, half, whole};
use crate::apiserver::tls::Certificate;
use crate::issuer::Fault;

const BODY_LIMIT: usize = 64 << 20;

/// A request, whole.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub(crate) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }
}

/// An answer, whole.
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answered {
    fn planned(status: u16) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let error = serde_json::json!({"error": {
            "code": status.as_u16(), "message": "as planned", "title": status.canonical_reason(),
        }});
        Self {
            status,
            headers,
            body: error.to_string().into(),
        }
    }
}

/// What answers the requests that get through.
pub(crate) trait Backend: Send + Sync + 'static {
    fn kind(&self, asked: &Asked) -> String;

    /// An error closes the connection without a word.
    fn answer(&self, asked: Asked) -> BoxFuture<'static, io::Result<Answered>>;

    /// How an error looks that was planned, and not answered.
    fn planned(&self, status: u16) -> Answered {
        Answered::planned(status)
    }
}

/// The listener, on a thread of its own: usable from any runtime or none, and a test that blocks its runtime does not
/// stop it. It ends when dropped.
pub(crate) struct Front {
    shared: Arc<Shared>,
    address: SocketAddr,
    certificate: Option<Box<Certificate>>,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    backend: Arc<dyn Backend>,
    faults: Faults,
    parked: Mutex<Vec<Asked>>,
    held: Notify,
    holding: AtomicUsize,
}

impl Front {
    pub(crate) fn start(
        name: &str,
        port: u16,
        tls: bool,
        backend: Arc<dyn Backend>,
    ) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("listening on port {port} of 127.0.0.1"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let certificate = tls.then(Certificate::for_loopback).transpose()?;
        let certificate = certificate.map(Box::new);
        let acceptor = certificate
            .as_ref()
            .map(|certificate| certificate.acceptor(&["http/1.1"]))
            .transpose()?;
        let shared = Arc::new(Shared {
            backend,
            faults: Faults::default(),
            parked: Mutex::default(),
            held: Notify::new(),
            holding: AtomicUsize::new(0),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                runtime.block_on(async {
                    let Ok(listener) = TcpListener::from_std(listener) else {
                        return;
                    };
                    tokio::select! {
                        () = serve(listener, acceptor, served) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(Self {
            shared,
            address,
            certificate,
            runtime: handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.certificate.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.address)
    }

    pub(crate) fn ca_pem(&self) -> Option<String> {
        self.certificate
            .as_ref()
            .map(|certificate| certificate.pem())
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    pub(crate) fn parked(&self) -> usize {
        self.shared.parked().len() + self.shared.holding.load(Ordering::SeqCst)
    }

    pub(crate) fn release_parked(&self) -> usize {
        let parked = std::mem::take(&mut *self.shared.parked());
        let count = parked.len() + self.shared.holding.load(Ordering::SeqCst);
        self.shared.held.notify_waiters();
        let (done, wait) = mpsc::channel::<()>();
        let backend = Arc::clone(&self.shared.backend);
        self.runtime.spawn(async move {
            for asked in parked {
                // Whoever asked is not there any more to hear of a failure.
                let _ = backend.answer(asked).await;
            }
            drop(done);
        });
        // Ends with an error, which only says that the sender is gone: all of them are answered.
        let _ = wait.recv();
        count
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // It only fails if the server panicked, which its clients have noticed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn parked(&self) -> std::sync::MutexGuard<'_, Vec<Asked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn released(&self) {
        let released = self.held.notified();
        self.holding.fetch_add(1, Ordering::SeqCst);
        released.await;
        self.holding.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        // A failure only means that small replies wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        let (shared, acceptor) = (Arc::clone(&shared), acceptor.clone());
        tokio::spawn(async move {
            match acceptor {
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        connection(stream, shared).await;
                    }
                }
                None => connection(stream, shared).await,
            }
        });
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<Shared>) {
    let service = service_fn(move |request| handle(Arc::clone(&shared), request));
    // A broken connection is the client's business.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// What reaches the client.
enum Outcome {
    Whole(Answered),
    /// The announced length and half of the bytes.
    Half(Answered),
    /// The connection closes.
    Broken,
    /// Nothing, for ever.
    Silence,
}

/// An error closes the connection without a word.
async fn handle(shared: Arc<Shared>, request: http::Request<Incoming>) -> Result<Reply, io::Error> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, BODY_LIMIT)
        .collect()
        .await
        .map_err(|_| broken())?
        .to_bytes();
    let asked = Asked {
        method: head.method,
        target: head
            .uri
            .path_and_query()
            .map_or_else(|| "/".to_owned(), ToString::to_string),
        headers: head.headers,
        body,
    };
    // A task of its own: it goes on when the client is gone.
    let outcome = tokio::spawn(pass(shared, asked))
        .await
        .unwrap_or(Outcome::Broken);
    match outcome {
        Outcome::Whole(answered) => Ok(whole(answered)),
        Outcome::Half(answered) => half(answered),
        Outcome::Broken => Err(broken()),
        Outcome::Silence => pending().await,
    }
}

async fn pass(shared: Arc<Shared>, mut asked: Asked) -> Outcome {
    if asked.headers.remove(super::AUDITOR).is_some() {
        return match shared.backend.answer(asked).await {
            Ok(answered) => Outcome::Whole(answered),
            Err(_) => Outcome::Broken,
        };
    }
    let kind = shared.backend.kind(&asked);
    let (place, line, fault) = shared.faults.meet(|n| RequestLine {
        n,
        method: asked.method.to_string(),
        path: asked.path().to_owned(),
        kind,
    });
    let answer = async |asked: Asked| {
        let answered = shared.backend.answer(asked).await?;
        shared.faults.ended(place, answered.status.as_u16());
        Ok::<_, io::Error>(answered)
    };
    let planned = |status: u16| {
        shared.faults.ended(place, status);
        Outcome::Whole(shared.backend.planned(status))
    };
    let answered = match fault {
        Fault::Pass => answer(asked).await,
        Fault::CrashBefore => {
            shared.faults.crash(&line);
            return Outcome::Silence;
        }
        Fault::CrashAfter => {
            // Dead or alive behind us: the client dies at this point.
            let _ = answer(asked).await;
            shared.faults.crash(&line);
            return Outcome::Silence;
        }
        Fault::Error(status) => return planned(status),
        Fault::ErrorApplied(status) => {
            let _ = answer(asked).await;
            return planned(status);
        }
        Fault::DropNotApplied => return Outcome::Broken,
        Fault::DropApplied => {
            let _ = answer(asked).await;
            return Outcome::Broken;
        }
        Fault::TimeoutNotApplied => return Outcome::Silence,
        Fault::TimeoutApplied => {
            let _ = answer(asked).await;
            return Outcome::Silence;
        }
        Fault::CutBody => {
            return match answer(asked).await {
                Ok(answered) => Outcome::Half(answered),
                Err(_) => Outcome::Broken,
            };
        }
        Fault::Throttle(seconds) => {
            shared.faults.ended(place, 429);
            let mut answered = shared.backend.planned(429);
            answered.headers.insert(RETRY_AFTER, seconds.into());
            Ok(answered)
        }
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            answer(asked).await
        }
        Fault::DelayReply(time) => {
            let answered = answer(asked).await;
            tokio::time::sleep(time).await;
            answered
        }
        Fault::Twice => {
            let _ = answer(asked.clone()).await;
            answer(asked).await
        }
        Fault::Park => {
            shared.parked().push(asked);
            return Outcome::Silence;
        }
        Fault::Hold => {
            shared.released().await;
            answer(asked).await
        }
    };
    answered.map_or(Outcome::Broken, Outcome::Whole)
}
