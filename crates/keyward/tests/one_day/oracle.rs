//! Who judges from outside: by what is stored, by what the issuers let in, and by what people did. It knows nothing of
//! what the operator thinks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::deeds::{Deed, Plot};
use crate::hours::Hours;
use crate::known::excused;
use crate::residents::{RESIDENTS, Resident};
use crate::rules::{BY_A_CLOCK_AHEAD, MINUTE, NOT_NAMED, Sight, amiss, is_named, promises};
use crate::seen::Published;
use crate::town::{Town, clock_face};

/// What is remembered of one resident.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// When something was last done to it, or undone.
    pub(crate) touched: i64,
    /// When a credential was first seen alive that is not the published one.
    pub(crate) superseded: BTreeMap<String, i64>,
    /// What people did to it, newest last.
    story: Vec<String>,
    deeds: Vec<Deed>,
    /// The rotation asked for last.
    pub(crate) asked: String,
    /// Credentials that a person has ended past all holders.
    pub(crate) condemned: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Oracle {
    notes: BTreeMap<&'static str, Notes>,
    /// What broke, each with its story.
    pub(crate) broken: Vec<String>,
    /// How often each exception was made use of.
    pub(crate) excused: BTreeMap<&'static str, usize>,
    pub(crate) judged: usize,
    /// Who is past judging: what is wrong with it would be told again and again.
    pub(crate) lost: BTreeSet<&'static str>,
}

impl Oracle {
    /// Somebody did this, or undid it.
    pub(crate) fn hears(&mut self, now: i64, plot: &Plot, is_undone: bool) {
        for other in &RESIDENTS {
            if !plot.deed.touches(plot.to, other) {
                continue;
            }
            let notes = self.notes.entry(other.name).or_default();
            notes.touched = now;
            notes.deeds.push(plot.deed);
            let undone = if is_undone { "undone: " } else { "" };
            notes
                .story
                .push(format!("{} {undone}{:?}", clock_face(now), plot.deed));
        }
        let notes = self.notes.entry(plot.to.name).or_default();
        if is_undone {
            return;
        }
        if matches!(plot.deed, Deed::AskForRotation | Deed::LoseAReply) {
            notes.asked.clone_from(&plot.about);
        }
        if matches!(plot.deed, Deed::Delete | Deed::DeleteByForce) {
            notes.asked.clear();
        }
        if plot.deed == Deed::RevokeNow {
            notes.condemned.insert(plot.about.clone());
        }
    }

    /// It begins anew, and nothing that was before counts.
    pub(crate) fn forgets(&mut self, now: i64, resident: &Resident) {
        let notes = self.notes.entry(resident.name).or_default();
        *notes = Notes {
            touched: now,
            story: vec![format!("{} begun anew", clock_face(now))],
            ..Notes::default()
        };
    }

    /// Looks at everybody.
    pub(crate) fn judge(&mut self, town: &Town, plots: &[Plot]) {
        // A reply is lost when one is sent, however long ago somebody saw to that.
        for struck in town.weather.has_just_struck() {
            self.notes.entry(struck.name).or_default().touched = town.now();
        }
        for resident in &RESIDENTS {
            let object = town.stored(resident);
            let published = match &object {
                Some(object) => resident.published(town, object),
                None => Published::default(),
            };
            let sight = Sight {
                resident,
                published,
                alive: resident.alive(town),
                plots: plots
                    .iter()
                    .filter(|plot| plot.deed.touches(plot.to, resident))
                    .collect(),
                now: town.now(),
                object,
            };
            self.judged += 1;
            self.judge_one(town, &sight);
        }
    }

    fn judge_one(&mut self, town: &Town, sight: &Sight<'_>) {
        let notes = self.notes.entry(sight.resident.name).or_default();
        let current = &sight.published.id;
        notes
            .superseded
            .retain(|id, _| sight.alive.contains(id) && id != current);
        for id in sight.alive.iter().filter(|id| *id != current) {
            notes.superseded.entry(id.clone()).or_insert(sight.now);
        }
        let mut wrong = promises(town, sight, notes);
        let rested = sight.now - notes.touched;
        if rested >= MINUTE && town.operator.is_some() {
            let amiss = amiss(town, sight, notes);
            let obstacles: Vec<&[&str]> = sight
                .plots
                .iter()
                .filter_map(|plot| plot.deed.is_told_as())
                .collect();
            if let Some((rule, detail)) = amiss {
                if obstacles.is_empty() || rule == BY_A_CLOCK_AHEAD {
                    wrong.push((rule, detail));
                } else if !is_named(sight, &obstacles) {
                    wrong.push((NOT_NAMED, detail));
                }
            }
        }
        for (rule, detail) in wrong {
            if let Some(known) = excused(sight, rule, rested, &notes.deeds) {
                *self.excused.entry(known.why).or_default() += 1;
                if known.is_lost {
                    self.lost.insert(sight.resident.name);
                }
                continue;
            }
            if !self.lost.insert(sight.resident.name) {
                continue;
            }
            self.broken.push(tell(town, sight, notes, rule, &detail));
        }
    }
}

fn tell(town: &Town, sight: &Sight<'_>, notes: &Notes, rule: &str, detail: &str) -> String {
    let last = notes.story.iter().rev().take(8).rev();
    let story: Vec<&str> = last.map(String::as_str).collect();
    let doing: Vec<String> = sight
        .plots
        .iter()
        .map(|plot| format!("{:?}", plot.deed))
        .collect();
    format!(
        "{} {}: {rule}: {detail}\n   {}\n   alive {} published {:?}\n   lasting {doing:?}\n   before {}\n   secrets {}\n   ledger {}",
        town.o_clock(),
        sight.resident.name,
        said(sight),
        sight.alive.len(),
        sight.published,
        story.join(", "),
        secrets(town, sight),
        sight.ledger(),
    )
}

/// What is known of its Secrets without opening them.
fn secrets(town: &Town, sight: &Sight<'_>) -> String {
    let names = town.every_secret_of(sight.resident).into_iter();
    let all = names.filter_map(|name| town.stored_secret(&name));
    let each = all.map(|one| one["metadata"].to_string());
    each.collect::<Vec<_>>().join("\n      ")
}

/// Every condition, as people read it.
fn said(sight: &Sight<'_>) -> String {
    let object = sight.object.as_deref().cloned().unwrap_or_default();
    let conditions = object["status"]["conditions"].as_array().cloned();
    let conditions = conditions.unwrap_or_default().into_iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let each = conditions.map(|one| {
        format!(
            "{} {} {}: {}",
            text(&one["type"]),
            text(&one["status"]),
            text(&one["reason"]),
            text(&one["message"])
        )
    });
    each.collect::<Vec<_>>().join("\n   ")
}
