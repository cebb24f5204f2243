//! The finalizers by which consumers hold the Secrets of application credentials.

use sha2::{Digest, Sha256};

/// What the API server allows after the slash.
const LONGEST: usize = 63;

/// One of each consumer's own: two of a kind must not let go for each other.
pub(super) fn finalizer(kind: &str, name: &str) -> String {
    let whole = format!("{kind}-{name}-ac-consumer");
    if whole.len() <= LONGEST {
        return format!("openstack.org/{whole}");
    }
    // Long names are cut, and told apart by a digest.
    let digest = Sha256::digest(&whole);
    let number = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    let digest = format!("{number:08x}");
    let start: String = format!("{kind}-{name}").chars().take(40).collect();
    let start = start.trim_end_matches(|last: char| !last.is_ascii_alphanumeric());
    format!("openstack.org/{start}-{digest}-ac-consumer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_consumer_has_a_finalizer_of_its_own_that_the_api_server_takes() {
        assert_eq!(
            finalizer("edpm", "compute"),
            "openstack.org/edpm-compute-ac-consumer"
        );
        let long = "a-very-long-name-of-a-node-set-that-goes-on-and-on-and-on-";
        let (one, two) = (
            finalizer("edpm", &format!("{long}1")),
            finalizer("edpm", &format!("{long}2")),
        );
        assert_ne!(one, two);
        for name in [one, two] {
            let (_, after) = name.split_once('/').unwrap_or_default();
            assert!(
                after.len() <= LONGEST && after.ends_with("-ac-consumer"),
                "{name}"
            );
        }
    }
}
