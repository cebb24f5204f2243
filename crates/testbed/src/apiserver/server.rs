//! Starting, stopping and looking into a server.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use anyhow::Context as _;
use base64::Engine as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{
    access::Deny,
    core::{Clock, Core, WriteOptions, namespace_key},
    faults::Faults,
    http::{self, Shared},
    identity::Identity,
    kinds::Kinds,
    store::{Key, Store},
    tls::Certificate,
};

/// How a server is started. The default is plain HTTP, the real clock and everybody an administrator.
#[derive(Clone)]
pub struct Options {
    /// Serve HTTPS with a certificate made for this server. Making it takes a few milliseconds.
    pub tls: bool,
    /// The port to listen on; 0 takes a free one.
    pub port: u16,
    /// How many changes stay readable for watches.
    pub history: usize,
    /// Bearer tokens and the user each stands for; if empty, no token is asked for.
    pub tokens: Vec<(String, String)>,
    pub clock: Clock,
    /// Uids and generated names follow from it.
    pub seed: u64,
    /// Whether owners take their dependents along, and namespaces their contents.
    pub collects_garbage: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tls: false,
            port: 0,
            history: 10_000,
            tokens: Vec::new(),
            clock: Arc::new(real_time),
            seed: rand::random(),
            collects_garbage: true,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("tls", &self.tls)
            .field("port", &self.port)
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a server is where time comes from; tests that need another one set Options::clock"
)]
fn real_time() -> Timestamp {
    Timestamp::now()
}

/// A running API server. Clones are handles to the same one; it stops with the last of them.
#[derive(Clone)]
pub struct Server {
    running: Arc<Running>,
}

struct Running {
    shared: Arc<Shared>,
    certificate: Option<Certificate>,
    address: Option<SocketAddr>,
    token: Option<String>,
    /// Ends the listener and its connections; replaced at every start.
    stop: Mutex<CancellationToken>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.running.store(false, Ordering::SeqCst);
        self.shared.wake_watches();
        self.stop
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .cancel();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.running.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server that listens on a loopback port.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port))
            .await
            .context("binding the API server to a loopback port")?;
        let address = listener.local_addr()?;
        let certificate = options.tls.then(Certificate::for_loopback).transpose()?;
        let server = Self::build(options, certificate, Some(address));
        server.serve(listener)?;
        Ok(server)
    }

    /// A server without a socket: only its own [`Server::client`] reaches it. Starts in microseconds.
    pub fn in_process(options: Options) -> Self {
        Self::build(options, None, None)
    }

    fn build(
        options: Options,
        certificate: Option<Certificate>,
        address: Option<SocketAddr>,
    ) -> Self {
        let mut core = Core {
            store: Store::new(options.history),
            kinds: Kinds::built_in(),
            clock: options.clock,
            identity: Identity::new(options.seed),
            unsettled: false,
            collects_garbage: options.collects_garbage,
        };
        for namespace in ["default", "kube-system"] {
            core.add_namespace(namespace);
        }
        let token = options.tokens.first().map(|(token, _)| token.clone());
        let name = address.map(|a| a.to_string()).unwrap_or_default();
        Self {
            running: Arc::new(Running {
                shared: Arc::new(Shared::new(core, options.tokens, name)),
                certificate,
                address,
                token,
                stop: Mutex::new(CancellationToken::new()),
            }),
        }
    }

    fn serve(&self, listener: TcpListener) -> anyhow::Result<()> {
        let acceptor = self
            .running
            .certificate
            .as_ref()
            .map(|certificate| certificate.acceptor(&["h2", "http/1.1"]))
            .transpose()?;
        let stop = CancellationToken::new();
        *self
            .running
            .stop
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = stop.clone();
        let shared = self.running.shared.clone();
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let connection = connection(stream, acceptor.clone(), shared.clone());
                tokio::spawn(stop.clone().run_until_cancelled_owned(connection));
            }
        }));
        Ok(())
    }

    /// The server is gone: connections break, new ones are refused. What it stored stays.
    pub fn stop(&self) {
        self.running.shared.running.store(false, Ordering::SeqCst);
        self.running.shared.wake_watches();
        self.running
            .stop
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .cancel();
    }

    /// Comes back after [`Server::stop`], on the same port.
    pub async fn restart(&self) -> anyhow::Result<()> {
        if let Some(address) = self.running.address {
            let listener = TcpListener::bind(address)
                .await
                .context("binding the API server to its former port")?;
            self.serve(listener)?;
        }
        self.running.shared.running.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// A client that reaches the server without a socket.
    pub fn client(&self) -> kube::Client {
        self.client_named("kube-rs")
    }

    /// As [`Server::client`], under a name of its own in the request log and in fault plans.
    pub fn client_named(&self, name: &str) -> kube::Client {
        let shared = self.running.shared.clone();
        let name = name.to_owned();
        let token = self.running.token.clone();
        let service = tower::service_fn(move |mut request: ::http::Request<kube::client::Body>| {
            if let Some(token) = &token
                && let Ok(value) = ::http::HeaderValue::from_str(&format!("Bearer {token}"))
            {
                request
                    .headers_mut()
                    .entry(::http::header::AUTHORIZATION)
                    .or_insert(value);
            }
            http::answer(shared.clone(), Some(name.clone()), request)
        });
        kube::Client::new(service, "default")
    }

    /// Where the server listens, if it does.
    pub fn url(&self) -> Option<String> {
        let scheme = if self.running.certificate.is_some() {
            "https"
        } else {
            "http"
        };
        self.running.address.map(|a| format!("{scheme}://{a}"))
    }

    /// The configuration of a client that uses the socket.
    pub fn kube_config(&self) -> anyhow::Result<kube::Config> {
        let url = self.url().context("this server does not listen")?;
        let mut config = kube::Config::new(url.parse()?);
        if let Some(certificate) = &self.running.certificate {
            config.root_cert = Some(vec![certificate.der()]);
        }
        config.auth_info.token = self.running.token.clone().map(Into::into);
        Ok(config)
    }

    /// As [`Server::kube_config`], under a name of its own in the request log and in fault plans.
    pub fn kube_config_named(&self, name: &str) -> anyhow::Result<kube::Config> {
        let mut config = self.kube_config()?;
        let name = ::http::HeaderValue::from_str(name)?;
        config.headers.push((::http::header::USER_AGENT, name));
        Ok(config)
    }

    /// A kubeconfig for kubectl, as text.
    pub fn kubeconfig_yaml(&self) -> anyhow::Result<String> {
        let url = self.url().context("this server does not listen")?;
        let mut cluster = json!({"server": url});
        if let Some(certificate) = &self.running.certificate {
            let pem = base64::prelude::BASE64_STANDARD.encode(certificate.pem());
            cluster["certificate-authority-data"] = json!(pem);
        }
        // Where no token is asked for, any will do: kubectl asks the terminal for a user if it has none.
        let token = self.running.token.as_deref().unwrap_or("anybody");
        // JSON is YAML.
        Ok(serde_json::to_string_pretty(&json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "testbed", "cluster": cluster}],
            "users": [{"name": "testbed", "user": {"token": token}}],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "testbed"}}],
            "current-context": "testbed",
        }))?)
    }

    /// The fault plan and the request log.
    pub fn faults(&self) -> &Faults {
        &self.running.shared.faults
    }

    /// Denies what matches, until [`Server::allow_all`].
    pub fn deny(&self, rule: Deny) {
        self.running
            .shared
            .denied
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(rule);
    }

    pub fn allow_all(&self) {
        self.running
            .shared
            .denied
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Tells every watch and every continued list that it is too old (410).
    pub fn expire_watches(&self) {
        self.running.shared.core().store.expire();
        self.running.shared.wake_watches();
    }

    /// Adds a custom kind without a request.
    pub fn install(&self, definition: &CustomResourceDefinition) -> anyhow::Result<()> {
        let object = serde_json::to_value(definition)?;
        let mut core = self.running.shared.core();
        let kind = core
            .kinds
            .find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
            .context("definitions are always served")?;
        core.create(&kind, "", object, &WriteOptions::default())
            .map_err(|failure| anyhow::anyhow!("{}", failure.message))?;
        drop(core);
        self.running.shared.wake_watches();
        Ok(())
    }

    /// Adds a namespace without a request.
    pub fn create_namespace(&self, name: &str) {
        self.running.shared.core().add_namespace(name);
        self.running.shared.wake_watches();
    }

    /// Everything stored of a resource (`secrets`, `widgets.example.dev`), for auditors: no request is made.
    pub fn objects(&self, resource: &str) -> Vec<Arc<Value>> {
        let core = self.running.shared.core();
        core.store
            .list(resource, "")
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Everything stored, with where it is.
    pub fn everything(&self) -> Vec<(Key, Arc<Value>)> {
        let core = self.running.shared.core();
        core.store
            .all()
            .map(|(key, object)| (key.clone(), object.clone()))
            .collect()
    }

    pub(super) fn with_store(&self, change: impl FnOnce(&mut Store)) {
        change(&mut self.running.shared.core().store);
        self.running.shared.wake_watches();
    }

    /// The store's version: it grows with every change and with nothing else.
    pub fn version(&self) -> u64 {
        self.running.shared.core().store.version()
    }
}

impl Core {
    fn add_namespace(&mut self, name: &str) {
        if self.store.get(&namespace_key(name)).is_some() {
            return;
        }
        let Some(kind) = self.kinds.find("", "v1", "namespaces") else {
            return;
        };
        let namespace = json!({"metadata": {"name": name}});
        // A name that is no name is the caller's to see: the namespace is then simply not there.
        if let Err(failure) = self.create(&kind, "", namespace, &WriteOptions::default()) {
            tracing::warn!(name, message = failure.message, "namespace not created");
        }
    }
}

async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let service =
        hyper::service::service_fn(move |request| http::answer(shared.clone(), None, request));
    let http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    // A connection that breaks is the client's business: it sees the error, we see the next request.
    match acceptor {
        Some(acceptor) => {
            if let Ok(stream) = acceptor.accept(stream).await {
                drop(http.serve_connection(TokioIo::new(stream), service).await);
            }
        }
        None => drop(http.serve_connection(TokioIo::new(stream), service).await),
    }
}
