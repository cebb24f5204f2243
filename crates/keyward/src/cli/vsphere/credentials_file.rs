//! Reading the credentials file: `[vcenter]` sections with `user`, `password`, `machine-api.user` and so on.
//!
//! The installer reads the same file with another parser, which cuts values at `#` and `;`, joins lines, fills in
//! `%(key)s` and lets `[a.b]` inherit from `[a]`. What it would read otherwise than it is written is refused here, with
//! the line; what is accepted, both read alike. No text of the file is ever part of an error.

use std::collections::BTreeMap;

use sources::SecretValue;

use super::component::Component;

/// Whose login: the vCenter's main one, or a component's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    Main,
    Of(Component),
}

#[derive(Debug, Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: SecretValue,
}

/// One vCenter of the file.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) server: String,
    pub(super) line: usize,
    /// Each with the line of its user.
    pub(super) logins: BTreeMap<Whose, (Login, usize)>,
}

/// What is wrong, on which line, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) line: usize,
    pub(super) text: String,
}

const QUOTE: &str =
    "put the value between backticks (`…`), which every reader of this file takes as it is";

/// All sections, or all mistakes.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Section>, Vec<Mistake>> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        let line = bytes_before_the_mistake(bytes).lines().count().max(1);
        let text = "this is not UTF-8; save the file as UTF-8".to_owned();
        return Err(vec![Mistake { line, text }]);
    };
    let mut reader = Reader::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.split('\n').enumerate() {
        reader.line(index + 1, line.strip_suffix('\r').unwrap_or(line));
    }
    reader.finish()
}

fn bytes_before_the_mistake(bytes: &[u8]) -> &str {
    let valid = match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(error) => error.valid_up_to(),
    };
    std::str::from_utf8(&bytes[..valid]).unwrap_or_default()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    User,
    Password,
}

type Entries = BTreeMap<(Whose, Field), (SecretValue, usize)>;

#[derive(Default)]
struct Reader {
    sections: Vec<(String, usize, Entries)>,
    mistakes: Vec<Mistake>,
}

impl Reader {
    fn wrong(&mut self, line: usize, text: impl Into<String>) {
        let text = text.into();
        self.mistakes.push(Mistake { line, text });
    }

    fn line(&mut self, number: usize, line: &str) {
        if line.chars().any(|sign| sign.is_control() && sign != '\t') {
            return self.wrong(number, "there is a control character; remove it");
        }
        let line = line.trim_start();
        match line.chars().next() {
            None | Some('#' | ';') => {}
            Some('[') => self.section(number, line),
            Some(_) => self.entry(number, line),
        }
    }

    fn section(&mut self, number: usize, line: &str) {
        let Some((name, rest)) = line[1..].split_once(']') else {
            return self.wrong(
                number,
                "the section has no closing bracket; write [vcenter]",
            );
        };
        let rest = rest.trim();
        if rest.contains(']') || !(rest.is_empty() || rest.starts_with(['#', ';'])) {
            return self.wrong(
                number,
                "there is more after the section's name; write nothing but [vcenter] on the line",
            );
        }
        if name.is_empty() || name.trim() != name {
            return self.wrong(
                number,
                "the section's name is empty or begins or ends with a space; write [vcenter]",
            );
        }
        if name.eq_ignore_ascii_case("default") {
            return self.wrong(
                number,
                "a section named DEFAULT is for no vCenter; name the vCenter",
            );
        }
        if let Some((_, first, _)) = self.sections.iter().find(|(other, ..)| other == name) {
            let text = format!("this section is there already, on line {first}; keep one of them");
            self.wrong(number, text);
        }
        self.sections
            .push((name.to_owned(), number, Entries::new()));
    }

    fn entry(&mut self, number: usize, line: &str) {
        let Some((key, value)) = line.split_once(['=', ':']) else {
            return self.wrong(number, "this is no section, comment or `key = value`");
        };
        let Some(key) = key_named(key.trim()) else {
            return self.wrong(
                number,
                format!("the key is not known; use {}", known_keys().join(", ")),
            );
        };
        let value = match value_of(value) {
            Ok(value) => value,
            Err(text) => return self.wrong(number, text),
        };
        let Some((_, _, entries)) = self.sections.last_mut() else {
            return self.wrong(number, "a key before any section; write [vcenter] above it");
        };
        let first = entries.get(&key).map(|(_, line)| *line);
        if let Some(first) = first {
            let text = format!("this key is there already, on line {first}; keep one of them");
            return self.wrong(number, text);
        }
        entries.insert(key, (SecretValue::new(value), number));
    }

    fn finish(mut self) -> Result<Vec<Section>, Vec<Mistake>> {
        // What is missing because its line could not be read is no mistake of its own.
        if self.mistakes.is_empty() {
            self.refuse_inheritance();
        }
        let whole = self.mistakes.is_empty();
        let mut sections = Vec::new();
        for (server, line, entries) in std::mem::take(&mut self.sections) {
            let logins = self.pairs(entries, whole);
            sections.push(Section {
                server,
                line,
                logins,
            });
        }
        if self.mistakes.is_empty() {
            return Ok(sections);
        }
        self.mistakes.sort_by_key(|mistake| mistake.line);
        Err(self.mistakes)
    }

    /// For the installer, `[vc.example.com]` has every key of `[vc]` that it lacks itself.
    fn refuse_inheritance(&mut self) {
        let mut found = Vec::new();
        for (child, line, own) in &self.sections {
            for (parent, _, theirs) in &self.sections {
                let inherits = child
                    .strip_prefix(parent.as_str())
                    .is_some_and(|rest| rest.starts_with('.'));
                if inherits && theirs.keys().any(|key| !own.contains_key(key)) {
                    let text = format!(
                        "[{parent}] has keys that this section lacks, and the installer would take them from there; \
                         give this section all of them"
                    );
                    found.push(Mistake { line: *line, text });
                }
            }
        }
        self.mistakes.extend(found);
    }

    fn pairs(&mut self, mut entries: Entries, tell: bool) -> BTreeMap<Whose, (Login, usize)> {
        let mut logins = BTreeMap::new();
        for whose in everybody() {
            let user = entries.remove(&(whose, Field::User));
            let password = entries.remove(&(whose, Field::Password));
            match (user, password) {
                (None, None) => {}
                (Some(_), None) | (None, Some(_)) if !tell => {}
                (Some((user, line)), Some((password, _))) => {
                    let user = user.expose_str().unwrap_or_default().to_owned();
                    logins.insert(whose, (Login { user, password }, line));
                }
                (Some((_, line)), None) => {
                    let text = format!("{} is missing beside this user", key(whose, "password"));
                    self.wrong(line, text);
                }
                (None, Some((_, line))) => {
                    let text = format!("{} is missing beside this password", key(whose, "user"));
                    self.wrong(line, text);
                }
            }
        }
        logins
    }
}

fn everybody() -> impl Iterator<Item = Whose> {
    std::iter::once(Whose::Main).chain(Component::ALL.map(Whose::Of))
}

pub(super) fn key(whose: Whose, field: &str) -> String {
    match whose {
        Whose::Main => field.to_owned(),
        Whose::Of(component) => format!("{component}.{field}"),
    }
}

fn known_keys() -> Vec<String> {
    everybody()
        .flat_map(|whose| [key(whose, "user"), key(whose, "password")])
        .collect()
}

fn key_named(name: &str) -> Option<(Whose, Field)> {
    let (whose, field) = match name.split_once('.') {
        None => (Whose::Main, name),
        Some((component, field)) => (Whose::Of(Component::named(component)?), field),
    };
    match field {
        "user" => Some((whose, Field::User)),
        "password" => Some((whose, Field::Password)),
        _ => None,
    }
}

/// The value, where both parsers read the same.
fn value_of(text: &str) -> Result<String, String> {
    let text = text.trim_start();
    let value = match raw_quote(text) {
        Some(quote) => between(text, quote)?,
        None => plain(text.trim_end())?,
    };
    if let Some(name) = filled_in(value) {
        return Err(format!(
            "the installer would fill in another value for %({name})s, also between quotes; \
             the password cannot be given in this file, use the install-config"
        ));
    }
    if value.is_empty() {
        return Err("the value is empty".to_owned());
    }
    Ok(value.to_owned())
}

fn raw_quote(text: &str) -> Option<&'static str> {
    if text.starts_with("\"\"\"") {
        Some("\"\"\"")
    } else if text.starts_with('`') {
        Some("`")
    } else {
        None
    }
}

fn between<'a>(text: &'a str, quote: &str) -> Result<&'a str, String> {
    let inner = &text[quote.len()..];
    let Some(end) = inner.rfind(quote) else {
        return Err("the closing quote is missing on this line".to_owned());
    };
    if inner[end + quote.len()..].trim().is_empty() {
        Ok(&inner[..end])
    } else {
        Err("there is more after the closing quote, which the installer would drop".to_owned())
    }
}

fn plain(text: &str) -> Result<&str, String> {
    if text.ends_with('\\') {
        return Err(format!(
            "a backslash at the end joins the next line for the installer; {QUOTE}"
        ));
    }
    if text.contains(['#', ';']) {
        return Err(format!(
            "the installer would cut the value at # or ;, also between \" or '; {QUOTE}"
        ));
    }
    Ok(without_quotes(text))
}

/// One pair of quotes around the whole is taken off, unless the same quote is inside.
fn without_quotes(text: &str) -> &str {
    for quote in ['\'', '"'] {
        let inner = text
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = inner.filter(|inner| !inner.contains(quote)) {
            return inner;
        }
    }
    text
}

/// The key that the installer would put in here.
fn filled_in(value: &str) -> Option<String> {
    known_keys()
        .into_iter()
        .find(|key| value.contains(&format!("%({key})s")))
}

#[cfg(test)]
#[path = "credentials_file/tests.rs"] // so that a test can take in this file from elsewhere
mod tests;
