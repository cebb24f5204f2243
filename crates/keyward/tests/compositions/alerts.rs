//! The alerts: they speak of what there is, and fire when a person is needed.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::promql::evaluate;
use crate::{manifest, metrics};

fn rules() -> Vec<Value> {
    let rule = manifest("alerts.yaml", "PrometheusRule");
    rule["spec"]["groups"][0]["rules"]
        .as_array()
        .unwrap()
        .clone()
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn alerts_name_metrics_and_labels_that_exist() {
    let metrics = metrics();
    let mut used = BTreeSet::new();
    for rule in rules() {
        let alert = rule["alert"].as_str().unwrap();
        let named: Vec<String> = words(rule["expr"].as_str().unwrap())
            .into_iter()
            .filter(|word| word.starts_with("token_rotator_") || word.starts_with("keyward_"))
            .collect();
        assert!(!named.is_empty(), "{alert}");
        let mut labels = BTreeSet::new();
        for name in named {
            let family = metrics.0.get(&name);
            let family = family.unwrap_or_else(|| panic!("{alert}: there is no metric {name}"));
            labels.extend(
                family
                    .samples
                    .iter()
                    .flat_map(|sample| sample.labels.keys().cloned()),
            );
            used.insert(name);
        }
        for text in rule["annotations"].as_object().unwrap().values() {
            for label in text.as_str().unwrap().split("$labels.").skip(1) {
                let label: String = label
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                    .collect();
                assert!(
                    labels.contains(&label),
                    "{alert}: no label {label} in {labels:?}"
                );
            }
        }
    }
    assert!(used.len() >= 5, "{used:?}");
}

const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// A token that was made this long ago, is planned to be replaced this long after it was made, and ends in so long.
struct Token {
    age: f64,
    interval: Option<f64>,
    left: Option<f64>,
}

impl Token {
    fn fires(&self, alert: &str) -> bool {
        let now = 1_800_000_000.0;
        let rules = rules();
        let rule = rules.iter().find(|rule| rule["alert"] == alert).unwrap();
        let fires = evaluate(rule["expr"].as_str().unwrap(), |name| match name {
            "time" => Some(now),
            "token_rotator_last_success_timestamp_seconds" => Some(now - self.age),
            "token_rotator_rotation_interval_seconds" => self.interval,
            "token_rotator_token_expiry_timestamp_seconds" => self.left.map(|left| now + left),
            other => panic!("{other} is not known of one token"),
        });
        fires.is_some()
    }
}

#[test]
fn a_token_that_ends_soon_is_told_of_only_if_it_is_not_replaced_before() {
    let hourly = |age: f64, left: f64| Token {
        age,
        interval: Some(HOUR),
        left: Some(left),
    };
    for (fires, what, token) in [
        (
            false,
            "every hour, on time",
            hourly(0.5 * HOUR, 23.0 * HOUR),
        ),
        (true, "every hour, late", hourly(3.0 * HOUR, 21.0 * HOUR)),
        (
            false,
            "every month, on time",
            Token {
                age: 29.0 * DAY,
                interval: Some(30.0 * DAY),
                left: Some(2.0 * DAY),
            },
        ),
        (
            true,
            "every month, late",
            Token {
                age: 30.5 * DAY,
                interval: Some(30.0 * DAY),
                left: Some(0.5 * DAY),
            },
        ),
        (
            true,
            "planned for after its end",
            Token {
                age: 6.5 * DAY,
                interval: Some(30.0 * DAY),
                left: Some(0.5 * DAY),
            },
        ),
        (
            true,
            "no plan",
            Token {
                age: 364.0 * DAY,
                interval: None,
                left: Some(0.9 * DAY),
            },
        ),
        (
            false,
            "never ends",
            Token {
                age: 364.0 * DAY,
                interval: None,
                left: None,
            },
        ),
    ] {
        assert_eq!(token.fires("TokenExpiresSoon"), fires, "{what}");
    }
}

#[test]
fn a_token_is_late_when_half_of_its_interval_more_has_passed() {
    for (age, fires) in [(1.4, false), (1.6, true)] {
        let token = Token {
            age: age * HOUR,
            interval: Some(HOUR),
            left: None,
        };
        assert_eq!(token.fires("TokenRotationLate"), fires, "{age}");
    }
}
