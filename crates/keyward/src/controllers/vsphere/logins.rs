//! What a Secret with vCenter logins must look like. Keys are named, values never are.

use std::collections::{BTreeMap, BTreeSet};

use sources::Values;

const USER: &str = "username";
const PASSWORD: &str = "password";

/// Everything that is wrong with it, for people; none: it can be used for these vCenters.
pub(super) fn faults(values: &Values, vcenters: &[String]) -> Vec<String> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut faults = Vec::new();
    for (key, value) in values.iter() {
        // Server names have dots too: the key is read from its end.
        let Some((server, field @ (USER | PASSWORD))) = key.rsplit_once('.') else {
            continue;
        };
        found.entry(server).or_default().insert(field);
        let value = value.expose();
        if value.is_empty() {
            faults.push(format!("{key} is empty"));
        } else if value.ends_with(b"\n") {
            faults.push(format!("{key} ends with a line break"));
        }
    }
    for (server, fields) in &found {
        let missing = [USER, PASSWORD]
            .into_iter()
            .filter(|field| !fields.contains(field));
        faults.extend(missing.map(|field| format!("{server}.{field} is missing")));
    }
    if found.is_empty() {
        faults.push("it has no key of the form <vcenter>.username".to_owned());
    } else {
        let missing = vcenters
            .iter()
            .filter(|server| !found.contains_key(server.as_str()));
        faults.extend(missing.map(|server| format!("{server} has no login in it")));
    }
    faults
}

#[cfg(test)]
mod tests {
    use sources::SecretValue;

    use super::*;

    fn values(all: &[(&str, &str)]) -> Values {
        all.iter().fold(Values::new(), |values, (key, value)| {
            values.with(
                (*key).to_owned(),
                SecretValue::new(value.as_bytes().to_vec()),
            )
        })
    }

    #[test]
    fn whole_pairs_for_every_vcenter_are_fine_whatever_else_is_there() {
        let two = values(&[
            ("a.example.com.username", "u"),
            ("a.example.com.password", "p"),
            ("b.username", "u"),
            ("b.password", "p"),
            ("note", ""),
        ]);
        let servers = ["a.example.com".to_owned()];
        assert_eq!(faults(&two, &servers), Vec::<String>::new());
    }

    #[test]
    fn what_is_wrong_is_named_by_its_key() {
        let wrong = values(&[
            ("a.username", "canary\n"),
            ("b.username", "canary"),
            ("b.password", ""),
        ]);
        let told = faults(&wrong, &["c".to_owned()]);
        assert_eq!(
            told,
            [
                "a.username ends with a line break",
                "b.password is empty",
                "a.password is missing",
                "c has no login in it",
            ]
        );
        assert_eq!(faults(&values(&[("x", "y")]), &[]).len(), 1);
    }
}
