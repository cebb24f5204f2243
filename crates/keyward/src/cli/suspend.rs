//! `keyward suspend` and `keyward resume`.

use clap::Args;
use kube::ResourceExt;
use serde_json::json;

use super::exit::Failure;
use super::output::OutputArgs;
use super::rotate::annotate;
use super::target::TargetArgs;
use crate::engine::names;

/// Stop all work on a resource until it is resumed
///
/// Nothing is minted, revoked or deleted for it in the meantime; what consumers hold keeps working.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward suspend democredential/db\n  keyward suspend democred/db -n team-a"
)]
pub(crate) struct SuspendArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Resume work on a suspended resource
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward resume democredential/db\n  keyward resume democred/db -n team-a"
)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn suspend(args: SuspendArgs) -> Result<(), Failure> {
    set(&args.target, args.output, true).await
}

pub(crate) async fn resume(args: ResumeArgs) -> Result<(), Failure> {
    set(&args.target, args.output, false).await
}

async fn set(target: &TargetArgs, output: OutputArgs, wanted: bool) -> Result<(), Failure> {
    let target = target.find().await?;
    let object = target.read().await?;
    let is = object
        .annotations()
        .get(names::SUSPEND)
        .is_some_and(|value| value == "true");
    if is != wanted {
        annotate(&target, names::SUSPEND, wanted.then_some("true")).await?;
    }
    let result = json!({
        "kind": target.resource.kind, "namespace": target.namespace, "name": target.name,
        "suspended": wanted, "changed": is != wanted,
    });
    output.print(&result, |_| {
        let already = if is == wanted { "already " } else { "" };
        let state = if wanted {
            "suspended"
        } else {
            "being worked on"
        };
        format!("{target} is {already}{state}\n")
    })
}
