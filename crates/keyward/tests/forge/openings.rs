//! How many tests begin.

use serde_json::Value;

use super::{Forge, Running};

/// A forge in which the example is ready, its operator, and the id of its token.
pub(crate) async fn settled() -> (Forge, Running, u64) {
    let forge = Forge::new().await;
    let object = forge.example();
    settled_in(forge, object).await
}

pub(crate) async fn settled_in(forge: Forge, object: Value) -> (Forge, Running, u64) {
    let operator = forge.operator().await;
    forge.create(object).await;
    forge.until_settled().await;
    let id = forge.current().await;
    (forge, operator, id)
}

/// A forge in which the example, with this grace period, was rotated once, so that a window is open; its operator, and
/// the ids of the old token and the new one.
pub(crate) async fn in_window(grace: &str) -> (Forge, Running, u64, u64) {
    let forge = Forge::new().await;
    let object = forge.keeping_old(grace);
    in_window_of(forge, object).await
}

pub(crate) async fn in_window_of(forge: Forge, object: Value) -> (Forge, Running, u64, u64) {
    let (forge, operator, first) = settled_in(forge, object).await;
    forge.rotate("open the window").await;
    let second = forge.until_rotated_from(first).await;
    forge
        .until("the window is open", || async {
            forge.previous().await == first
        })
        .await;
    forge.assert_live(&[first, second]);
    (forge, operator, first, second)
}
