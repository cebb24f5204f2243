//! What is said when something goes wrong.

use std::sync::PoisonError;

use jiff::SignedDuration;
use lifecycle::{Minting, TroubleKind, Verdict, Version};

use super::{MINTS_NOTHING, NO_SUCH_FAULT, Shown, Suite};
use crate::{Order, Proof, Values};

impl Suite<'_> {
    pub(super) async fn a_wrong_login_is_denied_not_unreachable(&self) -> Shown {
        if !self.mints() {
            return Shown::Skipped(MINTS_NOTHING);
        }
        let stranger = self.bench.wrong_login().await;
        let owner = self.owner("denied");
        let mark = owner.mark(Version::new(1, 1));
        let minted = self.mint(&mark).await;
        let denied = TroubleKind::Denied;
        self.fails_as(
            stranger.list(&owner, &[]).await,
            denied,
            "listing with a wrong login",
        );
        let order = self.order(&owner.mark(Version::new(1, 2)));
        self.fails_as(
            stranger.mint(&order).await,
            denied,
            "minting with a wrong login",
        );
        self.fails_as(
            stranger.revoke(&Proof::by(&mark), &minted.id).await,
            denied,
            "revoking with a wrong login",
        );
        self.fails_as(
            stranger.gone(&minted.id, None).await,
            denied,
            "looking with a wrong login",
        );
        assert_eq!(
            self.list(&owner).await.len(),
            1,
            "a stranger changed nothing"
        );
        assert_eq!(self.verify(&minted.values).await, Verdict::Works);
        self.clean_up(&owner).await;
        Shown::Passed
    }

    pub(super) async fn nobody_there_is_unreachable(&self) -> Shown {
        let nobody = self.bench.nobody_there().await;
        let owner = self.owner("nobody");
        let id = self.bench.never_issued();
        let unreachable = TroubleKind::Unreachable;
        if self.mints() {
            self.fails_as(
                nobody.list(&owner, &[]).await,
                unreachable,
                "listing where nobody is",
            );
            let mark = owner.mark(Version::new(1, 1));
            let order = self.order(&mark);
            self.fails_as(
                nobody.mint(&order).await,
                unreachable,
                "minting where nobody is",
            );
            self.fails_as(
                nobody.revoke(&Proof::by(&mark), &id).await,
                unreachable,
                "revoking where nobody is",
            );
            self.fails_as(
                nobody.gone(&id, None).await,
                unreachable,
                "looking where nobody is",
            );
        }
        if let Some(values) = self.bench.handed_over().await {
            self.remember(&values);
            self.fails_as(
                nobody.verify(&values).await,
                unreachable,
                "logging in where nobody is",
            );
        }
        Shown::Passed
    }

    pub(super) async fn a_failing_server_is_unreachable(&self) -> Shown {
        let id = self.bench.never_issued();
        if !self.source.issuer().revokes || !self.bench.fail_next().await {
            return Shown::Skipped(NO_SUCH_FAULT);
        }
        let answer = self.source.gone(&id, None).await;
        self.fails_as(answer, TroubleKind::Unreachable, "a server that fails");
        Shown::Passed
    }

    pub(super) async fn a_lost_reply_is_unreachable_and_may_have_happened(&self) -> Shown {
        let Some(present) = self.ready_to_mint().await else {
            return Shown::Skipped(MINTS_NOTHING);
        };
        if !self.bench.lose_next_mint_reply().await {
            return Shown::Skipped(NO_SUCH_FAULT);
        }
        self.mint_without_reply("lost", present).await;
        Shown::Passed
    }

    pub(super) async fn a_reply_cut_short_is_unreachable_and_may_have_happened(&self) -> Shown {
        let Some(present) = self.ready_to_mint().await else {
            return Shown::Skipped(MINTS_NOTHING);
        };
        if !self.bench.cut_next_mint_reply().await {
            return Shown::Skipped(NO_SUCH_FAULT);
        }
        self.mint_without_reply("cut", present).await;
        Shown::Passed
    }

    /// `Some(None)`: can be minted from nothing. `Some(Some(..))`: from a present value. `None`: not at all.
    async fn ready_to_mint(&self) -> Option<Option<Values>> {
        match self.source.issuer().minting {
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => Some(None),
            Minting::SelfRotating => self.bench.handed_over().await.map(Some),
            Minting::Provided => None,
        }
    }

    async fn mint_without_reply(&self, check: &str, present: Option<Values>) {
        let owner = self.owner(check);
        let version = Version::new(1, 1);
        let order = Order {
            present: present.clone(),
            ..self.order(&owner.mark(version))
        };
        let lost = self.source.mint(&order).await;
        self.fails_as(lost, TroubleKind::Unreachable, "a mint whose reply is lost");
        if let Some(present) = present {
            assert_eq!(
                self.verify(&present).await,
                Verdict::Refused,
                "it was rotated all the same"
            );
            return;
        }
        let listed = self.list(&owner).await;
        assert_eq!(listed.len(), 1, "what was minted is found by its mark");
        assert_eq!(listed[0].version, version);
        if let Some(draft) = &order.chosen {
            let completed = self.complete(draft, &listed[0].id).await;
            assert_eq!(self.verify(&completed).await, Verdict::Works);
        }
        self.clean_up(&owner).await;
    }

    pub(super) async fn throttling_says_how_long_to_wait(&self) -> Shown {
        let wait = SignedDuration::from_secs(7);
        if !self.mints() || !self.bench.throttle_next(wait).await {
            return Shown::Skipped(NO_SUCH_FAULT);
        }
        let answer = self.source.list(&self.owner("throttled"), &[]).await;
        let error = self.fails_as(answer, TroubleKind::Throttled, "a throttled request");
        assert_eq!(error.wait, Some(wait));
        assert_eq!(error.to_trouble().wait, Some(wait));
        Shown::Passed
    }

    /// Last, over everything the checks before it provoked.
    #[expect(clippy::unused_async, reason = "called like every other check")]
    pub(super) async fn no_error_contains_a_secret(&self) -> Shown {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let mut secrets = self.bench.secrets();
        secrets.extend(
            self.seen
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .iter()
                .cloned(),
        );
        assert!(
            !errors.is_empty() || !self.mints(),
            "the checks provoke errors"
        );
        for text in errors.iter() {
            for secret in &secrets {
                let leaked = secret.expose().len() >= 8
                    && text
                        .as_bytes()
                        .windows(secret.expose().len())
                        .any(|window| window == secret.expose());
                assert!(!leaked, "an error text contains a secret value");
            }
            assert!(
                !text.contains("://"),
                "an error text names an address: {text}"
            );
        }
        Shown::Passed
    }
}
