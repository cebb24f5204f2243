use super::*;
use crate::ClusterId;

fn ledger() -> Ledger {
    Ledger {
        current: Some(Entry {
            version: Version::new(3, 1),
            id: "id-3".into(),
            secret: "demo-3-1".into(),
            uid: None,
            fingerprint: "abc".into(),
            minted: Timestamp::UNIX_EPOCH,
            expires: None,
            superseded: None,
            deadline: None,
            held: false,
            sealed: false,
            closed: false,
            source: None,
        }),
        high: Version::new(3, 1),
        ..Ledger::default()
    }
}

fn bearer() -> Bearer {
    Bearer {
        cluster: ClusterId::of_cluster("11111111-2222-3333-4444-555555555555"),
        namespace: "demo".into(),
        name: "db".into(),
        uid: "6f1c2d3e-0000-4000-8000-00000000000a".into(),
    }
}

fn read(text: &str) -> LedgerState {
    LedgerState::read(Some(text), |of| *of == bearer(), |_| false)
}

#[test]
fn a_ledger_counts_only_for_the_resource_it_names() {
    let others = [
        Bearer {
            uid: "other".into(),
            ..bearer()
        },
        Bearer {
            name: "copy".into(),
            ..bearer()
        },
        Bearer {
            namespace: "elsewhere".into(),
            ..bearer()
        },
        Bearer {
            cluster: ClusterId::of_cluster("another"),
            ..bearer()
        },
    ];
    for other in others {
        let copied = ledger().write(&other);
        assert_eq!(read(&copied), LedgerState::OfAnother(Some(Box::new(other))));
    }
}

#[test]
fn a_ledger_that_names_nobody_is_anothers_if_one_of_its_secrets_is() {
    let text = ledger().write(&bearer()).replace("\"v\":2", "\"v\":1");
    let (before, rest) = text.split_once("\"of\":").expect("it names its bearer");
    let rest = rest.split_once("},").expect("an object").1;
    let text = format!("{before}{rest}");
    let read = |is_anothers| LedgerState::read(Some(&text), |of| *of == bearer(), |_| is_anothers);
    assert_eq!(read(false), LedgerState::Is(Box::new(ledger())));
    assert_eq!(read(true), LedgerState::OfAnother(None));
}

#[test]
fn a_ledger_of_this_format_that_names_nobody_was_tampered_with() {
    assert_eq!(read(r#"{"v":2,"high":"0.0"}"#), LedgerState::Unreadable);
}

#[test]
fn a_ledger_reads_back_as_it_was_written() {
    assert_eq!(
        read(&ledger().write(&bearer())),
        LedgerState::Is(Box::new(ledger()))
    );
}

#[test]
fn a_ledger_of_before_sources_were_recorded_is_read() {
    let text = r#"{"v":1,"current":{"version":"3.1","id":"id-3","secret":"demo-3-1","print":"abc","minted":"1970-01-01T00:00:00Z"},"high":"3.1"}"#;
    assert_eq!(read(text), LedgerState::Is(Box::new(ledger())));
}

#[test]
fn places_that_went_astray_are_kept_once_each_and_not_without_end() {
    let mut ledger = ledger();
    for n in 0..40 {
        let place: Arc<str> = format!("place {n}").into();
        ledger.went_astray(Some(place.clone()));
        ledger.went_astray(Some(place));
        ledger.went_astray(None);
    }
    assert_eq!(ledger.astray.len(), MOST_ASTRAY);
    assert_eq!(&*ledger.astray[MOST_ASTRAY - 1], "place 39");
    assert_eq!(
        read(&ledger.write(&bearer())),
        LedgerState::Is(Box::new(ledger))
    );
}

#[test]
fn an_empty_ledger_is_short() {
    assert!(Ledger::default().write(&bearer()).len() < 200);
}

#[test]
fn a_ledger_from_the_future_is_left_alone() {
    assert_eq!(
        read(r#"{"v":3,"high":{"new":"shape"}}"#),
        LedgerState::Newer
    );
}

#[test]
fn what_is_not_a_ledger_counts_as_lost() {
    let cut = &ledger().write(&bearer())[..40];
    for text in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"v":1,"high":"x"}"#,
        r#"{"v":1,"high":"1.1","unknown":1}"#,
        cut,
    ] {
        assert_eq!(read(text), LedgerState::Unreadable, "{text}");
    }
    assert_eq!(
        LedgerState::read(None, |_| true, |_| false),
        LedgerState::Absent
    );
}
