//! Tests of the test: a source that breaks one clause of the contract does not pass it.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod issuer_bench;

use std::sync::Arc;

use async_trait::async_trait;
use issuer_bench::{OnStandIn, REALM};
use jiff::SignedDuration;
use lifecycle::{Issued, IssuedId, Issuer, Mark, Owner, TroubleKind, Verdict, Version};
use sources::contract::{self, Bench};
use sources::standin::SECRET;
use sources::{Minted, Order, Proof, SecretValue, Source, SourceError, Values};
use testbed::issuer::{Kind, StandIn};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Flaw {
    None,
    TakesAnyValueForGood,
    TakesAnyValueForThatId,
    ListsNobody,
    ListsTheNeighbours,
    ForgetsWhichVersion,
    ListsWhateverIsRecorded,
    OnlySaysThatItRevoked,
    AlwaysSaysGone,
    NeverSaysGone,
    FailsOnASecondRevoke,
    CallsDeniedUnreachable,
    CallsLostRejected,
    DropsTheWait,
    SendsAgainWhenLost,
    LeaksTheValue,
    LosesTheDraft,
    OverlooksTheOwner,
    OverlooksTheVersion,
    BelievesTheId,
    BelievesARecord,
    BelievesAValueThatNobodyRecorded,
}

#[derive(Debug)]
struct Flawed {
    inner: Arc<dyn Source>,
    flaw: Flaw,
    issuer: Arc<StandIn>,
}

impl Flawed {
    /// What the source rightly left alone is ended behind its back.
    fn ends_it_all_the_same(
        &self,
        proof: &Proof<'_>,
        id: &IssuedId,
        refused: &SourceError,
    ) -> bool {
        if refused.kind != TroubleKind::Rejected {
            return false;
        }
        let name = self.issuer.live(REALM);
        let name = name.into_iter().find(|live| live.id == id.as_str());
        let mark = name.and_then(|live| live.name.parse::<Mark>().ok());
        let same = |mark: &Mark| mark.owner() == proof.mark.owner();
        let believed = match &mark {
            Some(mark) if same(mark) => self.flaw == Flaw::OverlooksTheVersion,
            Some(_) => self.flaw == Flaw::OverlooksTheOwner,
            None => {
                let valued = proof.values.is_some();
                self.flaw == Flaw::BelievesTheId && !proof.recorded && !valued
                    || self.flaw == Flaw::BelievesARecord && proof.recorded
                    || self.flaw == Flaw::BelievesAValueThatNobodyRecorded && valued
            }
        };
        believed && self.issuer.kill(REALM, id.as_str())
    }

    fn spoil(&self, mut error: SourceError, order: Option<&Order>) -> SourceError {
        if self.flaw == Flaw::CallsDeniedUnreachable && error.kind == TroubleKind::Denied {
            error.kind = TroubleKind::Unreachable;
        } else if self.flaw == Flaw::CallsLostRejected && error.kind == TroubleKind::Unreachable {
            error.kind = TroubleKind::Rejected;
        } else if self.flaw == Flaw::DropsTheWait {
            error.wait = None;
        } else if self.flaw == Flaw::LeaksTheValue {
            let chosen = order.and_then(|order| order.chosen.as_ref()?.get(SECRET)?.expose_str());
            error.detail.push_str(chosen.unwrap_or_default());
        }
        error
    }
}

#[async_trait]
impl Source for Flawed {
    fn issuer(&self) -> Issuer {
        self.inner.issuer()
    }

    fn place(&self) -> &str {
        self.inner.place()
    }

    fn draft(&self, mark: &Mark, random: &[u8; 32]) -> Values {
        self.inner.draft(mark, random)
    }

    async fn complete(&self, draft: &Values, id: &IssuedId) -> Result<Option<Minted>, SourceError> {
        let completed = self.inner.complete(draft, id).await?;
        Ok(completed.map(|mut minted| {
            if self.flaw == Flaw::LosesTheDraft {
                minted.values = draft.clone();
            }
            minted
        }))
    }

    async fn list(&self, owner: &Owner, recorded: &[Issued]) -> Result<Vec<Issued>, SourceError> {
        let mut listed = self
            .inner
            .list(owner, recorded)
            .await
            .map_err(|error| self.spoil(error, None))?;
        if self.flaw == Flaw::ListsNobody {
            listed.clear();
        } else if self.flaw == Flaw::ListsTheNeighbours {
            let id = IssuedId::from("of-another-cluster");
            let version = Version::new(1, 1);
            let marked = true;
            listed.push(Issued {
                id,
                version,
                marked,
            });
        } else if self.flaw == Flaw::ListsWhateverIsRecorded {
            listed.extend(recorded.iter().cloned());
        } else if self.flaw == Flaw::ForgetsWhichVersion {
            for issued in &mut listed {
                issued.version = Version::default();
            }
        }
        Ok(listed)
    }

    async fn mint(&self, order: &Order) -> Result<Minted, SourceError> {
        let answer = self.inner.mint(order).await;
        if let Err(error) = &answer
            && error.kind == TroubleKind::Unreachable
            && self.flaw == Flaw::SendsAgainWhenLost
        {
            return self.inner.mint(order).await;
        }
        answer.map_err(|error| self.spoil(error, Some(order)))
    }

    async fn read_back(&self, mark: &Mark) -> Result<Option<Minted>, SourceError> {
        self.inner.read_back(mark).await
    }

    async fn verify(&self, values: &Values) -> Result<Verdict, SourceError> {
        if self.flaw == Flaw::TakesAnyValueForGood {
            return Ok(Verdict::Works);
        }
        self.inner.verify(values).await
    }

    async fn verify_as(&self, id: &IssuedId, values: &Values) -> Result<Verdict, SourceError> {
        if self.flaw == Flaw::TakesAnyValueForThatId {
            return self.inner.verify(values).await;
        }
        self.inner.verify_as(id, values).await
    }

    async fn revoke(&self, proof: &Proof<'_>, id: &IssuedId) -> Result<(), SourceError> {
        if self.flaw == Flaw::OnlySaysThatItRevoked {
            return Ok(());
        }
        if self.flaw == Flaw::FailsOnASecondRevoke && self.inner.gone(id, None).await? {
            let kind = TroubleKind::Rejected;
            return Err(SourceError::new("revoking", kind, "not found"));
        }
        match self.inner.revoke(proof, id).await {
            Err(error) if self.ends_it_all_the_same(proof, id, &error) => Ok(()),
            done => done.map_err(|error| self.spoil(error, None)),
        }
    }

    async fn gone(&self, id: &IssuedId, values: Option<&Values>) -> Result<bool, SourceError> {
        let gone = self
            .inner
            .gone(id, values)
            .await
            .map_err(|error| self.spoil(error, None))?;
        let says_gone = self.flaw == Flaw::AlwaysSaysGone;
        let says_alive = self.flaw == Flaw::NeverSaysGone;
        Ok((gone || says_gone) && !says_alive)
    }
}

struct WithFlaw {
    bench: OnStandIn,
    flaw: Flaw,
}

impl WithFlaw {
    fn flawed(&self, inner: Arc<dyn Source>) -> Arc<dyn Source> {
        let flaw = self.flaw;
        let issuer = self.bench.issuer.clone();
        Arc::new(Flawed {
            inner,
            flaw,
            issuer,
        })
    }
}

#[async_trait]
impl Bench for WithFlaw {
    fn source(&self) -> Arc<dyn Source> {
        self.flawed(self.bench.source())
    }

    async fn wrong_login(&self) -> Arc<dyn Source> {
        self.flawed(self.bench.wrong_login().await)
    }

    async fn nobody_there(&self) -> Arc<dyn Source> {
        self.flawed(self.bench.nobody_there().await)
    }

    fn spoiled(&self, values: &Values) -> Values {
        self.bench.spoiled(values)
    }

    async fn add_foreign(&self, name: &str) -> Option<IssuedId> {
        self.bench.add_foreign(name).await
    }

    async fn add_predecessors(&self) -> Option<(IssuedId, Values)> {
        self.bench.add_predecessors().await
    }

    async fn kill(&self, id: &IssuedId) -> bool {
        self.bench.kill(id).await
    }

    async fn lose_next_mint_reply(&self) -> bool {
        self.bench.lose_next_mint_reply().await
    }

    async fn cut_next_mint_reply(&self) -> bool {
        self.bench.cut_next_mint_reply().await
    }

    async fn throttle_next(&self, wait: SignedDuration) -> bool {
        self.bench.throttle_next(wait).await
    }

    async fn fail_next(&self) -> bool {
        self.bench.fail_next().await
    }

    fn secrets(&self) -> Vec<SecretValue> {
        self.bench.secrets()
    }

    fn is_secret(&self, key: &str) -> bool {
        self.bench.is_secret(key)
    }
}

async fn passes(kind: Kind, flaw: Flaw) -> bool {
    let bench = WithFlaw {
        bench: OnStandIn::new(kind),
        flaw,
    };
    tokio::spawn(async move { contract::run(&bench).await })
        .await
        .is_ok()
}

#[tokio::test]
async fn a_source_without_a_flaw_passes() {
    assert!(passes(Kind::Chosen, Flaw::None).await);
    assert!(passes(Kind::ShownOnce, Flaw::None).await);
}

#[tokio::test]
async fn every_flaw_is_caught() {
    for flaw in [
        Flaw::TakesAnyValueForGood,
        Flaw::TakesAnyValueForThatId,
        Flaw::ListsNobody,
        Flaw::ListsTheNeighbours,
        Flaw::ForgetsWhichVersion,
        Flaw::ListsWhateverIsRecorded,
        Flaw::OnlySaysThatItRevoked,
        Flaw::AlwaysSaysGone,
        Flaw::NeverSaysGone,
        Flaw::FailsOnASecondRevoke,
        Flaw::CallsDeniedUnreachable,
        Flaw::CallsLostRejected,
        Flaw::DropsTheWait,
        Flaw::LeaksTheValue,
        Flaw::LosesTheDraft,
        Flaw::OverlooksTheOwner,
        Flaw::OverlooksTheVersion,
        Flaw::BelievesTheId,
        Flaw::BelievesARecord,
        Flaw::BelievesAValueThatNobodyRecorded,
    ] {
        assert!(!passes(Kind::Chosen, flaw).await, "{flaw:?} passed");
    }
    for kind in [Kind::ReadBack, Kind::ShownOnce] {
        let flaw = Flaw::SendsAgainWhenLost;
        assert!(!passes(kind, flaw).await, "{flaw:?} passed for {kind:?}");
    }
}
