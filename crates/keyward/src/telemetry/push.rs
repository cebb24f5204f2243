//! OTLP: the same numbers, pushed to a collector that the environment names. Off unless it names one.
//!
//! The SDK's reader collects on a thread of its own and hands the result over here; it is sent from the operator's
//! runtime. A push that fails is not repeated: the next one says the same and more.
//!
//! `opentelemetry-otlp` is not used. It reads the endpoint, headers and time-out of the environment, about a third of this
//! file, but passes over what it cannot read without a word, knows no `CERTIFICATE` over HTTP and no `OTEL_METRICS_EXPORTER`;
//! the client, the certificates, the runtime and the one line of complaint would be ours beside two more crates.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, Client, Url, redirect};
use tokio::runtime::Handle;

/// Where to push, and how. As the OpenTelemetry specification has it, from `OTEL_EXPORTER_OTLP_*`; variables with
/// `METRICS` in their names go before those without.
#[derive(Clone)]
pub struct Push {
    endpoint: Url,
    headers: HeaderMap,
    timeout: Duration,
    pub(super) interval: Duration,
    /// PEM, to trust instead of the system's.
    trusted: Option<Vec<u8>>,
}

impl fmt::Debug for Push {
    /// Headers are logins, and an address may hold one too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push")
            .field("to", &self.origin())
            .finish_non_exhaustive()
    }
}

/// Something in the environment that cannot be followed. The operator works without pushing then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} {detail}")]
pub struct Unusable {
    variable: String,
    detail: &'static str,
}

impl Push {
    /// What the environment asks for; `None` if it names no endpoint, or says that nothing is to be pushed.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, Unusable> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let either = |name: &str| {
            [
                format!("OTEL_EXPORTER_OTLP_METRICS_{name}"),
                format!("OTEL_EXPORTER_OTLP_{name}"),
            ]
            .into_iter()
            .find_map(|full| set(&full).map(|value| (full, value)))
        };
        let Some((named_by, address)) = either("ENDPOINT") else {
            return Ok(None);
        };
        let disabled =
            set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let elsewhere = set("OTEL_METRICS_EXPORTER")
            .is_some_and(|value| value.split(',').all(|exporter| exporter.trim() != "otlp"));
        if disabled || elsewhere {
            return Ok(None);
        }
        if let Some((variable, protocol)) = either("PROTOCOL")
            && protocol != "http/protobuf"
        {
            let detail = "asks for another protocol than http/protobuf, the only one spoken here";
            return Err(Unusable { variable, detail });
        }
        let endpoint = endpoint(named_by, &address)?;
        let headers = match either("HEADERS") {
            Some((variable, text)) => headers(variable, &text)?,
            None => HeaderMap::new(),
        };
        let trusted = either("CERTIFICATE")
            .map(|(variable, path)| {
                std::fs::read(path).map_err(|_| Unusable {
                    variable,
                    detail: "names a file that cannot be read",
                })
            })
            .transpose()?;
        let interval = set("OTEL_METRIC_EXPORT_INTERVAL")
            .map(|value| ("OTEL_METRIC_EXPORT_INTERVAL".to_owned(), value));
        Ok(Some(Self {
            endpoint,
            headers,
            timeout: milliseconds(either("TIMEOUT"), Duration::from_secs(10))?,
            interval: milliseconds(interval, Duration::from_mins(1))?,
            trusted,
        }))
    }

    /// Scheme, host and port: fit for logs.
    pub fn origin(&self) -> String {
        self.endpoint.origin().ascii_serialization()
    }
}

/// The address of a signal is taken as it stands, the general one is where all signals have their paths.
fn endpoint(variable: String, address: &str) -> Result<Url, Unusable> {
    let unusable = |variable| Unusable {
        variable,
        detail: "must be an address such as http://collector.example:4318",
    };
    let Ok(mut url) = Url::parse(address) else {
        return Err(unusable(variable));
    };
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err(unusable(variable));
    }
    if variable == "OTEL_EXPORTER_OTLP_ENDPOINT"
        && let Ok(mut path) = url.path_segments_mut()
    {
        path.pop_if_empty().extend(["v1", "metrics"]);
    }
    Ok(url)
}

/// `name=value,name=value`, values percent-encoded. They are logins more often than not.
fn headers(variable: String, text: &str) -> Result<HeaderMap, Unusable> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let parsed = pair.split_once('=').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            let mut value = HeaderValue::from_bytes(&percent_decoded(value.trim())).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        let Some((name, value)) = parsed else {
            let detail = "must be name=value pairs with commas between them";
            return Err(Unusable { variable, detail });
        };
        headers.insert(name, value);
    }
    Ok(headers)
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().iter();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(&byte) = bytes.next() {
        let digits = bytes.as_slice().get(..2);
        let hex = digits
            .filter(|_| byte == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if hex.is_some() {
            bytes.nth(1);
        }
        decoded.push(hex.unwrap_or(byte));
    }
    decoded
}

fn milliseconds(set: Option<(String, String)>, default: Duration) -> Result<Duration, Unusable> {
    let Some((variable, value)) = set else {
        return Ok(default);
    };
    match value.trim().parse() {
        Ok(milliseconds) if milliseconds > 0 => Ok(Duration::from_millis(milliseconds)),
        Ok(_) | Err(_) => Err(Unusable {
            variable,
            detail: "must be a number of milliseconds",
        }),
    }
}

/// Sends what the SDK's reader hands over.
#[derive(Debug)]
pub(super) struct Exporter {
    client: Client,
    push: Push,
    runtime: Handle,
    /// Said once when it begins, and once when it is over.
    failing: AtomicBool,
}

impl Exporter {
    /// Must be called on the runtime that will send.
    pub(super) fn new(push: Push) -> Result<Self, Unusable> {
        sources::http::install_crypto();
        let mut builder = Client::builder()
            .user_agent(concat!("keyward/", env!("CARGO_PKG_VERSION")))
            .timeout(push.timeout)
            .connect_timeout(push.timeout.min(Duration::from_secs(5)))
            .redirect(redirect::Policy::none())
            .no_proxy();
        if push.endpoint.scheme() == "http" {
            builder = builder.tls_certs_only([]);
        } else if let Some(pem) = &push.trusted {
            let trusted = Certificate::from_pem_bundle(pem).unwrap_or_default();
            builder = builder.tls_certs_only(trusted);
        }
        match builder.build() {
            Ok(client) => Ok(Self {
                client,
                push,
                runtime: Handle::current(),
                failing: AtomicBool::new(false),
            }),
            Err(_) => Err(Unusable {
                variable: "OTEL_EXPORTER_OTLP_CERTIFICATE".into(),
                detail: "or the system's certificates cannot be used for TLS",
            }),
        }
    }

    async fn send(&self, body: Vec<u8>) -> Result<(), String> {
        let request = self
            .client
            .post(self.push.endpoint.clone())
            .headers(self.push.headers.clone())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(body);
        // The reader's thread has no runtime: the request is begun and runs on ours, and is only waited for here.
        let sent = self
            .runtime
            .spawn(async move { request.send().await })
            .await;
        match sent {
            Ok(Ok(reply)) if reply.status().is_success() => Ok(()),
            Ok(Ok(reply)) => Err(format!("it answered {}", reply.status().as_u16())),
            Ok(Err(error)) if error.is_timeout() => Err("no answer in time".to_owned()),
            Ok(Err(_)) => Err("it cannot be reached".to_owned()),
            Err(_) => Err("the operator is ending".to_owned()),
        }
    }
}

impl PushMetricExporter for Exporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let body = ExportMetricsServiceRequest::from(metrics).encode_to_vec();
        let result = self.send(body).await;
        let failed_before = self.failing.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Ok(()) => {
                if failed_before {
                    tracing::info!(collector = self.push.origin(), "metrics are pushed again");
                }
                Ok(())
            }
            Err(trouble) => {
                if !failed_before {
                    tracing::warn!(
                        collector = self.push.origin(),
                        trouble,
                        "metrics could not be pushed; the next push says it all"
                    );
                }
                Err(OTelSdkError::InternalFailure(trouble))
            }
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Option<Push>, Unusable> {
        Push::from_environment(|name| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    const GENERAL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const OWN: &str = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT";

    #[test]
    fn nothing_is_pushed_unless_an_endpoint_is_named() {
        for set in [
            &[][..],
            &[(GENERAL, ""), (OWN, " ")],
            &[("OTEL_EXPORTER_OTLP_HEADERS", "a=b")],
            &[(GENERAL, "http://c:4318"), ("OTEL_SDK_DISABLED", "TRUE")],
            &[
                (GENERAL, "http://c:4318"),
                ("OTEL_METRICS_EXPORTER", "none"),
            ],
            &[
                (GENERAL, "http://c:4318"),
                ("OTEL_METRICS_EXPORTER", "prometheus,console"),
            ],
        ] {
            assert!(read(set).unwrap().is_none(), "{set:?}");
        }
    }

    #[test]
    fn the_general_address_gets_the_path_and_the_own_one_is_taken_as_it_stands() {
        for (set, wanted) in [
            (
                &[(GENERAL, "http://c:4318")][..],
                "http://c:4318/v1/metrics",
            ),
            (
                &[(GENERAL, "http://c:4318/base/")],
                "http://c:4318/base/v1/metrics",
            ),
            (&[(OWN, "https://c/push")], "https://c/push"),
            (
                &[(GENERAL, "http://a:1"), (OWN, "http://b:2/x")],
                "http://b:2/x",
            ),
            (
                &[
                    (GENERAL, "http://a:1"),
                    ("OTEL_METRICS_EXPORTER", "prometheus, otlp"),
                ],
                "http://a:1/v1/metrics",
            ),
        ] {
            let push = read(set).unwrap().unwrap();
            assert_eq!(push.endpoint.as_str(), wanted);
            assert_eq!(push.timeout, Duration::from_secs(10));
            assert_eq!(push.interval, Duration::from_mins(1));
        }
    }

    #[test]
    fn what_cannot_be_followed_is_said_without_its_value() {
        for (set, variable) in [
            (&[(GENERAL, "collector:4318")][..], GENERAL),
            (&[(OWN, "not an address")], OWN),
            (
                &[
                    (GENERAL, "http://c:4317"),
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
                ],
                "OTEL_EXPORTER_OTLP_PROTOCOL",
            ),
            (
                &[
                    (GENERAL, "http://c:4318"),
                    ("OTEL_EXPORTER_OTLP_HEADERS", "hush"),
                ],
                "OTEL_EXPORTER_OTLP_HEADERS",
            ),
            (
                &[
                    (GENERAL, "http://c:4318"),
                    ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
                ],
                "OTEL_METRIC_EXPORT_INTERVAL",
            ),
        ] {
            let said = read(set).unwrap_err().to_string();
            assert!(said.starts_with(variable), "{said}");
            assert!(!said.contains("hush") && !said.contains("not an"), "{said}");
        }
    }

    #[test]
    fn headers_are_decoded_and_never_shown() {
        let set = [
            (GENERAL, "http://user:hush@c:4318"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Bearer%20hush, x-scope=a%2Cb%zz",
            ),
        ];
        let push = read(&set).unwrap().unwrap();
        assert_eq!(push.headers["authorization"], "Bearer hush");
        assert_eq!(push.headers["x-scope"], "a,b%zz");
        assert!(
            !format!("{push:?} {:?}", push.headers).contains("hush"),
            "{push:?}"
        );
    }
}
