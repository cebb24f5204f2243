//! What we call a key: its access key, and the store that it was made at. Another store may have been put at the resource's
//! address since: one that does not know a key has not ended it.

use lifecycle::{IssuedId, TroubleKind};
use reqwest::Url;

use crate::SourceError;

pub(super) struct Name<'a> {
    pub(super) access_key: &'a str,
    /// Unknown in what a predecessor wrote: then whichever store is asked counts.
    at: Option<&'a str>,
}

impl<'a> Name<'a> {
    /// Records can be written to by others: what is no access key is not asked about.
    pub(super) fn checked(act: &str, id: &'a IssuedId) -> Result<Self, SourceError> {
        let name = Self::of(id);
        if is_access_key(name.access_key) {
            return Ok(name);
        }
        let detail = "its recorded id is no access key; nothing was asked";
        Err(SourceError::new(act, TroubleKind::Rejected, detail))
    }

    pub(super) fn of(id: &'a IssuedId) -> Self {
        match id.as_str().split_once('@') {
            Some((access_key, at)) => Self {
                access_key,
                at: Some(at),
            },
            None => Self {
                access_key: id.as_str(),
                at: None,
            },
        }
    }

    /// The address that it was made at, if it is another than this one.
    pub(super) fn made_elsewhere_than(&self, address: &str) -> Option<&'a str> {
        self.at.filter(|at| *at != address)
    }
}

/// The access key, out of what we record.
pub fn access_key(id: &IssuedId) -> &str {
    Name::of(id).access_key
}

pub(super) fn issued_id(access_key: &str, address: &str) -> IssuedId {
    IssuedId::from(format!("{access_key}@{address}"))
}

/// What a gateway takes for an access key.
pub(super) fn is_access_key(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

/// Host, port and path of a gateway, written in one way only: with or without TLS on its usual port, it is the same.
pub(super) fn address_of(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}"));
    format!(
        "{}{}{}",
        url.host_str().unwrap_or_default(),
        port.unwrap_or_default(),
        url.path().trim_end_matches('/')
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_store_has_one_address_however_it_is_written() {
        for same in [
            "http://rgw.example",
            "https://RGW.example:443/",
            "http://rgw.example:80/",
        ] {
            let url = Url::parse(same).unwrap();
            assert_eq!(address_of(&url), "rgw.example", "{same}");
        }
    }

    #[test]
    fn an_id_is_read_with_and_without_the_store() {
        let id = issued_id("kw1-a", "rgw.example:8080");
        let name = Name::checked("reading", &id).unwrap();
        assert_eq!(name.access_key, "kw1-a");
        assert_eq!(name.made_elsewhere_than("rgw.example:8080"), None);
        assert_eq!(name.made_elsewhere_than("other"), Some("rgw.example:8080"));
        let plain = IssuedId::from("ABC");
        assert_eq!(Name::of(&plain).made_elsewhere_than("other"), None);
        assert_eq!(access_key(&id), "kw1-a");
        for bad in ["", "a/b", "a b", "a&uid=admin", "@rgw.example"] {
            assert!(Name::checked("reading", &bad.into()).is_err(), "{bad}");
        }
    }
}
