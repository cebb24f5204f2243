//! What an administrator of a GitLab can set, and which release it is.

use std::fmt;
use std::time::Duration;

/// The default is a current self-managed GitLab as it comes out of the box.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of GitLab's own"
)]
pub struct Settings {
    /// The port to listen on; 0 takes a free one.
    pub port: u16,
    /// Serve HTTPS with a certificate made for this server; see [`StandIn::ca_pem`](super::StandIn::ca_pem).
    pub tls: bool,
    pub version: Version,
    /// Whether a token must have an expiry, and is held to [`Settings::max_lifetime_days`].
    pub require_expiry: bool,
    pub max_lifetime_days: u16,
    /// Whether this also holds for the tokens of service accounts.
    pub require_service_account_expiry: bool,
    /// Some releases refuse a create without `expires_at` before they look any further.
    pub expiry_must_be_sent: bool,
    /// After so many days inactive tokens are gone; see [`StandIn::run_retention`](super::StandIn::run_retention).
    pub retention_days: u16,
    /// Whether revoking a project or group token deletes its bot, and with it every token of that bot, as releases
    /// before 17.6 did. `None`: as the version does.
    pub revoke_deletes_bot: Option<bool>,
    pub rate_limit: Option<RateLimit>,
    /// Whether every answer, not only a refusal, tells of the rate limit.
    pub rate_headers_on_every_answer: bool,
    /// The address in `Link`, such as `https://gitlab.example.com`: the configured one, which need not be the one that
    /// clients use. `None`: the one that the client used.
    pub link_host: Option<String>,
    /// Lists longer than this come without `X-Total`, `X-Total-Pages` and the link to the last page.
    pub count_up_to: usize,
    /// What personal, project and group tokens begin with.
    pub token_prefix: String,
    /// Whether personal tokens without fine-grained rights may no longer be rotated.
    pub forbid_legacy_rotation: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            port: 0,
            tls: false,
            version: Version::new(19, 1, 1),
            require_expiry: true,
            max_lifetime_days: 365,
            require_service_account_expiry: true,
            expiry_must_be_sent: false,
            retention_days: 30,
            revoke_deletes_bot: None,
            rate_limit: None,
            rate_headers_on_every_answer: false,
            link_host: Some("https://gitlab.example.com".into()),
            count_up_to: 10_000,
            token_prefix: "glpat-".into(),
            forbid_legacy_rotation: false,
        }
    }
}

impl Settings {
    pub(super) fn deletes_bot(&self) -> bool {
        self.revoke_deletes_bot.unwrap_or_else(|| !self.has(17, 6))
    }

    /// Whether this release is that one or a later one.
    pub(super) fn has(&self, major: u16, minor: u16) -> bool {
        (self.version.major, self.version.minor) >= (major, minor)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u16,
    pub minor: u16,
    pub patch: u16,
}

impl Version {
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}-ee", self.major, self.minor, self.patch)
    }
}

/// So many requests of one user in each stretch of so long, by the stand-in's clock.
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    pub requests: u32,
    /// In whole seconds.
    pub window: Duration,
    pub answer: TooMany,
}

/// How the refusal looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMany {
    /// Plain text with every `RateLimit-` header and `Retry-After`.
    Plain,
    /// The same text and not one of the headers.
    PlainWithoutHeaders,
    /// From inside the application: JSON, and `Retry-After` alone.
    Json,
    /// The same without it.
    JsonWithoutHeaders,
}
