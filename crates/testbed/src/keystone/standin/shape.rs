//! What Keystone's schemas let through.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::refusal::Refusal;

const METHODS: [&str; 6] = ["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"];
const FIELDS: [&str; 9] = [
    "id",
    "name",
    "description",
    "secret",
    "expires_at",
    "project_id",
    "roles",
    "unrestricted",
    "access_rules",
];

/// What the schema of a create request says; it comes before everything else, even before the question who asks.
pub(super) fn check_shape(body: &Value) -> Result<&Map<String, Value>, Refusal> {
    let key = "application_credential";
    let Some(wanted) = body.get(key).and_then(Value::as_object) else {
        return Err(Refusal::bad(format!("'{key}' is a required property")));
    };
    if let Some(extra) = body
        .as_object()
        .and_then(|body| body.keys().find(|k| *k != key))
    {
        return Err(Refusal::bad(format!(
            "Additional properties are not allowed ('{extra}' was unexpected)"
        )));
    }
    if let Some(extra) = wanted
        .keys()
        .find(|field| !FIELDS.contains(&field.as_str()))
    {
        let why = format!("Additional properties are not allowed ('{extra}' was unexpected)");
        return Err(Refusal::invalid(key, &why));
    }
    match wanted.get("name") {
        None => return Err(Refusal::invalid(key, "'name' is a required property")),
        Some(Value::String(name)) if name.is_empty() => {
            return Err(Refusal::invalid("name", "'' should be non-empty"));
        }
        Some(Value::String(name)) if name.chars().count() > 255 => {
            return Err(Refusal::invalid("name", "the name is too long"));
        }
        Some(Value::String(_)) => {}
        Some(_) => return Err(Refusal::invalid("name", "it is not of type 'string'")),
    }
    for field in ["description", "secret", "expires_at"] {
        if !matches!(
            wanted.get(field),
            None | Some(Value::Null | Value::String(_))
        ) {
            return Err(Refusal::invalid(
                field,
                "it is not of type 'string', 'null'",
            ));
        }
    }
    if !matches!(
        wanted.get("unrestricted"),
        None | Some(Value::Null | Value::Bool(_))
    ) {
        return Err(Refusal::invalid(
            "unrestricted",
            "it is not of type 'boolean', 'null'",
        ));
    }
    for role in list(wanted, "roles")? {
        let known = ["id", "name"].iter().filter(|key| role[**key].is_string());
        if known.count() != 1 {
            return Err(Refusal::invalid(
                "roles",
                "each has exactly one of id and name",
            ));
        }
    }
    for rule in list(wanted, "access_rules")? {
        check_rule(rule)?;
    }
    Ok(wanted)
}

fn check_rule(rule: &Value) -> Result<(), Refusal> {
    let given = |field: &str| {
        rule.get(field)
            .map(|value| value.as_str().unwrap_or_default())
    };
    if given("method").is_some_and(|method| !METHODS.contains(&method)) {
        return Err(Refusal::invalid("method", "it is not one of the methods"));
    }
    if given("path").is_some_and(|path| !path.starts_with('/') || path.len() > 128) {
        return Err(Refusal::invalid(
            "path",
            "it does not match, or is too long",
        ));
    }
    if given("service").is_some_and(str::is_empty) {
        return Err(Refusal::invalid("service", "'' should be non-empty"));
    }
    let known = ["id", "service", "path", "method"];
    let extra = rule
        .as_object()
        .and_then(|rule| rule.keys().find(|key| !known.contains(&key.as_str())));
    match extra {
        Some(extra) => Err(Refusal::bad(format!(
            "'{extra}' is an invalid keyword argument for AccessRuleModel"
        ))),
        None => Ok(()),
    }
}

fn list<'a>(wanted: &'a Map<String, Value>, field: &str) -> Result<&'a [Value], Refusal> {
    match wanted.get(field) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(Refusal::invalid(field, "it is not of type 'array'")),
    }
}

/// UTC, with or without its `Z`; another zone is no expected format.
pub(super) fn parse_expiry(text: &str, now: Timestamp) -> Result<Timestamp, Refusal> {
    let plain = text.strip_suffix('Z').unwrap_or(text);
    let has_a_time = plain.contains(['T', ' ']);
    let time = plain
        .parse::<DateTime>()
        .ok()
        .filter(|_| {
            has_a_time
                && !plain
                    .get(10..)
                    .is_some_and(|time| time.contains(['+', '-']))
        })
        .and_then(|time| time.to_zoned(TimeZone::UTC).ok())
        .ok_or_else(|| Refusal::malformed("Timestamp not in expected format."))?;
    let time = time.timestamp();
    if time < now {
        return Err(Refusal::malformed(
            "The 'expires_at' must not be before now.",
        ));
    }
    Ok(time)
}

/// `*` and `{name}` stand for one segment, `**` for any number.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    fn all(pattern: &[&str], path: &[&str]) -> bool {
        match (pattern, path) {
            ([], []) => true,
            (["**", rest @ ..], _) => (0..=path.len()).any(|skip| all(rest, &path[skip..])),
            ([first, pattern @ ..], [segment, path @ ..]) => {
                let any = *first == "*" || (first.starts_with('{') && first.ends_with('}'));
                (any || first == segment) && all(pattern, path)
            }
            ([_, ..], []) | ([], [_, ..]) => false,
        }
    }
    let pattern: Vec<_> = pattern.split('/').collect();
    let path: Vec<_> = path.split('/').collect();
    all(&pattern, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_segments() {
        assert!(matches(
            "/v3/users/*/application_credentials",
            "/v3/users/a/application_credentials"
        ));
        assert!(!matches(
            "/v3/users/*",
            "/v3/users/a/application_credentials"
        ));
        assert!(matches("/v3/**", "/v3/users/a/application_credentials"));
        assert!(matches("/v3/{what}/a", "/v3/users/a"));
        assert!(!matches("/v3/users", "/v3/users/a"));
    }

    #[test]
    fn an_expiry_is_in_utc_or_refused() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let parsed = |text| parse_expiry(text, now).map(|time| time.to_string());
        assert_eq!(
            parsed("2030-01-01T00:00:00Z").as_deref(),
            Ok("2030-01-01T00:00:00Z")
        );
        assert_eq!(
            parsed("2030-01-01T00:00:00.5").as_deref(),
            Ok("2030-01-01T00:00:00.5Z")
        );
        for refused in [
            "2030-01-01T00:00:00+02:00",
            "2030-01-01",
            "tomorrow",
            "2001-01-01T00:00:00Z",
        ] {
            assert_eq!(
                parsed(refused).map_err(|refusal| refusal.status),
                Err(400),
                "{refused}"
            );
        }
    }
}
