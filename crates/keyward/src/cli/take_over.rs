//! `keyward take-over`: what a resource had before it was restored from a backup becomes its own again, or is let go.

use std::time::{Duration, Instant};

use clap::Args;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Error, ResourceExt};
use lifecycle::LedgerState;
use serde_json::json;

use super::exit::{Exit, Failure};
use super::output::OutputArgs;
use super::rotate::annotate;
use super::target::{Target, TargetArgs, ledger_of};
use crate::engine::names;

/// How often the resource is looked at while waiting.
const EVERY: Duration = Duration::from_millis(200);

const PAGE: u32 = 500;

/// Take over what a credential had before it was restored from a backup
///
/// A restored resource has a new uid, and begins afresh. What it had before (its Secrets, where they were restored too,
/// and its credentials at the issuer) is taken over at your request: the credential that was current is current again,
/// and what is left of the others is retired in order. With --let-go it is left alone for good instead, and no longer
/// mentioned.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward take-over democredential/db --wait\n  keyward take-over democred/db -n team-a --former 6f1c2d3e-0000-4000-8000-00000000000a\n  keyward take-over democred/db --let-go"
)]
pub(crate) struct TakeOverArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// The uid that the resource had before [default: as its ledger says]
    #[arg(long, value_name = "UID")]
    former: Option<String>,
    /// Leave what it had before alone, for good
    #[arg(long)]
    let_go: bool,
    /// Wait until it is done
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = super::duration, requires = "wait")]
    timeout: Duration,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn run(args: TakeOverArgs) -> Result<(), Failure> {
    let target = args.target.find_credential().await?.target;
    let object = target.read().await?;
    let former = match args.former {
        Some(uid) => uid,
        None => former_of(&object).ok_or_else(|| nothing_before(&target))?,
    };
    if !args.let_go {
        refuse_the_living(&target, &former).await?;
    }
    let (wanted, other) = if args.let_go {
        (names::LET_GO_OF, names::TAKE_OVER)
    } else {
        (names::TAKE_OVER, names::LET_GO_OF)
    };
    annotate(&target, other, None).await?;
    annotate(&target, wanted, Some(&former)).await?;
    if args.wait {
        wait(&target, args.let_go, args.timeout).await?;
    }
    let result = json!({
        "kind": target.resource.kind, "namespace": target.namespace, "name": target.name,
        "former": former, "letGo": args.let_go, "done": args.wait,
    });
    let let_go = args.let_go;
    args.output.print(&result, |_| {
        let what = match (let_go, args.wait) {
            (false, false) => "will be taken over",
            (false, true) => "was taken over",
            (true, false) => "will be left alone",
            (true, true) => "is left alone",
        };
        format!("what {target} had under uid {former} {what}\n")
    })
}

/// The former uid, as the resource itself records it.
fn former_of(object: &DynamicObject) -> Option<String> {
    let note = object.annotations().get(names::LEDGER)?;
    let uid = object.uid();
    match LedgerState::read(Some(note), |of| Some(&of.uid) == uid.as_ref(), |_| false) {
        LedgerState::OfAnother(of) => Some(of?.uid),
        LedgerState::Is(ledger) => Some(ledger.former?.of.uid),
        LedgerState::Absent | LedgerState::Unreadable | LedgerState::Newer => None,
    }
}

fn nothing_before(target: &Target) -> Failure {
    let text = format!("there is no sign that {target} had a former life");
    Failure::new(Exit::NotFound, text)
        .hint("where its ledger was lost, --former UID names it: its Secrets bear the uid in their label keyward.dev/owner-uid")
}

/// Whoever lives with that uid is the owner. The operator refuses it too; here it is said at once.
async fn refuse_the_living(target: &Target, former: &str) -> Result<(), Failure> {
    let resource = &target.resource;
    let everywhere: Api<DynamicObject> = Api::all_with(target.client.clone(), resource);
    let living = match find(&everywhere, former).await {
        // Somebody who may not look everywhere looks where they may.
        Err(Error::Api(status)) if status.code == 403 => find(&target.api(), former).await,
        found => found,
    };
    let act = format!("looking for {} with uid {former}", resource.kind);
    let living = living.map_err(|error| Failure::of_request(&act, &error))?;
    match living {
        None => Ok(()),
        Some(name) => {
            let text = format!("{} {name} still exists, with uid {former}", resource.kind);
            Err(Failure::new(Exit::Failed, text)
                .hint("a uid that is still in use cannot be taken over"))
        }
    }
}

async fn find(api: &Api<DynamicObject>, uid: &str) -> kube::Result<Option<String>> {
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = api.list_metadata(&page).await?;
        let found = list
            .items
            .iter()
            .find(|one| one.uid().as_deref() == Some(uid));
        if let Some(found) = found {
            let namespace = found.namespace().unwrap_or_default();
            return Ok(Some(format!("{namespace}/{}", found.name_any())));
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(None),
        }
    }
}

async fn wait(target: &Target, let_go: bool, timeout: Duration) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let object = target.read().await?;
        let ledger = ledger_of(&object);
        let done = match &ledger.former {
            Some(former) => former.taken && !let_go,
            None => let_go && object.annotations().contains_key(names::LEDGER),
        };
        if done {
            return Ok(());
        }
        if begun.elapsed() >= timeout {
            let text = format!("{target} was not done within {}s", timeout.as_secs());
            let hint = format!(
                "the request stands. `keyward explain {} -n {}` says what it waits for",
                target.as_argument(),
                target.namespace
            );
            return Err(Failure::new(Exit::TimedOut, text).hint(hint));
        }
        tokio::time::sleep(EVERY).await;
    }
}
