//! What the person who runs the operator decides.

use clap::{Args, ValueEnum};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::component::{NAMESPACE, REQUEST_NAMESPACE, TARGET_NAMESPACES};
use super::resolve::OVERRIDES;

/// On a request: what becomes of it when its own Secret goes.
pub const FALLBACK: &str = "keyward.dev/fallback";

/// What becomes of a request when its own Secret goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "PascalCase")]
pub enum Fallback {
    /// The shared Secret takes its place
    #[default]
    FallbackToRoot,
    /// The copy stays as it is. The shared Secret serves only who never had one of its own
    Retain,
    /// The shared Secret is never used
    Fail,
}

impl Fallback {
    /// As annotations have it.
    pub fn named(text: &str) -> Option<Self> {
        <Self as ValueEnum>::from_str(text, false).ok()
    }
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "vSphere")]
pub struct Settings {
    /// Namespaces whose CredentialsRequests are served
    #[arg(long = "vsphere-request-namespaces", value_name = "NAMES", value_delimiter = ',', default_value = REQUEST_NAMESPACE, env = "KEYWARD_VSPHERE_REQUEST_NAMESPACES")]
    pub request_namespaces: Vec<String>,
    /// Namespaces that copies may go to
    #[arg(long = "vsphere-target-namespaces", value_name = "NAMES", value_delimiter = ',', default_values = TARGET_NAMESPACES, env = "KEYWARD_VSPHERE_TARGET_NAMESPACES")]
    pub target_namespaces: Vec<String>,
    /// What becomes of a request when its own Secret goes: FallbackToRoot, Retain or Fail. The annotation
    /// keyward.dev/fallback on the request goes before this
    #[arg(
        long = "vsphere-fallback",
        value_enum,
        value_name = "POLICY",
        default_value_t,
        hide_possible_values = true,
        env = "KEYWARD_VSPHERE_FALLBACK"
    )]
    pub fallback: Fallback,
    /// Secrets of openshift-config that name their target count too
    #[arg(
        long = "vsphere-target-annotations",
        env = "KEYWARD_VSPHERE_TARGET_ANNOTATIONS"
    )]
    pub by_target: bool,
    /// Follow credentialsMode and componentCredentials of the Infrastructure object, where it has them
    #[arg(
        long = "vsphere-infrastructure-modes",
        env = "KEYWARD_VSPHERE_INFRASTRUCTURE_MODES"
    )]
    pub infrastructure_modes: bool,
    /// How old a password may get, where its Secret does not say (annotation keyward.dev/max-age)
    #[arg(long = "vsphere-max-age", value_name = "TIME", default_value = "90d", value_parser = age, env = "KEYWARD_VSPHERE_MAX_AGE")]
    pub max_age: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            request_namespaces: vec![REQUEST_NAMESPACE.to_owned()],
            target_namespaces: TARGET_NAMESPACES.map(str::to_owned).to_vec(),
            fallback: Fallback::default(),
            by_target: false,
            infrastructure_modes: false,
            max_age: SignedDuration::from_hours(90 * 24),
        }
    }
}

impl Settings {
    /// Every namespace beside the request's own.
    pub fn reaches(&self) -> Vec<String> {
        let overrides = self.by_target.then(|| OVERRIDES.to_owned());
        let mut all = vec![NAMESPACE.to_owned()];
        all.extend(overrides);
        all.extend(self.target_namespaces.iter().cloned());
        all
    }
}

/// Such as `90d` or `12h`.
pub fn age(text: &str) -> Result<SignedDuration, String> {
    let wrong = || "use a number and s, m, h or d, such as 90d".to_owned();
    let text = text.trim();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: i64 = text[..text.len() - unit.len_utf8()]
        .parse()
        .map_err(|_| wrong())?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let all = number.checked_mul(seconds).filter(|all| *all > 0);
    // No password lives longer than a century.
    all.filter(|all| *all <= 100 * 366 * 86_400)
        .map(SignedDuration::from_secs)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_read_and_nonsense_is_refused() {
        assert_eq!(age("90d"), Ok(SignedDuration::from_hours(2160)));
        assert_eq!(age(" 90s "), Ok(SignedDuration::from_secs(90)));
        for text in [
            "",
            "d",
            "90",
            "-1d",
            "0d",
            "9999999999999999999d",
            "99999999d",
            "5é",
        ] {
            assert!(age(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_policy_is_named_exactly() {
        assert_eq!(Fallback::named("Retain"), Some(Fallback::Retain));
        assert_eq!(
            Fallback::named("FallbackToRoot"),
            Some(Fallback::FallbackToRoot)
        );
        assert_eq!(Fallback::named("retain"), None);
    }
}
