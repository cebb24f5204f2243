//! Which nodes may still use an application credential.
//!
//! Nodes have it in files that a deployment wrote there. What is known of those files: each node set records the
//! Secrets that were deployed to all of its nodes, with a hash of their content. So a node set uses what such a Secret
//! says, as long as the Secret still has that hash; where the Secret has changed since, its nodes have something older.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::Holder;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::engine::Reader;
use crate::engine::trouble::Fault;

/// On a resource: `"false"` says that no node uses it. Anything else, or nothing, is no such promise.
pub(super) const ON_NODES: &str = "keystone.openstack.org/edpm-service";

pub(super) fn resource() -> ApiResource {
    ApiResource {
        group: "dataplane.openstack.org".into(),
        version: "v1beta1".into(),
        api_version: "dataplane.openstack.org/v1beta1".into(),
        kind: "OpenStackDataPlaneNodeSet".into(),
        plural: "openstackdataplanenodesets".into(),
    }
}

/// The node sets of the namespace whose nodes may still use the credential with this id.
pub(super) async fn that_may_use(reader: &mut Reader<'_>, id: &str) -> Result<Vec<Holder>, Fault> {
    let mut found = Vec::new();
    for set in reader.all(&resource()).await? {
        for (secret, deployed) in deployed(&set) {
            let present = reader.whole_secret(&secret).await?;
            if let Some(why) = why_it_may_use(id, &deployed, present.as_ref()) {
                let text = format!("node set {} ({why} {secret})", set.name_any());
                found.push(Holder::from(text));
            }
        }
    }
    Ok(found)
}

/// Secrets that all nodes of the set have, by name, with the hash of what they have.
fn deployed(set: &DynamicObject) -> Vec<(String, String)> {
    let hashes = set
        .data
        .get("status")
        .and_then(|status| status.get("secretHashes"))
        .and_then(|hashes| hashes.as_object());
    hashes
        .into_iter()
        .flatten()
        .filter_map(|(name, hash)| Some((name.clone(), hash.as_str()?.to_owned())))
        .collect()
}

/// Why nodes that were given this Secret may use the credential, or `None` if they do not.
fn why_it_may_use(id: &str, deployed: &str, present: Option<&Secret>) -> Option<&'static str> {
    let Some(present) = present else {
        return Some("was given, and nobody can tell any more what was in it, Secret");
    };
    let mentions = |text: &str| {
        let mut values = present.data.iter().flat_map(|data| data.values());
        values.any(|value| contains(&value.0, text.as_bytes()))
    };
    if hash_of(present) == deployed {
        return mentions(id).then_some("uses it by Secret");
    }
    // What the nodes have is older than what can be seen. A Secret that configures a login may have held it; one that
    // does not, such as a certificate, has nothing to do with it.
    let logs_in = mentions("auth_type") || mentions("application_credential");
    logs_in.then_some("was not given the present content of Secret")
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    !wanted.is_empty() && text.windows(wanted.len()).any(|part| part == wanted)
}

/// The hash of a Secret as the operators of this family write it: SHA-256 of its JSON, printed as a list of numbers, in
/// letters that cannot form words.
fn hash_of(secret: &Secret) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut fields = serde_json::Map::new();
    if let Some(data) = secret.data.as_ref().filter(|data| !data.is_empty()) {
        fields.insert("data".into(), json!(data));
    }
    if let Some(kind) = secret.type_.as_ref().filter(|kind| !kind.is_empty()) {
        fields.insert("type".into(), kind.as_str().into());
    }
    let text = json!(fields).to_string();
    let numbers: Vec<String> = Sha256::digest(text.as_bytes())
        .iter()
        .map(u8::to_string)
        .collect();
    format!("[{}]", numbers.join(" "))
        .bytes()
        .map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    fn secret(key: &str, text: &str) -> Secret {
        Secret {
            data: Some([(key.to_owned(), ByteString(text.into()))].into()),
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        }
    }

    fn config(text: &str) -> Secret {
        secret("01-nova.conf", text)
    }

    const OURS: &str = "auth_type = v3applicationcredential\napplication_credential_id = old";

    #[test]
    fn nodes_use_what_they_were_given() {
        let given = config(OURS);
        let hash = hash_of(&given);
        assert!(why_it_may_use("old", &hash, Some(&given)).is_some());
        assert!(why_it_may_use("new", &hash, Some(&given)).is_none());
    }

    #[test]
    fn nodes_behind_a_login_may_use_anything_and_nodes_behind_a_certificate_nothing() {
        let present =
            config("auth_type = v3applicationcredential\napplication_credential_id = new");
        assert!(why_it_may_use("old", "an older hash", Some(&present)).is_some());
        // Back to the password: what the nodes have is still the credential.
        let present = config("auth_type = password");
        assert!(why_it_may_use("old", "an older hash", Some(&present)).is_some());
        let certificate = config("-----BEGIN CERTIFICATE-----");
        assert!(why_it_may_use("old", "an older hash", Some(&certificate)).is_none());
        assert!(
            why_it_may_use("old", "a hash", None).is_some(),
            "gone: nobody can tell"
        );
    }

    /// Computed with the original's code for data {"a": "1"} of type Opaque.
    #[test]
    fn the_hash_is_the_one_that_the_original_operators_write() {
        assert_eq!(hash_of(&secret("a", "1")), GOLDEN);
    }

    const GOLDEN: &str = "n66bh7dh57bh87h5f7h595hdbhf5h674h658h96h55ch5b7h66fh54dhbbhc5hd4hdh5bch57bh8ch99hfbh67fhdfhf9h56ch94h9fh5cdh56fq";
}
