//! `keyward rbac`: the roles that the operator needs, from what its controllers say of themselves.

use std::fmt::Write;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::exit::{Exit, Failure};
use super::output::say;
use crate::controllers::{self, Reach};
use crate::engine::Controller;
use crate::engine::rights::{Right, merged};

/// Print the roles that the operator needs, as YAML
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  keyward rbac namespace --controllers appcred | kubectl apply -n openstack -f -\n  keyward rbac cluster | kubectl apply -f -"
)]
pub(crate) struct RbacArgs {
    /// Which of them
    role: Role,
    /// Only what these controllers need [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    controllers: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Role {
    /// For each namespace that Keyward looks after
    Namespace,
    /// Once: which cluster this is
    Cluster,
    /// In the operator's own namespace, for leader election among replicas
    Lease,
    /// For deleting a whole namespace; to be removed afterwards
    Leaving,
}

const NAMESPACE: &str = "# Everything the operator may do in a namespace it looks after (`keyward run --namespaces ...`). Apply it once per
# namespace with `kubectl apply -n NAMESPACE -f`. No Secret outside of these namespaces can be read.
";
const CLUSTER: &str = "# What has no namespace: the uid of kube-system, which tells this cluster from others at an issuer, and what controllers
# read that is there once for the whole cluster.
";
const LEASE: &str = "# For replicas that take turns: in the operator's own namespace.
";
const LEAVING: &str = "# For the end of a whole namespace. Its deletion takes the role and the binding of namespace-role.yaml along, at once and
# in no order; without them the operator can neither revoke what is left there nor say so, and nothing new can be bound in
# a namespace that is going away. Apply this before such a deletion, or while one is stuck; the operator goes on by
# itself. Take it away again afterwards: it has the rights of namespace-role.yaml in every namespace, Secrets included.
";

pub(crate) fn run(args: &RbacArgs) -> Result<(), Failure> {
    say(format_args!("{}", text(args)?))
}

fn text(args: &RbacArgs) -> Result<String, Failure> {
    let rules = rules(&rights(&args.controllers)?);
    Ok(match args.role {
        Role::Namespace => whole(NAMESPACE, "Role", "keyward", None, &rules),
        Role::Leaving => whole(LEAVING, "ClusterRole", "keyward-leaving", None, &rules),
        Role::Cluster => {
            let own = "- apiGroups: [\"\"]\n  resources: [namespaces]\n  resourceNames: [kube-system]\n  verbs: [get]\n";
            let read = chosen(&args.controllers)?
                .iter()
                .flat_map(|one| one.cluster_neighbours())
                .map(|resource| Right::to_read(&resource))
                .collect::<Vec<_>>();
            let rules = format!("{own}{}", self::rules(&merged(read)));
            whole(CLUSTER, "ClusterRole", "keyward", None, &rules)
        }
        Role::Lease => {
            let rules = "- apiGroups: [coordination.k8s.io]\n  resources: [leases]\n  verbs: [create]\n- apiGroups: [coordination.k8s.io]\n  resources: [leases]\n  resourceNames: [keyward]\n  verbs: [get, update]\n";
            whole(
                LEASE,
                "Role",
                "keyward-lease",
                Some("keyward-system"),
                rules,
            )
        }
    })
}

/// These controllers, or all there are.
fn chosen(names: &[String]) -> Result<Vec<Arc<dyn Controller>>, Failure> {
    let everybody: Vec<String> = controllers::all(&Reach::default())
        .iter()
        .map(|switch| switch.name.to_owned())
        .collect();
    let names = if names.is_empty() { &everybody } else { names };
    controllers::named(names, &Reach::default())
        .map_err(|unknown| Failure::new(Exit::Usage, unknown.to_string()))
}

/// What these controllers need in a namespace. What concerns Secrets, pods and events comes last.
fn rights(names: &[String]) -> Result<Vec<Right>, Failure> {
    let controllers = chosen(names)?;
    let rights = controllers.iter().flat_map(|one| one.rights());
    let shared = |right: &Right| ["", "events.k8s.io"].contains(&right.group.as_str());
    let (last, first): (Vec<Right>, Vec<Right>) = rights.partition(shared);
    Ok(merged(first.into_iter().chain(last)))
}

fn rules(rights: &[Right]) -> String {
    let mut text = String::new();
    for right in rights {
        let group = if right.group.is_empty() {
            "\"\""
        } else {
            &right.group
        };
        let why = if right.why.is_empty() {
            String::new()
        } else {
            format!("# {}\n", right.why)
        };
        let (resources, verbs) = (right.resources.join(", "), right.verbs.join(", "));
        // Writing into a String does not fail.
        let _ = write!(
            text,
            "{why}- apiGroups: [{group}]\n  resources: [{resources}]\n  verbs: [{verbs}]\n"
        );
    }
    text
}

/// The role, and what binds the operator to it.
fn whole(head: &str, kind: &str, name: &str, namespace: Option<&str>, rules: &str) -> String {
    let within = namespace.map(|namespace| format!("  namespace: {namespace}\n"));
    let within = within.unwrap_or_default();
    let api = "apiVersion: rbac.authorization.k8s.io/v1";
    format!(
        "{head}{api}\nkind: {kind}\nmetadata:\n  name: {name}\n{within}rules:\n{rules}---\n{api}\nkind: {kind}Binding\nmetadata:\n  name: {name}\n{within}roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {name}\nsubjects:\n- kind: ServiceAccount\n  name: keyward\n  namespace: keyward-system\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `KEYWARD_UPDATE=1` rewrites them.
    #[test]
    fn the_files_in_deploy_are_what_the_controllers_say() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac");
        for (role, file) in [
            (Role::Namespace, "namespace-role.yaml"),
            (Role::Cluster, "cluster-role.yaml"),
            (Role::Lease, "lease-role.yaml"),
            (Role::Leaving, "leaving-role.yaml"),
        ] {
            let controllers = Vec::new();
            let text = text(&RbacArgs { role, controllers }).unwrap();
            let path = dir.join(file);
            if std::env::var_os("KEYWARD_UPDATE").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{file}");
        }
    }

    #[test]
    fn one_controller_gets_no_right_that_only_another_needs() {
        let rights = rights(&["gitlab".to_owned()]).unwrap();
        let groups: Vec<&str> = rights.iter().map(|right| right.group.as_str()).collect();
        assert!(groups.contains(&"token-rotator.org"));
        assert!(!groups.contains(&"keystone.openstack.org"), "{groups:?}");
        assert!(rights.iter().all(|right| !right.verbs.contains(&"*")));
    }
}
