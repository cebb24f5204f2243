//! Which required behaviour is shown by which test.
//!
//! Each page of `docs/requirements/` has tables with the columns `id`, `behaviour` and `test`. The
//! last holds tests in backticks, as `crate::module::name`, or is empty; the module may be one above
//! that of the test. A golden scenario counts as a test: `lifecycle::scenarios::NAME` is a file
//! `NAME.*` below `crates/lifecycle/tests/scenarios/`. A test that is ignored shows something only
//! where the row says which command runs it, right after its name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

use self::tests_in_source::{Found, tests_in};
use crate::cargo;
use crate::targets::rust_files;

mod tests_in_source;

#[derive(Debug, PartialEq, Eq)]
struct Row {
    id: String,
    behaviour: String,
    tests: Vec<Named>,
}

/// A test that a row names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    test: String,
    /// The command that runs it, where the row names one.
    run_by: Option<String>,
}

/// A page, and what is wrong with it.
#[derive(Debug)]
struct Page {
    system: String,
    rows: Vec<Row>,
    /// (id, test, what is wrong with it).
    broken: Vec<(String, String, &'static str)>,
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
            for (id, test, wrong) in &page.broken {
                println!("{}: {id} names {test}, and {wrong}", page.system);
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
        broken => bail!("{broken} tests are named that show nothing"),
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
            .flat_map(|row| row.tests.iter().map(|named| (row.id.clone(), named)));
        let broken = named
            .filter_map(|(id, named)| Some((id, named.test.clone(), tests.wrong_with(named)?)))
            .collect();
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
            tests: named_in(tests),
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

/// What stands in backticks: tests, and after an ignored one the command that runs it.
fn named_in(cell: &str) -> Vec<Named> {
    let mut named: Vec<Named> = Vec::new();
    for text in cell.split('`').skip(1).step_by(2) {
        match named.last_mut() {
            Some(before) if text.starts_with("cargo ") => before.run_by = Some(text.to_owned()),
            _ => named.push(Named {
                test: text.to_owned(),
                run_by: None,
            }),
        }
    }
    named
}

/// Every test of every crate, and the golden scenarios.
struct Tests {
    /// By crate and name: a name may be used in more than one module.
    found: BTreeMap<(String, String), Vec<Found>>,
    scenarios: BTreeSet<String>,
}

impl Tests {
    fn below(root: &Path) -> anyhow::Result<Self> {
        let mut found: BTreeMap<_, Vec<Found>> = BTreeMap::new();
        let mut crates = vec![root.join("xtask")];
        for entry in fs::read_dir(root.join("crates")).context("reading crates")? {
            crates.push(entry?.path());
        }
        for path in crates {
            let package = path.file_name().unwrap_or_default().to_string_lossy();
            let mut files = Vec::new();
            if path.is_dir() {
                rust_files(&path, &mut files)?;
            }
            for file in files {
                let module = module_of(file.strip_prefix(&path)?);
                for test in tests_in(&fs::read_to_string(&file)?, &module) {
                    let key = (package.clone().into_owned(), test.name.clone());
                    found.entry(key).or_default().push(test);
                }
            }
        }
        let mut scenarios = BTreeSet::new();
        scenario_names(
            &root.join("crates/lifecycle/tests/scenarios"),
            &mut scenarios,
        )?;
        Ok(Self { found, scenarios })
    }

    fn wrong_with(&self, named: &Named) -> Option<&'static str> {
        let Some((package, path)) = named.test.split_once("::") else {
            return Some("that names no crate");
        };
        let (module, name) = path.rsplit_once("::").unwrap_or(("", path));
        if package == "lifecycle" && module == "scenarios" && self.scenarios.contains(name) {
            return None;
        }
        let key = (package.to_owned(), name.to_owned());
        let of_that_name = self.found.get(&key).map_or(&[][..], Vec::as_slice);
        let mut there = of_that_name.iter().filter(|test| test.is_below(module));
        let Some(test) = there.next() else {
            return Some("there is no such test");
        };
        let Some(reason) = &test.ignored else {
            return None;
        };
        match &named.run_by {
            Some(command) if reason.contains(command) => None,
            Some(_) => Some("it is ignored for another reason than that command"),
            None => Some("it is ignored, and the row does not say which command runs it"),
        }
    }
}

/// The module that a file of a crate is, such as `engine::lease` or, for a test program, its name.
fn module_of(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if !parts.is_empty() {
        parts.remove(0);
    }
    if ["mod", "main", "lib"]
        .map(str::to_owned)
        .iter()
        .any(|root| parts.last() == Some(root))
    {
        parts.pop();
    }
    parts
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
mod tests;
