//! What was asked of the API server, read from its audit log.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

/// One answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, …
    pub verb: String,
    /// For whom it was done: the user somebody acted as, otherwise the user who asked.
    pub user: String,
    pub user_agent: String,
    /// Path and query as they were sent.
    pub uri: String,
    /// `secrets`, or `secrets/status` for a subresource; empty for paths that are no resource.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    /// The HTTP status of the answer.
    pub code: u16,
    /// False for a watch that has only begun.
    pub complete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    object_ref: Option<Object>,
    response_status: Option<Status>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Object {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

impl From<Line> for Request {
    fn from(line: Line) -> Self {
        let object = line.object_ref.unwrap_or_default();
        let resource = match object.subresource.as_str() {
            "" => object.resource,
            subresource => format!("{}/{subresource}", object.resource),
        };
        Self {
            verb: line.verb,
            user: line.impersonated_user.unwrap_or(line.user).username,
            user_agent: line.user_agent,
            uri: line.request_uri,
            resource,
            namespace: object.namespace,
            name: object.name,
            code: line.response_status.map_or(0, |status| status.code),
            complete: line.stage != "ResponseStarted",
        }
    }
}

pub(super) fn read(log: &Path) -> anyhow::Result<Vec<Request>> {
    let text = fs::read_to_string(log).context("reading the audit log")?;
    parse(whole_lines(&text))
}

/// What was added to the log since it was `mark` bytes long, and how long it is now.
pub(super) fn read_after(log: &Path, mark: u64) -> anyhow::Result<(Vec<Request>, u64)> {
    let mut text = String::new();
    let mut file = File::open(log).context("opening the audit log")?;
    file.seek(SeekFrom::Start(mark))?;
    file.read_to_string(&mut text)
        .context("reading the audit log")?;
    let whole = whole_lines(&text);
    Ok((parse(whole)?, mark + whole.len() as u64))
}

/// The last line may be half written; it is read the next time.
fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

fn parse(lines: &str) -> anyhow::Result<Vec<Request>> {
    lines
        .lines()
        .map(|line| {
            Ok(serde_json::from_str::<Line>(line)
                .context("reading a line of the audit log")?
                .into())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_told_for_the_user_it_was_done_for_and_half_a_line_waits() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let line = r#"{"kind":"Event","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/secrets/b/status?x=1","verb":"patch","user":{"username":"admin"},"impersonatedUser":{"username":"dev"},"userAgent":"keyward/1","objectRef":{"resource":"secrets","namespace":"a","name":"b","subresource":"status"},"responseStatus":{"code":403}}"#;
        fs::write(file.path(), format!("{line}\n{{\"kind\":")).expect("written");
        let requests = read(file.path()).expect("readable");
        assert_eq!(
            requests,
            [Request {
                verb: "patch".into(),
                user: "dev".into(),
                user_agent: "keyward/1".into(),
                uri: "/api/v1/namespaces/a/secrets/b/status?x=1".into(),
                resource: "secrets/status".into(),
                namespace: "a".into(),
                name: "b".into(),
                code: 403,
                complete: true,
            }]
        );
        let (again, mark) = read_after(file.path(), 0).expect("readable");
        assert_eq!(again, requests);
        assert_eq!(mark, line.len() as u64 + 1);
        fs::write(file.path(), format!("{line}\n{line}\n")).expect("written");
        let (news, _) = read_after(file.path(), mark).expect("readable");
        assert_eq!(news, requests);
    }
}
