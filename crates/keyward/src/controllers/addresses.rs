//! Which addresses the operator may connect to. Resources name issuers, and whoever writes them could name any server,
//! with a login of somebody else's in the request; so whoever runs the operator says where logins may go.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// An address that may be spoken to: scheme, host and port exactly, and every path below its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl {
    scheme: String,
    host: String,
    port: u16,
    path: String,
}

/// Which addresses of one sort of issuer may be spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// These, and what is below them; if there are none, what the controller takes for safe by itself.
    Only(Vec<BaseUrl>),
    /// For who speaks to none of them and only tells what would be done.
    Any,
}

impl Default for Allowed {
    fn default() -> Self {
        Self::Only(Vec::new())
    }
}

/// What was given is not told: it may have a password in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a plain address, such as https://issuer.example.com, without user, query or fragment")]
pub struct NoAddress;

impl FromStr for BaseUrl {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let uri: Uri = text.parse().map_err(|_| NoAddress)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(NoAddress);
        };
        let scheme = scheme.to_ascii_lowercase();
        let default_port = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return Err(NoAddress),
        };
        let host = authority.host().to_ascii_lowercase();
        let path = uri.path().trim_end_matches('/');
        let odd = |part: &str| part == "." || part == ".." || part.contains('%');
        let plain = uri.query().is_none()
            && !text.contains('#')
            && !authority.as_str().contains('@')
            && !host.is_empty()
            && !path.split('/').any(odd);
        // What is judged here must be what is spoken to: the client reads addresses in a way of its own, in which
        // 127.1 is a host too.
        let sent_to = reqwest::Url::parse(text).map_err(|_| NoAddress)?;
        if !plain || sent_to.host_str() != Some(host.as_str()) {
            return Err(NoAddress);
        }
        Ok(Self {
            scheme,
            host,
            port: authority.port_u16().unwrap_or(default_port),
            path: path.to_owned(),
        })
    }
}

impl BaseUrl {
    pub(super) fn covers(&self, other: &Self) -> bool {
        let same_origin =
            (&self.scheme, &self.host, self.port) == (&other.scheme, &other.host, other.port);
        let below = other
            .path
            .strip_prefix(&self.path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        same_origin && below
    }

    /// Whether it names a Service of this namespace in the cluster's own DNS. A cluster with another domain than the
    /// usual one has the short form too.
    pub(super) fn is_service_in(&self, namespace: &str) -> bool {
        let parts: Vec<&str> = self.host.split('.').collect();
        match parts.as_slice() {
            [service, of, "svc"] | [service, of, "svc", "cluster", "local"] => {
                !service.is_empty() && *of == namespace
            }
            _ => false,
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scheme,
            host,
            port,
            path,
        } = self;
        match (scheme.as_str(), port) {
            ("https", 443) | ("http", 80) => write!(f, "{scheme}://{host}{path}"),
            _ => write!(f, "{scheme}://{host}:{port}{path}"),
        }
    }
}

/// All of them, for people.
pub(super) fn list(addresses: &[BaseUrl]) -> String {
    let all: Vec<String> = addresses.iter().map(BaseUrl::to_string).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> BaseUrl {
        text.parse().unwrap()
    }

    #[test]
    fn only_the_same_server_and_what_is_below_its_path_is_allowed() {
        let allowed = url("https://git.example.com/gitlab");
        for good in [
            "https://git.example.com/gitlab",
            "https://GIT.example.com:443/gitlab/",
            "https://git.example.com/gitlab/team",
        ] {
            assert!(allowed.covers(&url(good)), "{good}");
        }
        for bad in [
            "http://git.example.com/gitlab",
            "https://git.example.com:8443/gitlab",
            "https://git.example.com.evil.example/gitlab",
            "https://git.example.com/gitlab-evil",
            "https://git.example.com/",
        ] {
            assert!(!allowed.covers(&url(bad)), "{bad}");
        }
    }

    #[test]
    fn an_address_with_anything_hidden_in_it_is_none() {
        for bad in [
            "https://user:word@git.example.com",
            "https://git.example.com?x=1",
            "https://git.example.com/a/../b",
            "https://git.example.com/%2e%2e",
            "https://evil.example\\.a.svc",
            "https://evil%2eexample",
            "https://127.1",
            "https://0x7f000001",
            "ftp://git.example.com",
            "git.example.com",
            "/api",
            "",
        ] {
            assert!(bad.parse::<BaseUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_service_of_the_namespace_is_told_from_anything_that_looks_like_one() {
        for good in [
            "https://keystone-internal.openstack.svc:5000",
            "https://Keystone.openstack.svc.cluster.local/v3",
            "http://keystone.openstack.svc",
        ] {
            assert!(url(good).is_service_in("openstack"), "{good}");
        }
        for bad in [
            "https://keystone.another.svc",
            "https://keystone.openstack.svc.evil.example",
            "https://keystone.openstack.svc.cluster.local.evil.example",
            "https://a.keystone.openstack.svc",
            "https://.openstack.svc",
            "https://openstack.svc",
            "https://keystone.openstack.svc.",
            "https://keystone.openstack",
            "https://keystone",
            "http://127.0.0.1:5000",
            "http://localhost:5000",
        ] {
            let is_one = bad
                .parse::<BaseUrl>()
                .is_ok_and(|bad| bad.is_service_in("openstack"));
            assert!(!is_one, "{bad}");
        }
    }
}
