//! How we name a token: its number, and the GitLab that issued it. Each GitLab counts for itself, so the number alone
//! names one token here and quite another there.

use lifecycle::{Issued, IssuedId, Version};
use reqwest::Url;

use super::server::Server;
use super::wire::Token;

struct Name<'a> {
    number: &'a str,
    /// Unknown in what an earlier Keyward wrote.
    at: Option<&'a str>,
}

impl<'a> Name<'a> {
    fn of(id: &'a IssuedId) -> Self {
        match id.as_str().split_once('@') {
            Some((number, at)) => Self {
                number,
                at: Some(at),
            },
            None => Self {
                number: id.as_str(),
                at: None,
            },
        }
    }

    /// Ids become parts of addresses: only numbers are taken.
    fn number(&self) -> Option<u64> {
        let plain = self.number.bytes().all(|byte| byte.is_ascii_digit());
        self.number.parse().ok().filter(|_| plain)
    }

    fn is_of(&self, server: &Server) -> bool {
        self.at.is_none_or(|at| at == server.address())
    }
}

/// The number that GitLab and people use, out of what we record.
pub fn token_id(id: &IssuedId) -> &str {
    Name::of(id).number
}

/// The whole id of a token that an earlier Keyward recorded by its number alone, and made at this base address. `None`:
/// it is whole, or the address makes no sense.
pub fn whole_id(id: &IssuedId, base_url: &str) -> Option<IssuedId> {
    match Name::of(id) {
        Name { at: Some(_), .. } => None,
        Name { number, at: None } => {
            let address = address_of(&Url::parse(base_url).ok()?);
            Some(IssuedId::from(format!("{number}@{address}")))
        }
    }
}

/// A base address, written in one way only. It carries no user, so that it has no `@`.
pub(super) fn address_of(url: &Url) -> String {
    let path = url.path().trim_end_matches('/');
    format!("{}{path}", url.origin().ascii_serialization())
}

pub(super) fn issued_id(server: &Server, number: u64) -> IssuedId {
    IssuedId::from(format!("{number}@{}", server.address()))
}

/// The number to ask this server about; or why it must not be asked.
pub(super) fn number(server: &Server, id: &IssuedId) -> Result<u64, &'static str> {
    let name = Name::of(id);
    if !name.is_of(server) {
        return Err("it was made at another GitLab than the one that would be asked");
    }
    name.number()
        .ok_or("what is recorded as its id is not a number")
}

/// The record of a token of this server, which has the mark of this version; that of the same version before others.
///
/// One that was recorded elsewhere has its number here by chance, unless it bears the mark of its version too: no
/// version is asked for at two places, so it is the same GitLab, reached by another address.
pub(super) fn known<'a>(
    server: &Server,
    recorded: &'a [Issued],
    token: &Token,
    marked: Option<Version>,
) -> Option<&'a Issued> {
    let is_it = |known: &&Issued| {
        let name = Name::of(&known.id);
        let same = name.is_of(server) || marked == Some(known.version);
        same && name.number() == Some(token.id)
    };
    let of_its_version = |known: &&Issued| marked == Some(known.version);
    let mut all = recorded.iter().filter(is_it);
    (all.clone().find(of_its_version)).or_else(|| all.next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Settings;

    fn server(address: &str) -> Server {
        Server::new(address, &Settings::default()).unwrap()
    }

    #[test]
    fn equal_numbers_at_two_gitlabs_are_two_ids() {
        let (one, other) = (server("http://127.0.0.1:81"), server("http://127.0.0.1:82"));
        let id = issued_id(&one, 7);
        assert_ne!(id, issued_id(&other, 7));
        assert_eq!(token_id(&id), "7");
        assert_eq!(number(&one, &id), Ok(7));
        assert!(number(&other, &id).is_err());
    }

    #[test]
    fn one_gitlab_has_one_address_however_it_is_written() {
        let id = issued_id(&server("http://127.0.0.1/gitlab"), 7);
        for same in ["http://127.0.0.1:80/gitlab/", "HTTP://127.0.0.1/gitlab"] {
            assert_eq!(issued_id(&server(same), 7), id, "{same}");
            assert_eq!(whole_id(&"7".into(), same), Some(id.clone()), "{same}");
        }
        assert_eq!(whole_id(&id, "http://127.0.0.1:82"), None);
    }

    #[test]
    fn an_id_of_before_is_of_wherever_it_is_asked_about() {
        assert_eq!(number(&server("http://127.0.0.1:81"), &"7".into()), Ok(7));
        assert_eq!(token_id(&"7".into()), "7");
        assert_eq!(whole_id(&"7".into(), "not an address"), None);
    }
}
