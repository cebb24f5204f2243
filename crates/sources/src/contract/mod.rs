//! What every source must do, whatever its issuer: one suite for stand-ins and real servers alike.
//!
//! A source's tests implement [`Bench`] for their server and call [`run`]. A check that fails panics with a sentence;
//! a check that the server cannot be brought to (nobody can make a real Keystone lose a reply) is reported as skipped.

mod life;
mod trouble;
mod whose;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::SignedDuration;
use lifecycle::{ClusterId, Issued, IssuedId, Mark, Minting, Owner, TroubleKind, Verdict};

use crate::{Minted, Order, Proof, SecretValue, Source, SourceError, Values};

/// A server under test, and what only its tests can do to it.
#[async_trait]
pub trait Bench: Send + Sync {
    /// The issuer with a login that works. Its time-out should be short: one check waits for it.
    fn source(&self) -> Arc<dyn Source>;

    /// The same issuer with a login that it does not know.
    async fn wrong_login(&self) -> Arc<dyn Source>;

    /// A source to an address where nobody answers.
    async fn nobody_there(&self) -> Arc<dyn Source>;

    /// What a credential of the suite should be able to do.
    fn wish(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// From when the life of a credential of the suite is counted.
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    /// Values that work now and that a person made: where a self-rotating credential starts, or a provided one.
    async fn handed_over(&self) -> Option<Values> {
        None
    }

    /// The same values, but with another secret in them: well-formed and wrong.
    fn spoiled(&self, values: &Values) -> Values;

    /// An id of this issuer's own form that it never gave to anybody.
    fn never_issued(&self) -> IssuedId {
        IssuedId::from("0123456789abcdef0123456789abcdef")
    }

    /// A credential somebody else made, with exactly this name, which the source's login could end. `None`: cannot be
    /// done here.
    async fn add_foreign(&self, _name: &str) -> Option<IssuedId> {
        None
    }

    /// Id and values of a credential that a predecessor made, for issuers where what it left is taken over. `None`: not
    /// here.
    async fn add_predecessors(&self) -> Option<(IssuedId, Values)> {
        None
    }

    /// Ends a credential behind the source's back. `false`: cannot be done here.
    async fn kill(&self, _id: &IssuedId) -> bool {
        false
    }

    /// The next mint is done, and its reply never arrives. `false`: cannot be done here.
    async fn lose_next_mint_reply(&self) -> bool {
        false
    }

    /// The next mint is done, and its reply breaks off in the middle. `false`: cannot be done here.
    async fn cut_next_mint_reply(&self) -> bool {
        false
    }

    /// The next request is refused with "too many requests, wait this long". `false`: cannot be done here.
    async fn throttle_next(&self, _wait: SignedDuration) -> bool {
        false
    }

    /// The next request fails inside the server. `false`: cannot be done here.
    async fn fail_next(&self) -> bool {
        false
    }

    /// Secrets beyond those the suite itself sees: logins, wrong logins.
    fn secrets(&self) -> Vec<SecretValue>;

    /// Whether what stands under this key of a credential's values is secret; ids and names are not.
    fn is_secret(&self, key: &str) -> bool;
}

/// What was shown.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub passed: Vec<&'static str>,
    /// With the reason.
    pub skipped: Vec<(&'static str, &'static str)>,
}

/// Runs the whole suite, one check after the other.
pub async fn run(bench: &dyn Bench) -> Report {
    let suite = Suite {
        bench,
        source: bench.source(),
        run: random_bytes(),
        errors: Mutex::default(),
        seen: Mutex::default(),
    };
    let mut report = Report::default();
    macro_rules! checks {
        ($($check:ident),+ $(,)?) => {$(
            match suite.$check().await {
                Shown::Passed => report.passed.push(stringify!($check)),
                Shown::Skipped(why) => report.skipped.push((stringify!($check), why)),
            }
        )+};
    }
    checks!(
        a_fresh_credential_works_and_is_listed_under_its_mark,
        a_wrong_value_is_refused,
        nobody_elses_list_shows_it,
        a_foreign_name_is_never_taken_for_ours,
        revoked_is_gone_and_revoking_twice_is_fine,
        something_never_issued_is_gone,
        what_bears_another_owners_mark_is_not_ended,
        what_bears_another_versions_mark_is_not_ended,
        what_bears_no_mark_is_not_ended_on_the_word_of_a_record_alone,
        a_recorded_one_of_a_predecessor_is_ended_only_with_its_value,
        the_value_of_one_does_not_let_in_as_another,
        the_same_mark_again_does_what_the_kind_says,
        a_value_can_be_read_back_where_the_kind_says_so,
        a_completed_draft_equals_what_the_mint_returned,
        a_rotation_kills_the_value_it_replaces,
        a_provided_value_is_judged_and_nothing_can_be_minted,
        one_ended_behind_our_back_is_refused_and_gone,
        a_wrong_login_is_denied_not_unreachable,
        nobody_there_is_unreachable,
        a_failing_server_is_unreachable,
        a_lost_reply_is_unreachable_and_may_have_happened,
        a_reply_cut_short_is_unreachable_and_may_have_happened,
        throttling_says_how_long_to_wait,
        no_error_contains_a_secret,
    );
    report
}

enum Shown {
    Passed,
    /// Why it cannot be shown here.
    Skipped(&'static str),
}

const MINTS_NOTHING: &str = "nothing is minted from nothing here";
const NOT_THIS_KIND: &str = "it is about another kind of issuer";
const ENDS_NOTHING: &str = "nothing can be ended here";
const NO_SUCH_FAULT: &str = "the server cannot be made to do this";
const NOTHING_FOREIGN: &str = "nobody else can make one here";

struct Suite<'a> {
    bench: &'a dyn Bench,
    source: Arc<dyn Source>,
    run: [u8; 32],
    /// Every text of every error that was seen.
    errors: Mutex<Vec<String>>,
    /// Every value that was seen.
    seen: Mutex<Vec<SecretValue>>,
}

impl Suite<'_> {
    fn owner(&self, check: &str) -> Owner {
        self.owner_in("contract", check)
    }

    fn owner_in(&self, cluster: &str, check: &str) -> Owner {
        // The digest of a text that no other run uses.
        let uid = format!("{check} {:?}", self.run);
        Owner::new(ClusterId::of_cluster(cluster), &uid)
    }

    fn mints(&self) -> bool {
        match self.source.issuer().minting {
            Minting::Chosen | Minting::ReadBack | Minting::ShownOnce => true,
            Minting::SelfRotating | Minting::Provided => false,
        }
    }

    fn order(&self, mark: &Mark) -> Order {
        let draft = self.source.draft(mark, &random_bytes());
        self.remember(&draft);
        Order {
            mark: mark.clone(),
            chosen: (!draft.is_empty()).then_some(draft),
            present: None,
            wish: self.bench.wish(),
            now: self.bench.now(),
        }
    }

    fn remember(&self, values: &Values) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let secret = |(key, _): &(&str, &SecretValue)| self.bench.is_secret(key);
        seen.extend(values.iter().filter(secret).map(|(_, value)| value.clone()));
    }

    async fn mint(&self, mark: &Mark) -> Minted {
        let minted = self.source.mint(&self.order(mark)).await;
        let minted = minted.unwrap_or_else(|error| panic!("a mint must succeed here: {error}"));
        self.remember(&minted.values);
        minted
    }

    async fn list(&self, owner: &Owner) -> Vec<Issued> {
        let listed = self.source.list(owner, &[]).await;
        listed.unwrap_or_else(|error| panic!("a listing must succeed here: {error}"))
    }

    async fn verify(&self, values: &Values) -> Verdict {
        let verdict = self.source.verify(values).await;
        verdict.unwrap_or_else(|error| panic!("a verdict must be had here: {error}"))
    }

    async fn gone(&self, id: &IssuedId) -> bool {
        let gone = self.source.gone(id, None).await;
        gone.unwrap_or_else(|error| panic!("the issuer must say whether it is gone: {error}"))
    }

    async fn complete(&self, draft: &Values, id: &IssuedId) -> Values {
        let completed = self.source.complete(draft, id).await;
        let completed = completed.unwrap_or_else(|error| panic!("it must be found: {error}"));
        completed.expect("the issuer knows it").values
    }

    async fn revoke(&self, mark: &Mark, id: &IssuedId) {
        let revoked = self.source.revoke(&Proof::by(mark), id).await;
        revoked.unwrap_or_else(|error| panic!("a revoke must succeed here: {error}"));
    }

    async fn clean_up(&self, owner: &Owner) {
        for issued in self.list(owner).await {
            self.revoke(&owner.mark(issued.version), &issued.id).await;
        }
        assert!(
            self.list(owner).await.is_empty(),
            "what is revoked must leave the list"
        );
    }

    /// The error of a request that must fail; its texts are kept for the last check.
    fn error<T>(&self, result: Result<T, SourceError>, what: &str) -> SourceError {
        let Err(error) = result else {
            panic!("{what} must be an error");
        };
        let texts = format!("{error} {error:?} {:?}", error.to_trouble());
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.push(texts);
        error
    }

    fn fails_as<T>(
        &self,
        result: Result<T, SourceError>,
        kind: TroubleKind,
        what: &str,
    ) -> SourceError {
        let error = self.error(result, what);
        assert_eq!(error.kind, kind, "{what}: {error}");
        error
    }
}

fn same(one: &Values, other: &Values) -> bool {
    one.iter()
        .map(|(key, value)| (key, value.expose()))
        .eq(other.iter().map(|(key, value)| (key, value.expose())))
}

/// The standard library seeds its hashers at random: enough to tell runs and drafts apart.
fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&RandomState::new().build_hasher().finish().to_be_bytes());
    }
    bytes
}
