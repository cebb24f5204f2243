//! Where the operator rests and may, or does not do yet what it should: each exception says why.

use crate::deeds::Deed;
use crate::rules::{
    BY_A_CLOCK_AHEAD, DELETION_HANGS, HELD_AND_DEAD, MINUTE, NOT_REVOKED, ORPHAN, READY_AND_DEAD,
    Sight, TOO_MANY,
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
    /// And because of one of these; empty is whatever was done.
    and_after: &'static [Deed],
    /// For how long after the last obstacle was gone.
    at_most: i64,
    /// It does not end by itself.
    pub(crate) is_lost: bool,
}

const KNOWN: [Known; 5] = [
    Known {
        why: "what an issuer drops behind our back is noticed when it is looked at, every six hours",
        rules: &[READY_AND_DEAD],
        told_as: &[],
        after: &[Deed::RemoveProject],
        and_after: &[],
        at_most: 7 * HOUR,
        is_lost: false,
    },
    Known {
        why: "a login that was refused is not tried again for 12 minutes to 7 hours, unless it changes",
        rules: &[],
        told_as: &["IssuerDenied"],
        after: &[Deed::IssuerRefuses, Deed::DisableUser],
        and_after: &[],
        at_most: 8 * HOUR,
        is_lost: false,
    },
    Known {
        why: "what was reckoned while the clock was three hours ahead ends three hours late: that the clock is behind now \
              would look the same, and then it would end too early",
        rules: &[BY_A_CLOCK_AHEAD],
        told_as: &[],
        after: &[Deed::ClockAhead],
        and_after: &[],
        at_most: 4 * HOUR,
        is_lost: false,
    },
    Known {
        why: "a deletion waits for a login as a user that the spec named for a while: whether something was made there \
              cannot be seen without it",
        rules: &[DELETION_HANGS],
        told_as: &["IssuerDenied"],
        after: &[Deed::BreakSpec],
        and_after: &[],
        at_most: 24 * HOUR,
        is_lost: true,
    },
    Known {
        why: "removed by force: a Secret that was made by a clock hours off looks like one that was restored, and what it \
              holds is left to a person",
        rules: &[ORPHAN, NOT_REVOKED],
        told_as: &[],
        after: &[Deed::ClockAhead, Deed::ClockBehind],
        and_after: &[Deed::DeleteByForce, Deed::StripGuard],
        at_most: 24 * HOUR,
        is_lost: true,
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
        let is_after_both = known.and_after.is_empty() || known.and_after.iter().any(did);
        rested <= known.at_most && told && is_after && is_after_both && is_excused
    };
    KNOWN.iter().find(fits)
}
