//! What goes to the terminal: tables, JSON, YAML.

use std::fmt;
use std::io::{self, Write};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::exit::{Exit, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    #[value(alias = "table")]
    Text,
    /// For programs
    Json,
    /// For both
    Yaml,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArgs {
    /// How to print the result
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        hide_possible_values = true,
        long_help = "How to print the result: text, json or yaml"
    )]
    pub(crate) output: Format,
}

impl OutputArgs {
    pub(crate) fn is_text(self) -> bool {
        self.output == Format::Text
    }

    /// Prints the value as JSON or YAML, or what `text` makes of it.
    pub(crate) fn print<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        match self.output {
            Format::Text => say(format_args!("{}", text(value))),
            Format::Json => {
                let json = serde_json::to_string_pretty(value)
                    .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
                say(format_args!("{json}\n"))
            }
            Format::Yaml => {
                let text = yaml(value)?;
                say(format_args!("{}\n", text.trim_end()))
            }
        }
    }
}

pub(crate) fn yaml<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|error| Failure::new(Exit::Failed, error.to_string()))
}

/// Writes to standard output. A reader that went away, such as `head`, is no failure.
pub(crate) fn say(text: fmt::Arguments) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Columns as wide as their widest cell, two spaces apart, like kubectl's.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .chain([head[column].len()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let mut text = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            let padding = width - cell.chars().count();
            text.push_str(cell);
            text.push_str(&" ".repeat(padding + 2));
        }
        text.trim_end().to_owned() + "\n"
    };
    let mut text = line(head.to_vec());
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}
