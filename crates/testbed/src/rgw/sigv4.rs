//! Signature version 4 of AWS, as its documentation puts it: for the stand-in, which checks it, and for the client of the
//! checks.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// What is signed.
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    /// As it stands in the request.
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    /// Sorted by name, which is in lower case.
    pub(super) headers: &'a [(String, String)],
    /// As `x-amz-content-sha256` says it.
    pub(super) payload: &'a str,
    /// Such as `20261117T180000Z`.
    pub(super) time: &'a str,
    pub(super) scope: &'a Scope,
}

/// What the signature is good for.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) date: String,
    pub(super) region: String,
    pub(super) service: String,
}

impl Scope {
    pub(super) fn text(&self) -> String {
        format!(
            "{}/{}/{}/aws4_request",
            self.date, self.region, self.service
        )
    }
}

impl Signed<'_> {
    pub(super) fn header_names(&self) -> String {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        names.join(";")
    }

    pub(super) fn signature(&self, secret: &str) -> String {
        let scope = self.scope;
        let canonical = hex(&Sha256::digest(self.canonical()));
        let text = format!(
            "AWS4-HMAC-SHA256\n{}\n{}\n{canonical}",
            self.time,
            scope.text()
        );
        let mut key = hmac(format!("AWS4{secret}").as_bytes(), scope.date.as_bytes());
        for part in [&scope.region, &scope.service, "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        hex(&hmac(&key, text.as_bytes()))
    }

    fn canonical(&self) -> String {
        let headers = self.headers.iter();
        let headers: Vec<String> = headers
            .map(|(name, value)| format!("{name}:{}\n", value.trim()))
            .collect();
        let headers = headers.concat();
        let Self {
            method,
            path,
            payload,
            ..
        } = self;
        let query = canonical_query(self.query);
        let names = self.header_names();
        format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{payload}")
    }
}

/// A plus sign is itself, not a space.
fn canonical_query(query: &str) -> String {
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (encoded(&decoded(name)), encoded(&decoded(value)))
        })
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// Everything but what needs no escaping anywhere, in percent signs.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The other way round; what is no escape stays as it is.
pub(super) fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = (bytes[at] == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten();
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text);
    let outer = Sha256::new().chain_update(pad(0x5c));
    outer.chain_update(inner.finalize()).finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS' documentation ("GET Object").
    #[test]
    fn the_published_example_comes_out_as_published() {
        let empty = sha256(b"");
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = [
            header("host", "examplebucket.s3.amazonaws.com"),
            header("range", "bytes=0-9"),
            header("x-amz-content-sha256", &empty),
            header("x-amz-date", "20130524T000000Z"),
        ];
        let scope = Scope {
            date: "20130524".into(),
            region: "us-east-1".into(),
            service: "s3".into(),
        };
        let signed = Signed {
            method: "GET",
            path: "/test.txt",
            query: "",
            headers: &headers,
            payload: &empty,
            time: "20130524T000000Z",
            scope: &scope,
        };
        assert_eq!(
            signed.signature("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
    }

    #[test]
    fn a_query_is_sorted_and_a_plus_sign_is_no_space() {
        assert_eq!(
            canonical_query("key&uid=a%20b&access-key=x+y"),
            "access-key=x%2By&key=&uid=a%20b"
        );
        assert_eq!(decoded("a%2Bb%zz%4"), "a+b%zz%4");
    }
}
