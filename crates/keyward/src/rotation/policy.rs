//! What a person may settle by annotation, for kinds whose spec has no field for it.

use jiff::SignedDuration;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Deletion, Policy};

use crate::engine::names;

/// The policy that the annotations of this resource ask for, and what in them makes no sense.
///
/// A deletion policy that cannot be read counts as Retain: nothing is destroyed because of a slip of the pen.
pub fn annotated(object: &DynamicObject, base: Policy) -> (Policy, Vec<String>) {
    let mut policy = base;
    let mut wrong = Vec::new();
    let note = |key: &str| object.annotations().get(key);
    if let Some(text) = note(names::DELETION_POLICY) {
        policy.deletion = deletion(text).unwrap_or_else(|| {
            wrong.push(format!(
                "{} must be Revoke, Orphan or Retain",
                names::DELETION_POLICY
            ));
            Deletion::Retain
        });
    }
    for (key, slot) in [
        (names::MINIMUM_OVERLAP, &mut policy.overlap),
        (names::ROLLBACK_WINDOW, &mut policy.rollback),
    ] {
        if let Some(text) = note(key) {
            match span(text) {
                Some(span) => *slot = span,
                None => wrong.push(format!("{key} must be a time such as 10m, at most 30 days")),
            }
        }
    }
    (policy, wrong)
}

fn deletion(text: &str) -> Option<Deletion> {
    match text {
        "Revoke" => Some(Deletion::Revoke),
        "Orphan" => Some(Deletion::Orphan),
        "Retain" => Some(Deletion::Retain),
        _ => None,
    }
}

fn span(text: &str) -> Option<SignedDuration> {
    let longest = SignedDuration::from_hours(30 * 24);
    let span: SignedDuration = text.parse().ok()?;
    (SignedDuration::ZERO..=longest)
        .contains(&span)
        .then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(annotations: &[(&str, &str)]) -> DynamicObject {
        let annotations: serde_json::Map<String, serde_json::Value> = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).into()))
            .collect();
        serde_json::from_value(serde_json::json!({ "metadata": { "annotations": annotations } }))
            .unwrap()
    }

    #[test]
    fn annotations_settle_what_the_spec_cannot() {
        let (policy, wrong) = annotated(
            &object(&[
                (names::DELETION_POLICY, "Orphan"),
                (names::MINIMUM_OVERLAP, "30s"),
                (names::ROLLBACK_WINDOW, "1h"),
            ]),
            Policy::default(),
        );
        assert_eq!(wrong, Vec::<String>::new());
        assert_eq!(policy.deletion, Deletion::Orphan);
        assert_eq!(policy.overlap, SignedDuration::from_secs(30));
        assert_eq!(policy.rollback, SignedDuration::from_hours(1));
    }

    #[test]
    fn a_slip_of_the_pen_destroys_nothing_and_is_told() {
        let (policy, wrong) = annotated(
            &object(&[
                (names::DELETION_POLICY, "revoke"),
                (names::MINIMUM_OVERLAP, "-1s"),
                (names::ROLLBACK_WINDOW, "a while"),
            ]),
            Policy::default(),
        );
        assert_eq!(policy.deletion, Deletion::Retain);
        assert_eq!(policy.overlap, Policy::default().overlap);
        assert_eq!(wrong.len(), 3);
    }
}
