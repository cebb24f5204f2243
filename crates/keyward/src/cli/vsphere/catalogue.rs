//! Which privileges each component needs, where, and why. The list itself is data: `privileges.yaml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::files;
use crate::cli::exit::{Exit, Failure};
use crate::controllers::vsphere::component::Component;

#[derive(Debug, Args)]
pub(super) struct CatalogueArgs {
    /// A list of privileges to use instead of the built-in one
    #[arg(long, value_name = "FILE")]
    privileges: Option<PathBuf>,
}

impl CatalogueArgs {
    pub(super) fn load(&self) -> Result<Catalogue, Failure> {
        let Some(path) = &self.privileges else {
            return Ok(Catalogue::built_in());
        };
        let file = files::read(path)?;
        let text = String::from_utf8_lossy(&file.bytes);
        Catalogue::parse(&text)
            .map_err(|text| Failure::new(Exit::Failed, format!("{} {text}", file.name)))
    }
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Profile {
    /// As the published design lists them, without the two that no vCenter has
    Seed,
    /// As the product's documentation does
    #[default]
    DocsMinimum,
    /// All that the component's code asks for
    Full,
}

impl Profile {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::DocsMinimum => "docs-minimum",
            Self::Full => "full",
        }
    }
}

/// A kind of object that privileges are granted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Scope {
    Root,
    Datacenter,
    Cluster,
    ResourcePool,
    Folder,
    Datastore,
    Network,
}

impl Scope {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Datacenter => "datacenter",
            Self::Cluster => "cluster",
            Self::ResourcePool => "resource-pool",
            Self::Folder => "folder",
            Self::Datastore => "datastore",
            Self::Network => "network",
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalogue {
    #[serde(rename = "absentFromVCenter")]
    pub(super) absent: Vec<Absent>,
    pub(super) since: BTreeMap<String, String>,
    pub(super) grants: Vec<Grant>,
}

/// A privilege of the published design that no vCenter has.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Absent {
    pub(super) privilege: String,
    pub(super) component: String,
    pub(super) scope: Scope,
    pub(super) instead: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Grant {
    /// A component, or the installer.
    pub(super) component: String,
    pub(super) scope: Scope,
    pub(super) propagate: bool,
    /// The profiles beside `full`, which has every grant.
    profiles: Vec<Profile>,
    pub(super) why: String,
    pub(super) privileges: Vec<String>,
}

impl Grant {
    pub(super) fn is_in(&self, profile: Profile) -> bool {
        profile == Profile::Full || self.profiles.contains(&profile)
    }

    pub(super) fn profiles(&self) -> Vec<&'static str> {
        [Profile::Seed, Profile::DocsMinimum, Profile::Full]
            .into_iter()
            .filter(|profile| self.is_in(*profile))
            .map(Profile::name)
            .collect()
    }
}

/// All privileges of one component on one scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) scope: Scope,
    pub(super) propagate: bool,
    pub(super) privileges: BTreeSet<String>,
}

impl Catalogue {
    /// As it was compiled in.
    pub(super) fn built_in() -> Self {
        Self::parse(include_str!("privileges.yaml"))
            .expect("the list that is compiled in is tested")
    }

    /// What is wrong is told by its line.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text).map_err(|error| {
            let line = error.location().map_or(1, |location| location.line());
            format!("line {line}: this is no list of privileges; compare it with the built-in one")
        })
    }

    /// What a component needs, scope by scope.
    pub(super) fn needs(&self, component: Component, profile: Profile) -> Vec<Need> {
        let mut needs: BTreeMap<Scope, Need> = BTreeMap::new();
        for grant in &self.grants {
            if grant.component != component.name() || !grant.is_in(profile) {
                continue;
            }
            let need = needs.entry(grant.scope).or_insert_with(|| Need {
                scope: grant.scope,
                propagate: false,
                privileges: BTreeSet::new(),
            });
            need.propagate |= grant.propagate;
            need.privileges.extend(grant.privileges.iter().cloned());
        }
        needs.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn ids(who: &str, profile: Profile) -> BTreeSet<String> {
        let all = Catalogue::built_in();
        let grants = all
            .grants
            .iter()
            .filter(|grant| grant.component == who && grant.is_in(profile));
        grants.flat_map(|grant| grant.privileges.clone()).collect()
    }

    #[test]
    fn the_counts_are_those_of_the_published_lists() {
        // 7 of the cloud controller's are in the design; two of them in no vCenter.
        for (who, count) in [
            ("machine-api", 37),
            ("csi-driver", 8),
            ("cloud-controller", 5),
            ("diagnostics", 3),
            ("installer", 47),
        ] {
            assert_eq!(ids(who, Profile::Seed).len(), count, "{who}");
        }
    }

    #[test]
    fn a_larger_profile_has_all_of_the_documentation() {
        for component in Component::ALL {
            let minimum = ids(component.name(), Profile::DocsMinimum);
            assert!(minimum.is_subset(&ids(component.name(), Profile::Full)));
        }
    }

    #[test]
    fn what_no_vcenter_has_is_in_no_profile() {
        let all = Catalogue::built_in();
        assert_eq!(all.absent.len(), 2);
        for absent in &all.absent {
            let granted = all
                .grants
                .iter()
                .any(|grant| grant.privileges.contains(&absent.privilege));
            assert!(!granted, "{}", absent.privilege);
        }
    }

    #[test]
    fn every_grant_is_of_somebody() {
        for grant in Catalogue::built_in().grants {
            let known = Component::named(&grant.component).is_some();
            assert!(
                known || grant.component == "installer",
                "{}",
                grant.component
            );
            assert!(!grant.privileges.is_empty() && !grant.why.is_empty());
        }
    }

    /// For people: the list, by component and scope.
    fn page(all: &Catalogue) -> String {
        let mut page = "# Privileges\n\nWhat each login may do, where, and why. Made from `privileges.yaml`, which is compiled in; `--privileges FILE` takes\nanother list in its place. A grant that propagates holds for everything below, too.\n".to_owned();
        let people = Component::ALL.map(Component::name);
        for who in people.into_iter().chain(["installer"]) {
            let _ = write!(
                page,
                "\n## {who}\n\n| scope | propagates | profiles | why | privileges |\n|---|---|---|---|---|\n"
            );
            let mut its: Vec<&Grant> = all
                .grants
                .iter()
                .filter(|one| one.component == who)
                .collect();
            its.sort_by_key(|one| one.scope);
            for grant in its {
                let propagates = if grant.propagate { "yes" } else { "no" };
                let _ = writeln!(
                    page,
                    "| {} | {propagates} | {} | {} | {} |",
                    grant.scope.name(),
                    grant.profiles().join(", "),
                    grant.why,
                    grant
                        .privileges
                        .iter()
                        .map(|id| format!("`{id}`"))
                        .collect::<Vec<_>>()
                        .join(" "),
                );
            }
            for absent in all.absent.iter().filter(|one| one.component == who) {
                let _ = write!(
                    page,
                    "\nThe published design asks for `{}` on the {} as well, which no vCenter has; `{}` takes its place.\n",
                    absent.privilege,
                    absent.scope.name(),
                    absent.instead,
                );
            }
        }
        page
    }

    /// `KEYWARD_UPDATE=1` writes it anew.
    #[test]
    fn the_page_of_privileges_is_what_the_list_says() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs/reference/vsphere-privileges.md");
        let page = page(&Catalogue::built_in());
        if std::env::var_os("KEYWARD_UPDATE").is_some() {
            std::fs::write(&path, &page).expect("the page can be written");
        }
        assert_eq!(
            std::fs::read_to_string(&path).expect("the page is there"),
            page
        );
    }
}
