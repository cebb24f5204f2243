//! From mint to revoke, when nothing goes wrong.

use std::collections::BTreeSet;

use lifecycle::{Mark, Minting, Owner, TroubleKind, Verdict, Version};

use super::{
    ENDS_NOTHING, MINTS_NOTHING, NO_SUCH_FAULT, NOT_THIS_KIND, NOTHING_FOREIGN, Shown, Suite,
    random_bytes, same,
};
use crate::Order;

impl Suite<'_> {
    pub(super) async fn a_fresh_credential_works_and_is_listed_under_its_mark(&self) -> Shown {
        if !self.mints() {
            return Shown::Skipped(MINTS_NOTHING);
        }
        let owner = self.owner("fresh");
        let (first, second) = (Version::new(1, 1), Version::new(12, 3));
        let one = self.mint(&owner.mark(first)).await;
        let two = self.mint(&owner.mark(second)).await;
        assert_eq!(self.verify(&one.values).await, Verdict::Works);
        assert_eq!(self.verify(&two.values).await, Verdict::Works);
        let listed = self.list(&owner).await;
        assert_eq!(listed.len(), 2, "exactly what was minted is listed");
        for (version, minted) in [(first, &one), (second, &two)] {
            let is_listed = listed
                .iter()
                .any(|issued| issued.marked && issued.version == version && issued.id == minted.id);
            assert!(
                is_listed,
                "version {version} is listed with its id, as marked"
            );
        }
        self.clean_up(&owner).await;
        Shown::Passed
    }

    pub(super) async fn a_wrong_value_is_refused(&self) -> Shown {
        let (values, owner) = if self.mints() {
            let owner = self.owner("wrong value");
            (
                self.mint(&owner.mark(Version::new(1, 1))).await.values,
                Some(owner),
            )
        } else {
            match self.bench.handed_over().await {
                Some(values) => (values, None),
                None => return Shown::Skipped(MINTS_NOTHING),
            }
        };
        self.remember(&values);
        let spoiled = self.bench.spoiled(&values);
        self.remember(&spoiled);
        assert_eq!(self.verify(&values).await, Verdict::Works);
        assert_eq!(self.verify(&spoiled).await, Verdict::Refused);
        assert_eq!(
            self.verify(&values).await,
            Verdict::Works,
            "a refusal spoils nothing"
        );
        if let Some(owner) = owner {
            self.clean_up(&owner).await;
        }
        Shown::Passed
    }

    pub(super) async fn nobody_elses_list_shows_it(&self) -> Shown {
        if !self.mints() {
            return Shown::Skipped(MINTS_NOTHING);
        }
        let ours = self.owner("mine");
        let neighbour = self.owner("theirs");
        let same_uid_elsewhere = self.owner_in("another cluster", "mine");
        let version = Version::new(1, 1);
        let mut ids = BTreeSet::new();
        for owner in [&ours, &neighbour, &same_uid_elsewhere] {
            let minted = self.mint(&owner.mark(version)).await;
            assert!(ids.insert(minted.id.clone()), "ids are unique");
            let listed = self.list(owner).await;
            assert_eq!(listed.len(), 1, "an owner sees its own and no other");
            assert_eq!(listed[0].id, minted.id);
        }
        self.a_record_says_less_than_the_mark(&ours, &neighbour)
            .await;
        self.clean_up(&ours).await;
        assert_eq!(
            self.list(&neighbour).await.len(),
            1,
            "others are left alone"
        );
        assert_eq!(self.list(&same_uid_elsewhere).await.len(), 1);
        self.clean_up(&neighbour).await;
        self.clean_up(&same_uid_elsewhere).await;
        Shown::Passed
    }

    /// Each has one credential. What is recorded of the neighbour's does not make it ours, nor ours another version.
    async fn a_record_says_less_than_the_mark(&self, ours: &Owner, neighbour: &Owner) {
        let own = self.list(ours).await;
        let mut recorded = own.clone();
        recorded.extend(self.list(neighbour).await);
        for known in &mut recorded {
            known.version = Version::new(7, 7);
        }
        let listed = self.source.list(ours, &recorded).await;
        let listed = listed.unwrap_or_else(|error| panic!("a listing must succeed here: {error}"));
        assert_eq!(listed, own, "as the marks say, and not as is recorded");
    }

    pub(super) async fn a_foreign_name_is_never_taken_for_ours(&self) -> Shown {
        let owner = self.owner("foreign");
        if !self.source.issuer().lists {
            return Shown::Skipped(NOT_THIS_KIND);
        }
        // Begins like ours, and does not read back as a mark.
        let name = format!("{}1-1-copy", owner.prefix());
        if self.bench.add_foreign(&name).await.is_none() {
            return Shown::Skipped(NOTHING_FOREIGN);
        }
        assert!(self.list(&owner).await.is_empty());
        Shown::Passed
    }

    pub(super) async fn revoked_is_gone_and_revoking_twice_is_fine(&self) -> Shown {
        if !self.mints() {
            return Shown::Skipped(MINTS_NOTHING);
        }
        let owner = self.owner("revoke");
        let mark = owner.mark(Version::new(1, 1));
        let minted = self.mint(&mark).await;
        assert!(!self.gone(&minted.id).await, "alive before the revoke");
        self.revoke(&mark, &minted.id).await;
        assert!(self.gone(&minted.id).await, "gone after the revoke");
        assert_eq!(self.verify(&minted.values).await, Verdict::Refused);
        assert!(self.list(&owner).await.is_empty());
        self.revoke(&mark, &minted.id).await;
        Shown::Passed
    }

    pub(super) async fn something_never_issued_is_gone(&self) -> Shown {
        if !self.source.issuer().revokes {
            return Shown::Skipped(ENDS_NOTHING);
        }
        let never = self.bench.never_issued();
        assert!(self.gone(&never).await);
        let mark = self.owner("never").mark(Version::new(1, 1));
        self.revoke(&mark, &never).await;
        Shown::Passed
    }

    pub(super) async fn the_same_mark_again_does_what_the_kind_says(&self) -> Shown {
        if !self.mints() {
            return Shown::Skipped(MINTS_NOTHING);
        }
        let owner = self.owner("twice");
        let mark = owner.mark(Version::new(1, 1));
        let first = self.mint(&mark).await;
        let again = self.source.mint(&self.order(&mark)).await;
        match self.source.issuer().minting {
            Minting::Chosen => {
                self.fails_as(again, TroubleKind::Conflict, "a second mint of one mark");
                assert_eq!(
                    self.verify(&first.values).await,
                    Verdict::Works,
                    "the first is unharmed"
                );
                assert_eq!(self.list(&owner).await.len(), 1);
            }
            Minting::ReadBack => {
                let again = again.unwrap_or_else(|error| panic!("asked twice: {error}"));
                self.remember(&again.values);
                assert_eq!(self.verify(&again.values).await, Verdict::Works);
                assert_eq!(self.list(&owner).await.len(), 1, "one name, one credential");
            }
            Minting::ShownOnce => {
                let again = again.unwrap_or_else(|error| panic!("asked twice: {error}"));
                self.remember(&again.values);
                assert_eq!(
                    self.list(&owner).await.len(),
                    2,
                    "both are found by the mark"
                );
                assert_eq!(self.verify(&first.values).await, Verdict::Works);
                assert_eq!(self.verify(&again.values).await, Verdict::Works);
            }
            Minting::SelfRotating | Minting::Provided => {}
        }
        self.clean_up(&owner).await;
        Shown::Passed
    }

    pub(super) async fn a_value_can_be_read_back_where_the_kind_says_so(&self) -> Shown {
        match self.source.issuer().minting {
            Minting::ReadBack => {}
            Minting::Chosen | Minting::ShownOnce | Minting::SelfRotating | Minting::Provided => {
                return Shown::Skipped(NOT_THIS_KIND);
            }
        }
        let owner = self.owner("read back");
        let mark = owner.mark(Version::new(1, 1));
        let read = |mark: Mark| async move {
            let read = self.source.read_back(&mark).await;
            read.unwrap_or_else(|error| panic!("reading back must succeed here: {error}"))
        };
        assert!(
            read(mark.clone()).await.is_none(),
            "nothing before the mint"
        );
        let minted = self.mint(&mark).await;
        let Some(back) = read(mark.clone()).await else {
            panic!("what was minted can be read back");
        };
        assert_eq!(back.id, minted.id);
        assert!(
            same(&back.values, &minted.values),
            "the same value comes back"
        );
        assert_eq!(self.verify(&back.values).await, Verdict::Works);
        self.clean_up(&owner).await;
        assert!(read(mark).await.is_none(), "nothing after the revoke");
        Shown::Passed
    }

    pub(super) async fn a_completed_draft_equals_what_the_mint_returned(&self) -> Shown {
        let owner = self.owner("draft");
        let mark = owner.mark(Version::new(1, 1));
        let order = self.order(&mark);
        match self.source.issuer().minting {
            Minting::Chosen => {}
            Minting::ReadBack | Minting::ShownOnce | Minting::SelfRotating | Minting::Provided => {
                assert!(order.chosen.is_none(), "only a chosen value is drafted");
                return Shown::Skipped(NOT_THIS_KIND);
            }
        }
        let Some(draft) = order.chosen.clone() else {
            panic!("an issuer that lets us choose needs a draft");
        };
        let other = self.source.draft(&mark, &random_bytes());
        assert!(!same(&draft, &other), "other bytes, another value");
        let minted = self.source.mint(&order).await;
        let minted = minted.unwrap_or_else(|error| panic!("a mint must succeed here: {error}"));
        let completed = self.complete(&draft, &minted.id).await;
        assert!(
            same(&completed, &minted.values),
            "a lost reply loses nothing"
        );
        assert_eq!(self.verify(&completed).await, Verdict::Works);
        self.clean_up(&owner).await;
        Shown::Passed
    }

    pub(super) async fn a_rotation_kills_the_value_it_replaces(&self) -> Shown {
        match self.source.issuer().minting {
            Minting::SelfRotating => {}
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::Provided => {
                return Shown::Skipped(NOT_THIS_KIND);
            }
        }
        let Some(present) = self.bench.handed_over().await else {
            return Shown::Skipped(NOTHING_FOREIGN);
        };
        self.remember(&present);
        let owner = self.owner("rotate");
        let mut order = self.order(&owner.mark(Version::new(1, 1)));
        self.fails_as(
            self.source.mint(&order).await,
            TroubleKind::Rejected,
            "a rotation without the present value",
        );
        order.present = Some(present.clone());
        let next = self.source.mint(&order).await;
        let next = next.unwrap_or_else(|error| panic!("a rotation must succeed here: {error}"));
        self.remember(&next.values);
        assert_eq!(
            self.verify(&present).await,
            Verdict::Refused,
            "the old value dies at once"
        );
        assert_eq!(self.verify(&next.values).await, Verdict::Works);
        assert!(!self.gone(&next.id).await);
        // Whoever rotates with a dead value is taken for a thief.
        let order = Order {
            present: Some(present),
            ..self.order(&owner.mark(Version::new(1, 2)))
        };
        self.fails_as(
            self.source.mint(&order).await,
            TroubleKind::Denied,
            "a rotation with a dead value",
        );
        Shown::Passed
    }

    pub(super) async fn a_provided_value_is_judged_and_nothing_can_be_minted(&self) -> Shown {
        match self.source.issuer().minting {
            Minting::Provided => {}
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce | Minting::SelfRotating => {
                return Shown::Skipped(NOT_THIS_KIND);
            }
        }
        let owner = self.owner("provided");
        let order = self.order(&owner.mark(Version::new(1, 1)));
        self.fails_as(
            self.source.mint(&order).await,
            TroubleKind::Rejected,
            "a mint where a person provides",
        );
        if let Some(values) = self.bench.handed_over().await {
            self.remember(&values);
            assert_eq!(self.verify(&values).await, Verdict::Works);
        }
        Shown::Passed
    }

    pub(super) async fn one_ended_behind_our_back_is_refused_and_gone(&self) -> Shown {
        if !self.mints() {
            return Shown::Skipped(MINTS_NOTHING);
        }
        let owner = self.owner("killed");
        let mark = owner.mark(Version::new(1, 1));
        let minted = self.mint(&mark).await;
        if !self.bench.kill(&minted.id).await {
            self.clean_up(&owner).await;
            return Shown::Skipped(NO_SUCH_FAULT);
        }
        assert_eq!(self.verify(&minted.values).await, Verdict::Refused);
        assert!(self.gone(&minted.id).await);
        assert!(self.list(&owner).await.is_empty());
        self.revoke(&mark, &minted.id).await;
        Shown::Passed
    }
}
