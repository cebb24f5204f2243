//! What was sent with a request, from its query and its body, and the checks that come before all others.

use std::collections::BTreeMap;

use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::Value;

use super::refusal::Refusal;
use crate::proxy::Asked;

#[derive(Debug, Default)]
pub(super) struct Params(BTreeMap<String, Value>);

impl Params {
    pub(super) fn of(asked: &Asked) -> Self {
        let mut params = Self::default();
        params.take_pairs(asked.query());
        let content = asked.headers.get(CONTENT_TYPE);
        let is_form = content
            .and_then(|content| content.to_str().ok())
            .is_some_and(|content| content.starts_with("application/x-www-form-urlencoded"));
        if is_form {
            params.take_pairs(&String::from_utf8_lossy(&asked.body));
        } else if let Ok(Value::Object(body)) = serde_json::from_slice(&asked.body) {
            params.0.extend(body);
        }
        params
    }

    /// `scopes[]=a&scopes[]=b` is a list.
    fn take_pairs(&mut self, pairs: &str) {
        let Ok(address) = reqwest::Url::parse(&format!("http://query/?{pairs}")) else {
            return;
        };
        for (key, value) in address.query_pairs() {
            let value = Value::from(value.into_owned());
            match key.strip_suffix("[]") {
                Some(key) => {
                    let list = self.0.entry(key.to_owned());
                    let list = list.or_insert_with(|| Value::Array(Vec::new()));
                    if let Value::Array(list) = list {
                        list.push(value);
                    }
                }
                None => drop(self.0.insert(key.into_owned(), value)),
            }
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(yes) => Some(yes.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// A text is taken for a list of one.
    pub(super) fn list(&self, name: &str) -> Option<Vec<String>> {
        match self.0.get(name)? {
            Value::Array(all) => {
                let texts = all.iter().map(|one| one.as_str().map(str::to_owned));
                texts.collect()
            }
            Value::String(one) => Some(vec![one.clone()]),
            Value::Null | Value::Number(_) | Value::Bool(_) | Value::Object(_) => None,
        }
    }
}

/// Reads parameters and collects what is wrong with them: GitLab tells all of it at once.
pub(super) struct Reading<'a> {
    params: &'a Params,
    wrong: Vec<String>,
}

impl<'a> Reading<'a> {
    pub(super) fn of(params: &'a Params) -> Self {
        Self {
            params,
            wrong: Vec::new(),
        }
    }

    pub(super) fn done(self) -> Result<(), Refusal> {
        if self.wrong.is_empty() {
            return Ok(());
        }
        Err(Refusal::parameter(&self.wrong.join(", ")))
    }

    pub(super) fn missing(&mut self, name: &str) {
        self.wrong.push(format!("{name} is missing"));
    }

    fn no_such_value(&mut self, name: &str) {
        self.wrong
            .push(format!("{name} does not have a valid value"));
    }

    pub(super) fn required(&mut self, name: &str) -> String {
        let Some(text) = self.params.text(name) else {
            self.missing(name);
            return String::new();
        };
        if text.is_empty() {
            self.wrong.push(format!("{name} is empty"));
        }
        text
    }

    pub(super) fn optional(&self, name: &str) -> Option<String> {
        self.params.text(name)
    }

    pub(super) fn scopes(&mut self, allowed: &[&str]) -> Vec<String> {
        let Some(scopes) = self.params.list("scopes") else {
            self.missing("scopes");
            return Vec::new();
        };
        if !scopes.iter().all(|scope| allowed.contains(&scope.as_str())) {
            self.no_such_value("scopes");
        }
        scopes
    }

    /// A time of day is taken for its day.
    pub(super) fn date(&mut self, name: &str) -> Option<Date> {
        let text = self.params.text(name).filter(|text| !text.is_empty())?;
        let date = text.get(..10).and_then(|day| day.parse().ok());
        if date.is_none() {
            self.wrong.push(format!("{name} is invalid"));
        }
        date
    }

    /// A date is taken for its first moment.
    pub(super) fn time(&mut self, name: &str) -> Option<Timestamp> {
        let text = self.params.text(name)?;
        let midnight = format!("{text}T00:00:00Z");
        let time = text.parse().or_else(|_| midnight.parse()).ok();
        if time.is_none() {
            self.wrong.push(format!("{name} is invalid"));
        }
        time
    }

    pub(super) fn number<N: std::str::FromStr>(&mut self, name: &str) -> Option<N> {
        let number = self.params.text(name)?.parse().ok();
        if number.is_none() {
            self.wrong.push(format!("{name} is invalid"));
        }
        number
    }

    pub(super) fn yes_or_no(&mut self, name: &str) -> Option<bool> {
        match self.params.text(name)?.as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => {
                self.wrong.push(format!("{name} is invalid"));
                None
            }
        }
    }

    pub(super) fn one_of(&mut self, name: &str, allowed: &[&str]) -> Option<String> {
        let text = self.params.text(name)?;
        if !allowed.contains(&text.as_str()) {
            self.no_such_value(name);
        }
        Some(text)
    }

    pub(super) fn level(&mut self, name: &str, allowed: &[u8]) -> Option<u8> {
        let level: Option<u8> = self.number(name);
        if level.is_some_and(|level| !allowed.contains(&level)) {
            self.no_such_value(name);
        }
        level
    }
}
