//! `<kind>/<name>`: which credential is meant.

use std::sync::Arc;

use kube::api::ApiResource;

use super::Follows;
use super::credential::Credential;
use crate::engine::Reader;
use crate::engine::trouble::Fault;
use crate::rotation::Kind;

/// The kinds that can be followed, each with the words it goes by.
#[derive(Debug)]
pub struct Words(Vec<(Arc<dyn Kind>, Vec<String>)>);

impl Words {
    pub fn of(kinds: Vec<Arc<dyn Kind>>) -> Self {
        let crds = crate::api::crds();
        let words = |kind: &Arc<dyn Kind>| {
            let resource = kind.resource();
            let its = crds.iter().filter(|crd| {
                crd.spec.group == resource.group && crd.spec.names.kind == resource.kind
            });
            let short = its.flat_map(|crd| crd.spec.names.short_names.clone().unwrap_or_default());
            let plain = [resource.kind.to_lowercase(), resource.plural.clone()];
            let with_group = plain
                .iter()
                .map(|word| format!("{word}.{}", resource.group));
            with_group.chain(plain.clone()).chain(short).collect()
        };
        let known = kinds.into_iter().map(|kind| (kind.clone(), words(&kind)));
        Self(known.collect())
    }

    pub(super) fn resources(&self) -> Vec<ApiResource> {
        self.0
            .iter()
            .map(|(kind, _)| kind.resource().clone())
            .collect()
    }

    fn kind(&self, word: &str) -> Option<&Arc<dyn Kind>> {
        let word = word.to_lowercase();
        let known = self.0.iter().find(|(_, words)| words.contains(&word));
        known.map(|(kind, _)| kind)
    }

    /// What the annotation says. The namespace is the workload's own: there is no way to name another.
    pub(super) fn read(&self, annotation: Option<&str>) -> Follows {
        let Some(text) = annotation else {
            return Follows::Nothing;
        };
        let parts: Vec<&str> = text.trim().split('/').collect();
        let [word, name] = parts[..] else {
            return Follows::Unclear("keyward.dev/follow is not of the form <kind>/<name>".into());
        };
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if name.is_empty() || name.len() > 253 || !name.chars().all(plain) {
            return Follows::Unclear("keyward.dev/follow names no resource".into());
        }
        if let Some(kind) = self.kind(word) {
            return Follows::One(format!("{}/{name}", kind.resource().kind));
        }
        let known = self.0.iter();
        let known: Vec<&str> = known
            .map(|(kind, _)| kind.resource().kind.as_str())
            .collect();
        let known = known.join(", ");
        Follows::Unclear(format!(
            "keyward.dev/follow names a kind that cannot be followed; there are: {known}"
        ))
    }

    /// A credential as it is now, live. `None`: it is of no kind that is known.
    pub(super) async fn look(
        &self,
        named: &str,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Credential>, Fault> {
        let Some((word, name)) = named.split_once('/') else {
            return Ok(None);
        };
        let Some(kind) = self.kind(word) else {
            return Ok(None);
        };
        let found = reader.one(kind.resource(), name).await?;
        let bearer = found.as_ref().map(|found| reader.bearer(found));
        let found = found.zip(bearer);
        Ok(Some(Credential::of(kind.as_ref(), named, found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::demo::Demo;

    #[test]
    fn a_credential_is_named_by_kind_plural_or_short_name_and_nothing_else() {
        let words = Words::of(vec![Arc::new(Demo::default())]);
        let one = |text: &str| words.read(Some(text));
        for word in ["DemoCredential", "democredential", "democredentials"] {
            let named = one(&format!("{word}/db"));
            assert_eq!(named, Follows::One("DemoCredential/db".into()), "{word}");
        }
        assert_eq!(words.read(None), Follows::Nothing);
        for odd in [
            "",
            "db",
            "/",
            "DemoCredential/",
            "DemoCredential/a/b",
            "Secret/db",
            "DemoCredential/A b",
            "other/DemoCredential/db",
        ] {
            assert!(matches!(one(odd), Follows::Unclear(_)), "{odd}");
        }
    }
}
