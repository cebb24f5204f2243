//! Keyward's own labels, annotations and finalizers. Kinds of the published designs bring their own beside these.

use kube::api::ObjectMeta;

/// What every label and annotation of ours starts with.
pub const PREFIX: &str = "keyward.dev/";

/// On a resource: what must be remembered. Written only by the engine.
pub const LEDGER: &str = "keyward.dev/ledger";
/// On a resource: any new value asks for a rotation.
pub const ROTATE: &str = "keyward.dev/rotate";
/// On a resource: `"true"` stops all work on it.
pub const SUSPEND: &str = "keyward.dev/suspend";
/// On a resource: its own uid asks for an emergency revoke, past all holders.
pub const REVOKE_NOW: &str = "keyward.dev/revoke-now";
/// On a resource: the version to go back to.
pub const ROLLBACK: &str = "keyward.dev/rollback";

/// On a resource that was restored from a backup: the uid of its former life, which is to be taken over.
pub const TAKE_OVER: &str = "keyward.dev/take-over";
/// On a resource that was restored from a backup: the uid of its former life, which is nobody's business any more.
pub const LET_GO_OF: &str = "keyward.dev/let-go-of";

/// On a resource whose kind has no field for it: `Revoke`, `Orphan` or `Retain`.
pub const DELETION_POLICY: &str = "keyward.dev/deletion-policy";
/// On a resource whose kind has no field for it: how long a version that nobody was seen holding is kept.
pub const MINIMUM_OVERLAP: &str = "keyward.dev/minimum-overlap";
/// On a resource whose kind has no field for it: how long the previous version is kept whole.
pub const ROLLBACK_WINDOW: &str = "keyward.dev/rollback-window";

/// On a workload: the credential whose current version its pod template is kept at, as `<kind>/<name>`.
pub const FOLLOW: &str = "keyward.dev/follow";
/// On a workload that follows: `Hold` or `Rollback`, for a rollout that fails.
pub const ON_FAILED_ROLLOUT: &str = "keyward.dev/on-failed-rollout";
/// On a workload that follows: how it stands. Written only by Keyward.
pub const FOLLOW_STATE: &str = "keyward.dev/follow-state";
/// On a workload that follows: what must be remembered. Written only by Keyward.
pub const FOLLOWED: &str = "keyward.dev/followed";
/// On the pod template of a workload that follows what is delivered in place: the version that it was rolled out for.
pub const FOLLOW_VERSION: &str = "keyward.dev/follow-version";

/// On a Secret of ours, as label: the uid of the resource it belongs to.
pub const OWNER_UID: &str = "keyward.dev/owner-uid";
/// On a Secret of ours, as label: `draft`, `final` or `target`.
pub const ROLE: &str = "keyward.dev/role";
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub const KEYWARD: &str = "keyward";

/// On a Secret of ours: its own record, from which a lost ledger can be made good.
pub const VERSION: &str = "keyward.dev/version";
pub const ISSUED_ID: &str = "keyward.dev/issued-id";
/// What it bears at the issuer, if that is not the mark of this resource and version: it was taken over from a former life.
pub const MARK: &str = "keyward.dev/mark";
/// Ids that stood there before, newest first (in place, where what is issued bears no mark): what they name can be ended
/// after the next value took their place.
pub const ISSUED_BEFORE: &str = "keyward.dev/issued-before";
pub const FINGERPRINT: &str = "keyward.dev/print";
pub const MINTED: &str = "keyward.dev/minted";
/// When the Secret was made. One whose own creation time is another was copied, or restored from a backup.
pub const CREATED: &str = "keyward.dev/created";
pub const EXPIRES: &str = "keyward.dev/expires";
/// The version that may be written next (in place).
pub const CLAIM: &str = "keyward.dev/claim";
/// A salted digest of the value, to notice that somebody changed it (in place; never of a value a person chose).
pub const DIGEST: &str = "keyward.dev/digest";
/// The keys that are ours, separated by commas, in a Secret that has others too (in place). Without it, all are.
pub const KEYS: &str = "keyward.dev/keys";
/// The Secret was there before, and its owner let us take it over (in place): it is given back, unless what is in it is
/// revoked.
pub const ADOPTED: &str = "keyward.dev/adopted";
/// The annotations that the resource asked for, as they were written last (in place).
pub const ANNOTATIONS: &str = "keyward.dev/annotations";
/// Whose it is and with what spec, so that it can be put in order even after its resource was removed by force.
pub const SOURCE: &str = "keyward.dev/source";

/// On a Secret that is not ours, by its owner: the name of the resource that may take it over (in place).
pub const ADOPTABLE_BY: &str = "keyward.dev/adoptable-by";

/// The finalizer of kinds that have none of their own.
pub const GUARD: &str = "keyward.dev/guard";

/// Who writes: field manager and user agent.
pub const MANAGER: &str = "keyward";

/// Whether a person has stopped all work on a resource.
pub fn is_suspended(metadata: &ObjectMeta) -> bool {
    let notes = metadata.annotations.as_ref();
    notes
        .and_then(|notes| notes.get(SUSPEND))
        .is_some_and(|note| note == "true")
}
