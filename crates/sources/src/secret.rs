use std::collections::BTreeMap;
use std::fmt;

use secrecy::{ExposeSecret, SecretBox};

/// One secret value. It cannot be printed, compared by accident, or serialized; its memory is wiped when it goes.
pub struct SecretValue(SecretBox<Vec<u8>>);

impl Clone for SecretValue {
    fn clone(&self) -> Self {
        Self::new(self.expose())
    }
}

impl SecretValue {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(SecretBox::new(Box::new(bytes.into())))
    }

    /// The value itself. Every caller is a place to look at when asking where values can go.
    pub fn expose(&self) -> &[u8] {
        self.0.expose_secret()
    }

    /// The value as text, for issuers whose values are text.
    pub fn expose_str(&self) -> Option<&str> {
        std::str::from_utf8(self.expose()).ok()
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// A credential as its users need it: Secret keys and their values, some of which are not secret (ids, names).
#[derive(Debug, Clone, Default)]
pub struct Values(BTreeMap<String, SecretValue>);

impl Values {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: SecretValue) -> Self {
        self.0.insert(key.into(), value);
        self
    }

    pub fn get(&self, key: &str) -> Option<&SecretValue> {
        self.0.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// 192 random bits as text that needs no escaping anywhere.
pub(crate) fn text_of(random: &[u8; 32]) -> SecretValue {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let text: Vec<u8> = random
        .iter()
        .map(|byte| LETTERS[usize::from(byte & 63)])
        .collect();
    SecretValue::new(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_cannot_be_printed() {
        let values = Values::new().with("password", SecretValue::new("hunter2-hunter2"));
        let printed = format!("{values:?} {:?}", values.get("password").unwrap());
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("(secret)"));
    }
}
