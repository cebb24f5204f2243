//! What accounts and users have in common: the rotation of keys, and what is said of it.

#![allow(
    unreachable_pub,
    reason = "the schema derive repeats each struct where nobody can reach it"
)]

use std::borrow::Cow;

use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// When the key is replaced, and what becomes of the one before. Without it, a key is replaced on demand.
#[derive(KubeSchema, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!(has(self.schedule) && has(self.every))").message("schedule and every say the same thing in two ways; give one of them"))]
pub struct KeyRotation {
    /// A cron expression of five fields, in UTC unless it begins with a time zone, such as `CRON_TZ=Europe/Berlin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 9, max = 200),
        regex(
            pattern = "^((CRON_TZ|TZ)=[A-Za-z0-9_+/-]+ +)?([0-9A-Za-z*,/?#-]+ +){4}[0-9A-Za-z*,/?#-]+$"
        )
    )]
    pub schedule: Option<String>,
    /// How old a key may become, such as `720h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('1m') && duration(self) <= duration('87600h')").message("every must be at least 1m and at most 87600h (ten years)"))]
    #[schemars(length(min = 2, max = 32), regex(pattern = "^([0-9]+(h|m|s))+$"))]
    pub every: Option<String>,
    /// How long the old key and the new one both work. An hour, unless it is said otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("duration(self) >= duration('0s') && duration(self) <= duration('720h')").message("overlap must be at most 720h (30 days)"))]
    #[schemars(length(min = 2, max = 32), regex(pattern = "^([0-9]+(h|m|s))+$"))]
    pub overlap: Option<String>,
}

/// What status says of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeysStatus {
    /// Serial and attempt of the key in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The access key in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// How many keys of this resource may be alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<i64>,
    /// When the key in use was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_rotation_time: Option<String>,
    /// When the next one is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub next_rotation_time: Option<String>,
    /// The access key before, as long as it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_access_key: Option<String>,
    /// When the key before is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub previous_ends_at: Option<String>,
    /// The rotate annotation that was handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handled_rotate: Option<String>,
}

/// A number of bytes: a number, or a text such as `10Gi`; -1 is any amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Size {
    Bytes(i64),
    Text(String),
}

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true })
    }
}

impl Size {
    /// `None`: it is no number of bytes.
    pub fn bytes(&self) -> Option<i64> {
        let text = match self {
            Self::Bytes(bytes) => return (*bytes >= -1).then_some(*bytes),
            Self::Text(text) => text.trim(),
        };
        if text == "-1" {
            return Some(-1);
        }
        let end = text.find(|letter: char| !letter.is_ascii_digit());
        let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
        let factor: i64 = match unit {
            "" => 1,
            "k" => 1000,
            "M" => 1000_i64.pow(2),
            "G" => 1000_i64.pow(3),
            "T" => 1000_i64.pow(4),
            "P" => 1000_i64.pow(5),
            "Ki" => 1 << 10,
            "Mi" => 1 << 20,
            "Gi" => 1 << 30,
            "Ti" => 1 << 40,
            "Pi" => 1 << 50,
            _ => return None,
        };
        digits.parse::<i64>().ok()?.checked_mul(factor)
    }
}

/// One condition, in the usual shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_number_or_a_text() {
        let text = |text: &str| Size::Text(text.to_owned()).bytes();
        assert_eq!(text("10Gi"), Some(10 << 30));
        assert_eq!(text("5k"), Some(5000));
        assert_eq!(text("-1"), Some(-1));
        assert_eq!(text("1024"), Some(1024));
        for bad in ["", "ten", "1Zi", "-2", "Gi", "9999999999P"] {
            assert_eq!(text(bad), None, "{bad}");
        }
        assert_eq!(Size::Bytes(-2).bytes(), None);
    }
}
