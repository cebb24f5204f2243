//! Where the operator rests and may, or does not do yet what it should: each exception says why.

use crate::deeds::Deed;
use crate::rules::{
    BY_A_CLOCK_AHEAD, DELETION_HANGS, HELD_AND_DEAD, MINUTE, NOT_NAMED, NOT_READY, NOT_REVOKED,
    ORPHAN, READY_AND_DEAD, SECRET_LEFT, Sight, TOO_MANY,
};

const HOUR: i64 = 60 * MINUTE;

/// An exception.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) why: &'static str,
    /// The rules that it excuses from; empty is all but the promises.
    rules: &'static [&'static str],
    /// What is told meanwhile; empty is anything.
    told_as: &'static [&'static str],
    /// It is because of one of these, earlier in the day; empty is whatever was done.
    after: &'static [Deed],
    /// For how long after the last obstacle was gone.
    at_most: i64,
    /// It does not end by itself.
    pub(crate) is_lost: bool,
}

const KNOWN: [Known; 10] = [
    Known {
        why: "what an issuer drops behind our back is noticed when it is looked at, every six hours",
        rules: &[READY_AND_DEAD],
        told_as: &[],
        after: &[Deed::RemoveProject],
        at_most: 7 * HOUR,
        is_lost: false,
    },
    Known {
        why: "an issuer that failed is asked again after a pause that grows to 12 minutes, and the pause is told",
        rules: &[],
        told_as: &["IssuerUnreachable", "IssuerUnexpected", "IssuerThrottled"],
        after: &[],
        at_most: 13 * MINUTE,
        is_lost: false,
    },
    Known {
        why: "an issuer that said no is not asked again for 12 minutes to 7 hours, unless the login changes",
        rules: &[],
        told_as: &["IssuerDenied", "IssuerRejected", "CurrentRefused"],
        after: &[
            Deed::IssuerRefuses,
            Deed::DisableUser,
            Deed::SpoilLogin,
            Deed::ChangePassword,
            Deed::RemoveProject,
        ],
        at_most: 8 * HOUR,
        is_lost: false,
    },
    Known {
        why: "what was reckoned while the clock was three hours ahead ends three hours late",
        rules: &[BY_A_CLOCK_AHEAD],
        told_as: &[],
        after: &[Deed::ClockAhead],
        at_most: 4 * HOUR,
        is_lost: false,
    },
    Known {
        why: "removed by force and made again under its name: what its former life left stays",
        rules: &[NOT_REVOKED, NOT_READY, ORPHAN, SECRET_LEFT, NOT_NAMED],
        told_as: &[],
        after: &[Deed::DeleteByForce, Deed::StripGuard],
        at_most: 24 * HOUR,
        is_lost: true,
    },
    Known {
        why: "the one Secret in place, stripped of its labels, is not known again by its uid",
        rules: &[NOT_READY, NOT_NAMED],
        told_as: &["SecretNotAdopted"],
        after: &[Deed::StripSecretLabels],
        at_most: 24 * HOUR,
        is_lost: true,
    },
    Known {
        why: "a suspended application credential does not say so",
        rules: &[NOT_NAMED],
        told_as: &["Ready"],
        after: &[Deed::Suspend],
        at_most: 24 * HOUR,
        is_lost: false,
    },
    Known {
        why: "a failure that was written down while the clock was ahead is waited out by that clock",
        rules: &[],
        told_as: &["IssuerUnreachable", "IssuerUnexpected"],
        after: &[Deed::ClockAhead],
        at_most: 4 * HOUR,
        is_lost: false,
    },
    Known {
        why: "a deletion waits for a login as a user that the spec named for a while and that does not exist",
        rules: &[DELETION_HANGS, NOT_NAMED],
        told_as: &["IssuerDenied"],
        after: &[Deed::BreakSpec],
        at_most: 24 * HOUR,
        is_lost: true,
    },
    Known {
        why: "not ready, for a user who is shut out, and the reason says that all is up to date",
        rules: &[NOT_READY, NOT_NAMED],
        told_as: &["UpToDate"],
        after: &[Deed::DisableUser],
        at_most: 8 * HOUR,
        is_lost: false,
    },
];

/// Why this is no breach; `None`: it is one.
pub(crate) fn excused(
    sight: &Sight<'_>,
    rule: &str,
    rested: i64,
    deeds: &[Deed],
) -> Option<&'static Known> {
    let reasons = sight.reasons();
    let fits = |known: &&Known| {
        let is_told = |one: &&str| reasons.iter().any(|reason| reason == one);
        let told = known.told_as.is_empty() || known.told_as.iter().any(is_told);
        let did = |deed: &Deed| deeds.contains(deed);
        let is_after = known.after.is_empty() || known.after.iter().any(did);
        let is_promise = [HELD_AND_DEAD, TOO_MANY, READY_AND_DEAD].contains(&rule);
        let from_all = known.rules.is_empty() && !is_promise;
        let is_excused = from_all || known.rules.contains(&rule);
        rested <= known.at_most && told && is_after && is_excused
    };
    KNOWN.iter().find(fits)
}
