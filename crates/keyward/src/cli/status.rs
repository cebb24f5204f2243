//! `keyward status`: every credential at a glance.

use std::sync::Arc;

use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt};
use lifecycle::{Because, Severity};
use serde::Serialize;
use serde_json::Value;

use super::cluster::ClusterArgs;
use super::exit::Failure;
use super::holders::{self, Held};
use super::output::{OutputArgs, table};
use super::target::{known_kinds, ledger_of, rotation_among};
use super::words::until;
use crate::controllers::{Guest, Reach};
use crate::engine::world::Clock;
use crate::engine::{conditions, names};
use crate::rotation::Kind;

/// Show all credentials: ready? which version and Secret? what next, and who still holds an old one?
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward status\n  keyward status -A\n  keyward status -n team-a -o json"
)]
pub(crate) struct StatusArgs {
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Namespace [default: that of the context]
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        conflicts_with = "all_namespaces"
    )]
    namespace: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// One credential. The names are part of `-o json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    kind: String,
    namespace: String,
    name: String,
    /// True, False, or Unknown as long as no operator has looked at it.
    ready: String,
    version: Option<String>,
    secret: Option<String>,
    /// When it is to be replaced.
    next: Option<Timestamp>,
    /// Versions that may be alive at the issuer; of what has versions.
    live: Option<usize>,
    why: Option<String>,
    message: Option<String>,
    held_by: Vec<String>,
    suspended: bool,
    deleting: bool,
}

#[derive(Debug, Serialize)]
struct Listing {
    items: Vec<Row>,
    /// Kinds that may not be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forbidden: Vec<String>,
}

pub(crate) async fn run(args: StatusArgs) -> Result<(), Failure> {
    let cluster = args.cluster.find().await?;
    let client = cluster.client()?;
    let namespace = match (&args.namespace, args.all_namespaces) {
        (_, true) => None,
        (Some(namespace), false) => Some(namespace.as_str()),
        (None, false) => Some(cluster.default_namespace()),
    };
    let mut listing = rows(&client, namespace).await?;
    listing
        .items
        .sort_by(|a, b| (&a.namespace, &a.kind, &a.name).cmp(&(&b.namespace, &b.kind, &b.name)));
    let now = Clock::default().now();
    args.output
        .print(&listing, |listing| text(listing, namespace, now))
}

async fn rows(client: &Client, namespace: Option<&str>) -> Result<Listing, Failure> {
    let secrets: Api<Secret> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let mut held = None;
    let mut listing = Listing {
        items: Vec::new(),
        forbidden: Vec::new(),
    };
    for known in known_kinds(&Reach::anything()) {
        let resource = &known.resource;
        let kind = rotation_among(&known.guests);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
            None => Api::all_with(client.clone(), resource),
        };
        let list = match api.list(&ListParams::default()).await {
            Ok(list) => list,
            // A kind that is not installed has no resources.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            // Whoever looks after credentials need not be allowed to see everything that follows them.
            Err(kube::Error::Api(status)) if status.code == 403 && kind.is_none() => {
                listing.forbidden.push(resource.plural.clone());
                continue;
            }
            Err(error) => {
                let act = format!("listing {}", resource.plural);
                return Err(Failure::of_request(&act, &error));
            }
        };
        let concerns = |object: &&DynamicObject| {
            let mut controllers = known.guests.iter().map(Guest::controller);
            controllers.any(|one| one.concerns(&object.metadata))
        };
        let objects: Vec<&DynamicObject> = list.items.iter().filter(concerns).collect();
        if objects.is_empty() {
            continue;
        }
        if held.is_none() {
            // Who may not list Secrets still gets everything else.
            held = Some(
                holders::read(&secrets)
                    .await
                    .unwrap_or_else(|_| Held::unknown()),
            );
        }
        let held = held.get_or_insert_with(Held::unknown);
        let rows = objects
            .into_iter()
            .map(|object| row(resource, kind, object, held));
        listing.items.extend(rows);
    }
    Ok(listing)
}

fn row(
    resource: &ApiResource,
    kind: Option<&Arc<dyn Kind>>,
    object: &DynamicObject,
    held: &Held,
) -> Row {
    let ledger = ledger_of(object);
    let current = ledger.current.as_ref();
    let conditions = conditions::of(object.data.get("status"));
    let ready = conditions
        .iter()
        .find(|condition| condition["type"] == "Ready");
    let text = |condition: Option<&Value>, key: &str| {
        let text = condition?.get(key)?.as_str()?;
        Some(text.to_owned())
    };
    let foremost = conditions::foremost(&conditions);
    let deleting = object.metadata.deletion_timestamp.is_some();
    // Of a resource that is leaving, the current version is on its way out too.
    let spared = current.filter(|_| !deleting).map(|current| current.version);
    Row {
        kind: resource.kind.clone(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        ready: text(ready, "status").unwrap_or_else(|| "Unknown".to_owned()),
        version: current.map(|current| current.version.to_string()),
        secret: kind
            .and_then(|kind| kind.voice().named_in_status(object))
            .map(|name| name.to_string()),
        next: kind.and_then(|kind| kind.due(object, current?)),
        live: kind.map(|_| ledger.may_be_alive()),
        why: text(foremost, "reason"),
        message: text(foremost, "message"),
        held_by: kind.map_or_else(Vec::new, |kind| {
            held.but_for(kind.as_ref(), &object.uid().unwrap_or_default(), spared)
        }),
        suspended: object
            .annotations()
            .get(names::SUSPEND)
            .is_some_and(|value| value == "true"),
        deleting,
    }
}

fn text(listing: &Listing, namespace: Option<&str>, now: Timestamp) -> String {
    let rows = &listing.items;
    if rows.is_empty() {
        return match namespace {
            Some(namespace) => {
                format!("Nothing in namespace {namespace}. -A looks everywhere.\n")
            }
            None => "Nothing in any namespace.\n".to_owned(),
        };
    }
    let mut head = vec![
        "KIND", "NAME", "READY", "VERSION", "SECRET", "NEXT", "LIVE", "WHY", "HELD BY",
    ];
    if namespace.is_none() {
        head.insert(0, "NAMESPACE");
    }
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let cells = rows.iter().map(|row| {
        let mut cells = vec![
            row.kind.clone(),
            row.name.clone(),
            row.ready.clone(),
            dash(row.version.clone()),
            dash(row.secret.clone()),
            dash(row.next.map(|next| until(next, now))),
            dash(row.live.map(|live| live.to_string())),
            dash(row.why.clone()),
            dash((!row.held_by.is_empty()).then(|| row.held_by.join(", "))),
        ];
        if namespace.is_none() {
            cells.insert(0, row.namespace.clone());
        }
        cells
    });
    let mut text = table(&head, &cells.collect::<Vec<_>>());
    if rows.iter().any(Row::is_worth_asking_about) {
        text += "\n`keyward explain KIND/NAME` says what ends it, and who must act.\n";
    }
    if !listing.forbidden.is_empty() {
        let kinds = listing.forbidden.join(", ");
        text = format!("{text}\nNot shown, since you may not list them: {kinds}.\n");
    }
    text
}

impl Row {
    /// Something is under way, waited for or wrong.
    fn is_worth_asking_about(&self) -> bool {
        let calm = |because: &&Because| because.severity() == Severity::Calm;
        let mut known = Because::ALL.iter().filter(calm).map(|calm| calm.code());
        let why = self.why.as_deref();
        self.ready != "True"
            || why.is_some_and(|why| why != "Ready" && known.all(|calm| calm != why))
    }
}
