//! Access rules, which outlive the credential that they were made with.

use reqwest::{Method, StatusCode};

use super::id::Name;
use super::wire::{Rule, Rules};
use super::{Keystone, Session};
use crate::SourceError;

impl Keystone {
    /// Removes the access rules that only this credential had, with the login that ended it and for the user that was
    /// seen to have had it. Keystone keeps rules that are in use.
    ///
    /// *If it dies here:* rules without a credential are left; the next revoke of a credential with the same rules
    /// removes them. *Safe to repeat because* a rule that is gone already counts as removed.
    pub(super) async fn remove_rules(
        &self,
        name: &Name<'_>,
        by: &Session,
    ) -> Result<(), SourceError> {
        let what = "removing access rules";
        let listed = by
            .ask(&self.act(what), |server, token| {
                let user = name.user.unwrap_or(&token.user);
                server.request(what, Method::GET, ["users", user, "access_rules"])
            })
            .await?;
        // An administrator of a project ends credentials, but has no say over rules. They let nobody in.
        if listed.status() == StatusCode::FORBIDDEN && !self.is_own(by) {
            return Ok(());
        }
        let listed: Rules = listed.expect(&[StatusCode::OK])?.json()?;
        for rule in listed.access_rules.iter().filter(|rule| self.had(rule)) {
            let reply = by
                .ask(&self.act(what), |server, token| {
                    let user = name.user.unwrap_or(&token.user);
                    server.request(
                        what,
                        Method::DELETE,
                        ["users", user, "access_rules", &rule.id],
                    )
                })
                .await?;
            // 403: another credential of the user has the same rule.
            reply.expect(&[
                StatusCode::NO_CONTENT,
                StatusCode::NOT_FOUND,
                StatusCode::FORBIDDEN,
            ])?;
        }
        Ok(())
    }

    fn had(&self, rule: &Rule) -> bool {
        self.rules.iter().any(|ours| {
            ours.service == rule.service && ours.path == rule.path && ours.method == rule.method
        })
    }
}
