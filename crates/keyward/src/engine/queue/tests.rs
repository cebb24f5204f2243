use super::*;

fn key(name: &str) -> Key {
    key_in("ns", name)
}

fn key_in(namespace: &str, name: &str) -> Key {
    Key {
        controller: 0,
        namespace: namespace.into(),
        name: name.into(),
        departed: None,
    }
}

fn seen(version: &str) -> Sighting {
    Sighting::Resource {
        version: version.into(),
    }
}

fn finish(queue: &Queue, taken: Taken, horizon: Horizon, then: &Then) {
    queue.finish(Taken { horizon, ..taken }, then);
}

fn horizon(version: &str) -> Horizon {
    Horizon {
        resource: Some(version.into()),
        ..Horizon::default()
    }
}

#[test]
fn a_resource_is_in_line_once_however_often_it_is_seen() {
    let queue = Queue::new(256);
    queue.sighted(&key("a"), seen("1"));
    queue.sighted(&key("a"), seen("2"));
    assert!(queue.take().is_some());
    assert!(queue.take().is_none());
}

#[test]
fn a_pass_that_read_something_older_than_what_woke_it_looks_again() {
    let queue = Queue::new(256);
    queue.sighted(&key("a"), seen("9"));
    let taken = queue.take().unwrap();
    finish(&queue, taken, horizon("8"), &Then::Wait { until: None });
    let taken = queue.take().expect("another look");
    finish(&queue, taken, horizon("9"), &Then::Wait { until: None });
    assert!(queue.take().is_none());
}

#[test]
fn what_woke_a_pass_that_was_cut_short_wakes_the_next() {
    let queue = Queue::new(256);
    let at = |second| Timestamp::from_second(second).unwrap();
    queue.sighted(&key("a"), seen("9"));
    let taken = queue.take().unwrap();
    queue.finish(taken, &Then::Retry { at: at(10) });
    assert!(queue.take().is_none(), "not before its time");
    queue.due(at(10));
    let taken = queue.take().unwrap();
    finish(&queue, taken, horizon("8"), &Then::Wait { until: None });
    assert!(
        queue.take().is_some(),
        "it read something older than what woke the first"
    );
}

#[test]
fn our_own_writes_do_not_wake_us() {
    let queue = Queue::new(256);
    queue.sighted(&key("a"), seen("1"));
    let taken = queue.take().unwrap();
    queue.sighted(&key("a"), seen("5"));
    finish(&queue, taken, horizon("7"), &Then::Wait { until: None });
    queue.sighted(&key("a"), seen("7"));
    assert!(queue.take().is_none());
    queue.sighted(&key("a"), seen("8"));
    assert!(queue.take().is_some());
}

#[test]
fn what_happens_during_a_pass_is_not_missed() {
    let queue = Queue::new(256);
    queue.sighted(&key("a"), seen("1"));
    let taken = queue.take().unwrap();
    queue.sighted(
        &key("a"),
        Sighting::Secret {
            uid: "s".into(),
            version: "9".into(),
            owner: None,
        },
    );
    assert!(queue.take().is_none(), "never two passes over one resource");
    finish(&queue, taken, horizon("3"), &Then::Wait { until: None });
    assert!(queue.take().is_some());
}

#[test]
fn timers_fire_when_due_and_tell_the_next() {
    let queue = Queue::new(256);
    let at = |second| Timestamp::from_second(second).unwrap();
    for (name, second) in [("a", 10), ("b", 20)] {
        queue.sighted(&key(name), seen("1"));
        let taken = queue.take().unwrap();
        finish(
            &queue,
            taken,
            horizon("1"),
            &Then::Wait {
                until: Some(at(second)),
            },
        );
    }
    assert_eq!(queue.due(at(5)), Some(at(10)));
    assert!(queue.take().is_none());
    assert_eq!(queue.due(at(12)), Some(at(20)));
    assert_eq!(queue.take().unwrap().key, key("a"));
}

#[test]
fn what_went_while_a_watch_was_down_is_noticed() {
    let queue = Queue::new(256);
    queue.sighted(&key("a"), seen("1"));
    let taken = queue.take().unwrap();
    let mut known = horizon("1");
    known.secrets.insert("s".into(), "1".into());
    finish(&queue, taken, known, &Then::Wait { until: None });
    queue.relisted(0, None, &HashSet::from([key("a")]));
    queue.relisted_secrets(None, &HashSet::from(["s".to_owned()]));
    assert!(queue.take().is_none());
    queue.relisted_secrets(None, &HashSet::new());
    assert!(queue.take().is_some());
}

/// The names of all that can be taken now, in this order.
fn take_all(queue: &Queue) -> Vec<String> {
    let taken = std::iter::from_fn(|| queue.take());
    taken.map(|taken| taken.key.to_string()).collect()
}

/// Takes one, lets it come to an issuer, and ends its pass.
fn visit(queue: &Queue, key: &Key, issuer: &str) {
    queue.sighted(key, seen("1"));
    let taken = queue.take().unwrap();
    assert!(queue.comes_to(key, issuer, false));
    finish(queue, taken, horizon("1"), &Then::Wait { until: None });
}

#[test]
fn namespaces_come_by_turns_and_within_one_the_first_comes_first() {
    let queue = Queue::new(256);
    for name in ["1", "2", "3"] {
        queue.sighted(&key_in("crowd", name), seen("1"));
    }
    for name in ["1", "2"] {
        queue.sighted(&key_in("victim", name), seen("1"));
    }
    let order = take_all(&queue);
    assert_eq!(
        order,
        ["crowd/1", "victim/1", "crowd/2", "victim/2", "crowd/3"]
    );
}

#[test]
fn who_has_its_share_under_way_waits_in_line_and_nobody_else_does() {
    let queue = Queue::new(2);
    for name in ["1", "2", "3"] {
        queue.sighted(&key_in("crowd", name), seen("1"));
    }
    let first = queue.take().unwrap();
    assert_eq!(take_all(&queue), ["crowd/2"]);
    queue.sighted(&key_in("victim", "1"), seen("1"));
    assert_eq!(take_all(&queue), ["victim/1"]);
    finish(&queue, first, horizon("1"), &Then::Wait { until: None });
    assert_eq!(take_all(&queue), ["crowd/3"]);
}

#[test]
fn a_pass_that_finds_no_room_at_its_issuer_stands_aside_until_there_is() {
    let queue = Queue::new(1);
    for name in ["1", "2"] {
        queue.sighted(&key(name), seen("1"));
    }
    let first = queue.take().unwrap();
    assert!(queue.comes_to(&first.key, "tarpit", false));
    let second = queue.take().expect("its issuer is not known yet");
    assert!(!queue.comes_to(&second.key, "tarpit", false));
    queue.stand_aside(second, "tarpit");
    assert!(queue.take().is_none());
    assert_eq!(queue.load(), (2, 1, 1));
    finish(&queue, first, horizon("1"), &Then::Wait { until: None });
    assert_eq!(take_all(&queue), ["ns/2"]);
}

#[test]
fn who_stands_aside_after_a_change_does_not_wait_for_the_old_issuer() {
    let queue = Queue::new(1);
    visit(&queue, &key("1"), "tarpit");
    queue.sighted(&key("1"), Sighting::Other);
    let _first = queue.take().unwrap();
    queue.sighted(&key("2"), seen("1"));
    let second = queue.take().unwrap();
    assert!(!queue.comes_to(&second.key, "tarpit", false));
    queue.sighted(&key("2"), seen("2"));
    queue.stand_aside(second, "tarpit");
    assert_eq!(take_all(&queue), ["ns/2"]);
}

#[test]
fn one_issuer_of_a_namespace_does_not_hold_up_another() {
    let queue = Queue::new(1);
    visit(&queue, &key("1"), "tarpit");
    visit(&queue, &key("2"), "tarpit");
    visit(&queue, &key("3"), "healthy");
    for name in ["1", "2", "3"] {
        queue.sighted(&key(name), Sighting::Other);
    }
    assert_eq!(take_all(&queue), ["ns/1", "ns/3"]);
}

#[test]
fn a_change_of_the_resource_takes_it_out_of_the_line_of_its_old_issuer() {
    let queue = Queue::new(1);
    visit(&queue, &key("1"), "tarpit");
    visit(&queue, &key("2"), "tarpit");
    for name in ["1", "2"] {
        queue.sighted(&key(name), Sighting::Other);
    }
    assert_eq!(take_all(&queue), ["ns/1"]);
    queue.sighted(&key("2"), seen("2"));
    assert_eq!(take_all(&queue), ["ns/2"]);
    assert_eq!(queue.load(), (2, 0, 2), "in no line twice");
}

#[test]
fn without_the_lease_only_what_has_a_value_in_hand_is_taken_whatever_its_time() {
    let queue = Queue::new(1);
    let at = |second| Timestamp::from_second(second).unwrap();
    for name in ["holds", "holds not"] {
        queue.sighted(&key(name), seen("1"));
        let mut taken = queue.take().unwrap();
        taken.must_finish = name == "holds";
        queue.finish(taken, &Then::Retry { at: at(100) });
    }
    queue.sighted(&key("holds not"), seen("2"));
    assert!(
        queue.take_one_that_must_finish().is_none(),
        "not before its time"
    );
    queue.hurry_those_that_must_finish();
    let taken = queue.take_one_that_must_finish().unwrap();
    assert_eq!(taken.key, key("holds"));
    assert!(!queue.has_unfinished(), "it is the pass that has it");
    assert!(queue.take_one_that_must_finish().is_none());
    queue.finish(taken, &Then::Retry { at: at(100) });
    assert!(queue.has_unfinished());
}
