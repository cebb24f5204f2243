//! What the engine costs, measured from outside: the operator is a process of its own, the API server is the real one
//! and says itself what was asked of it, the issuer is the stand-in and counts for itself. [`keystone`] measures with a
//! real Keystone instead.

mod figures;
mod judge;
pub mod keystone;
mod load;
mod measure;
mod operator;
mod process;
mod requests;

use std::path::PathBuf;
use std::time::Instant;

pub use figures::{Figures, Phase, Planted};
pub use judge::{Judged, Verdict, judge, table};

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Numbers of credentials, one run each.
    pub sizes: Vec<u32>,
    /// The program to measure.
    pub keyward: PathBuf,
    /// How long to watch it rest, in seconds.
    pub rest_seconds: u64,
    /// Over how many namespaces the credentials are spread.
    pub namespaces: u32,
    /// Secrets of a megabyte with a forged label that are put beside one of them in the end.
    pub planted: u32,
}

/// Measures each size on a control plane of its own, smallest first.
pub async fn engine(plan: &Plan) -> anyhow::Result<Vec<Figures>> {
    let mut sizes = plan.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let mut figures = Vec::new();
    for n in sizes {
        figures.push(measure::measure(plan, n).await?);
    }
    Ok(figures)
}

/// Tells the person at the terminal how far it is. Standard output is for the result.
struct Progress {
    n: u32,
    begun: Instant,
}

impl Progress {
    fn say(&self, what: &str) {
        use std::io::Write;
        // Nobody reads it if standard error is closed; the work goes on.
        let _ = writeln!(
            std::io::stderr(),
            "bench: n = {:<6} {:>4} s  {what}",
            self.n,
            self.begun.elapsed().as_secs()
        );
    }
}
