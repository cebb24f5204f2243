//! What is said of a step that failed: what it was about, and who has to act.

use kube::ResourceExt;
use lifecycle::{Because, Delivery, IssuedId, Step, Trouble, TroubleKind, Version};

use super::observe::Observation;
use super::secrets;
use crate::engine::trouble::Fault;

/// The object, what was tried, what came of it, and who can change that.
pub(super) fn told(observed: &Observation, step: &Step, fault: &Fault) -> String {
    let object = object_of(observed, step);
    if let Fault::Issuer(trouble) = fault {
        let unnamed = matches!(step, Step::Sweep { .. });
        let detail = trouble.detail.clone();
        return if unnamed {
            format!("{object}: {detail}")
        } else {
            detail
        };
    }
    match fault.whose_move() {
        Some(whose_move) => format!("{object}: {fault}; {whose_move}"),
        None => format!("{object}: {fault}"),
    }
}

/// What the rules are told.
pub(super) fn trouble_with(observed: &Observation, step: &Step, fault: &Fault) -> Trouble {
    let trouble = Trouble {
        detail: told(observed, step, fault),
        ..fault.to_trouble()
    };
    if matches!(fault, Fault::Outrun(_)) {
        // Nobody else's object is there: somebody is just always faster.
        return Trouble {
            kind: TroubleKind::Cluster,
            because: Some(Because::Outrun),
            ..trouble
        };
    }
    trouble
}

fn object_of(observed: &Observation, step: &Step) -> String {
    match step {
        Step::Record { .. } | Step::Mirror | Step::Warn { .. } | Step::Unguard => {
            let kind = &observed.kind.resource().kind;
            format!("{kind} {}", observed.object.name_any())
        }
        Step::Draft(version) => {
            let chosen = observed.chosen.as_ref().map(|(_, values)| values);
            let chosen = chosen.map(secrets::commitment);
            let name = secrets::draft_name(&observed.object, *version, chosen.as_ref());
            format!("Secret {name}")
        }
        Step::Claim { .. } | Step::Annotate => format!("Secret {}", target_of(observed)),
        Step::Store(version) => format!("Secret {}", stored_as(observed, *version)),
        Step::Mint(version) | Step::Revoke { version, .. } => format!("version {version}"),
        Step::Sweep { id, .. } => format!("credential {}", observed.kind.voice().shown_id(id)),
        Step::Fence { secret, .. }
        | Step::Release { secret, .. }
        | Step::Discard { secret, .. }
        | Step::LetGo { secret, .. }
        | Step::TakeOver { secret, .. }
        | Step::Unprotect { secret, .. }
        | Step::Mend { secret, .. } => format!("Secret {secret}"),
    }
}

fn target_of(observed: &Observation) -> String {
    let target = observed.reading().target();
    target.map_or_else(String::new, ToString::to_string)
}

fn stored_as(observed: &Observation, version: Version) -> String {
    match observed.reading().policy.delivery {
        Delivery::InPlace => target_of(observed),
        Delivery::Versioned => {
            let fresh = observed.in_hand.as_ref();
            let id = fresh.map_or_else(|| IssuedId::from(""), |fresh| fresh.id.clone());
            let names = observed.kind.secret_names(&observed.object, version, &id);
            names.first().map(ToString::to_string).unwrap_or_default()
        }
    }
}
