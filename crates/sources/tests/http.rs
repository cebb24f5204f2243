//! The HTTP builder against a server that says exactly what a test wants.
#![expect(clippy::unwrap_used, reason = "a test may stop, and may tell")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use lifecycle::TroubleKind;
use reqwest::{Method, StatusCode};
use sources::http::{Http, Settings};
use sources::{SecretValue, SourceError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

/// Answers every connection with these bytes after reading one request, and closes it.
struct Says {
    url: String,
    connections: Arc<AtomicUsize>,
    requests: tokio::sync::mpsc::UnboundedReceiver<String>,
}

async fn says(answer: &str) -> Says {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let answer = answer.to_owned();
    let (heard, requests) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = heard.send(read_head(&mut stream).await);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    Says {
        url,
        connections,
        requests,
    }
}

async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

fn quick() -> Settings {
    Settings {
        timeout: Duration::from_millis(500),
        ..Settings::default()
    }
}

async fn ask(url: &str, settings: &Settings) -> Result<sources::http::Reply, SourceError> {
    Http::new(url, settings)?
        .request("asking", Method::GET, ["a b", "c/d"])
        .query([("page", "1&2")])
        .bearer(&SecretValue::new("login-7Yq2mZ4x"))
        .send()
        .await
}

fn shows_nothing(error: &SourceError) {
    let printed = format!("{error} {error:?} {:?}", error.to_trouble());
    for never in ["127.0.0.1", "http", "page", "login-7Yq2mZ4x"] {
        assert!(!printed.contains(never), "{never} in {printed}");
    }
}

#[tokio::test]
async fn a_request_says_who_asks_and_escapes_what_it_names() {
    let mut server = says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    let reply = ask(&server.url, &quick()).await.unwrap();
    assert_eq!(reply.status(), StatusCode::OK);
    assert_eq!(reply.body(), b"{}");
    let head = server.requests.recv().await.unwrap();
    assert!(
        head.starts_with("GET /a%20b/c%2Fd?page=1%262 HTTP/1.1"),
        "{head}"
    );
    assert!(head.contains("user-agent: keyward/"), "{head}");
    assert!(!format!("{reply:?}").contains("{}"));
}

/// A proxy would see every login. The variables can only be set for another process, so this test runs another again.
#[test]
fn a_proxy_in_the_environment_is_ignored() {
    let again = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_request_says_who_asks_and_escapes_what_it_names",
        ])
        .envs(["http_proxy", "HTTP_PROXY", "ALL_PROXY"].map(|name| (name, "http://127.0.0.1:1")))
        .output()
        .unwrap();
    assert!(again.status.success());
    assert!(String::from_utf8_lossy(&again.stdout).contains("1 passed"));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server = says(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let reply = ask(&server.url, &quick()).await.unwrap();
    let error = reply.expect(&[StatusCode::OK]).unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unexpected);
    assert!(error.detail.contains("redirects"));
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_request_without_an_answer_is_not_sent_again() {
    let server = says("").await;
    let error = ask(&server.url, &quick()).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unreachable);
    shows_nothing(&error);
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_failing_server_is_asked_once_and_its_wait_is_kept() {
    let server = says("HTTP/1.1 503 Busy\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n").await;
    let error = ask(&server.url, &quick()).await.unwrap().refusal();
    assert_eq!(error.kind, TroubleKind::Unreachable);
    assert_eq!(error.wait, Some(SignedDuration::from_secs(9)));
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_cut_answer_may_have_been_done() {
    let server = says("HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{\"id\":").await;
    let error = ask(&server.url, &quick()).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unreachable);
    shows_nothing(&error);
}

#[tokio::test]
async fn a_slow_answer_is_a_timeout_and_may_have_been_done() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let error = ask(&url, &quick()).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unreachable);
    assert!(error.detail.contains("no answer within"), "{error}");
    shows_nothing(&error);
}

#[tokio::test]
async fn a_long_answer_is_cut_off() {
    let body = "x".repeat(2000);
    let server = says(&format!(
        "HTTP/1.1 200 OK\r\ncontent-length: 2000\r\n\r\n{body}"
    ))
    .await;
    let settings = Settings {
        body_limit: 1999,
        ..quick()
    };
    let error = ask(&server.url, &settings).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unexpected);
    let settings = Settings {
        body_limit: 2000,
        ..quick()
    };
    assert_eq!(
        ask(&server.url, &settings).await.unwrap().body().len(),
        2000
    );
}

#[tokio::test]
async fn nonsense_is_unexpected_and_not_quoted() {
    let server = says("HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\nsecret-in-xml").await;
    let reply = ask(&server.url, &quick()).await.unwrap();
    let error = reply.json::<Vec<u8>>().unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unexpected);
    assert!(!format!("{error:?}").contains("xml"));
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(&url, &quick()).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unreachable);
    shows_nothing(&error);
}

#[test]
fn plain_http_is_for_this_host_alone() {
    let refused = Http::new("http://issuer.example:5000", &Settings::default()).unwrap_err();
    assert_eq!(refused.kind, TroubleKind::Rejected);
    assert!(refused.detail.contains("https"));
    for fine in [
        "http://127.0.0.1:1",
        "http://[::1]:1",
        "http://localhost:1/base",
    ] {
        Http::new(fine, &Settings::default()).unwrap();
    }
    let settings = Settings {
        allow_plain_http: true,
        ..Settings::default()
    };
    Http::new("http://issuer.example:5000", &settings).unwrap();
}

#[test]
fn an_address_is_no_place_for_secrets() {
    for address in [
        "http://user:hunter2hunter2@localhost",
        "http://localhost/?token=hunter2hunter2",
        "http://localhost/#hunter2hunter2",
        "hunter2hunter2",
        "ftp://localhost",
    ] {
        let error = Http::new(address, &Settings::default()).unwrap_err();
        assert_eq!(error.kind, TroubleKind::Rejected);
        assert!(!format!("{error:?}").contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn a_login_is_never_carried_to_another_server() {
    let http = Http::new("http://127.0.0.1:1/base", &quick()).unwrap();
    let elsewhere = "http://127.0.0.1:2/base".parse().unwrap();
    let error = http
        .request_to("following a page", Method::GET, elsewhere)
        .send()
        .await
        .unwrap_err();
    assert_eq!(error.kind, TroubleKind::Rejected);
    assert_eq!(http.url(["x"]).path(), "/base/x");
    assert_eq!(http.origin(), "http://127.0.0.1:1");
}

#[tokio::test]
async fn a_private_ca_is_trusted_where_it_is_given_and_nowhere_else() {
    sources::http::install_crypto();
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let ca = issued.cert.pem();
    let key =
        rustls_pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(mut stream) = acceptor.accept(stream).await {
                answer_ok(&mut stream).await;
            }
        }
    });
    let trusting = Settings {
        ca_bundle: Some(ca.into_bytes()),
        timeout: Duration::from_secs(5),
        ..Settings::default()
    };
    assert_eq!(ask(&url, &trusting).await.unwrap().status(), StatusCode::OK);

    let other = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let wary = Settings {
        ca_bundle: Some(other.cert.pem().into_bytes()),
        ..trusting
    };
    let error = ask(&url, &wary).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unreachable);
    assert!(error.detail.contains("not trusted"), "{error}");

    let garbage = Settings {
        ca_bundle: Some(b"no certificate".to_vec()),
        ..Settings::default()
    };
    assert_eq!(
        ask(&url, &garbage).await.unwrap_err().kind,
        TroubleKind::Rejected
    );
}

async fn answer_ok(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    read_head(stream).await;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
}
