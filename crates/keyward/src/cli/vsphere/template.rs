//! `keyward vsphere template`: a skeleton of the credentials file.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::files;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::OutputArgs;
use crate::controllers::vsphere::component::Component;

/// Write a skeleton of the credentials file
///
/// It is made for its owner only (0600), in a directory for its owner only. A file that exists is never overwritten.
/// `validate` refuses the file until every placeholder is replaced.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward vsphere template\n  keyward vsphere template --out ./credentials --vcenter vcenter1.example.com --vcenter vcenter2.example.com"
)]
pub(crate) struct TemplateArgs {
    /// Where to write it [default: ~/.vsphere/credentials]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A vCenter; repeat for several
    #[arg(long, value_name = "SERVER", default_value = "vcenter1.example.com")]
    vcenter: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &TemplateArgs) -> Result<(), Failure> {
    let Some(path) = args.out.clone().or_else(files::default_credentials) else {
        return Err(Failure::new(Exit::Usage, "HOME is not set").hint("say where with --out FILE"));
    };
    if let Some(parent) = path.parent().filter(|one| !one.as_os_str().is_empty()) {
        files::make_directory(parent)?;
    }
    files::write_new(&path, text(&args.vcenter).as_bytes())?;
    let written = path.display().to_string();
    args.output.print(&json!({ "written": written }), |_| {
        format!("wrote {written}\nreplace every placeholder in it, then run `keyward vsphere validate`\n")
    })
}

fn text(vcenters: &[String]) -> String {
    let mut text = String::from(
        "# Logins for vCenter, one section for each. Keep this file to yourself (mode 0600).\n\
         # A value with # or ; in it, or with \\ at its end, goes between backticks: `Pa#ss`\n\
         # A component that is left out uses the vCenter's main login.\n",
    );
    for vcenter in vcenters {
        let _ = write!(
            text,
            "\n[{vcenter}]\n# The main login\nuser = REPLACE_WITH_USER@vsphere.local\npassword = REPLACE_WITH_PASSWORD\n"
        );
        for component in Component::ALL {
            let _ = write!(
                text,
                "{component}.user = REPLACE_WITH_USER@vsphere.local\n{component}.password = REPLACE_WITH_PASSWORD\n"
            );
        }
    }
    text
}
