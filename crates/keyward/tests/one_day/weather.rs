//! How the issuers feel, by whose corner it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use testbed::issuer::{Fault, StandIn as Issuer, Verb};
use testbed::{gitlab, keystone};

use crate::residents::{RESIDENTS, Resident, Way};

#[derive(Debug, Clone, Default)]
pub(crate) struct Weather(Arc<Mutex<Conditions>>);

#[derive(Debug, Default)]
struct Conditions {
    /// What every request there meets.
    lasting: BTreeMap<String, Fault>,
    /// Where the reply to the next mint is lost.
    next_mint: BTreeMap<String, Fault>,
    /// Where it was lost since somebody looked last.
    just_lost: BTreeSet<String>,
}

/// Demo credentials have a realm each; the others share their server.
fn corner(resident: &Resident) -> &str {
    match resident.way {
        Way::Demo(..) => resident.name,
        Way::AppCred(_) => "keystone",
        Way::Project | Way::Group | Way::Personal => "gitlab",
    }
}

impl Weather {
    /// Plans the faults of all three.
    pub(crate) fn over(
        issuer: &Issuer,
        keystone: &keystone::standin::StandIn,
        gitlab: &gitlab::StandIn,
    ) -> Self {
        let weather = Self::default();
        let here = weather.clone();
        issuer.faults().plan(move |line| {
            // Whoever uses a credential asks the same server, and is not what this is about.
            here.met(&line.realm, line.verb == Verb::Mint)
        });
        let here = weather.clone();
        keystone
            .faults()
            .plan(move |line| here.met("keystone", line.kind == keystone::CREATE));
        let here = weather.clone();
        gitlab.faults().plan(move |line| {
            let creates = [gitlab::CREATE_PROJECT_TOKEN, gitlab::CREATE_GROUP_TOKEN];
            here.met("gitlab", creates.contains(&line.kind.as_str()))
        });
        weather
    }

    fn met(&self, corner: &str, is_mint: bool) -> Fault {
        let mut conditions = self.conditions();
        if let Some(fault) = conditions.lasting.get(corner) {
            return *fault;
        }
        let lost = if is_mint {
            conditions.next_mint.remove(corner)
        } else {
            None
        };
        if lost.is_some() {
            conditions.just_lost.insert(corner.to_owned());
        }
        lost.unwrap_or(Fault::Pass)
    }

    /// From now on, in the corner of this resident; `None` is well.
    pub(crate) fn is(&self, resident: &Resident, fault: Option<Fault>) {
        let mut conditions = self.conditions();
        let corner = corner(resident).to_owned();
        match fault {
            Some(fault) => conditions.lasting.insert(corner, fault),
            None => conditions.lasting.remove(&corner),
        };
    }

    pub(crate) fn loses_a_reply(&self, resident: &Resident) {
        let corner = corner(resident).to_owned();
        let mut conditions = self.conditions();
        conditions.next_mint.insert(corner, Fault::DropApplied);
    }

    /// Whoever's issuer lost a reply since the last look.
    pub(crate) fn has_just_struck(&self) -> Vec<&'static Resident> {
        let lost = std::mem::take(&mut self.conditions().just_lost);
        let residents = RESIDENTS.iter();
        residents.filter(|one| lost.contains(corner(one))).collect()
    }

    fn conditions(&self) -> std::sync::MutexGuard<'_, Conditions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
