//! What a controller may do in a namespace that it looks after. The roles in `deploy/rbac` are made from this.

use kube::api::ApiResource;

/// One right, and what it is for where that is not plain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    pub group: String,
    pub resources: Vec<String>,
    pub verbs: &'static [&'static str],
    pub why: &'static str,
}

impl Right {
    pub fn to(verbs: &'static [&'static str], resource: &ApiResource) -> Self {
        Self {
            group: resource.group.clone(),
            resources: vec![resource.plural.clone()],
            verbs,
            why: "",
        }
    }

    pub fn named(verbs: &'static [&'static str], group: &str, resource: &str) -> Self {
        Self {
            group: group.to_owned(),
            resources: vec![resource.to_owned()],
            verbs,
            why: "",
        }
    }

    #[must_use]
    pub fn because(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    /// To work on a kind: its finalizers and annotations, and its status.
    pub fn to_work_on(resource: &ApiResource) -> [Self; 2] {
        let status = format!("{}/status", resource.plural);
        [
            Self::to(&["get", "list", "watch", "patch"], resource),
            Self::named(&["patch"], &resource.group, &status),
        ]
    }

    pub fn to_read(resource: &ApiResource) -> Self {
        Self::to(&["get", "list", "watch"], resource)
    }

    /// To say what was done.
    pub fn to_tell() -> Self {
        Self::named(&["create"], "events.k8s.io", "events")
    }
}

/// The same, with those put together that differ in the resource only. What comes first stays first.
pub fn merged(rights: impl IntoIterator<Item = Right>) -> Vec<Right> {
    let mut all: Vec<Right> = Vec::new();
    for right in rights {
        let alike = all.iter_mut().find(|known| {
            known.group == right.group && known.verbs == right.verbs && known.why == right.why
        });
        match alike {
            Some(known) => {
                for resource in right.resources {
                    if !known.resources.contains(&resource) {
                        known.resources.push(resource);
                    }
                }
            }
            None => all.push(right),
        }
    }
    all
}
