use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One try at one rotation. The serial counts rotations, the attempt counts mints within one.
///
/// A version is written down before its credential is asked for, and neither number is ever used again: this is what
/// tells a late request of a dead process from the one that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version {
    pub serial: u32,
    pub attempt: u32,
}

impl Version {
    pub const fn new(serial: u32, attempt: u32) -> Self {
        Self { serial, attempt }
    }

    /// The first attempt of the rotation after this one.
    #[must_use]
    pub const fn next_serial(self) -> Self {
        Self::new(self.serial.saturating_add(1), 1)
    }

    /// Another attempt at the same rotation.
    #[must_use]
    pub const fn next_attempt(self) -> Self {
        Self::new(self.serial, self.attempt.saturating_add(1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.serial, self.attempt)
    }
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a version: expected two numbers such as 3.1")]
pub struct NotAVersion;

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let (serial, attempt) = text.split_once('.').ok_or(NotAVersion)?;
        Ok(Self::new(number(serial)?, number(attempt)?))
    }
}

/// Only the form we write ourselves: `+1` or `01` would let two texts name one version.
fn number(text: &str) -> Result<u32, NotAVersion> {
    let plain = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    if plain {
        text.parse().map_err(|_| NotAVersion)
    } else {
        Err(NotAVersion)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_reads_back_as_it_was_written() {
        for version in [
            Version::new(1, 1),
            Version::new(12, 3),
            Version::new(u32::MAX, 0),
        ] {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
    }

    #[test]
    fn only_one_text_names_a_version() {
        for text in [
            "",
            "1",
            "1.",
            ".1",
            "01.1",
            "+1.1",
            "1.1.1",
            " 1.1",
            "1.-1",
            "4294967296.1",
        ] {
            assert_eq!(text.parse::<Version>(), Err(NotAVersion), "{text:?}");
        }
    }

    #[test]
    fn a_later_serial_outranks_any_attempt() {
        assert!(Version::new(2, 1) > Version::new(1, 9));
        assert!(Version::new(1, 2) > Version::new(1, 1));
    }
}
