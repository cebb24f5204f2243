//! The page of reasons is made from the table of reasons, so that it cannot fall behind.

use std::fmt::Write as _;
use std::path::Path;

use lifecycle::{Because, Severity};

const INTRODUCTION: &str = "\
# Reasons

Every reason Keyward gives, once. The code is the condition reason, the event reason, the metric label and the log
field; `keyward explain` prints the sentences. Kinds may use the event names of the design they follow beside these.

This page is made from `crates/lifecycle/src/because.rs`. `KEYWARD_UPDATE=1 cargo test -p keyward --test docs_reasons`
writes it anew.

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
