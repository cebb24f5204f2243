//! `keyward vsphere render`: the manifests, as files for the installer's directory.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::cloud_config::CloudConfigForm;
use super::files;
use super::input::{InputArgs, load};
use super::manifests;
use super::report::warn;
use crate::cli::exit::Failure;
use crate::cli::output::{self, OutputArgs};

/// Write the Secrets, the role, the cloud provider config and the redacted install-config as files
///
/// The files hold passwords. They are made for their owner only (0600), and none that exists is overwritten.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward vsphere render --install-config install-config.yaml --out cluster\n  kubectl apply -f cluster/openshift"
)]
pub(crate) struct RenderArgs {
    #[command(flatten)]
    input: InputArgs,
    /// The directory to write to; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Form of the cloud provider config: yaml or ini
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        default_value_t,
        hide_possible_values = true
    )]
    cloud_config: CloudConfigForm,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &RenderArgs) -> Result<(), Failure> {
    let input = load(&args.input)?.sound()?;
    warn(&input.findings);
    let all = manifests::of(&input.accounts, input.document.as_ref(), args.cloud_config);
    let mut ready = Vec::new();
    for manifest in &all {
        ready.push((
            args.out.join(&manifest.path),
            output::yaml(&manifest.object)?,
        ));
    }
    let paths: Vec<PathBuf> = ready.iter().map(|(path, _)| path.clone()).collect();
    files::refuse_existing(&paths)?;
    for (path, text) in &ready {
        if let Some(parent) = path.parent() {
            files::make_directory(parent)?;
        }
        files::write_new(path, text.as_bytes())?;
    }
    let manual = input.accounts.manual;
    let shown: Vec<_> = all.iter().map(manifests::shown).collect();
    args.output
        .print(&json!({ "written": shown, "manual": manual }), |_| {
            let mut text = String::new();
            for path in &paths {
                let _ = writeln!(text, "{}", path.display());
            }
            if manual {
                text.push_str("credentialsMode is Manual: no Secret is written\n");
            }
            text
        })
}
