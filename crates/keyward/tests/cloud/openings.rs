//! How many tests begin.

use testbed::keystone;
use testbed::proxy::Fault;

use super::{Cloud, Running};

/// A cloud in which the example is ready, its operator, and the id of its credential.
pub(crate) async fn ready() -> (Cloud, Running, String) {
    ready_in(Cloud::new().await).await
}

pub(crate) async fn ready_in(cloud: Cloud) -> (Cloud, Running, String) {
    let operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let id = cloud.text("acID").await;
    (cloud, operator, id)
}

impl Cloud {
    /// The example is created, and its operator dies when Keystone has committed and before it knows.
    pub(crate) async fn create_and_die(&self, operator: &Running) {
        let killer = operator.killer();
        self.faults().on_crash(move |_| killer.abort());
        self.faults().next(keystone::CREATE, Fault::CrashAfter);
        self.create().await;
        self.until("Keystone has it", || async { self.live().await.len() == 1 })
            .await;
        self.faults().clear();
    }
}
