//! The keys and certificates of one control plane, made at each boot.

use std::fs;
use std::path::Path;

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

pub(super) const CA_CERT: &str = "ca.crt";
pub(super) const APISERVER_CERT: &str = "apiserver.crt";
pub(super) const APISERVER_KEY: &str = "apiserver.key";
/// Signs the tokens of service accounts.
pub(super) const ACCOUNTS_KEY: &str = "service-accounts.key";
pub(super) const ACCOUNTS_PUBLIC_KEY: &str = "service-accounts.pub";

/// A client whose certificate names its user and group.
#[derive(Debug)]
pub(super) struct ClientCertificate {
    pub(super) cert: &'static str,
    pub(super) key: &'static str,
    user: &'static str,
    group: Option<&'static str>,
}

pub(super) const ADMIN: ClientCertificate = ClientCertificate {
    cert: "admin.crt",
    key: "admin.key",
    user: "admin",
    group: Some("system:masters"),
};

/// RBAC gives these two their rights by their names.
pub(super) const CONTROLLER_MANAGER: ClientCertificate = ClientCertificate {
    cert: "controller-manager.crt",
    key: "controller-manager.key",
    user: "system:kube-controller-manager",
    group: None,
};
pub(super) const SCHEDULER: ClientCertificate = ClientCertificate {
    cert: "scheduler.crt",
    key: "scheduler.key",
    user: "system:kube-scheduler",
    group: None,
};

/// Writes every key and certificate into `dir`, which only its owner can read.
pub(super) fn write(dir: &Path) -> anyhow::Result<()> {
    let mut authority = CertificateParams::default();
    authority.distinguished_name = name("keyward-testbed-ca", None);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let authority_key = KeyPair::generate()?;
    fs::write(
        dir.join(CA_CERT),
        authority.self_signed(&authority_key)?.pem(),
    )
    .context("writing certificates")?;
    let issuer = Issuer::new(authority, authority_key);

    let hosts = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "127.0.0.1",
        "10.0.0.1",
    ];
    let mut server = CertificateParams::new(hosts.map(str::to_owned).to_vec())?;
    server.distinguished_name = name("kube-apiserver", None);
    sign(dir, &issuer, server, APISERVER_CERT, APISERVER_KEY)?;

    for client in [ADMIN, CONTROLLER_MANAGER, SCHEDULER] {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(client.user, client.group);
        sign(dir, &issuer, params, client.cert, client.key)?;
    }

    let accounts = KeyPair::generate()?;
    fs::write(dir.join(ACCOUNTS_KEY), accounts.serialize_pem())?;
    fs::write(dir.join(ACCOUNTS_PUBLIC_KEY), accounts.public_key_pem())?;
    Ok(())
}

fn sign(
    dir: &Path,
    issuer: &Issuer<'_, KeyPair>,
    mut params: CertificateParams,
    cert: &str,
    key: &str,
) -> anyhow::Result<()> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    let own_key = KeyPair::generate()?;
    fs::write(dir.join(cert), params.signed_by(&own_key, issuer)?.pem())?;
    fs::write(dir.join(key), own_key.serialize_pem())?;
    Ok(())
}

fn name(common: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}
