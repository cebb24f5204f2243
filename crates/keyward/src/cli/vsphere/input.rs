//! What every command of `keyward vsphere` starts from: the logins, read from an install-config and a credentials file.

use std::path::PathBuf;

use clap::Args;

use super::accounts::{Accounts, Finding, Grade, lint, merge};
use super::credentials_file::{self, Section};
use super::files::{self, Opened};
use super::install_config::{self, Document, InstallConfig};
use crate::cli::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(super) struct InputArgs {
    /// The install-config.yaml with the vCenters, and perhaps the logins
    #[arg(long, value_name = "FILE")]
    pub(super) install_config: Option<PathBuf>,
    /// The credentials file [default: ~/.vsphere/credentials, if there is one]
    #[arg(long, value_name = "FILE", env = "VSPHERE_CREDENTIALS_FILE")]
    pub(super) credentials: Option<PathBuf>,
}

/// What was read, and what is to be said about it.
#[derive(Debug)]
pub(super) struct Input {
    pub(super) accounts: Accounts,
    /// The install-config as a document, where there is one.
    pub(super) document: Option<Document>,
    /// Which files were read.
    pub(super) files: Vec<String>,
    pub(super) findings: Vec<Finding>,
}

impl Input {
    /// The accounts, unless something is wrong with them.
    pub(super) fn sound(self) -> Result<Self, Failure> {
        let wrong = self.findings.iter().filter(|one| one.grade == Grade::Error);
        let lines: Vec<String> = wrong
            .map(|one| format!("{}: {}", one.location, one.text))
            .collect();
        if lines.is_empty() {
            Ok(self)
        } else {
            Err(Failure::new(Exit::Failed, lines.join("\nerror: ")))
        }
    }
}

/// Reads the files and puts them together. What is wrong with them is among the findings.
pub(super) fn load(args: &InputArgs) -> Result<Input, Failure> {
    let config = args
        .install_config
        .as_deref()
        .map(files::read)
        .transpose()?;
    let file = match &args.credentials {
        Some(path) => Some(files::read(path).map_err(|failure| {
            failure.hint("it is named by --credentials or VSPHERE_CREDENTIALS_FILE")
        })?),
        None => files::default_credentials()
            .map(|path| files::read_if_there(&path))
            .transpose()?
            .flatten(),
    };
    if config.is_none() && file.is_none() {
        return Err(
            Failure::new(Exit::Usage, "there is nothing to read").hint(
                "give --install-config FILE, or write ~/.vsphere/credentials: `keyward vsphere template` makes a skeleton",
            ),
        );
    }
    let mut findings = Vec::new();
    let sections = file.as_ref().map(|file| sections(file, &mut findings));
    let (document, parsed) = match &config {
        Some(config) => parse(config, &mut findings),
        None => (None, None),
    };
    let sections = sections.unwrap_or_default();
    let name = file.as_ref().map_or("", |file| &file.name);
    // Half of the input would be told as logins that are missing.
    let accounts = merge(parsed.as_ref(), &sections);
    if !findings.iter().any(|one| one.grade == Grade::Error) {
        findings.extend(lint(&accounts, &sections, name));
    }
    Ok(Input {
        accounts,
        document,
        files: config
            .iter()
            .chain(&file)
            .map(|one| one.name.clone())
            .collect(),
        findings,
    })
}

fn sections(file: &Opened, findings: &mut Vec<Finding>) -> Vec<Section> {
    findings.extend(file.exposed.clone());
    findings.extend(file.warning.clone());
    if file.exposed.is_some() {
        return Vec::new();
    }
    match credentials_file::read(&file.bytes) {
        Ok(sections) => sections,
        Err(mistakes) => {
            findings.extend(
                mistakes
                    .into_iter()
                    .map(|one| Finding::error(format!("{}:{}", file.name, one.line), one.text)),
            );
            Vec::new()
        }
    }
}

fn parse(
    config: &Opened,
    findings: &mut Vec<Finding>,
) -> (Option<Document>, Option<InstallConfig>) {
    let location = |at: &str| format!("{} {at}", config.name);
    let Ok(text) = std::str::from_utf8(&config.bytes) else {
        findings.push(Finding::error(&config.name, "this is not UTF-8"));
        return (None, None);
    };
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(mistake) => {
            findings.push(Finding::error(location(&mistake.location), mistake.text));
            return (None, None);
        }
    };
    match install_config::read(&document) {
        Ok(read) => {
            // Without a login in it, it is no secret.
            let holds_logins = read.vcenters.iter().any(|one| !one.logins.is_empty());
            findings.extend(config.exposed.clone().filter(|_| holds_logins));
            (Some(document), Some(read))
        }
        Err(mistakes) => {
            findings.extend(
                mistakes
                    .into_iter()
                    .map(|one| Finding::error(location(&one.location), one.text)),
            );
            (Some(document), None)
        }
    }
}
