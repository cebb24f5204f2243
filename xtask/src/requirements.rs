//! Which required behaviour is shown by which test.
//!
//! Each page of `docs/requirements/` has tables with the columns `id`, `behaviour` and `test`. The
//! last holds tests in backticks, as `crate::name` or `crate::any::path::name`, or is empty. A
//! golden scenario counts as a test: `lifecycle::scenarios::NAME` is a file `NAME.*` below
//! `crates/lifecycle/tests/scenarios/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::cargo;
use crate::targets::rust_files;

#[derive(Debug, PartialEq, Eq)]
struct Row {
    id: String,
    behaviour: String,
    tests: Vec<String>,
}

/// A page, and what is wrong with it.
#[derive(Debug)]
struct Page {
    system: String,
    rows: Vec<Row>,
    /// (id, test) where there is no such test.
    broken: Vec<(String, String)>,
}

impl Page {
    fn shown(&self) -> usize {
        self.rows.iter().filter(|row| !row.tests.is_empty()).count()
    }
}

#[derive(Debug)]
pub(crate) struct Checked {
    pages: Vec<Page>,
}

impl Checked {
    pub(crate) fn broken(&self) -> usize {
        self.pages.iter().map(|page| page.broken.len()).sum()
    }

    /// A line per system, such as `core: 31 of 40 shown by tests`.
    pub(crate) fn systems(&self) -> Vec<String> {
        let line = |page: &Page| {
            format!(
                "{}: {} of {} shown by tests",
                page.system,
                page.shown(),
                page.rows.len()
            )
        };
        self.pages.iter().map(line).collect()
    }

    pub(crate) fn print(&self) {
        for page in &self.pages {
            for row in page.rows.iter().filter(|row| row.tests.is_empty()) {
                println!(
                    "{}: no test yet for {}: {}",
                    page.system, row.id, row.behaviour
                );
            }
            for (id, test) in &page.broken {
                println!(
                    "{}: {id} names {test}, and there is no such test",
                    page.system
                );
            }
        }
        for line in self.systems() {
            println!("{line}");
        }
    }
}

pub(crate) fn run() -> anyhow::Result<()> {
    let checked = check(cargo::root())?;
    checked.print();
    match checked.broken() {
        0 => Ok(()),
        broken => bail!("{broken} tests are named that do not exist"),
    }
}

/// Reads every page below `root` and looks for the tests it names.
pub(crate) fn check(root: &Path) -> anyhow::Result<Checked> {
    let dir = root.join("docs").join("requirements");
    let entries = fs::read_dir(&dir).context("reading docs/requirements")?;
    let mut files: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();

    let tests = Tests::below(root)?;
    let mut pages = Vec::new();
    for file in files {
        let system = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let rows =
            rows_in(&fs::read_to_string(&file)?).with_context(|| format!("reading {system}.md"))?;
        // A page without a table explains something; it requires nothing.
        if rows.is_empty() {
            continue;
        }
        let named = rows
            .iter()
            .flat_map(|row| row.tests.iter().map(|test| (row.id.clone(), test.clone())));
        let broken = named.filter(|(_, test)| !tests.has(test)).collect();
        pages.push(Page {
            system,
            rows,
            broken,
        });
    }
    ensure!(
        !pages.is_empty(),
        "docs/requirements has no table of requirements"
    );
    Ok(Checked { pages })
}

/// The rows of every table with the columns `id`, `behaviour` and `test`.
fn rows_in(page: &str) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut seen = BTreeSet::new();
    let mut in_table = false;
    for line in page.lines() {
        let Some(cells) = cells_of(line) else {
            in_table = false;
            continue;
        };
        let lower: Vec<_> = cells.iter().map(|cell| cell.to_lowercase()).collect();
        if lower == ["id", "behaviour", "test"] {
            in_table = true;
            continue;
        }
        let is_rule = cells
            .iter()
            .all(|cell| !cell.is_empty() && cell.chars().all(|c| c == '-' || c == ':'));
        if !in_table || is_rule {
            continue;
        }
        let [id, behaviour, tests] = cells.as_slice() else {
            bail!("a row with {} columns: {line}", cells.len());
        };
        let id = id.trim_matches('`').to_owned();
        ensure!(seen.insert(id.clone()), "{id} stands there twice");
        rows.push(Row {
            id,
            behaviour: behaviour.clone(),
            tests: in_backticks(tests),
        });
    }
    Ok(rows)
}

/// The cells of a table row; `\|` and a bar between backticks belong to a cell.
fn cells_of(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let mut cells = vec![String::new()];
    let (mut code, mut escaped) = (false, false);
    for c in inner.chars() {
        if c == '|' && !code && !escaped {
            cells.push(String::new());
            continue;
        }
        code ^= c == '`';
        escaped = c == '\\';
        cells.last_mut()?.push(c);
    }
    Some(
        cells
            .into_iter()
            .map(|cell| cell.trim().to_owned())
            .collect(),
    )
}

fn in_backticks(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Every function of every crate, and the golden scenarios.
struct Tests {
    functions: BTreeMap<String, BTreeSet<String>>,
    scenarios: BTreeSet<String>,
}

impl Tests {
    fn below(root: &Path) -> anyhow::Result<Self> {
        let mut functions = BTreeMap::new();
        let mut crates = vec![root.join("xtask")];
        for entry in fs::read_dir(root.join("crates")).context("reading crates")? {
            crates.push(entry?.path());
        }
        for path in crates {
            let mut files = Vec::new();
            if path.is_dir() {
                rust_files(&path, &mut files)?;
            }
            let mut names = BTreeSet::new();
            for file in files {
                names.extend(functions_in(&fs::read_to_string(file)?));
            }
            functions.insert(
                path.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                names,
            );
        }
        let mut scenarios = BTreeSet::new();
        scenario_names(
            &root.join("crates/lifecycle/tests/scenarios"),
            &mut scenarios,
        )?;
        Ok(Self {
            functions,
            scenarios,
        })
    }

    fn has(&self, test: &str) -> bool {
        let mut path = test.split("::");
        let (Some(package), Some(name)) = (path.next(), path.last()) else {
            return false;
        };
        let in_package = self
            .functions
            .get(package)
            .is_some_and(|names| names.contains(name));
        in_package || (package == "lifecycle" && self.scenarios.contains(name))
    }
}

fn functions_in(source: &str) -> impl Iterator<Item = String> {
    source.split("fn ").skip(1).map(|rest| {
        rest.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    })
}

fn scenario_names(dir: &Path, into: &mut BTreeSet<String>) -> anyhow::Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        scenario_names(&path, into)?;
        for name in [path.file_name(), path.file_stem()].into_iter().flatten() {
            into.insert(name.to_string_lossy().into_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!(
            "keyward-requirements-{name}-{}",
            std::process::id()
        ));
        let _ = fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, text).expect("written");
        }
        root
    }

    const PAGE: &str = "# Core\n\n| id | behaviour | test |\n|----|:---|---|\n\
        | P1 | never revoked while held | `lifecycle::walk::a_held_version_stays`, `lifecycle::scenarios::held` |\n\
        | P2 | a \\| b, or `a|b` | |\n\nText.\n\n| other | table |\n|---|---|\n| x | y |\n";

    #[test]
    fn rows_are_read_and_other_tables_are_not() {
        let rows = rows_in(PAGE).expect("rows");
        assert_eq!(rows.len(), 2);
        assert_eq!(
            rows[0].tests,
            [
                "lifecycle::walk::a_held_version_stays",
                "lifecycle::scenarios::held"
            ]
        );
        assert_eq!(
            rows[1],
            Row {
                id: "P2".into(),
                behaviour: "a \\| b, or `a|b`".into(),
                tests: vec![]
            }
        );
    }

    #[test]
    fn the_same_id_twice_is_an_error() {
        let twice = "| id | behaviour | test |\n|-|-|-|\n| A | x | |\n| A | y | |\n";
        assert_eq!(
            rows_in(twice).expect_err("refused").to_string(),
            "A stands there twice"
        );
    }

    #[test]
    fn existing_tests_count_and_missing_ones_are_named() {
        let root = tree(
            "missing",
            &[
                ("docs/requirements/core.md", PAGE),
                ("docs/requirements/README.md", "no table"),
                (
                    "docs/requirements/gitlab.md",
                    "| ID | Behaviour | Test |\n|-|-|-|\n| G1 | x | `sources::a_held_version_stays` |\n",
                ),
                (
                    "crates/lifecycle/tests/walk.rs",
                    "#[test]\nfn a_held_version_stays() {}\n",
                ),
                ("crates/lifecycle/tests/scenarios/retire/held.json", "{}"),
                (
                    "crates/sources/src/lib.rs",
                    "fn a_held_version_stays_longer() {}",
                ),
            ],
        );
        let checked = check(&root).expect("pages");
        assert_eq!(
            checked.systems(),
            [
                "core: 1 of 2 shown by tests",
                "gitlab: 1 of 1 shown by tests"
            ]
        );
        assert_eq!(checked.broken(), 1);
        assert_eq!(
            checked.pages[1].broken,
            [("G1".to_owned(), "sources::a_held_version_stays".to_owned())]
        );
        fs::remove_dir_all(root).expect("removed");
    }

    #[test]
    fn a_tree_without_requirements_is_an_error() {
        let root = tree(
            "empty",
            &[
                ("docs/requirements/README.md", "none"),
                ("crates/a/src/lib.rs", ""),
            ],
        );
        assert!(check(&root).is_err());
        fs::remove_dir_all(root).expect("removed");
    }
}
