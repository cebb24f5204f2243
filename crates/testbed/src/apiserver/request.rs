//! What a request asks for: verb, resource and parameters, read from method, path and query.

use std::fmt;

use http::Method;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub fn is_write(self) -> bool {
        match self {
            Self::Get | Self::List | Self::Watch => false,
            Self::Create | Self::Update | Self::Patch | Self::Delete | Self::DeleteCollection => {
                true
            }
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The resource part of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Target {
    /// `None` for paths that name no resource: discovery, health and the like.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.split('/').filter(|p| !p.is_empty()).map(decode);
        let (group, version) = match parts.next()?.as_str() {
            "api" => (String::new(), parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let rest: Vec<String> = parts.collect();
        let mut rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let mut target = Self {
            group,
            version,
            ..Self::default()
        };
        // `namespaces/x/secrets` is inside a namespace; `namespaces/x` and `namespaces/x/status` is one.
        if rest.len() >= 3
            && rest[0] == "namespaces"
            && !(target.group.is_empty() && matches!(rest[2], "status" | "finalize"))
        {
            rest[1].clone_into(&mut target.namespace);
            rest.drain(..2);
        }
        let mut rest = rest.into_iter().map(str::to_owned);
        target.resource = rest.next()?;
        target.name = rest.next().unwrap_or_default();
        target.subresource = rest.next().unwrap_or_default();
        Some(target)
    }

    pub(crate) fn verb(&self, method: &Method, query: &Query) -> Option<Verb> {
        let named = !self.name.is_empty();
        Some(match (method.as_str(), named) {
            ("GET", _) if query.flag("watch") => Verb::Watch,
            ("GET", true) => Verb::Get,
            ("GET", false) => Verb::List,
            ("POST", _) => Verb::Create,
            ("PUT", true) => Verb::Update,
            ("PATCH", true) => Verb::Patch,
            ("DELETE", true) => Verb::Delete,
            ("DELETE", false) => Verb::DeleteCollection,
            _ => return None,
        })
    }
}

/// Decoded query parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(
            text.split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| {
                    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (
                        decode(&name.replace('+', " ")),
                        decode(&value.replace('+', " ")),
                    )
                })
                .collect(),
        )
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(n, _)| n == name)?;
        Some(pair.1.as_str())
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text
            .get(at + 1..at + 3)
            .filter(|_| bytes[at] == b'%')
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = hex {
            decoded.push(byte);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_their_resource() {
        let show = |path: &str| {
            let t = Target::parse(path).unwrap();
            [t.group, t.resource, t.namespace, t.name, t.subresource].join("|")
        };
        assert_eq!(show("/api/v1/namespaces/a/secrets/b"), "|secrets|a|b|");
        assert_eq!(show("/api/v1/namespaces/a"), "|namespaces||a|");
        assert_eq!(show("/api/v1/namespaces/a/status"), "|namespaces||a|status");
        assert_eq!(
            show("/apis/x.dev/v1/namespaces/a/widgets/b/status"),
            "x.dev|widgets|a|b|status"
        );
        assert_eq!(show("/apis/x.dev/v1/widgets"), "x.dev|widgets|||");
        assert_eq!(Target::parse("/apis/x.dev/v1"), None);
        assert_eq!(Target::parse("/openapi/v2"), None);
        assert_eq!(
            Query::parse("labelSelector=a%3Db%2Cc").text("labelSelector"),
            "a=b,c"
        );
    }
}
