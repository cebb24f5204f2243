//! What application credentials cost with a real Keystone, beside two floors that no operator can go below.
//!
//! The floors do only what must be done. Both log in once per user; then, per credential, the bare one creates it, stores
//! it in a Secret and writes one status; the verifying one also logs in with it once. All three talk to the same sort of
//! servers, over the same proxy (which counts), with as many requests under way at Keystone, and all three are done when
//! a watch has shown every resource Ready.

mod cloud;
mod figures;
mod floor;
mod judge;
mod measure;

use std::path::PathBuf;

use super::process::Cores;

pub use figures::{Figures, Round, Sample};
pub use judge::{judge, table};

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Numbers of credentials.
    pub sizes: Vec<u32>,
    /// The program to measure.
    pub keyward: PathBuf,
    /// How often each size is measured; `None`: three times.
    pub rounds: Option<u32>,
    /// Further flags for `keyward run`.
    pub flags: Vec<String>,
    /// Keystone has a core to itself, and this very process, with all that it starts, the others. Without, all share all
    /// cores: counts are the same, and times tell little.
    pub keystone_has_a_core: bool,
}

const ROUNDS: u32 = 3;

/// Measures each size on a control plane of its own, smallest first; each run has a Keystone of its own.
pub async fn keystone(plan: &Plan) -> anyhow::Result<Vec<Figures>> {
    let mut sizes = plan.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let cores = if plan.keystone_has_a_core {
        Cores::leave_the_first()?
    } else {
        Cores::for_everybody()
    };
    let mut figures = Vec::new();
    for n in sizes {
        figures.push(measure::measure(plan, cores, n).await?);
    }
    Ok(figures)
}
