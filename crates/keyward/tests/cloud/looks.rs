//! Waiting until the operator has looked, where nothing is to come of it.

use testbed::apiserver::Verb;

use super::{Cloud, NAME, OPERATOR};

impl Cloud {
    /// Lets the operator look at the resource, and waits until it did. Nothing else changes.
    pub(crate) async fn until_looked_at(&self) {
        self.until_this_is_looked_at(NAME).await;
    }

    /// Every look begins with reading the resource.
    pub(crate) async fn until_this_is_looked_at(&self, name: &str) {
        let looks = || {
            let log = self.server.faults().log();
            log.iter()
                .filter(|logged| {
                    logged.line.user_agent == OPERATOR
                        && logged.line.verb == Verb::Get
                        && logged.line.resource == "keystoneapplicationcredentials"
                        && logged.line.name == name
                        && logged.status.is_some()
                })
                .count()
        };
        // One look is over only when the next has begun, and one may have been under way.
        for round in ["first", "second", "third"] {
            let before = looks();
            let note = format!("{round} after {before}");
            self.annotate_named(name, "example.org/look", &note).await;
            self.until("it has looked", || async { looks() > before })
                .await;
        }
    }
}
