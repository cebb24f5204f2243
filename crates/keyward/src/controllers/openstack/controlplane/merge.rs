//! What a service's application credential is to be, from what holds for all and what the service says. Pure.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::api::keystone::Method;
use crate::controllers::openstack::services::Service;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) enum Wish {
    /// None: it, or the service, is switched off or not there.
    Off,
    /// It would be refused later. What there is stays as it is.
    Refused(String),
    /// An application credential with this spec.
    Wants(Value),
}

const GLOBAL: &str = "applicationCredential";

/// The same for everybody who says nothing else.
fn otherwise(field: &str) -> Value {
    match field {
        "expirationDays" => json!(730),
        "gracePeriodDays" => json!(364),
        "roles" => json!(["admin", "service"]),
        "unrestricted" => json!(false),
        _ => json!([]),
    }
}

/// A field, and where in the spec of the control plane it was said.
struct Said<'a> {
    spec: &'a Value,
    service: &'a Service,
}

/// What is read of one service.
pub(super) fn wish(spec: &Value, service: &Service) -> Wish {
    if !is_on(spec, service) {
        return Wish::Off;
    }
    let said = Said { spec, service };
    match said.merged() {
        Ok(wanted) => Wish::Wants(wanted),
        Err(why) => Wish::Refused(format!("{}: {why}", service.name)),
    }
}

/// Both switches are on, and the service is there.
fn is_on(spec: &Value, service: &Service) -> bool {
    let part = &spec[service.at];
    let is_true = |value: &Value| value["enabled"] == true;
    let is_there = |value: &Value| value.is_object() && value["enabled"] != false;
    let switch = if service.switch.is_empty() {
        part
    } else {
        at(&part["template"], service.switch)
    };
    is_true(&spec[GLOBAL]) && is_true(&part[service.section]) && is_there(part) && is_there(switch)
}

/// What is at this path, which has no `*`.
fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |value, key| &value[*key])
}

impl Said<'_> {
    fn merged(&self) -> Result<Value, String> {
        let life = self.days("expirationDays", 2)?;
        let grace = self.days("gracePeriodDays", 1)?;
        if grace.0 >= life.0 {
            return Err(format!(
                "{} ({}) must be smaller than {} ({})",
                grace.1, grace.0, life.1, life.0
            ));
        }
        let (unrestricted, place) = self.field("unrestricted");
        if !unrestricted.is_boolean() {
            return Err(format!("{place} must be true or false"));
        }
        let mut wanted = Map::new();
        wanted.insert("secret".into(), self.login("secret")?);
        wanted.insert("passwordSelector".into(), self.login("passwordSelector")?);
        wanted.insert("userName".into(), self.login("userName")?);
        wanted.insert("expirationDays".into(), life.0.into());
        wanted.insert("gracePeriodDays".into(), grace.0.into());
        wanted.insert("roles".into(), self.roles()?);
        wanted.insert("unrestricted".into(), unrestricted);
        let rules = self.rules()?;
        if !rules.is_empty() {
            wanted.insert("accessRules".into(), rules.into());
        }
        Ok(wanted.into())
    }

    /// What the service says, else what holds for all, else what everybody has; and where that is. An empty list says
    /// nothing.
    fn field(&self, name: &str) -> (Value, String) {
        let says = |section: &Value| {
            let value = &section[name];
            let empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            (!empty).then(|| value.clone())
        };
        let Service { at, section, .. } = self.service;
        if let Some(own) = says(&self.spec[*at][*section]) {
            return (own, format!("spec.{at}.{section}.{name}"));
        }
        let all = says(&self.spec[GLOBAL]).unwrap_or_else(|| otherwise(name));
        (all, format!("spec.{GLOBAL}.{name}"))
    }

    fn days(&self, name: &str, least: i64) -> Result<(i64, String), String> {
        let (days, place) = self.field(name);
        match days.as_i64() {
            Some(days) if (least..=36500).contains(&days) => Ok((days, place)),
            Some(_) | None => Err(format!("{place} must be a number from {least} to 36500")),
        }
    }

    fn roles(&self) -> Result<Value, String> {
        let (roles, place) = self.field("roles");
        let sound = |role: &Value| {
            let name = role.as_str();
            name.is_some_and(|name| (1..=255).contains(&name.len()))
        };
        let all = roles.as_array().map(Vec::as_slice).unwrap_or_default();
        if all.is_empty() || all.len() > 64 || !all.iter().all(sound) {
            return Err(format!("{place} must name 1 to 64 roles"));
        }
        Ok(roles)
    }

    /// By the rules that an application credential has.
    fn rules(&self) -> Result<Vec<Value>, String> {
        let (rules, place) = self.field("accessRules");
        let Value::Array(rules) = rules else {
            return Err(format!("{place} must be a list"));
        };
        if rules.len() > 64 {
            return Err(format!("{place} has more than 64 rules"));
        }
        for (index, rule) in rules.iter().enumerate() {
            let text = |key: &str| rule[key].as_str().unwrap_or_default();
            let named = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            let service = text("service");
            if !(1..=64).contains(&service.len()) || !service.bytes().all(named) {
                return Err(format!(
                    "{place}[{index}].service must be 1 to 64 letters, digits and hyphens"
                ));
            }
            let path = text("path");
            if !path.starts_with('/') || path.len() > 128 {
                return Err(format!(
                    "{place}[{index}].path must start with / and have at most 128 characters"
                ));
            }
            if serde_json::from_value::<Method>(rule["method"].clone()).is_err() {
                return Err(format!(
                    "{place}[{index}].method must be GET, HEAD, POST, PUT, PATCH or DELETE"
                ));
            }
        }
        Ok(rules)
    }

    /// Whose login it is: the service's own part of the template says so, else the template, else the control plane.
    fn login(&self, what: &str) -> Result<Value, String> {
        let template = &self.spec[self.service.at]["template"];
        let part = if self.service.part.contains(&"*") {
            template
        } else {
            at(template, self.service.part)
        };
        let key = self.service.selector_key;
        let (found, otherwise, place) = match what {
            "secret" => {
                let places = [part, template, self.spec].map(|place| &place["secret"]);
                let found = places.into_iter().find(|found| is_text(found));
                (found, "", "spec.secret".to_owned())
            }
            "passwordSelector" => {
                let found = Some(&part["passwordSelectors"][key]).filter(|found| is_text(found));
                let place = format!("passwordSelectors.{key} of its template");
                (found, self.service.selector, place)
            }
            _ => {
                let found = Some(&part["serviceUser"]).filter(|found| is_text(found));
                let place = "serviceUser of its template".to_owned();
                (found, self.service.user, place)
            }
        };
        let text = found.and_then(Value::as_str).unwrap_or(otherwise);
        if (1..=253).contains(&text.len()) {
            Ok(text.into())
        } else {
            Err(format!("{place} must have 1 to 253 characters"))
        }
    }
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
