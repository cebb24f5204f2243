//! The tests that a source file has, by reading it line by line.

/// A function that something runs as a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    module: Vec<String>,
    /// Why it is not run with the others.
    pub(super) ignored: Option<String>,
}

impl Found {
    /// Whether it is in this module or in one below it. Nothing is below the crate itself: a name alone says too little.
    pub(super) fn is_below(&self, module: &str) -> bool {
        let named: Vec<&str> = module.split("::").filter(|part| !part.is_empty()).collect();
        let starts = self.module.len() >= named.len()
            && self
                .module
                .iter()
                .zip(&named)
                .all(|(own, named)| own == named);
        starts && (!named.is_empty() || self.module.is_empty())
    }
}

/// Functions with a test's attribute, and those in a contract's list of cases: a suite runs these.
pub(super) fn tests_in(source: &str, module: &[String]) -> Vec<Found> {
    let found = |name: &str, ignored| Found {
        name: name.to_owned(),
        module: module.to_vec(),
        ignored,
    };
    let cases = cases_in(source);
    let mut tests = Vec::new();
    let mut attributes = String::new();
    // How many brackets of an attribute are still open.
    let mut open = 0;
    for line in source.lines().map(str::trim) {
        if open > 0 || line.starts_with("#[") {
            attributes.push_str(line);
            attributes.push('\n');
            open += line.matches('[').count();
            open = open.saturating_sub(line.matches(']').count());
            continue;
        }
        if line.starts_with("//") || line.is_empty() {
            continue;
        }
        if let Some(name) = function_in(line) {
            if is_test(&attributes) {
                tests.push(found(name, why_ignored(&attributes)));
            } else if cases.contains(&name) {
                tests.push(found(name, None));
            }
        }
        attributes.clear();
    }
    tests
}

fn is_test(attributes: &str) -> bool {
    let names = ["#[test]", "#[tokio::test]", "#[tokio::test("];
    attributes
        .lines()
        .any(|line| names.iter().any(|name| line.starts_with(name)))
}

fn why_ignored(attributes: &str) -> Option<String> {
    let line = attributes.lines().find(|line| line.starts_with("#[ignore"));
    line.map(str::to_owned)
}

/// The name of the function that begins on this line.
fn function_in(line: &str) -> Option<&str> {
    let mut rest = line;
    for word in ["pub ", "pub(crate) ", "pub(super) ", "async "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    rest.get(..end)
}

fn cases_in(source: &str) -> Vec<&str> {
    let lists = source.split("case_list![").skip(1);
    lists
        .filter_map(|rest| rest.split(']').next())
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .collect()
}
