//! Files a person reads in one sitting.
//!
//! Those that were longer when the rule began to be checked stand in `long-files.txt` with their lengths. They may only
//! become shorter, and none is added.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};

use crate::cargo;
use crate::summary::Outcome;

const MOST_LINES: usize = 400;
const LIST: &str = "xtask/long-files.txt";

/// Lines of each file, by its path from the root.
type Lengths = BTreeMap<String, usize>;

pub(crate) fn check() -> anyhow::Result<Outcome> {
    let root = cargo::root();
    let mut lengths = Lengths::new();
    for part in ["crates", "xtask"] {
        measure(root, &root.join(part), &mut lengths)?;
    }
    let list = root.join(LIST);
    let allowed = parse(&fs::read_to_string(&list).context(LIST)?)?;
    let broken = broken(&lengths, &allowed);
    for line in &broken {
        println!("{line}");
    }
    ensure!(broken.is_empty(), "{} files are too long", broken.len());
    let shorter = shrunk(&lengths, &allowed);
    if shorter != allowed {
        if std::env::var_os("KEYWARD_UPDATE").is_none() {
            bail!(
                "files became shorter: write it down with KEYWARD_UPDATE=1 cargo xtask test --quick"
            );
        }
        fs::write(list, written(&shorter))?;
    }
    Ok(Outcome::Passed(format!(
        "{} files, {} of them still longer than {MOST_LINES} lines",
        lengths.len(),
        shorter.len()
    )))
}

fn measure(root: &Path, dir: &Path, lengths: &mut Lengths) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            measure(root, &path, lengths)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            lengths.insert(name, fs::read_to_string(&path)?.lines().count());
        }
    }
    Ok(())
}

fn parse(list: &str) -> anyhow::Result<Lengths> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (lines, path) = line.split_once(' ').context("LINES PATH")?;
            Ok((path.to_owned(), lines.parse()?))
        })
        .collect::<anyhow::Result<_>>()
        .with_context(|| format!("reading {LIST}"))
}

fn written(list: &Lengths) -> String {
    let mut text = format!(
        "# Files that were longer than {MOST_LINES} lines when that began to be checked. They may only become shorter; none is added.\n"
    );
    for (path, lines) in list {
        let _ = writeln!(text, "{lines} {path}");
    }
    text
}

/// What is longer than it may be, for people.
fn broken(lengths: &Lengths, allowed: &Lengths) -> Vec<String> {
    let mut said = Vec::new();
    for (path, &lines) in lengths {
        match allowed.get(path) {
            Some(&most) if lines > most => said.push(format!(
                "{path} has grown from {most} to {lines} lines, and was too long before"
            )),
            None if lines > MOST_LINES => said.push(format!(
                "{path} has {lines} lines, more than {MOST_LINES}: split it by question answered"
            )),
            Some(_) | None => {}
        }
    }
    said
}

/// The list, as short as it may be now.
fn shrunk(lengths: &Lengths, allowed: &Lengths) -> Lengths {
    let still = allowed.keys().filter_map(|path| {
        let lines = lengths.get(path).filter(|lines| **lines > MOST_LINES)?;
        Some((path.clone(), *lines))
    });
    still.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(of: &[(&str, usize)]) -> Lengths {
        of.iter()
            .map(|(path, lines)| ((*path).to_owned(), *lines))
            .collect()
    }

    #[test]
    fn a_new_file_may_have_400_lines_and_no_more() {
        let none = Lengths::new();
        assert!(broken(&lengths(&[("a.rs", 400)]), &none).is_empty());
        assert_eq!(broken(&lengths(&[("a.rs", 401)]), &none).len(), 1);
    }

    #[test]
    fn a_long_file_may_stay_and_shrink_but_not_grow() {
        let allowed = lengths(&[("a.rs", 500)]);
        for (lines, wrong) in [(450, 0), (500, 0), (501, 1)] {
            assert_eq!(broken(&lengths(&[("a.rs", lines)]), &allowed).len(), wrong);
        }
    }

    #[test]
    fn the_list_follows_files_down_and_lets_go_of_those_that_are_short_or_gone() {
        let allowed = lengths(&[("a.rs", 500), ("b.rs", 450), ("c.rs", 410)]);
        let now = lengths(&[("a.rs", 480), ("b.rs", 399)]);
        assert_eq!(shrunk(&now, &allowed), lengths(&[("a.rs", 480)]));
        assert_eq!(parse(&written(&allowed)).expect("a list"), allowed);
    }
}
