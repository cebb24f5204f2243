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
    let named: Vec<&str> = rows[0].tests.iter().map(|named| &*named.test).collect();
    assert_eq!(
        named,
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
        [(
            "G1".to_owned(),
            "sources::a_held_version_stays".to_owned(),
            "there is no such test"
        )]
    );
    fs::remove_dir_all(root).expect("removed");
}

/// A page whose rows name these tests, over a crate with one test of each sort.
fn wrong_with(name: &str, cells: &[&str]) -> Vec<Option<&'static str>> {
    let mut page = "| id | behaviour | test |\n|-|-|-|\n".to_owned();
    for (row, cell) in cells.iter().enumerate() {
        page += &["| R", &row.to_string(), " | x | ", cell, " |\n"].concat();
    }
    let walk = "#[test]\n#[ignore = \"long; run by `cargo xtask prove`\"]\nfn the_whole_walk() {}\n\n\
            /// Words.\n#[tokio::test(flavor = \"multi_thread\")]\nasync fn the_quick_walk() {}\n\n\
            async fn survives() {}\n// #[test]\n// fn nobody_runs_it() {}\n";
    let root = tree(
        name,
        &[
            ("docs/requirements/core.md", &page),
            ("crates/keyward/tests/walks/main.rs", walk),
            (
                "crates/keyward/tests/walks/deep.rs",
                "#[test]\n#[should_panic(\n    expected = \"fn x\"\n)]\nfn it_is_broken() {}",
            ),
            (
                "crates/keyward/src/contract/ends.rs",
                "super::case_list![\n    an_end_is_an_end,\n];\nasync fn an_end_is_an_end() {}\n",
            ),
        ],
    );
    let checked = check(&root).expect("a page");
    fs::remove_dir_all(root).expect("removed");
    let broken = &checked.pages[0].broken;
    (0..cells.len())
        .map(|row| {
            let id = format!("R{row}");
            let found = broken.iter().find(|(broken, _, _)| *broken == id);
            found.map(|(_, _, wrong)| *wrong)
        })
        .collect()
}

#[test]
fn a_test_counts_where_it_stands_and_a_mere_function_does_not() {
    let missing = Some("there is no such test");
    let rows = [
        ("`keyward::walks::the_quick_walk`", None),
        ("`keyward::walks::deep::it_is_broken`", None),
        ("`keyward::walks::it_is_broken`", None),
        ("`keyward::contract::ends::an_end_is_an_end`", None),
        ("`keyward::walk::the_quick_walk`", missing),
        ("`keyward::contract::the_quick_walk`", missing),
        ("`keyward::walks::deep::the_quick_walk`", missing),
        ("`keyward::the_quick_walk`", missing),
        ("`keyward::walks::survives`", missing),
        ("`keyward::walks::nobody_runs_it`", missing),
        ("`sources::walks::the_quick_walk`", missing),
    ];
    let wrong = wrong_with("modules", &rows.map(|(cell, _)| cell));
    for ((cell, expected), wrong) in rows.into_iter().zip(wrong) {
        assert_eq!(wrong, expected, "{cell}");
    }
}

#[test]
fn an_ignored_test_counts_only_with_the_command_that_runs_it() {
    let wrong = wrong_with(
        "ignored",
        &[
            "`keyward::walks::the_whole_walk`",
            "`keyward::walks::the_whole_walk` (`cargo xtask prove`), `keyward::walks::the_quick_walk`",
            "`keyward::walks::the_whole_walk` (`cargo xtask test`)",
        ],
    );
    assert_eq!(
        wrong,
        [
            Some("it is ignored, and the row does not say which command runs it"),
            None,
            Some("it is ignored for another reason than that command"),
        ]
    );
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
