use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Names that would otherwise all be strings, and be mixed up. Cheap to clone: facts are copied a lot in the proof.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }
    )+};
}

names! {
    /// What the issuer calls a credential; not secret.
    IssuedId,
    /// A Secret's name within the resource's namespace.
    SecretName,
    /// A Secret's uid: a delete that carries it cannot hit a namesake.
    SecretUid,
    /// Who keeps a version from being retired: a foreign finalizer, or a pod that refers to the Secret.
    Holder,
    /// A digest of what a credential must be able to do; never of its value.
    Fingerprint,
}

impl SecretName {
    /// Whether the API server would give an object this name, which is also what may stand in an address.
    pub fn is_possible(&self) -> bool {
        let name = self.as_str();
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let label = |label: &str| {
            let ends = !label.starts_with('-') && !label.ends_with('-');
            !label.is_empty() && ends && label.bytes().all(fits)
        };
        name.len() <= 253 && name.split('.').all(label)
    }
}

impl Fingerprint {
    /// A short, stable digest of parts that are kept apart, so that `["ab", "c"]` differs from `["a", "bc"]`.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        use sha2::{Digest, Sha256};
        let mut digest = Sha256::new();
        for part in parts {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        let hex = digest.finalize()[..12]
            .iter()
            .fold(String::new(), |mut hex, byte| {
                use fmt::Write;
                let _ = write!(hex, "{byte:02x}");
                hex
            });
        Self::new(hex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_the_name_of_an_object_is_possible() {
        for good in ["a", "db-1-1", "a.b-c.3"] {
            assert!(SecretName::from(good).is_possible(), "{good}");
        }
        for bad in [
            "",
            "a/../b",
            "..",
            "a?watch=1",
            "A",
            "-a",
            "a-",
            "a..b",
            "a b",
        ] {
            assert!(!SecretName::from(bad).is_possible(), "{bad}");
        }
    }

    #[test]
    fn a_fingerprint_keeps_its_parts_apart() {
        assert_ne!(Fingerprint::of(["ab", "c"]), Fingerprint::of(["a", "bc"]));
        assert_eq!(Fingerprint::of(["ab", "c"]), Fingerprint::of(["ab", "c"]));
        assert_eq!(Fingerprint::of([]).as_str().len(), 24);
    }
}
