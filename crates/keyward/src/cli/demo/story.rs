//! The chapters, in order.

use std::sync::PoisonError;
use std::time::Duration;

use kube::api::DeleteParams;

use super::super::exit::{Exit, Failure};
use super::operator::Operator;
use super::output::Who;
use super::{NAME, NAMESPACE, Stage};

/// Time to read what a chapter is about.
const READING: Duration = Duration::from_millis(1500);

impl Stage {
    /// The whole story. Stops at once when a promise is broken.
    pub(super) async fn tell(&self, sabotage: bool) -> Result<(), Failure> {
        self.introduce().await;
        self.mint().await?;
        if let Some(id) = self.current_id().filter(|_| sabotage) {
            self.scenery.access_log.kill(&id);
        }
        self.rotate().await?;
        self.crash().await?;
        self.delete().await?;
        self.sum_up()
    }

    async fn introduce(&self) {
        let output = &self.output;
        output.heading(
            "Keyward: one credential's whole life",
            "Everything below really happens, inside this program: a Kubernetes API server, a stand-in Keystone that hands out application credentials, the operator, and two programs that log in all the time.",
        );
        let cast = [
            (
                Who::Keystone,
                "makes and revokes application credentials; never shows the value of an old one",
            ),
            (
                Who::Keyward,
                "the operator: mints, hands over, waits for proof, revokes",
            ),
            (
                Who::Api,
                "barbican-api: a program that moves to a new credential at once",
            ),
            (
                Who::Worker,
                "barbican-worker: a program that finishes its work with the old one first",
            ),
            (
                Who::Auditor,
                "checks after every event that no promise is broken",
            ),
        ];
        for (who, text) in cast {
            output.line(who, text);
        }
        output.pause(Duration::from_millis(2500)).await;
    }

    async fn mint(&self) -> Result<(), Failure> {
        self.output.heading(
            "1. Minted and handed over",
            "You ask for a credential. Keyward writes down what it is about to do before it does it, tries the new credential before anybody is pointed at it, and keeps it in a Secret that never changes.",
        );
        self.output.pause(READING).await;
        self.create().await?;
        self.until("the first version", || self.scenery.is_settled())
            .await?;
        self.until("both programs to hold it", || self.held_by_both())
            .await?;
        self.output.pause(Duration::from_millis(1500)).await;
        self.show("Alive at Keystone now:");
        self.settle()?;
        self.output.pause(Duration::from_secs(2)).await;
        Ok(())
    }

    async fn rotate(&self) -> Result<(), Failure> {
        self.output.heading(
            "2. Rotated, and nobody is cut off",
            "A new version is made beside the old one. barbican-api moves at once. barbican-worker is still busy with the old one, so the old one stays valid: it is never revoked while somebody holds it.",
        );
        self.output.pause(READING).await;
        let old = self.current_id();
        self.ask_for_rotation("first").await?;
        self.until(
            "the old version to be held by barbican-worker alone",
            || self.scenery.access_log.live().len() == 2 && self.old_is_held_by_the_worker_alone(),
        )
        .await?;
        self.output.pause(Duration::from_millis(600)).await;
        self.show("Alive at Keystone now:");
        self.until("the end of the old version", || self.scenery.is_settled())
            .await?;
        self.tell_how_soon(old.as_ref());
        self.show("Proof that nobody holds it, then the end. Alive at Keystone now:");
        self.settle()?;
        self.output.pause(Duration::from_secs(2)).await;
        Ok(())
    }

    async fn crash(&self) -> Result<(), Failure> {
        self.output.heading(
            "3. The operator is killed at the worst moment",
            "Another rotation. Keystone makes the credential, and before its answer arrives the operator is dead: nobody has heard its id, and no program can use it. A careless operator would make a second one and leave this one behind for ever.",
        );
        self.output.pause(READING).await;
        let old = self.current_id();
        let victim = self.operator();
        let access_log = &self.scenery.access_log;
        access_log.crash_at_the_next_creation({
            let victim = victim.clone();
            move || victim.kill()
        });
        self.ask_for_rotation("second").await?;
        self.until("the crash", || victim.is_dead()).await?;
        self.until("the stranded credential", || access_log.live().len() == 2)
            .await?;
        access_log.no_more_crashes();
        self.output.pause(Duration::from_millis(200)).await;
        self.output.line(
            Who::Crash,
            "the operator is gone; the programs go on with what they hold",
        );
        self.output.pause(Duration::from_millis(1500)).await;
        self.show("Alive at Keystone now:");
        self.output.pause(Duration::from_millis(1500)).await;
        self.output.line(
            Who::Keyward,
            "is started again, remembers nothing, and looks at what is there",
        );
        *self.operator.lock().unwrap_or_else(PoisonError::into_inner) =
            Operator::start(self.scenery.config()?, &self.scenery.keystone_url())?;
        self.until("recovery from the crash", || self.scenery.is_settled())
            .await?;
        self.tell_how_soon(old.as_ref());
        self.show("Nothing lost, nothing left behind, no second one made. Alive at Keystone now:");
        self.settle()?;
        self.output.pause(Duration::from_secs(2)).await;
        Ok(())
    }

    async fn delete(&self) -> Result<(), Failure> {
        self.output.heading(
            "4. Deleted",
            "You delete the resource. Even now nothing is revoked while a program holds it; then everything goes, at Keystone first and in the cluster last.",
        );
        self.output.pause(READING).await;
        let last = self.current_id();
        self.output
            .line(Who::Person, &format!("kubectl delete appcred {NAME}"));
        self.scenery
            .resources()?
            .delete(NAME, &DeleteParams::default())
            .await
            .map_err(|error| Failure::of_request("deleting the resource", &error))?;
        self.until("the resource to be gone", || {
            self.scenery.object().is_none()
        })
        .await?;
        self.tell_how_soon(last.as_ref());
        self.show("Alive at Keystone now:");
        self.settle()?;
        self.output.pause(Duration::from_millis(500)).await;
        Ok(())
    }

    fn sum_up(&self) -> Result<(), Failure> {
        let (made, revoked) = self.scenery.made_and_revoked();
        let (logins, refused) = self.scenery.logins();
        let events = self.auditor().events;
        self.output.heading(
            "The end",
            "Nothing of it is left, neither at Keystone nor in the cluster.",
        );
        self.output.line(
            Who::Keystone,
            &format!(
                "made {made} credentials and revoked {revoked}; alive: {}",
                self.scenery.access_log.live().len()
            ),
        );
        self.output.line(
            Who::Auditor,
            &format!("counted {logins} logins of the two programs, refused: {refused}"),
        );
        self.output.line(
            Who::Auditor,
            &format!("checked every promise after each of {events} events: all kept"),
        );
        self.kept()
    }

    /// Stays up with a fresh credential, until somebody ends it.
    pub(super) async fn stay(&self) -> Result<(), Failure> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("kubeconfig");
        let text = self
            .scenery
            .server
            .kubeconfig_yaml()
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        std::fs::write(&path, text)?;
        self.output.heading(
            "Now you",
            "The cluster stays up, with a fresh credential in it. In another terminal:",
        );
        self.create().await?;
        self.until("a fresh credential", || self.scenery.is_settled())
            .await?;
        self.until("both programs to hold it", || self.held_by_both())
            .await?;
        let me = std::env::current_exe().map_or_else(
            |_| "keyward".to_owned(),
            |program| program.display().to_string(),
        );
        let text = format!(
            "
  export KUBECONFIG={path}

  # look
  kubectl get appcred,secrets -n {NAMESPACE}
  kubectl get appcred {NAME} -n {NAMESPACE} -o yaml
  {me} status -n {NAMESPACE}
  {me} explain appcred/{NAME} -n {NAMESPACE}

  # rotate, and watch the two programs move
  {me} rotate appcred/{NAME} -n {NAMESPACE} --wait
  kubectl annotate appcred {NAME} -n {NAMESPACE} keyward.dev/rotate=again --overwrite

  # hold a version yourself, rotate, and see that it is not revoked until you let go
  HELD=$(kubectl get appcred {NAME} -n {NAMESPACE} -o jsonpath='{{.status.secretName}}')
  kubectl patch secret $HELD -n {NAMESPACE} --type=json -p '[{{\"op\":\"add\",\"path\":\"/metadata/finalizers/-\",\"value\":\"example.com/me\"}}]'
  {me} rotate appcred/{NAME} -n {NAMESPACE} --wait
  kubectl get appcred {NAME} -n {NAMESPACE} -o wide
  # let go; refused as long as others hold it beside you
  kubectl patch secret $HELD -n {NAMESPACE} --type=json -p '[{{\"op\":\"test\",\"path\":\"/metadata/finalizers/1\",\"value\":\"example.com/me\"}},{{\"op\":\"remove\",\"path\":\"/metadata/finalizers/1\"}}]'

  # end it
  kubectl delete appcred {NAME} -n {NAMESPACE}

Ctrl-C ends the demo and removes everything.
",
            path = path.display()
        );
        self.output.plain(&text);
        self.until_broken().await
    }
}
