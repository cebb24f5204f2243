//! One life: what is done with a token, what must be so at every rest, and what a person does who is asked to.

use std::sync::atomic::Ordering;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::json;
use testbed::gitlab::{ROTATE_SELF, Use};

use crate::real_stage::forge::{Forge, PATIENCE, ROOT, current};
use crate::real_stage::kill::{self, Killer};
use crate::real_stage::leaks::Written;
use crate::real_stage::proxy::Moment;
use crate::real_stage::{Credential, until};
use crate::{Ground, How, LEDGER, ledger};

/// Long enough to see that it is kept, short enough to wait for: what [`How::KeepOld`] declares.
const GRACE: SignedDuration = SignedDuration::from_secs(2);
/// After this time a self-rotation that somebody began is believed to be over.
const ROTATION_TAKES: SignedDuration = SignedDuration::from_mins(5);
const UNCONFIRMED: &str = "RotationUnconfirmed";
const LOST: &str = "RootCredentialLost";

pub(super) struct Scene<'a> {
    pub(super) ground: &'a Ground,
    pub(super) forge: &'a Forge,
    pub(super) credential: &'a Credential,
    pub(super) how: How,
    pub(super) killer: &'a Killer,
    /// What a lost rotation left alive at GitLab, which nobody can know the value of.
    pub(super) left_behind: Vec<u64>,
    /// Values that a person brought.
    pub(super) mended: usize,
}

impl Scene<'_> {
    pub(super) async fn play(&mut self, written: &mut Written) -> Result<(), String> {
        let spec = self.forge.spec(self.how.kind(), &self.how.more());
        self.credential.create(&spec).await;
        let first = self.rest_at(1).await?;
        self.credential.rotate("again").await;
        let second = self.rest_at(2).await?;
        if first == second {
            return Err("lost: it was not rotated".to_owned());
        }
        if self.how == How::KeepOld {
            self.was_kept(first, second)?;
        }
        let (stage, namespace) = (&self.forge.stage, &self.forge.namespace);
        written.add_objects(stage, namespace).await;
        kill::is_deleted(self.credential, PATIENCE).await?;
        match self.how {
            How::KeepOld | How::Immediate => self.nothing_is_left().await?,
            How::Itself => self.token_and_secret_are_left(second).await?,
        }
        self.was_told_of_a_kill_in_the_middle()?;
        self.never_too_many()?;
        self.rotated_once_each()
    }

    /// Settled at this serial, with exactly the expected tokens alive, and the one that is handed out works. Says its id.
    async fn rest_at(&mut self, serial: u32) -> Result<u64, String> {
        let what = format!("lost: version {serial} settles");
        let settled = async || {
            self.let_an_attempt_run_out().await;
            self.credential.settled(serial) || self.needs_a_person()
        };
        until(&what, PATIENCE, settled).await?;
        if self.needs_a_person() {
            self.mend(serial).await?;
        }
        let id = current(self.credential).ok_or("lost: status names no token")?;
        self.forge
            .until_live(&self.expected(id), "at rest, one token")
            .await?;
        if self.forge.use_exported(self.how.secret()).await != Use::Works {
            return Err("lost: what is handed out does not let anybody in".to_owned());
        }
        Ok(id)
    }

    fn expected(&self, id: u64) -> Vec<u64> {
        let mut expected = self.left_behind.clone();
        expected.push(id);
        if self.how != How::Itself {
            expected.push(self.forge.login);
        }
        expected
    }

    /// Another process may have a self-rotation under way, for all that one knows who finds it begun: five minutes are
    /// waited for its answer. Here they pass by writing down that it began earlier.
    async fn let_an_attempt_run_out(&self) {
        let waits =
            self.how == How::Itself && self.credential.shown().reason == "RotationUnanswered";
        let Some(object) = self.credential.seen().filter(|_| waits) else {
            return;
        };
        let mut ledger = ledger(&object);
        let since = ledger["intent"]["since"].as_str();
        let Some(since) = since.and_then(|since| since.parse::<Timestamp>().ok()) else {
            return;
        };
        let created = object.creation_timestamp().map(|created| created.0);
        if created.is_none_or(|created| since < created) {
            return;
        }
        let earlier = since - ROTATION_TAKES;
        ledger["intent"]["since"] = earlier.to_string().into();
        let patch = json!({ "metadata": {
            "resourceVersion": object.resource_version(),
            "annotations": { LEDGER: ledger.to_string() },
        } });
        // Refused if the operator was faster: then there is nothing to wait for.
        let _ = self.credential.merge(&patch).await;
    }

    fn needs_a_person(&self) -> bool {
        let reason = self.credential.shown().reason;
        [UNCONFIRMED, LOST].contains(&reason.as_str())
    }

    /// A kill in the middle of a self-rotation is told as what it is, with the command that mends it; and no other kill
    /// is. Then a person does as told.
    async fn mend(&mut self, serial: u32) -> Result<(), String> {
        let shown = self.credential.shown();
        if self.how != How::Itself || self.mended > 0 {
            return Err(format!("lost: {} without a reason", shown.reason));
        }
        let struck = self.killer.struck();
        let (request, moment) = struck.ok_or("lost: nobody was killed, and a person is asked")?;
        let command = format!(
            "kubectl -n {} patch secret {ROOT} --type=merge --patch-file=/dev/stdin",
            self.forge.namespace
        );
        if !shown.message.contains(&command) {
            return Err(format!("untidy: no command in {:?}", shown.message));
        }
        let works = self.forge.use_exported(ROOT).await == Use::Works;
        let is_rotation = request.contains("/self/rotate");
        let is_store = request.starts_with("PUT ");
        // Done at GitLab, and not in the Secret: lost. Reserved, and not known to be done: unconfirmed.
        let is_lost = match moment {
            Moment::After => is_rotation,
            Moment::Before => is_store,
        };
        let (reason, count, is_so) = if is_lost {
            (LOST, &self.ground.lost, !works && !shown.ready)
        } else {
            (UNCONFIRMED, &self.ground.unconfirmed, works)
        };
        count.fetch_add(1, Ordering::SeqCst);
        if shown.reason != reason || !is_so {
            return Err(format!(
                "lost: after {request} {moment:?} it says {} and works: {works}",
                shown.reason
            ));
        }
        let before = self.forge.live();
        let fresh = self
            .forge
            .gitlab
            .add_token(self.forge.owner, "by hand", &["api"], None);
        self.forge.write(ROOT, fresh.value.reveal()).await;
        self.mended += 1;
        let what = format!("lost: version {serial} settles with what a person brought");
        let settled = async || {
            self.credential.shown().serial >= serial && {
                let serial = self.credential.shown().serial;
                self.credential.settled(serial)
            }
        };
        until(&what, PATIENCE, settled).await?;
        if works {
            // The first one was the person's own, who ends it; all later ones were ours, and are ended with the new one.
            for id in before {
                let alive = self.forge.live().contains(&id);
                if alive && serial > 1 {
                    return Err(format!(
                        "orphan: token {id} outlives the one that was brought"
                    ));
                }
                assert!(!alive || self.forge.gitlab.revoke(id));
            }
        } else {
            // Its value came in an answer that nobody got, or died with the process.
            self.left_behind = before.into_iter().collect();
        }
        Ok(())
    }

    /// The old token lived for its grace period.
    fn was_kept(&self, first: u64, second: u64) -> Result<(), String> {
        let since = self
            .forge
            .gitlab
            .token(second)
            .ok_or("lost: no such token")?;
        let journal = self.forge.gitlab.journal();
        let ended = journal
            .iter()
            .find(|asked| asked.method == "DELETE" && asked.path.ends_with(&format!("/{first}")))
            .ok_or("orphan: the old token was never revoked")?;
        let kept = ended.at.duration_since(since.created);
        if kept < GRACE {
            return Err(format!("early revoke: it was kept for {kept:#} only"));
        }
        Ok(())
    }

    async fn nothing_is_left(&self) -> Result<(), String> {
        let login = [self.forge.login];
        self.forge.until_live(&login, "after the end").await?;
        kill::leaves_no_secret(self.credential, PATIENCE).await
    }

    /// It was a person's before it was ours.
    async fn token_and_secret_are_left(&self, id: u64) -> Result<(), String> {
        self.forge
            .until_live(&self.expected(id), "after the end")
            .await?;
        if self.forge.use_exported(ROOT).await != Use::Works {
            return Err("lost: the Secret that was left does not let anybody in".to_owned());
        }
        Ok(())
    }

    /// Nobody can know what became of a rotation at which the process died.
    fn was_told_of_a_kill_in_the_middle(&self) -> Result<(), String> {
        match self.killer.struck() {
            Some((request, _)) if request.contains("/self/rotate") && self.mended == 0 => {
                Err(format!("lost: nobody was told of the kill at {request}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// One more than needed at any time, and no third, but for what was lost and what a person brought.
    fn never_too_many(&self) -> Result<(), String> {
        let login = self.forge.login;
        let counts_login = self.how == How::Itself;
        let most = self
            .forge
            .gitlab
            .most_live(|live| counts_login || live.id != login);
        if most > 2 + self.mended {
            return Err(format!("orphan: {most} tokens were alive at once"));
        }
        Ok(())
    }

    /// Each self-rotation is one request, and none with a value that was dead by then: it would end the whole family.
    fn rotated_once_each(&self) -> Result<(), String> {
        let journal = self.forge.gitlab.journal();
        let rotations = journal.iter().filter(|asked| asked.kind == ROTATE_SELF);
        let statuses: Vec<u16> = rotations.map(|asked| asked.status).collect();
        let expected = match self.how {
            How::KeepOld | How::Immediate => 0,
            How::Itself => 2 + self.left_behind.len(),
        };
        if statuses.len() != expected || statuses.iter().any(|status| *status >= 300) {
            return Err(format!(
                "lost: the rotate requests ended {statuses:?}, not {expected} times well"
            ));
        }
        Ok(())
    }
}
