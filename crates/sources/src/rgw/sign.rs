//! Whose request it is.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use jiff::Timestamp;
use lifecycle::TroubleKind;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName};

use crate::http::Request;
use crate::{SecretValue, SourceError, Values};

/// An access key with its secret key.
#[derive(Debug, Clone)]
pub struct Login {
    pub access_key: String,
    pub secret_key: SecretValue,
}

impl Login {
    /// Out of a credential's values; `None`: one of the two is missing, or cannot be a key.
    pub(super) fn in_values(values: &Values) -> Option<Self> {
        let access_key = values.get(super::ACCESS_KEY)?.expose_str()?;
        let secret_key = values.get(super::SECRET_KEY)?;
        let sound = super::id::is_access_key(access_key) && !secret_key.expose().is_empty();
        sound.then(|| Self {
            access_key: access_key.to_owned(),
            secret_key: secret_key.clone(),
        })
    }
}

/// Which API of the gateway is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// S3, and Admin Ops.
    S3,
    Iam,
}

/// How the parameters of IAM are written.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

/// What is signed.
pub(super) struct Signable<'a> {
    pub(super) act: &'a str,
    pub(super) method: &'a str,
    pub(super) url: &'a Url,
    pub(super) body: &'a [u8],
    pub(super) service: Service,
    /// By the gateway's clock: it refuses what was signed long ago.
    pub(super) now: Timestamp,
}

/// Signs a request with signature version 4, in headers: an address is written down by gateways, and what it carries could
/// be sent again.
pub(super) fn signed(
    request: Request,
    signable: &Signable<'_>,
    login: &Login,
) -> Result<Request, SourceError> {
    let failed = |detail: &str| SourceError::new(signable.act, TroubleKind::Rejected, detail);
    let Some(secret_key) = login.secret_key.expose_str() else {
        return Err(failed("the secret key of the login is not text"));
    };
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = match signable.service {
        Service::S3 => PayloadChecksumKind::XAmzSha256,
        // The gateway makes the hash of a form itself.
        Service::Iam => PayloadChecksumKind::NoHeader,
    };
    let identity = Credentials::new(&login.access_key, secret_key, None, None, "keyward").into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        // Gateways accept any.
        .region("default")
        .name(match signable.service {
            Service::S3 => "s3",
            Service::Iam => "iam",
        })
        .time(SystemTime::from(signable.now))
        .settings(settings)
        .build()
        .map_err(|_| failed("the request could not be signed"))?
        .into();
    let body = SignableBody::Bytes(signable.body);
    // A gateway denies a request whose kind of body is said and not signed.
    let kind = match signable.service {
        Service::S3 => None,
        Service::Iam => Some((CONTENT_TYPE.as_str(), FORM)),
    };
    let headers = kind.into_iter();
    let signing = SignableRequest::new(signable.method, signable.url.as_str(), headers, body)
        .and_then(|signable| sign(signable, &params))
        .map_err(|_| failed("the request could not be signed"))?;
    let (instructions, _) = signing.into_parts();
    let mut request = request;
    for (name, value) in instructions.headers() {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| failed("the request could not be signed"))?;
        request = if name == AUTHORIZATION {
            request.secret_header(name, value.as_bytes())
        } else {
            request.header(name, value)
        };
    }
    Ok(request)
}
