//! A strict reader of the Prometheus text format (0.0.4), written from its description and from nothing else: what it
//! accepts, Prometheus accepts.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Labels = BTreeMap<String, String>;

/// One metric: what it is, and its series.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) help: String,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// With its suffix, for histograms.
    pub(crate) name: String,
    pub(crate) labels: Labels,
    pub(crate) value: f64,
}

#[derive(Debug, Default)]
pub(crate) struct Scrape(pub(crate) BTreeMap<String, Family>);

impl Scrape {
    /// Reads a whole scrape, or says at which line it is wrong.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if !text.is_empty() && !text.ends_with('\n') {
            return Err("the last line does not end".to_owned());
        }
        let mut scrape = Self::default();
        let mut open = String::new();
        for (index, line) in text.lines().enumerate() {
            scrape
                .line(line, &mut open)
                .map_err(|wrong| format!("line {}: {wrong}: {line}", index + 1))?;
        }
        for (name, family) in &scrape.0 {
            family
                .check(name)
                .map_err(|wrong| format!("{name}: {wrong}"))?;
        }
        Ok(scrape)
    }

    /// The value of the one series of this metric that has all these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let found: Vec<&Sample> = self
            .0
            .get(name)?
            .samples
            .iter()
            .filter(|sample| {
                labels
                    .iter()
                    .all(|(key, value)| sample.labels.get(*key).is_some_and(|has| has == value))
            })
            .collect();
        assert!(found.len() < 2, "{name} {labels:?} is not one: {found:?}");
        found.first().map(|sample| sample.value)
    }

    fn line(&mut self, line: &str, open: &mut String) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name) = (words.next(), words.next().unwrap_or_default());
            let rest = words.next().unwrap_or_default().to_owned();
            match what {
                Some("HELP") => {
                    if self.0.contains_key(name) {
                        return Err("a second HELP, or one after samples".to_owned());
                    }
                    is_name(name, true)?;
                    name.clone_into(open);
                    self.0.entry(name.to_owned()).or_default().help = rest;
                }
                Some("TYPE") => {
                    let known = ["counter", "gauge", "histogram", "summary", "untyped"];
                    if !known.contains(&rest.as_str()) {
                        return Err("an unknown TYPE".to_owned());
                    }
                    let family = self.0.entry(name.to_owned()).or_default();
                    if !family.kind.is_empty() || !family.samples.is_empty() {
                        return Err("a second TYPE, or one after samples".to_owned());
                    }
                    name.clone_into(open);
                    family.kind = rest;
                }
                Some(_) | None => {}
            }
            return Ok(());
        }
        if line.is_empty() {
            return Ok(());
        }
        let sample = sample(line)?;
        let family = self.0.get_mut(open).ok_or("a sample before its TYPE")?;
        let suffix = sample.name.strip_prefix(open.as_str());
        let fits = match (family.kind.as_str(), suffix) {
            ("histogram", Some("_bucket" | "_sum" | "_count")) => true,
            ("histogram" | "", _) => false,
            (_, suffix) => suffix == Some(""),
        };
        if !fits {
            return Err(format!("not of {open}, whose lines must stand together"));
        }
        family.samples.push(sample);
        Ok(())
    }
}

impl Family {
    fn check(&self, name: &str) -> Result<(), String> {
        if self.kind.is_empty() || self.help.is_empty() {
            return Err("no TYPE or no HELP".to_owned());
        }
        let mut seen = BTreeSet::new();
        for sample in &self.samples {
            if !seen.insert((&sample.name, &sample.labels)) {
                return Err(format!("the same series twice: {sample:?}"));
            }
            let counts = self.kind == "counter" || self.kind == "histogram";
            if counts && !sample.name.ends_with("_sum") && sample.value < 0.0 {
                return Err(format!("counts below zero: {sample:?}"));
            }
        }
        if self.kind == "histogram" {
            self.check_buckets(name)?;
        }
        Ok(())
    }

    fn check_buckets(&self, name: &str) -> Result<(), String> {
        let mut last: BTreeMap<Labels, (f64, f64)> = BTreeMap::new();
        for sample in &self.samples {
            let mut labels = sample.labels.clone();
            let bound = labels.remove("le");
            if sample.name == format!("{name}_bucket") {
                let bound = number(&bound.ok_or("a bucket without le")?)?;
                let before = last.insert(labels, (bound, sample.value));
                if before.is_some_and(|(le, count)| le >= bound || count > sample.value) {
                    return Err(format!("buckets out of order: {sample:?}"));
                }
            } else if sample.name == format!("{name}_count")
                && last.get(&labels) != Some(&(f64::INFINITY, sample.value))
            {
                return Err(format!("the last bucket is not the count: {sample:?}"));
            }
        }
        Ok(())
    }
}

fn is_name(name: &str, colon: bool) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colon && c == ':');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(good)
    {
        return Err(format!("{name:?} is no name"));
    }
    Ok(())
}

fn sample(line: &str) -> Result<Sample, String> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, rest) = line.split_at(end);
    is_name(name, true)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Labels::new(), rest),
    };
    let rest = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let mut words = rest.split(' ');
    let value = number(words.next().unwrap_or_default())?;
    if words
        .next()
        .is_some_and(|time| time.parse::<i64>().is_err())
        || words.next().is_some()
    {
        return Err("something after the value that is no time".to_owned());
    }
    Ok(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

fn labels(mut rest: &str) -> Result<(Labels, &str), String> {
    let mut labels = Labels::new();
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Ok((labels, rest));
        }
        let (name, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        is_name(name, false)?;
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().ok_or("a value that does not end")? {
                (end, '"') => break end,
                (_, '\\') => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                    _ => return Err("an unknown escape".to_owned()),
                },
                (_, plain) => value.push(plain),
            }
        };
        if labels.insert(name.to_owned(), value).is_some() {
            return Err(format!("the label {name} twice"));
        }
        rest = &after[end + 1..];
        if !rest.starts_with('}') {
            rest = rest.strip_prefix(',').ok_or("no comma between labels")?;
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    match text {
        "+Inf" => Ok(f64::INFINITY),
        "-Inf" => Ok(f64::NEG_INFINITY),
        "NaN" => Ok(f64::NAN),
        plain if plain.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            plain.parse().map_err(|_| format!("{plain:?} is no number"))
        }
        other => Err(format!("{other:?} is no number")),
    }
}
