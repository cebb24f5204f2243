//! `forceNow`: once per generation of the spec, beside the rotate annotation.
//!
//! The ledger remembers one text: the request that was handled last. Here it has two parts, the annotation's and the
//! generation's, so that neither undoes the other.

const FORCE: &str = "forceNow-";

/// The two parts of a handled request.
fn split(handled: Option<&str>) -> (Option<&str>, i64) {
    let Some(handled) = handled else {
        return (None, 0);
    };
    let (note, last) = match handled.rsplit_once(' ') {
        Some((note, last)) => (Some(note), last),
        None => (None, handled),
    };
    match last
        .strip_prefix(FORCE)
        .and_then(|number| number.parse().ok())
    {
        Some(generation) => (note, generation),
        None => (Some(handled), 0),
    }
}

/// What is asked for now. It equals what was handled exactly if nothing new is.
pub(super) fn request(
    annotation: Option<&str>,
    forced: Option<i64>,
    handled: Option<&str>,
) -> Option<String> {
    let (note, generation) = split(handled);
    let asked = annotation.filter(|asked| Some(*asked) != note);
    let forced = forced.filter(|now| *now > generation);
    if asked.is_none() && forced.is_none() {
        return handled.map(str::to_owned);
    }
    let note = asked.or(note);
    let generation = forced.unwrap_or(generation);
    match (note, generation) {
        (Some(note), 0) => Some(note.to_owned()),
        (None, generation) => Some(format!("{FORCE}{generation}")),
        (Some(note), generation) => Some(format!("{note} {FORCE}{generation}")),
    }
}

/// The annotation that was handled last.
pub(super) fn annotation(handled: Option<&str>) -> Option<&str> {
    split(handled).0
}

/// The generation whose `forceNow` was handled last.
pub(super) fn generation(handled: Option<&str>) -> Option<i64> {
    Some(split(handled).1).filter(|generation| *generation > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_asks_once_and_neither_undoes_the_other() {
        let mut handled: Option<String> = None;
        let mut ask = |annotation: Option<&str>, forced: Option<i64>| {
            let asked = request(annotation, forced, handled.as_deref());
            let new = asked != handled;
            handled = asked;
            new
        };
        assert!(!ask(None, None));
        assert!(ask(None, Some(3)), "forceNow in generation 3");
        assert!(!ask(None, Some(3)), "the same generation again");
        assert!(ask(Some("a"), Some(3)), "the annotation asks");
        assert!(!ask(Some("a"), Some(3)));
        assert!(!ask(Some("a"), None), "forceNow is taken back");
        assert!(!ask(None, None), "the annotation is removed");
        assert!(ask(Some("b c"), None));
        assert!(ask(Some("b c"), Some(5)));
        assert!(!ask(Some("b c"), Some(5)));
        assert_eq!(annotation(handled.as_deref()), Some("b c"));
        assert_eq!(generation(handled.as_deref()), Some(5));
    }

    #[test]
    fn without_force_now_the_request_is_the_annotation_itself() {
        assert_eq!(request(Some("x"), None, None).as_deref(), Some("x"));
        assert_eq!(annotation(Some("x")), Some("x"));
        assert_eq!(generation(Some("x")), None);
    }
}
