//! The real stack, left running until Ctrl-C:
//! `testbed-up [--keyward PROGRAM] [--with keystone|gitlab]... [--samples DIR] [-- ARGS OF keyward run]`.
//!
//! Without `--keyward` only the control plane runs. With it: the definitions, the operator, a stand-in issuer, its login
//! in a Secret, and a sample credential that is kept. `--with keystone` adds a real Keystone, the passwords of its users
//! in a Secret, and the manifests in `DIR/keystone`; `--with gitlab` a stand-in GitLab, a login there in a Secret, and the
//! manifests in `DIR/gitlab`.

mod gitlab;
mod keystone;
mod operator;
mod samples;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use gitlab::GitLab;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use operator::Operator;
use serde_json::json;
use testbed::controlplane::{ControlPlane, Options};
use testbed::issuer::{Control, Kind, StandIn};
use testbed::keystone::real::Keystone;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str =
    "use: testbed-up [--keyward PROGRAM] [--with keystone|gitlab]... [--samples DIR] [-- ARGS]";

#[derive(Default)]
struct Arguments {
    keyward: Option<PathBuf>,
    with_keystone: bool,
    with_gitlab: bool,
    samples: Option<PathBuf>,
    run: Vec<String>,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut arguments = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        }
        let value = words.next().with_context(|| format!("{word}: {USAGE}"))?;
        match (word.as_str(), value.as_str()) {
            ("--keyward", _) => arguments.keyward = Some(value.into()),
            ("--samples", _) => arguments.samples = Some(value.into()),
            ("--with", "keystone") => arguments.with_keystone = true,
            ("--with", "gitlab") => arguments.with_gitlab = true,
            (word, value) => bail!("unknown argument {word} {value}; {USAGE}"),
        }
    }
    arguments.run = words.collect();
    Ok(arguments)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = arguments()?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;

    let crds = match &arguments.keyward {
        Some(keyward) => crds_of(keyward).await?,
        None => String::new(),
    };
    let plane = ControlPlane::start_with(Options {
        crds,
        ..Options::default()
    })
    .await?;
    let keystone = if arguments.with_keystone {
        Some(keystone::start(&plane, arguments.samples.as_deref()).await?)
    } else {
        None
    };
    let gitlab = if arguments.with_gitlab {
        Some(gitlab::start(&plane, arguments.samples.as_deref()).await?)
    } else {
        None
    };
    let (mut operator, issuer, sample) = match &arguments.keyward {
        Some(keyward) => {
            let issuer = StandIn::start_on(0, Control::On).context("starting the issuer")?;
            let sample = sample(&plane, &issuer).await?;
            let run = operators_words(&arguments, keystone.as_ref(), gitlab.as_ref());
            let operator = Operator::start(keyward, &run, &plane.kubeconfig())?;
            (Some(operator), Some(issuer), Some(sample))
        }
        None => (None, None, None),
    };

    let mut out = std::io::stdout();
    writeln!(
        out,
        "The API server listens at {}. Logs: {}",
        plane.url(),
        plane.dir().display()
    )?;
    if let Some(issuer) = &issuer {
        writeln!(
            out,
            "The stand-in issuer listens at {url}; look into it at {url}/control/realms/{REALM}/live",
            url = issuer.url()
        )?;
    }
    writeln!(out, "In another terminal:\n")?;
    writeln!(out, "export KUBECONFIG={}\n", plane.kubeconfig().display())?;
    if let Some(sample) = &sample {
        writeln!(out, "kubectl get democred,secrets")?;
        writeln!(
            out,
            "kubectl annotate democred {SAMPLE} keyward.dev/rotate=now --overwrite"
        )?;
        writeln!(
            out,
            "kubectl apply -f {}    # the sample, to be changed\n",
            sample.display()
        )?;
    }
    if let Some(keystone) = &keystone {
        keystone::explain(keystone, &mut out)?;
    }
    if let Some(gitlab) = &gitlab {
        gitlab.explain(&mut out)?;
    }
    writeln!(out, "Ctrl-C stops everything and removes it.")?;
    out.flush()?;

    let ended = tokio::select! {
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
        status = ended(&mut operator) => Some(status?),
    };
    if ended.is_none()
        && let Some(operator) = &mut operator
    {
        operator.kill().await?;
    }
    drop((keystone, gitlab));
    plane.stop().await?;
    match ended {
        Some(status) => bail!("keyward ended by itself: {status}"),
        None => Ok(()),
    }
}

async fn crds_of(keyward: &PathBuf) -> anyhow::Result<String> {
    let output = Command::new(keyward)
        .arg("crds")
        .output()
        .await
        .with_context(|| format!("running {}", keyward.display()))?;
    ensure!(
        output.status.success(),
        "keyward crds: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

const REALM: &str = "demo";
const SAMPLE: &str = "sample";

/// Puts the issuer's login and a sample credential into the cluster; says where the sample's manifest lies.
async fn sample(plane: &ControlPlane, issuer: &StandIn) -> anyhow::Result<PathBuf> {
    let login = issuer.realm(REALM, Kind::Chosen);
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "issuer-login" },
        "stringData": { "login": login.reveal() },
    }))?;
    let secrets: Api<Secret> = Api::namespaced(plane.client(), "default");
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .context("storing the issuer's login")?;
    let manifest = json!({
        "apiVersion": "demo.keyward.dev/v1alpha1",
        "kind": "DemoCredential",
        "metadata": { "name": SAMPLE, "namespace": "default" },
        "spec": {
            "issuer": { "url": issuer.url(), "realm": REALM, "kind": "Chosen" },
            "loginSecret": "issuer-login",
            "rights": ["read"],
            "rotateAfterSeconds": 3600,
            "retire": { "overlapSeconds": 30 },
        },
    });
    let path = plane.dir().join("sample.yaml");
    // JSON is YAML.
    std::fs::write(&path, format!("{manifest:#}\n"))?;
    let mut apply = Command::from(plane.kubectl(["apply", "-f"]));
    let applied = apply
        .arg(&path)
        .output()
        .await
        .context("running kubectl apply")?;
    ensure!(
        applied.status.success(),
        "kubectl apply of the sample: {}",
        String::from_utf8_lossy(&applied.stderr).trim()
    );
    Ok(path)
}

/// What the operator is told, each unless the caller says otherwise.
fn operators_words(
    arguments: &Arguments,
    keystone: Option<&Keystone>,
    gitlab: Option<&GitLab>,
) -> Vec<String> {
    // The sample is of the one kind that runs only when it is named.
    let mut controllers = vec!["demo"];
    controllers.extend(keystone.map(|_| "appcred"));
    controllers.extend(gitlab.map(|_| "gitlab"));
    let mut ours = vec![
        ("--controllers", controllers.join(",")),
        // A second stack needs a port of its own.
        ("--listen", "127.0.0.1:0".to_owned()),
    ];
    ours.extend(keystone.map(|keystone| ("--allow-keystone-url", keystone.url())));
    ours.extend(gitlab.map(|gitlab| ("--allow-base-url", gitlab.url())));
    let is_given = |option: &str| arguments.run.iter().any(|word| word.starts_with(option));
    let unless_given = ours.into_iter().filter(|(option, _)| !is_given(option));
    unless_given
        .flat_map(|(option, value)| [option.to_owned(), value])
        .chain(arguments.run.iter().cloned())
        .collect()
}

/// Waits for the operator; without one, for ever.
async fn ended(operator: &mut Option<Operator>) -> std::io::Result<std::process::ExitStatus> {
    match operator {
        Some(operator) => operator.ended().await,
        None => std::future::pending().await,
    }
}
