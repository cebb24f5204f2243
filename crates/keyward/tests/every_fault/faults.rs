//! What can go wrong, and where.

use std::collections::HashMap;

use testbed::apiserver::Fault as ApiFault;
use testbed::issuer::Fault as IssuerFault;

use crate::run::Run;
use crate::stage::OPERATOR;

/// The eight kinds of fault at the API server.
pub(crate) const API_FAULTS: [ApiFault; 8] = [
    ApiFault::CrashBefore,
    ApiFault::CrashAfter,
    ApiFault::Error(500),
    ApiFault::TimeoutNotApplied,
    ApiFault::TimeoutApplied,
    ApiFault::Conflict,
    ApiFault::StaleRead(1),
    ApiFault::DeliveredTwice,
];

/// And at the issuer, where nothing conflicts or is stale, but replies are cut and requests are throttled.
pub(crate) const ISSUER_FAULTS: [IssuerFault; 8] = [
    IssuerFault::CrashBefore,
    IssuerFault::CrashAfter,
    IssuerFault::Error(500),
    IssuerFault::TimeoutNotApplied,
    IssuerFault::TimeoutApplied,
    IssuerFault::CutBody,
    IssuerFault::Throttle(30),
    IssuerFault::Error(403),
];

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Api(u64, ApiFault),
    Issuer(u64, IssuerFault),
}

pub(crate) fn place(run: &Run, faults: &[Fault], base_api: u64, base_issuer: u64) {
    let api: Vec<(u64, ApiFault)> = faults
        .iter()
        .filter_map(|fault| match fault {
            Fault::Api(nth, fault) => Some((base_api + nth, *fault)),
            Fault::Issuer(..) => None,
        })
        .collect();
    let issuer: HashMap<u64, IssuerFault> = faults
        .iter()
        .filter_map(|fault| match fault {
            Fault::Issuer(nth, fault) => Some((base_issuer + nth, *fault)),
            Fault::Api(..) => None,
        })
        .collect();
    if !api.is_empty() {
        run.stage.server.faults().at_each(OPERATOR, api);
    }
    if !issuer.is_empty() {
        run.stage
            .issuer
            .faults()
            .plan(move |line| issuer.get(&line.n).copied().unwrap_or(IssuerFault::Pass));
    }
}

pub(crate) fn every_single_fault(used: (u64, u64)) -> Vec<Fault> {
    let api =
        (1..=used.0).flat_map(|nth| API_FAULTS.iter().map(move |fault| Fault::Api(nth, *fault)));
    let issuer = (1..=used.1).flat_map(|nth| {
        ISSUER_FAULTS
            .iter()
            .map(move |fault| Fault::Issuer(nth, *fault))
    });
    api.chain(issuer).collect()
}
