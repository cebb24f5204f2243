//! Logs of `keyward run`: to standard error, as text or JSON.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use super::exit::{Exit, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Crates that at finer levels print what passes through them: headers, frames, bodies. No setting opens them further.
const CAPPED: &[&str] = &[
    "h2",
    "hyper",
    "hyper_util",
    "reqwest",
    "rustls",
    "tower",
    "tower_http",
    "kube_client",
    "kube",
    "want",
    "mio",
];

/// `level` is a level for our own crates, or directives in the form of `RUST_LOG`.
pub(crate) fn install(format: LogFormat, level: &str) -> Result<(), Failure> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(level)?)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(std::io::stderr);
    let installed = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    installed.map_err(|_| Failure::new(Exit::Failed, "logging was set up twice"))
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
    let mut filter = EnvFilter::builder().parse(directives).map_err(wrong)?;
    for name in CAPPED {
        if let Ok(cap) = format!("{name}=warn").parse() {
            filter = filter.add_directive(cap);
        }
    }
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_level_opens_the_crates_that_print_what_passes_through_them() {
        for level in ["trace", "trace,hyper=trace,h2=trace", "debug"] {
            let filter = filter(level).unwrap().to_string();
            for name in CAPPED {
                assert!(
                    filter.contains(&format!("{name}=warn")),
                    "{level}: {filter}"
                );
                assert!(
                    !filter.contains(&format!("{name}=trace")),
                    "{level}: {filter}"
                );
            }
        }
    }

    #[test]
    fn a_level_that_is_none_is_refused() {
        assert_eq!(filter("keyward=loud").unwrap_err().exit, Exit::Usage);
    }
}
