use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Version;

/// Which cluster a credential belongs to: two clusters may share one issuer, and must never sweep each other's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClusterId(String);

impl ClusterId {
    /// From the uid of the `kube-system` namespace, which lives exactly as long as the cluster.
    pub fn of_cluster(kube_system_uid: &str) -> Self {
        Self(hex_of(kube_system_uid).chars().take(8).collect())
    }
}

/// Whose credentials: one resource of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    cluster: ClusterId,
    uid: String,
}

impl Owner {
    pub fn new(cluster: ClusterId, uid: &str) -> Self {
        Self {
            cluster,
            uid: hex_of(uid),
        }
    }

    pub fn mark(&self, version: Version) -> Mark {
        Mark {
            owner: self.clone(),
            version,
        }
    }

    /// What every mark of this owner starts with.
    pub fn prefix(&self) -> String {
        format!("kw1-{}-{}-", self.cluster.0, self.uid)
    }

    /// The version a name at the issuer stands for, if it is one of this owner's marks and nothing else.
    pub fn version_of(&self, name: &str) -> Option<Version> {
        let mark: Mark = name.parse().ok()?;
        (mark.owner == *self).then_some(mark.version)
    }
}

/// The name a credential bears at its issuer, chosen before it is asked for.
///
/// It says whose it is and which try made it, so that one found there later, with its reply lost and its process dead,
/// can be given back to its resource or revoked. A name that does not read back exactly is not ours.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mark {
    owner: Owner,
    version: Version,
}

impl Mark {
    pub fn version(&self) -> Version {
        self.version
    }

    pub fn owner(&self) -> &Owner {
        &self.owner
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}-{}",
            self.owner.prefix(),
            self.version.serial,
            self.version.attempt
        )
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a mark of Keyward")]
pub struct NotAMark;

impl FromStr for Mark {
    type Err = NotAMark;

    fn from_str(name: &str) -> Result<Self, NotAMark> {
        let parts: Vec<&str> = name.split('-').collect();
        let ["kw1", cluster, uid, serial, attempt] = parts[..] else {
            return Err(NotAMark);
        };
        let version = format!("{serial}.{attempt}")
            .parse()
            .map_err(|_| NotAMark)?;
        if !is_hex(cluster, 8) || !is_hex(uid, 32) {
            return Err(NotAMark);
        }
        Ok(Self {
            owner: Owner {
                cluster: ClusterId(cluster.into()),
                uid: uid.into(),
            },
            version,
        })
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// A uid without its hyphens; anything else than a uid is digested to the same shape.
fn hex_of(uid: &str) -> String {
    let plain: String = uid
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_ascii_lowercase())
        .collect();
    if is_hex(&plain, 32) {
        plain
    } else {
        digest_of(uid)
    }
}

fn digest_of(text: &str) -> String {
    use sha2::{Digest, Sha256};
    use std::fmt::Write;
    Sha256::digest(text.as_bytes())[..16]
        .iter()
        .fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> Owner {
        Owner::new(
            ClusterId::of_cluster("11111111-2222-3333-4444-555555555555"),
            uid,
        )
    }

    #[test]
    fn a_mark_reads_back_to_its_owner_and_version() {
        let owner = owner("6f1c2d3e-0000-4000-8000-00000000000a");
        let mark = owner.mark(Version::new(7, 2));
        assert_eq!(
            mark.to_string(),
            "kw1-11111111-6f1c2d3e00004000800000000000000a-7-2"
        );
        assert_eq!(mark.to_string().parse(), Ok(mark.clone()));
        assert_eq!(
            owner.version_of(&mark.to_string()),
            Some(Version::new(7, 2))
        );
    }

    #[test]
    fn somebody_elses_name_is_never_taken_for_ours() {
        let ours = owner("6f1c2d3e-0000-4000-8000-00000000000a");
        let theirs = owner("6f1c2d3e-0000-4000-8000-00000000000b");
        assert_eq!(
            ours.version_of(&theirs.mark(Version::new(1, 1)).to_string()),
            None
        );
        for name in [
            "",
            "kw1",
            "kw1-11111111-6f1c-1-1",
            "ac-barbican-x7k2p",
            "kw1-11111111-6f1c2d3e00004000800000000000000a-07-2",
        ] {
            assert_eq!(ours.version_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_uid_of_another_shape_still_gives_a_well_formed_mark() {
        let owner = owner("not-a-uid");
        let mark = owner.mark(Version::new(1, 1)).to_string();
        assert_eq!(owner.version_of(&mark), Some(Version::new(1, 1)));
    }
}
