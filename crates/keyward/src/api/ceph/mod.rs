//! The kinds of the design for accounts at Ceph's object stores, `CephObjectStoreAccount` and `CephObjectStoreUser`, and as much
//! of the store and its cluster as is read.
//!
//! Group, names of fields, columns, finalizers and phases are those that Rook has, so that manifests work unchanged. Rook's own
//! definitions work too: `keyRotation` and whatever else they do not know is then said by annotations.

mod account;
mod shared;
mod store;
mod user;

pub use account::{
    AccountQuotas, CephObjectStoreAccount, CephObjectStoreAccountSpec,
    CephObjectStoreAccountStatus, RootUserSpec,
};
pub use shared::{Condition, KeyRotation, KeysStatus, Size};
pub use store::{
    CephCluster, CephClusterSpec, CephObjectStore, CephObjectStoreSpec, CephObjectStoreStatus,
    Endpoint, Gateway,
};
pub use user::{
    AccountRef, Capabilities, CephObjectStoreUser, CephObjectStoreUserSpec,
    CephObjectStoreUserStatus, KeyReference, Operation, Permission, SecretKeySelector, UserInfo,
    UserQuotas,
};
