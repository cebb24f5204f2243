//! The page of reasons is made from the table of reasons, and the page of waits is compared with it, so that neither can
//! fall behind.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use lifecycle::{Because, EndsBy, Severity};

const INTRODUCTION: &str = "\
# Reasons

Every reason Keyward gives, once. The code is the condition reason, the event reason, the metric label and the log
field; `keyward explain` prints the sentences. Kinds may use the event names of the design they follow beside these.

This page is made from `crates/lifecycle/src/because.rs`. `KEYWARD_UPDATE=1 cargo test -p keyward --test docs_reasons`
rewrites it.

| severity | meaning |
|---|---|
| calm | as it should be |
| under way | being done, or waiting for something that comes by itself |
| trouble | something failed and is tried again |
| needs a person | it will not come right by itself; the condition Stalled is set |

| reason | severity | what is so | what ends it |
|---|---|---|---|
";

fn severity(because: Because) -> &'static str {
    match because.severity() {
        Severity::Calm => "calm",
        Severity::Underway => "under way",
        Severity::Trouble => "trouble",
        Severity::NeedsAPerson => "needs a person",
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for because in Because::ALL {
        writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            because.code(),
            severity(*because),
            because.text(),
            because.ends()
        )
        .expect("text can be written into a String");
    }
    page
}

#[test]
fn the_reference_lists_every_reason() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/reasons.md");
    if std::env::var_os("KEYWARD_UPDATE").is_some() {
        std::fs::write(&path, page()).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).expect("the page can be read");
    assert!(
        written == page(),
        "docs/reference/reasons.md differs from the reasons; write it anew with KEYWARD_UPDATE=1"
    );
}

/// One row of the page of waits.
#[derive(Debug)]
struct Row {
    reason: String,
    how_soon: String,
    tests: Vec<String>,
}

fn rows(page: &str) -> Vec<Row> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [reason, ends, how_soon, tests] = cells[..] else {
            panic!("four columns: {line}");
        };
        assert!(ends.len() > 5, "what ends it: {line}");
        Row {
            reason: reason.trim_matches('`').to_owned(),
            how_soon: how_soon.to_owned(),
            tests: in_backticks(tests),
        }
    })
    .collect()
}

fn in_backticks(text: &str) -> Vec<String> {
    let parts = text.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}

/// Every source of one crate, as one text.
fn sources_of(crate_name: &str) -> String {
    let mut open = vec![crates().join(crate_name)];
    let mut text = String::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a readable folder");
            open.extend(entries.map(|entry| entry.expect("a readable entry").path()));
        } else if path.extension().is_some_and(|end| end == "rs") {
            text += &std::fs::read_to_string(&path).expect("a readable source");
        }
    }
    text
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn exists(test: &str, sources: &[(&str, String)]) -> bool {
    let name = test.rsplit("::").next().unwrap_or_default();
    let scenario = crates().join(format!("lifecycle/tests/scenarios/{name}.yaml"));
    let is_test =
        |(of, text): &(&str, String)| test.starts_with(of) && text.contains(&format!("fn {name}("));
    (test.starts_with("lifecycle::scenarios::") && scenario.exists()) || sources.iter().any(is_test)
}

/// P12.
#[test]
fn every_wait_has_a_row_that_says_what_ends_it_and_how_soon() {
    let path = crates().join("../docs/reference/waits.md");
    let page = std::fs::read_to_string(path).expect("the page can be read");
    let rows = rows(&page);
    let sources = ["keyward", "lifecycle"].map(|of| (of, sources_of(of)));
    for because in Because::ALL {
        let mut of_it = rows.iter().filter(|row| row.reason == because.code());
        let row = of_it.next();
        assert!(of_it.next().is_none(), "{} has two rows", because.code());
        let waits = because.ends_by() != EndsBy::Nothing;
        assert_eq!(waits, row.is_some(), "a row for {}", because.code());
        if let Some(row) = row {
            assert_eq!(row.how_soon, because.ends_by().how_soon(), "{row:?}");
            assert!(!row.tests.is_empty(), "{row:?}");
        }
    }
    let named = rows.iter().flat_map(|row| row.tests.iter().cloned());
    for test in named.chain(
        in_backticks(&page)
            .into_iter()
            .filter(|text| text.contains("::")),
    ) {
        assert!(exists(&test, &sources), "there is no {test}");
    }
}
