//! Forges in which an old token is in its grace period: a window is open.

use jiff::Timestamp;
use serde_json::Value;

use super::{Forge, Running, hours};

/// A forge in which the example, with this grace period, was rotated once; its operator, and the ids of the old token and
/// the new one.
pub(crate) async fn in_window(grace: &str) -> (Forge, Running, u64, u64) {
    let forge = Forge::new().await;
    let object = forge.keeping_old(grace);
    in_window_of(forge, object).await
}

pub(crate) async fn in_window_of(forge: Forge, object: Value) -> (Forge, Running, u64, u64) {
    let operator = forge.operator().await;
    forge.create(object).await;
    forge.until_settled().await;
    let first = forge.current().await;
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

impl Forge {
    /// When the window closes, by status.
    pub(crate) async fn window_ends_at(&self) -> Timestamp {
        let status = self.status().await;
        let text = status["previousTokenRevocationTime"].as_str().unwrap();
        text.parse().unwrap()
    }

    /// After the trouble: the next rotation comes, its window closes, and never was more than one too many alive.
    pub(crate) async fn goes_on_from(&self, operator: &Running, second: u64) {
        let third = self.until_rotated_from(second).await;
        self.live_through(operator, hours(3)).await;
        self.until_settled().await;
        assert!(self.most_live() <= 2, "{}", self.most_live());
        self.assert_live(&[third]);
    }
}
