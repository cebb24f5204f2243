//! `keyward vsphere rotate`: a component's new password, from a login that works to a target that has it.
//!
//! The password itself is changed at vCenter by whoever may do that, before this command runs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::json;
use sources::SecretValue;
use sources::vcenter::{Refusal, VCenter};

use super::files;
use super::status::{candidates, servers};
use crate::cli::cluster::ClusterArgs;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::OutputArgs;
use crate::controllers::vsphere::component::{Component, NAMESPACE};
use crate::controllers::vsphere::resolve::{Source, Wanted, resolve};

/// How often the target is looked at while waiting.
const EVERY: Duration = Duration::from_millis(200);

/// Put a component's new vCenter password into the cluster, and see that it arrives
///
/// Change the password at vCenter first. The new one is tried there before anything is written; then it goes into the
/// component's own Secret in kube-system, and the command waits until the Secret that the component reads has it. At
/// last the old password is tried once: it should be dead.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward vsphere rotate csi-driver --password-file new-password\n  pass show vcenter/csi | keyward vsphere rotate csi-driver --vcenter vcenter1.example.com --password-file -"
)]
pub(crate) struct RotateArgs {
    /// machine-api, csi-driver, cloud-controller or diagnostics
    #[arg(value_enum, hide_possible_values = true)]
    component: Component,
    /// A file with the new password, for its owner only; - is standard input
    #[arg(long, value_name = "FILE")]
    password_file: PathBuf,
    /// The vCenter, where the Secret has several
    #[arg(long, value_name = "SERVER")]
    vcenter: Option<String>,
    /// The vCenter's port
    #[arg(long, value_name = "PORT", default_value_t = 443)]
    port: u16,
    /// Certificates (PEM) to trust instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// How long to wait for the component's Secret
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = crate::cli::duration)]
    timeout: Duration,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// What became of it. The names are part of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    component: String,
    vcenter: String,
    account: String,
    source: String,
    target: String,
    /// Targets of other components that changed in the meantime; none should.
    others_changed: Vec<String>,
    old_password: Fate,
}

/// What the vCenter said to the old password.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Fate {
    Dead,
    Alive,
    Unknown,
}

/// The login as the cluster has it.
struct Stored {
    secret: Secret,
    server: String,
    user: String,
    old: SecretValue,
}

pub(crate) async fn run(args: RotateArgs) -> Result<(), Failure> {
    let new = files::read_password(&args.password_file)?;
    let ca = match &args.ca_file {
        Some(path) => Some(files::read(path)?.bytes.to_vec()),
        None => None,
    };
    let client = args.cluster.find().await?.client()?;
    let stored = stored(&client, args.component, args.vcenter.as_deref()).await?;
    if stored.old.expose() == new.expose() {
        let text = "the Secret has this password already";
        return Err(Failure::new(Exit::Failed, text).hint("give the new one"));
    }
    let vcenter = VCenter::reach(&stored.server, Some(args.port), ca)
        .await
        .map_err(|refusal| unanswered(&stored.server, &refusal))?;
    try_login(&vcenter, &stored.user, &new)
        .await
        .map_err(|refusal| refused(&stored, &refusal))?;

    let before = targets(&client).await?;
    write(&client, &stored, &new).await?;
    arrived(&client, args.component, &stored, &new, args.timeout).await?;
    let after = targets(&client).await?;
    let report = Report {
        component: args.component.name().to_owned(),
        vcenter: stored.server.clone(),
        account: stored.user.clone(),
        source: format!("{NAMESPACE}/{}", stored.secret.name_any()),
        target: target_name(args.component),
        others_changed: Component::ALL
            .into_iter()
            .filter(|one| *one != args.component && before.get(one) != after.get(one))
            .map(target_name)
            .collect(),
        // Once, and last: a failed login counts towards a lock-out.
        old_password: match try_login(&vcenter, &stored.user, &stored.old).await {
            Ok(()) => Fate::Alive,
            Err(Refusal::InvalidLogin) => Fate::Dead,
            Err(
                Refusal::NotAuthenticated
                | Refusal::NoPermission
                | Refusal::Fault(_)
                | Refusal::Trouble(_),
            ) => Fate::Unknown,
        },
    };
    args.output.print(&report, text)
}

/// Finds the component's own Secret and the login in it.
async fn stored(
    client: &Client,
    component: Component,
    server: Option<&str>,
) -> Result<Stored, Failure> {
    let name = match resolve(&Wanted::of(component), &candidates(client).await?) {
        Source::ByTarget(_, name) | Source::ByAnnotation(name) | Source::ByName(name) => name,
        Source::Root | Source::Missing => {
            let text = format!("{component} has no Secret of its own in {NAMESPACE}");
            return Err(Failure::new(Exit::NotFound, text)
                .hint("`keyward vsphere status` shows what serves it; `render` makes Secrets for each component"));
        }
        Source::Ambiguous(names) => {
            let text = format!(
                "several Secrets claim to serve {component}: {}",
                names.join(", ")
            );
            return Err(Failure::new(Exit::Failed, text).hint("delete all but one"));
        }
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let act = format!("reading Secret {NAMESPACE}/{name}");
    let secret = secrets
        .get(&name)
        .await
        .map_err(|error| Failure::of_request(&act, &error))?;
    let data = secret.data.clone().unwrap_or_default();
    let known = servers(&data);
    let server = match (server, &known[..]) {
        (Some(server), _) => server.to_owned(),
        (None, [one]) => one.clone(),
        (None, _) => {
            let text = format!("Secret {NAMESPACE}/{name} has logins for several vCenters");
            let hint = format!("choose one with --vcenter: {}", known.join(", "));
            return Err(Failure::new(Exit::Usage, text).hint(hint));
        }
    };
    let value = |field: &str| data.get(&format!("{server}.{field}"));
    let (Some(user), Some(password)) = (value("username"), value("password")) else {
        let text = format!("Secret {NAMESPACE}/{name} has no login for {server}");
        let hint = format!("it has {}", known.join(", "));
        return Err(Failure::new(Exit::NotFound, text).hint(hint));
    };
    Ok(Stored {
        user: String::from_utf8_lossy(&user.0).into_owned(),
        old: SecretValue::new(password.0.clone()),
        secret,
        server,
    })
}

async fn try_login(vcenter: &VCenter, user: &str, password: &SecretValue) -> Result<(), Refusal> {
    let session = vcenter.log_in(user, password).await?;
    // The login worked, whatever becomes of the farewell.
    let _ = session.log_out().await;
    Ok(())
}

fn unanswered(server: &str, refusal: &Refusal) -> Failure {
    Failure::new(Exit::Unanswered, format!("{server}: {refusal}"))
        .hint("nothing was changed in the cluster")
}

fn refused(stored: &Stored, refusal: &Refusal) -> Failure {
    match refusal {
        Refusal::InvalidLogin => {
            let text = format!(
                "{} refuses {} with the new password",
                stored.server, stored.user
            );
            Failure::new(Exit::Unanswered, text)
                .hint("nothing was changed in the cluster; change the password at vCenter first, and mind its lock-out")
        }
        Refusal::NotAuthenticated
        | Refusal::NoPermission
        | Refusal::Fault(_)
        | Refusal::Trouble(_) => unanswered(&stored.server, refusal),
    }
}

/// One key changes, and only in the Secret that was read.
///
/// If it dies here: the Secret has the new password and nothing waits for its arrival; a second run says that it is
/// there.
async fn write(client: &Client, stored: &Stored, new: &SecretValue) -> Result<(), Failure> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let key = format!("{}.password", stored.server);
    let value = k8s_openapi::ByteString(new.expose().to_vec());
    let patch = json!({
        "metadata": { "resourceVersion": stored.secret.resource_version() },
        "data": { key: value },
    });
    let name = stored.secret.name_any();
    let written = secrets
        .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await;
    match written {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::of_request(
            &format!("writing Secret {NAMESPACE}/{name}"),
            &error,
        )),
    }
}

async fn target(client: &Client, component: Component) -> Result<Option<Secret>, Failure> {
    let (namespace, name) = component.target();
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let act = format!("reading Secret {namespace}/{name}");
    let found = api.get_opt(name).await;
    found.map_err(|error| Failure::of_request(&act, &error))
}

/// Every target with its resourceVersion.
async fn targets(client: &Client) -> Result<BTreeMap<Component, Option<String>>, Failure> {
    let mut all = BTreeMap::new();
    for component in Component::ALL {
        let found = target(client, component).await?;
        all.insert(
            component,
            found.and_then(|secret| secret.resource_version()),
        );
    }
    Ok(all)
}

fn target_name(component: Component) -> String {
    let (namespace, name) = component.target();
    format!("{namespace}/{name}")
}

async fn arrived(
    client: &Client,
    component: Component,
    stored: &Stored,
    new: &SecretValue,
    timeout: Duration,
) -> Result<(), Failure> {
    let key = format!("{}.password", stored.server);
    let begun = Instant::now();
    loop {
        let found = target(client, component).await?;
        let data = found.and_then(|secret| secret.data).unwrap_or_default();
        if data.get(&key).is_some_and(|value| value.0 == new.expose()) {
            return Ok(());
        }
        if begun.elapsed() >= timeout {
            let text = format!(
                "{} did not get the new password within {}s",
                target_name(component),
                timeout.as_secs()
            );
            let hint = format!(
                "Secret {NAMESPACE}/{} has it; whatever serves the CredentialsRequests of this cluster must copy it",
                stored.secret.name_any()
            );
            return Err(Failure::new(Exit::TimedOut, text).hint(hint));
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "{} logs in to {} as {} with the new password\n{} has it, and so has {}\n",
        report.component, report.vcenter, report.account, report.source, report.target
    );
    for other in &report.others_changed {
        let _ = writeln!(text, "{other} changed meanwhile");
    }
    text.push_str(match report.old_password {
        Fate::Dead => "the old password is refused\n",
        Fate::Alive => "the old password still works: change it at vCenter\n",
        Fate::Unknown => "whether the old password still works is not known\n",
    });
    text
}
