//! `keyward crds`: the definitions, generated from the types.

use std::path::PathBuf;

use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;

use super::exit::{Exit, Failure};
use super::output::{say, yaml};

/// Print the definitions of all kinds (CRDs) as YAML
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward crds | kubectl apply --server-side -f -\n  keyward crds --dir deploy/crds"
)]
pub(crate) struct CrdsArgs {
    /// Write one file per kind into this directory instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &CrdsArgs) -> Result<(), Failure> {
    let crds = crate::api::crds();
    let Some(dir) = &args.dir else {
        for crd in &crds {
            say(format_args!("---\n{}", document(crd)?))?;
        }
        return Ok(());
    };
    std::fs::create_dir_all(dir)?;
    for crd in &crds {
        let path = dir.join(format!("{}.yaml", crd.name_any()));
        std::fs::write(&path, document(crd)?)
            .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", path.display())))?;
        say(format_args!("{}\n", path.display()))?;
    }
    Ok(())
}

fn document(crd: &CustomResourceDefinition) -> Result<String, Failure> {
    Ok(yaml(crd)?.trim().to_owned() + "\n")
}
