//! `deploy/crds/*.yaml`, written from what `keyward crds` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::cargo;

pub(crate) fn run(check: bool) -> anyhow::Result<()> {
    let keyward = cargo::build_keyward("dev")?;
    let output = Command::new(&keyward)
        .arg("crds")
        .output()
        .context("running keyward crds")?;
    ensure!(
        output.status.success(),
        "keyward crds: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let wanted = by_file(&String::from_utf8(output.stdout)?)?;
    ensure!(!wanted.is_empty(), "keyward crds printed no CRD");

    let dir = cargo::root().join("deploy").join("crds");
    fs::create_dir_all(&dir)?;
    let mut present = BTreeSet::new();
    for entry in fs::read_dir(&dir)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            present.insert(
                path.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
            );
        }
    }
    let differs =
        |name: &String| fs::read_to_string(dir.join(name)).ok().as_ref() != wanted.get(name);
    let changed: Vec<_> = present
        .iter()
        .chain(wanted.keys())
        .filter(|name| differs(name))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    if check {
        ensure!(
            changed.is_empty(),
            "deploy/crds is not what the types say ({changed:?}); run cargo xtask crds"
        );
        return Ok(());
    }
    for name in changed {
        match wanted.get(name) {
            Some(text) => fs::write(dir.join(name), text)?,
            None => fs::remove_file(dir.join(name))?,
        }
        println!("deploy/crds/{name}");
    }
    Ok(())
}

/// The documents of a YAML stream, by the file each belongs in.
fn by_file(stream: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for document in format!("\n{stream}").split("\n---") {
        let document = document.trim();
        if document.is_empty() {
            continue;
        }
        let name = name_in(document).context("a CRD without a name")?;
        files.insert(format!("{name}.yaml"), format!("{document}\n"));
    }
    Ok(files)
}

/// `metadata.name`: the first line named `name` directly below `metadata`.
fn name_in(document: &str) -> Option<&str> {
    let below = document
        .lines()
        .skip_while(|line| *line != "metadata:")
        .skip(1);
    let name = below
        .take_while(|line| line.starts_with(' '))
        .find_map(|line| line.strip_prefix("  name: "))?;
    Some(name.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_goes_into_the_file_named_after_it() {
        let stream = "---\nkind: A\nmetadata:\n  labels:\n    name: no\n  name: as.example.org\nspec: {}\n---\nkind: B\nmetadata:\n  name: \"bs.example.org\"\n";
        let files = by_file(stream).expect("two documents");
        assert_eq!(
            files.keys().collect::<Vec<_>>(),
            ["as.example.org.yaml", "bs.example.org.yaml"]
        );
        assert!(files["as.example.org.yaml"].starts_with("kind: A\n"));
        assert!(by_file("kind: C\n").is_err());
    }
}
