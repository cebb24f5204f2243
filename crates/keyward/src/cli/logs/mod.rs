//! Logs of `keyward run`: to standard error, as text or JSON.

mod json_line;

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use super::exit::{Exit, Failure};
use json_line::JsonLine;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Crates that print what passes through them: headers, frames, bodies. Nothing of theirs beyond this level is written,
/// whatever is asked for. kube's client prints a whole answer that it cannot read as a warning, and that may be a Secret.
const CAPPED: &[(&str, LevelFilter)] = &[
    ("h2", LevelFilter::WARN),
    ("hyper", LevelFilter::WARN),
    ("hyper_util", LevelFilter::WARN),
    ("reqwest", LevelFilter::WARN),
    ("rustls", LevelFilter::WARN),
    ("tower", LevelFilter::WARN),
    ("tower_http", LevelFilter::WARN),
    ("kube", LevelFilter::ERROR),
    ("kube_client", LevelFilter::ERROR),
    ("kube_core", LevelFilter::ERROR),
    ("kube_runtime", LevelFilter::ERROR),
    ("want", LevelFilter::WARN),
    ("mio", LevelFilter::WARN),
];

/// `level` is a level for our own crates, or directives in the form of `RUST_LOG`.
pub(crate) fn install(format: LogFormat, level: &str) -> Result<(), Failure> {
    let filter = filter(level)?.and(filter_fn(is_harmless));
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry();
    let installed = match format {
        LogFormat::Text => registry
            .with(lines.with_target(false).with_filter(filter))
            .try_init(),
        LogFormat::Json => registry
            .with(lines.json().event_format(JsonLine).with_filter(filter))
            .try_init(),
    };
    installed.map_err(|_| Failure::new(Exit::Failed, "logging was set up twice"))
}

/// Apart from the directives, because a directive for a part of a crate would win over one for the whole of it.
fn is_harmless(metadata: &Metadata<'_>) -> bool {
    let crate_name = metadata.target().split("::").next().unwrap_or_default();
    let capped = CAPPED.iter().find(|(name, _)| *name == crate_name);
    capped.is_none_or(|(_, most)| metadata.level() <= most)
}

fn filter(level: &str) -> Result<EnvFilter, Failure> {
    let wrong = |_| {
        Failure::new(Exit::Usage, format!("not a log level: {level}")).hint(
            "use error, warn, info, debug or trace, or directives such as keyward=debug,kube=info",
        )
    };
    let plain = level.parse::<tracing::Level>().is_ok();
    let directives = if plain {
        format!("warn,keyward={level},sources={level},lifecycle={level}")
    } else {
        level.to_owned()
    };
    EnvFilter::builder().parse(directives).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What is written, kept.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written_at(level: &str) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = tracing_subscriber::fmt::layer().with_writer(move || writer.clone());
        let filter = filter(level).unwrap().and(filter_fn(is_harmless));
        let registry = tracing_subscriber::registry().with(lines.with_filter(filter));
        tracing::subscriber::with_default(registry, || {
            tracing::warn!(target: "kube_client::client", "a body");
            tracing::trace!(target: "kube_client::client", "a body");
            tracing::debug!(target: "hyper::proto::h1", "a body");
            tracing::trace!(target: "h2", "a body");
            tracing::error!(target: "kube_client::client", "an error");
            tracing::warn!(target: "hyper::proto::h1", "a warning");
            tracing::info!(target: "keyward::engine", "our own");
        });
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn no_level_opens_the_crates_that_print_what_passes_through_them() {
        for level in [
            "info",
            "trace",
            "trace,hyper=trace,h2=trace",
            "keyward=info,kube_client::client=trace,hyper::proto=trace,hyper=warn",
        ] {
            let written = written_at(level);
            assert!(!written.contains("a body"), "{level}: {written}");
            assert!(written.contains("our own"), "{level}: {written}");
        }
        let written = written_at("trace");
        assert!(written.contains("an error") && written.contains("a warning"));
    }

    #[test]
    fn a_level_that_is_none_is_refused() {
        assert_eq!(filter("keyward=loud").unwrap_err().exit, Exit::Usage);
    }
}
