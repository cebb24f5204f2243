//! `keyward explain`: what the operator sees in one resource, what it would do next, and why.
//!
//! The same facts and the same `decide` as in the operator, so that they cannot disagree. Nothing is changed.

mod text;

use clap::Args;
use kube::ResourceExt;
use kube::api::DynamicObject;
use lifecycle::{Because, Decision, Facts, View};
use serde::Serialize;
use serde_json::Value;

use super::exit::Failure;
use super::output::OutputArgs;
use super::target::{Target, TargetArgs};
use crate::controllers::addresses::{Allowed, BaseUrl};
use crate::controllers::{Guest, Reach};
use crate::engine::conditions;
use crate::engine::horizon::{Horizon, OwnersNamed};
use crate::engine::world::Clock;
use crate::engine::{Context, Engine, Key, Options, Thought};
use crate::rotation::explain::{self as rotation, Explained};

/// Explain one resource: how things stand, what happens next and why, and who must act
///
/// Looks at the resource and its Secrets as the operator would, calls the same rules, and does nothing.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward explain democredential/db\n  keyward explain democred/db -n team-a --ask-issuer\n  keyward explain democred/db -o json"
)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Ask the issuer whatever needs asking, with the resource's login
    #[arg(long)]
    ask_issuer: bool,
    /// With --ask-issuer: connect without TLS where the issuer's address says so, as with `keyward run`
    #[arg(long, env = "KEYWARD_ALLOW_PLAIN_HTTP")]
    allow_plain_http: bool,
    /// With --ask-issuer: a GitLab that may be asked, as with `keyward run` [default: only gitlab.com]
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        env = "KEYWARD_ALLOW_BASE_URL"
    )]
    allow_base_url: Vec<BaseUrl>,
    /// With --ask-issuer: a Keystone that may be asked, as with `keyward run` [default: only Services of the
    /// KeystoneAPI's own namespace]
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        env = "KEYWARD_ALLOW_KEYSTONE_URL"
    )]
    allow_keystone_url: Vec<BaseUrl>,
    /// With --ask-issuer: an object gateway that may be asked, as `keyward run` has it [default: only Services of the
    /// CephObjectStore's own namespace]
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        env = "KEYWARD_ALLOW_RGW_URL"
    )]
    allow_rgw_url: Vec<BaseUrl>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What every controller of a resource sees in it. The names are part of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation {
    kind: String,
    namespace: String,
    name: String,
    #[serde(skip)]
    uid: String,
    /// As the command line takes it: plural and name.
    #[serde(skip)]
    resource: String,
    /// What stands in status: the operator may have asked the issuer what is not asked here.
    said: Option<LastWords>,
    /// Of a credential with versions.
    #[serde(flatten)]
    credential: Option<Rotating>,
    /// What its other controllers think.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    controllers: Vec<Thinking>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rotating {
    asked_issuer: bool,
    view: View,
    decision: Decision,
    facts: Facts,
}

/// One controller, by the word for `--controllers`.
#[derive(Debug, Serialize)]
struct Thinking {
    controller: &'static str,
    #[serde(flatten)]
    thought: Thought,
}

/// The condition that tells most.
#[derive(Debug, Serialize)]
struct LastWords {
    ready: bool,
    reason: String,
    message: String,
}

impl LastWords {
    fn of(object: &DynamicObject) -> Option<Self> {
        let conditions = conditions::of(object.data.get("status"));
        let foremost = conditions::foremost(&conditions)?;
        let text = |key: &str| foremost[key].as_str().unwrap_or_default().to_owned();
        let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        Some(Self {
            ready: conditions.iter().any(is_ready),
            reason: text("reason"),
            message: text("message"),
        })
    }

    /// The reason, where it is one of ours: the designs have words of their own beside them.
    fn because(&self) -> Option<Because> {
        let mut all = Because::ALL.iter().copied();
        all.find(|because| because.code() == self.reason)
    }
}

pub(crate) async fn run(args: ExplainArgs) -> Result<(), Failure> {
    // A login goes only where a person says, whatever a resource says. Without --ask-issuer there is nothing to say.
    let reach = if args.ask_issuer {
        Reach {
            plain_http: args.allow_plain_http,
            base_urls: Allowed::Only(args.allow_base_url.clone()),
            keystone_urls: Allowed::Only(args.allow_keystone_url.clone()),
            rgw_urls: Allowed::Only(args.allow_rgw_url.clone()),
            request_timeout: None,
            vsphere: crate::controllers::vsphere::Settings::default(),
        }
    } else {
        Reach::anything()
    };
    let target = args.target.find_reaching(&reach).await?;
    let explanation = explain(&target, args.ask_issuer).await?;
    args.output.print(&explanation, text::of)
}

async fn explain(target: &Target, ask_issuer: bool) -> Result<Explanation, Failure> {
    let controllers = target.guests.iter().map(Guest::controller).collect();
    let engine = Engine::new(
        target.client.clone(),
        controllers,
        Options::default(),
        Clock::default(),
    )
    .await
    .map_err(|fault| Failure::of_fault(&fault))?;
    let object = target.read().await?;
    let mut explanation = Explanation {
        said: LastWords::of(&object),
        uid: object.uid().unwrap_or_default(),
        resource: target.as_argument(),
        kind: target.resource.kind.clone(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        credential: None,
        controllers: Vec::new(),
    };
    for (index, guest) in target.guests.iter().enumerate() {
        let key = Key {
            controller: index,
            namespace: target.namespace.clone(),
            name: target.name.clone(),
            departed: None,
        };
        let mut context = Context {
            world: engine.world(),
            key: &key,
            horizon: &mut Horizon::default(),
            surprised: true,
            named: &OwnersNamed::None,
        };
        match guest {
            Guest::Rotation(kind) => {
                let explained = rotation::explain(&context, kind, ask_issuer)
                    .await
                    .map_err(|fault| Failure::of_fault(&fault))?
                    .ok_or_else(|| target.missing())?;
                explanation.credential = Some(Rotating::of(explained));
            }
            Guest::Other(controller) => {
                let thought = controller
                    .explain(&mut context)
                    .await
                    .map_err(|fault| Failure::of_fault(&fault))?;
                explanation
                    .controllers
                    .extend(thought.map(|thought| Thinking {
                        controller: controller.name(),
                        thought,
                    }));
            }
        }
    }
    Ok(explanation)
}

impl Rotating {
    fn of(explained: Explained) -> Self {
        let Explained {
            facts,
            decision,
            asked_issuer,
        } = explained;
        Self {
            asked_issuer,
            view: View::of(&facts, &decision),
            decision,
            facts,
        }
    }
}
