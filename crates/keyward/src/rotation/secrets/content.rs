//! Which of a Secret's keys are ours, and what is known of their values without showing them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::Fingerprint;
use sha2::{Digest, Sha256};
use sources::{SecretValue, Values};

use super::annotate;
use crate::engine::names;

/// What is written down of a chosen value before it is stored: enough to know it again, and of no use to anybody else,
/// for the value itself is random.
pub fn commitment(values: &Values) -> Fingerprint {
    digest(
        &Sha256::new(),
        values.iter().map(|(key, value)| (key, value.expose())),
        16,
    )
    .as_str()
    .into()
}

/// The same of what is in a draft.
pub fn commitment_of(draft: &Secret) -> Fingerprint {
    let data = draft.data.iter().flatten();
    let data = data.map(|(key, value)| (key.as_str(), value.0.as_slice()));
    digest(&Sha256::new(), data, 16).as_str().into()
}

/// The keys of this Secret that are ours; `None`: all of them.
pub(super) fn our_keys(secret: &Secret) -> Option<Vec<&str>> {
    let keys = secret.annotations().get(names::KEYS)?;
    Some(keys.split(',').filter(|key| !key.is_empty()).collect())
}

pub(super) fn note_keys(secret: &mut Secret, keys: &[String]) {
    if keys.is_empty() {
        secret.annotations_mut().remove(names::KEYS);
    } else {
        annotate(secret, names::KEYS, keys.join(","));
    }
}

/// What is in it that is ours.
pub(super) fn our_data(secret: &Secret) -> impl Iterator<Item = (&str, &[u8])> {
    let keys = our_keys(secret);
    let all = secret.data.iter().flatten();
    all.map(|(key, value)| (key.as_str(), value.0.as_slice()))
        .filter(move |(key, _)| keys.as_ref().is_none_or(|keys| keys.contains(key)))
}

/// What is in it that is neither ours nor is to be.
pub(super) fn others(secret: &Secret, new: &[String]) -> BTreeMap<String, ByteString> {
    let ours = our_keys(secret).unwrap_or_default();
    let mut data = secret.data.clone().unwrap_or_default();
    data.retain(|key, _| !ours.contains(&key.as_str()) && !new.contains(key));
    data
}

/// Whether a value is in it, under every key that is ours.
pub(super) fn is_filled(secret: &Secret) -> bool {
    let found = our_data(secret).count();
    let wanted = our_keys(secret).map_or(1, |keys| keys.len().max(1));
    found >= wanted
}

/// The digest of what is in a Secret now, as far as it is ours; `None` where nothing is.
pub fn digest_now(secret: &Secret, object: &DynamicObject) -> Option<String> {
    if !is_filled(secret) {
        return None;
    }
    let uid = object.uid().unwrap_or_default();
    Some(digest_of(&uid, our_data(secret)))
}

pub(super) fn data(values: &Values) -> BTreeMap<String, ByteString> {
    values
        .iter()
        .map(|(key, value)| (key.to_owned(), ByteString(value.expose().to_vec())))
        .collect()
}

/// The values of a Secret that are ours.
pub fn our_values(secret: &Secret) -> Values {
    our_data(secret).fold(Values::new(), |values, (key, bytes)| {
        values.with(key.to_owned(), SecretValue::new(bytes.to_vec()))
    })
}

/// Salted with the owner's uid and cut: enough to notice a change, of no use for anything else.
pub(super) fn digest_of<'a>(salt: &str, data: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    digest(&Sha256::new_with_prefix(salt.as_bytes()), data, 8)
}

pub(super) fn digest<'a>(
    begun: &Sha256,
    data: impl Iterator<Item = (&'a str, &'a [u8])>,
    length: usize,
) -> String {
    let mut digest = begun.clone();
    for (key, value) in data {
        digest.update((key.len() as u64).to_be_bytes());
        digest.update(key.as_bytes());
        digest.update((value.len() as u64).to_be_bytes());
        digest.update(value);
    }
    let digest = digest.finalize();
    digest[..length]
        .iter()
        .fold(String::new(), |mut hex, byte| {
            use std::fmt::Write;
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}
