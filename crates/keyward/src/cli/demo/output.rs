//! What is printed: who did what, when, in colours where somebody looks.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::super::output::say;

/// Who is speaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Keyward,
    Keystone,
    Api,
    Worker,
    Person,
    Crash,
    Auditor,
}

impl Who {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Keyward => "keyward",
            Self::Keystone => "keystone",
            Self::Api => "api",
            Self::Worker => "worker",
            Self::Person => "you",
            Self::Crash => "crash",
            Self::Auditor => "auditor",
        }
    }

    /// What a program of Barbican's is called.
    pub(crate) fn program(self) -> String {
        format!("barbican-{}", self.name())
    }

    /// Its mark on a Secret that it uses.
    pub(crate) fn finalizer(self) -> String {
        format!("openstack.org/{}-ac-consumer", self.program())
    }

    fn colour(self) -> &'static str {
        match self {
            Self::Keyward => "36",
            Self::Keystone => "33",
            Self::Api => "32",
            Self::Worker => "35",
            Self::Person => "1",
            Self::Crash => "1;31",
            Self::Auditor => "34",
        }
    }
}

/// Prints lines whole, from whatever task they come.
#[derive(Debug)]
pub(crate) struct Output {
    colours: bool,
    begun: Instant,
    speed: f64,
    /// Whether the last line was empty; who holds it may print.
    last_was_empty: Mutex<bool>,
}

impl Output {
    pub(crate) fn new(speed: f64) -> Self {
        Self {
            colours: colours(),
            begun: Instant::now(),
            speed,
            last_was_empty: Mutex::new(false),
        }
    }

    /// How long something meant to take this long takes at this speed.
    pub(crate) fn scaled(&self, span: Duration) -> Duration {
        span.div_f64(self.speed)
    }

    /// Time to read.
    pub(crate) async fn pause(&self, span: Duration) {
        tokio::time::sleep(self.scaled(span)).await;
    }

    pub(crate) fn paint(&self, code: &str, text: &str) -> String {
        if self.colours {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn plain(&self, text: &str) {
        let mut blank = self
            .last_was_empty
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // One empty line between two things that both want one around them.
        let text = if *blank {
            text.trim_start_matches('\n')
        } else {
            text
        };
        *blank = text.ends_with('\n');
        // Nobody reads any more: the demo goes on, its exit code still counts.
        let _ = say(format_args!("{text}\n"));
    }

    /// A new chapter, with a sentence or two for those who see this for the first time.
    pub(crate) fn heading(&self, title: &str, text: &str) {
        let title = self.paint("1", title);
        let body = wrapped(text, 92).join("\n   ");
        self.plain(&format!("\n{title}\n   {body}\n"));
    }

    pub(crate) fn line(&self, who: Who, text: &str) {
        let at = format!("{:5.1}s", self.begun.elapsed().as_secs_f64());
        let at = self.paint("2", &at);
        let who = self.paint(who.colour(), &format!("{:8}", who.name()));
        self.plain(&format!("  {at}  {who} {text}"));
    }

    /// A small table, set in a little.
    pub(crate) fn table(&self, title: &str, table: &str) {
        let mut lines = table.lines();
        let head = lines.next().unwrap_or_default();
        let mut text = format!("\n          {title}\n            {}", self.paint("2", head));
        for line in lines {
            text.push_str("\n            ");
            text.push_str(line);
        }
        self.plain(&format!("{text}\n"));
    }
}

/// Lines of at most this many characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always a last line");
        if !last.is_empty() && last.chars().count() + word.chars().count() + 1 > width {
            lines.push(word.to_owned());
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines
}

/// Whether to use colours on standard output: only on a terminal, and not if somebody asked not to.
fn colours() -> bool {
    let unwanted = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if unwanted("NO_COLOR") || dumb {
        return false;
    }
    std::io::stdout().is_terminal() || unwanted("CLICOLOR_FORCE")
}
