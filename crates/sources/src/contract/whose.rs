//! Whose it is: ids come from records that others can write to, so that nothing is ended for its id alone.

use lifecycle::{IssuedId, Mark, TroubleKind, Verdict, Version};

use super::{ENDS_NOTHING, MINTS_NOTHING, NOTHING_FOREIGN, Shown, Suite};
use crate::{Proof, Values};

const NOTHING_INHERITED: &str = "no predecessor's are taken over here, or a record is enough";

impl Suite<'_> {
    pub(super) async fn what_bears_another_owners_mark_is_not_ended(&self) -> Shown {
        let (ours, theirs) = (self.owner("attacker"), self.owner("victim"));
        let elsewhere = self.owner_in("another cluster", "attacker");
        let version = Version::new(1, 1);
        let claimed = ours.mark(version);
        for victim in [theirs.mark(version), elsewhere.mark(version)] {
            if let Some(why) = self.is_left_alone(&claimed, &victim).await {
                return Shown::Skipped(why);
            }
        }
        Shown::Passed
    }

    pub(super) async fn what_bears_another_versions_mark_is_not_ended(&self) -> Shown {
        let owner = self.owner("version");
        let claimed = owner.mark(Version::new(1, 1));
        for other in [Version::new(2, 1), Version::new(1, 2), Version::new(11, 1)] {
            if let Some(why) = self.is_left_alone(&claimed, &owner.mark(other)).await {
                return Shown::Skipped(why);
            }
        }
        Shown::Passed
    }

    pub(super) async fn what_bears_no_mark_is_not_ended_on_the_word_of_a_record_alone(
        &self,
    ) -> Shown {
        if !self.source.issuer().revokes {
            return Shown::Skipped(ENDS_NOTHING);
        }
        let owner = self.owner("nobody's mark");
        let mark = owner.mark(Version::new(1, 1));
        // One that reads like ours at first sight, and one that does not.
        for name in [format!("{mark}-copy"), self.name("somebody's own")] {
            let Some(id) = self.bench.add_foreign(&name).await else {
                return Shown::Skipped(NOTHING_FOREIGN);
            };
            self.refuses(&Proof::by(&mark), &id).await;
        }
        Shown::Passed
    }

    pub(super) async fn a_recorded_one_of_a_predecessor_is_ended_only_with_its_value(
        &self,
    ) -> Shown {
        let Some((id, values)) = self.bench.add_predecessors().await else {
            return Shown::Skipped(NOTHING_INHERITED);
        };
        self.remember(&values);
        let spoiled = self.bench.spoiled(&values);
        self.remember(&spoiled);
        let mark = self.owner("heir").mark(Version::new(1, 1));
        let proof = |recorded: bool, values| Proof {
            mark: &mark,
            recorded,
            values,
        };
        self.refuses(&proof(false, None), &id).await;
        self.refuses(&proof(false, Some(&values)), &id).await;
        self.refuses(&proof(true, None), &id).await;
        self.refuses(&proof(true, Some(&spoiled)), &id).await;
        let Some((_, of_another)) = self.bench.add_predecessors().await else {
            panic!("there was one a moment ago");
        };
        self.remember(&of_another);
        self.refuses(&proof(true, Some(&of_another)), &id).await;
        assert_eq!(self.verify(&values).await, Verdict::Works);
        let ended = self.source.revoke(&proof(true, Some(&values)), &id).await;
        ended.unwrap_or_else(|error| panic!("its value proves whose it is: {error}"));
        assert!(self.gone(&id).await);
        assert_eq!(self.verify(&values).await, Verdict::Refused);
        assert_eq!(self.verify(&of_another).await, Verdict::Works);
        Shown::Passed
    }

    pub(super) async fn the_value_of_one_does_not_let_in_as_another(&self) -> Shown {
        if !self.mints() {
            return Shown::Skipped(MINTS_NOTHING);
        }
        let owner = self.owner("possession");
        let one = self.mint(&owner.mark(Version::new(1, 1))).await;
        let other = self.mint(&owner.mark(Version::new(2, 1))).await;
        let spoiled = self.bench.spoiled(&one.values);
        self.remember(&spoiled);
        let tried = async |id: &IssuedId, values: &Values| {
            let verdict = self.source.verify_as(id, values).await;
            verdict.unwrap_or_else(|error| panic!("trying a value as one credential: {error}"))
        };
        assert_eq!(tried(&one.id, &one.values).await, Verdict::Works);
        assert_eq!(tried(&one.id, &other.values).await, Verdict::Refused);
        assert_eq!(tried(&one.id, &spoiled).await, Verdict::Refused);
        assert_eq!(tried(&one.id, &Values::new()).await, Verdict::Refused);
        Shown::Passed
    }

    /// One that bears the mark `borne` is not ended for `claimed`, whatever is recorded and whatever is known of it.
    /// Otherwise why that cannot be shown.
    async fn is_left_alone(&self, claimed: &Mark, borne: &Mark) -> Option<&'static str> {
        if !self.source.issuer().revokes {
            return Some(ENDS_NOTHING);
        }
        let (id, values) = if self.mints() {
            let minted = self.mint(borne).await;
            (minted.id, Some(minted.values))
        } else {
            match self.bench.add_foreign(&borne.to_string()).await {
                Some(id) => (id, None),
                None => return Some(NOTHING_FOREIGN),
            }
        };
        for recorded in [false, true] {
            for values in [None, values.as_ref()] {
                let proof = Proof {
                    mark: claimed,
                    recorded,
                    values,
                };
                self.refuses(&proof, &id).await;
            }
        }
        if let Some(values) = &values {
            self.is_unharmed(borne, &id, values).await;
        }
        None
    }

    async fn is_unharmed(&self, mark: &Mark, id: &IssuedId, values: &Values) {
        assert_eq!(self.verify(values).await, Verdict::Works);
        self.revoke(mark, id).await;
        assert!(self.gone(id).await, "its own mark ends it");
    }

    async fn refuses(&self, proof: &Proof<'_>, id: &IssuedId) {
        let refused = self.source.revoke(proof, id).await;
        self.fails_as(
            refused,
            TroubleKind::Rejected,
            "ending what is not proved to be the owner's",
        );
        assert!(!self.gone(id).await, "what is not the owner's stays");
    }

    /// A name that no other run uses.
    fn name(&self, text: &str) -> String {
        let [a, b, c, d, ..] = self.run;
        let run = u32::from_be_bytes([a, b, c, d]);
        format!("{text} {run:x}")
    }
}
