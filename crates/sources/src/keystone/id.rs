//! What we call a credential: its own id, and where they are known its user's and the address of the Keystone that gave
//! it. The user may be another by now, and so may the Keystone: one that does not know a credential has not ended it.

use lifecycle::{IssuedId, TroubleKind};
use reqwest::Url;

use super::wire;
use crate::SourceError;

pub(super) struct Name<'a> {
    pub(super) credential: &'a str,
    pub(super) user: Option<&'a str>,
    /// Unknown in what an earlier Keyward or a predecessor wrote: then whichever Keystone is asked counts.
    at: Option<&'a str>,
}

impl<'a> Name<'a> {
    /// Records can be written to by others: what is no id does not become part of an address.
    pub(super) fn checked(act: &str, id: &'a IssuedId) -> Result<Self, SourceError> {
        let name = Self::of(id);
        if wire::is_id(name.credential)
            && name.user.is_none_or(wire::is_id)
            && name.at.is_none_or(is_address)
        {
            return Ok(name);
        }
        let detail = "its recorded id is none of Keystone's; nothing was asked";
        Err(SourceError::new(act, TroubleKind::Rejected, detail))
    }

    fn of(id: &'a IssuedId) -> Self {
        let mut parts = id.as_str().splitn(3, '@');
        Self {
            credential: parts.next().unwrap_or_default(),
            user: parts.next(),
            at: parts.next(),
        }
    }

    /// The address that it was made at, if it is another than this one.
    pub(super) fn made_elsewhere_than(&self, address: &str) -> Option<&'a str> {
        self.at.filter(|at| *at != address)
    }
}

/// The id that Keystone and people use, out of the one we record.
pub fn credential_id(id: &IssuedId) -> &str {
    Name::of(id).credential
}

pub(super) fn issued_id(credential: &str, user: &str, address: &str) -> IssuedId {
    IssuedId::from(format!("{credential}@{user}@{address}"))
}

/// Host, port and path of a Keystone, written in one way only: with or without TLS, and with or without `/v3`, it is the
/// same. It carries no user, so that it has no `@`.
pub(super) fn address_of(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}"));
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/v3").unwrap_or(path);
    format!(
        "{}{}{path}",
        url.host_str().unwrap_or_default(),
        port.unwrap_or_default()
    )
}

/// It is shown to people, and never spoken to.
fn is_address(text: &str) -> bool {
    (1..=512).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".:-_/[]~%".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(url: &str) -> String {
        address_of(&Url::parse(url).unwrap())
    }

    #[test]
    fn one_keystone_has_one_address_however_it_is_written() {
        for same in [
            "http://keystone.example/identity",
            "https://keystone.example/identity/",
            "https://Keystone.example:443/identity/v3/",
        ] {
            assert_eq!(address(same), "keystone.example/identity", "{same}");
        }
        assert_eq!(address("http://[::1]:5000/v3"), "[::1]:5000");
    }

    #[test]
    fn an_id_is_read_in_each_of_its_three_forms() {
        for (id, user, at) in [
            ("c1", None, None),
            ("c1@u1", Some("u1"), None),
            (
                "c1@u1@keystone.example:5000",
                Some("u1"),
                Some("keystone.example:5000"),
            ),
        ] {
            let id = IssuedId::from(id);
            let name = Name::checked("reading", &id).unwrap();
            assert_eq!((name.credential, name.user, name.at), ("c1", user, at));
            assert_eq!(credential_id(&id), "c1");
            assert_eq!(name.made_elsewhere_than("other.example"), at);
            assert_eq!(name.made_elsewhere_than("keystone.example:5000"), None);
        }
    }
}
