//! A certificate for one server on loopback.

use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, SanType};
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

#[derive(Debug)]
pub(crate) struct Certificate {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Certificate {
    pub(crate) fn for_loopback() -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec!["localhost".to_owned()])?;
        params
            .subject_alt_names
            .push(SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()));
        Ok(Self {
            certificate: params.self_signed(&key)?,
            key,
        })
    }

    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub(crate) fn der(&self) -> Vec<u8> {
        self.certificate.der().to_vec()
    }

    /// Accepts TLS and offers these protocols, such as `h2`.
    pub(crate) fn acceptor(&self, protocols: &[&str]) -> anyhow::Result<TlsAcceptor> {
        let key = PrivateKeyDer::Pkcs8(self.key.serialize_der().into());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.der().clone()], key)?;
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
