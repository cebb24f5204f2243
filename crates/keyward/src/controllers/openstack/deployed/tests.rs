use serde_json::{Value, json};

use super::*;

const CONFIG: &str = "nova-cell1-compute-config";

fn at(second: i64) -> Option<Timestamp> {
    Timestamp::from_second(1_800_000_000 + second).ok()
}

fn set(items: &[&str]) -> BTreeSet<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

/// Three nodes and a configuration with this id, written then.
fn seen(id: &str, written: i64) -> Sight {
    let nodes =
        ["a", "b", "c"].map(|node| (node.to_owned(), set(&[&format!("{node}.example.com")])));
    let config = Config {
        ids: set(&[id]),
        written: at(written),
    };
    Sight {
        uid: "set".to_owned(),
        nodes: nodes.into(),
        deployments: Vec::new(),
        configs: [(CONFIG.to_owned(), config)].into(),
        before: BTreeMap::new(),
    }
}

fn deployment(uid: &str, created: i64, over: bool, limit: &str) -> Deployment {
    Deployment {
        uid: uid.to_owned(),
        name: uid.to_owned(),
        created: at(created),
        over,
        reach: reach(limit, &seen("", 0).nodes),
        gave: if over {
            set(&[CONFIG])
        } else {
            BTreeSet::new()
        },
    }
}

/// The record after these looks.
fn after(looks: &[Sight]) -> Record {
    let record = looks.iter().fold(None, |record: Option<Record>, seen| {
        Some(Record::next(record.as_ref(), seen))
    });
    record.unwrap()
}

fn with(mut seen: Sight, deployments: &[Deployment]) -> Sight {
    seen.deployments = deployments.to_vec();
    seen
}

fn nodes(record: &Record, id: &str) -> Vec<(String, bool)> {
    let found = record.nodes_with(id).into_iter();
    found
        .map(|(node, certain)| (node.to_owned(), certain))
        .collect()
}

fn certainly(names: &[&str]) -> Vec<(String, bool)> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), true))
        .collect()
}

#[test]
fn a_full_deployment_gives_all_nodes_what_was_there_when_it_began() {
    let begun = with(seen("old", 1), &[deployment("one", 5, false, "")]);
    // Rendered anew while it runs, with the hash of the new at its end.
    let ended = with(seen("new", 7), &[deployment("one", 5, true, "")]);
    let record = after(&[begun, ended]);
    assert_eq!(nodes(&record, "old"), certainly(&["a", "b", "c"]));
    assert_eq!(nodes(&record, "new"), []);
}

#[test]
fn one_whose_start_nobody_saw_counts_only_if_it_was_made_after_the_config_was_written() {
    let in_time = after(&[with(seen("new", 4), &[deployment("one", 5, true, "")])]);
    assert_eq!(nodes(&in_time, "new"), certainly(&["a", "b", "c"]));
    assert_eq!(nodes(&in_time, "old"), []);
    for written in [5, 6] {
        let late = after(&[with(
            seen("new", written),
            &[deployment("one", 5, true, "")],
        )]);
        let unknown: Vec<_> = ["a", "b", "c"].map(|node| (node.to_owned(), false)).into();
        assert_eq!(nodes(&late, "old"), unknown, "{written}");
        assert_eq!(nodes(&late, "new"), unknown, "{written}");
    }
}

#[test]
fn limited_deployments_count_for_their_nodes_and_together_for_all() {
    let first = deployment("one", 2, true, "");
    let a = deployment("two", 10, true, "a,b.example.com");
    let c = deployment("three", 12, true, "c");
    let old = with(seen("old", 1), std::slice::from_ref(&first));
    let some = with(seen("new", 8), &[first.clone(), a.clone()]);
    let record = after(&[old.clone(), some.clone()]);
    assert_eq!(nodes(&record, "old"), certainly(&["c"]));
    assert_eq!(nodes(&record, "new"), certainly(&["a", "b"]));
    let all = with(seen("new", 8), &[first, a, c]);
    let record = after(&[old, some, all]);
    assert_eq!(nodes(&record, "old"), []);
    assert_eq!(nodes(&record, "new"), certainly(&["a", "b", "c"]));
}

#[test]
fn a_deployment_of_other_services_gives_nothing_new() {
    let mut other = deployment("two", 10, true, "");
    other.gave = set(&["libvirt-certs"]);
    let first = deployment("one", 2, true, "");
    let old = with(seen("old", 1), std::slice::from_ref(&first));
    let record = after(&[old, with(seen("new", 8), &[first, other])]);
    assert_eq!(nodes(&record, "old"), certainly(&["a", "b", "c"]));
    assert_eq!(nodes(&record, "new"), []);
}

#[test]
fn a_pattern_counts_for_nobody_and_may_have_reached_anybody() {
    let first = deployment("one", 2, true, "");
    let pattern = deployment("two", 10, true, "comp*:!b");
    let old = with(seen("old", 1), std::slice::from_ref(&first));
    let record = after(&[old, with(seen("new", 8), &[first, pattern])]);
    assert_eq!(nodes(&record, "old"), certainly(&["a", "b", "c"]));
    assert_eq!(nodes(&record, "new"), certainly(&["a", "b", "c"]));
}

#[test]
fn one_that_is_under_way_or_went_without_an_end_may_have_reached_its_nodes() {
    let first = deployment("one", 2, true, "");
    let running = deployment("two", 10, false, "a");
    let old = with(seen("old", 1), std::slice::from_ref(&first));
    let under_way = with(seen("new", 8), &[first.clone(), running]);
    let record = after(&[old.clone(), under_way.clone()]);
    assert!(record.is_under_way("new"));
    assert_eq!(nodes(&record, "old"), certainly(&["a", "b", "c"]));
    let record = after(&[old, under_way, with(seen("newer", 20), &[first])]);
    assert!(!record.is_under_way("new"));
    assert_eq!(nodes(&record, "old"), certainly(&["a", "b", "c"]));
    assert_eq!(nodes(&record, "new"), certainly(&["a"]));
}

#[test]
fn removed_nodes_are_not_waited_for_and_new_ones_have_nothing() {
    let first = deployment("one", 2, true, "");
    let mut fewer = with(seen("new", 8), std::slice::from_ref(&first));
    fewer.nodes.remove("b");
    fewer.nodes.insert("d".to_owned(), BTreeSet::new());
    let record = after(&[with(seen("old", 1), &[first]), fewer]);
    assert_eq!(nodes(&record, "old"), certainly(&["a", "c"]));
}

#[test]
fn an_older_deployment_is_not_counted_twice() {
    let first = deployment("one", 2, true, "");
    let second = deployment("two", 10, true, "");
    let old = with(seen("old", 1), std::slice::from_ref(&first));
    let both = with(seen("new", 8), &[second, first]);
    let record = after(&[old, both.clone(), both]);
    assert_eq!(nodes(&record, "old"), []);
}

#[test]
fn a_record_counts_for_the_set_it_names_and_only_as_long_as_it_has_everything() {
    let mut object: DynamicObject = serde_json::from_value(json!({
        "metadata": { "name": "compute", "uid": "set" },
    }))
    .unwrap();
    let record = after(&[with(seen("old", 1), &[deployment("one", 2, true, "")])]);
    let text = serde_json::to_string(&record).unwrap();
    object.annotations_mut().insert(RECORD.to_owned(), text);
    assert_eq!(Record::on(&object), Some(record.clone()));
    object.metadata.uid = Some("copy".to_owned());
    assert_eq!(Record::on(&object), None);
    assert!(record.has_all(&[deployment("one", 2, true, "")]));
    assert!(!record.has_all(&[deployment("two", 3, true, "")]));
    assert!(!record.has_all(&[deployment("two", 3, false, "")]));
}

#[test]
fn ids_are_what_a_configuration_logs_in_with() {
    let texts = [
        "[a]\napplication_credential_id = one\n[b]\napplication_credential_id=two",
        "application_credential_secret = no\n#application_credential_id = three",
    ];
    let found = ids_in(texts.iter().map(|text| text.as_bytes().to_vec()));
    assert_eq!(json!(found), json!(["one", "two"]) as Value);
}
