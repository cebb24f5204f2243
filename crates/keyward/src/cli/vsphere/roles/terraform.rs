//! Terraform: the roles as resources, the permissions as data.

use std::fmt::Write;

use super::Wanted;
use crate::cli::vsphere::catalogue::Profile;

const HEAD: &str = "# The roles are resources. The permissions are data: `vsphere_entity_permissions` owns all permissions of an object, and\n\
                    # would take away those of everybody else. Use them where nobody else has any, or grant them with govc.\n";

pub(super) fn script(all: &[Wanted], profile: Profile) -> String {
    let mut text = format!(
        "# Roles and permissions for OpenShift's components, profile {}. Made by `keyward vsphere roles`.\n#\n{HEAD}",
        profile.name()
    );
    for wanted in all {
        let alias = alias(&wanted.server);
        let _ = write!(
            text,
            "\n# {}: give its provider the alias {alias}.\n",
            wanted.server
        );
        for role in &wanted.roles {
            let ids: Vec<String> = role.privileges.iter().map(|id| quoted(id)).collect();
            let _ = write!(
                text,
                "resource \"vsphere_role\" \"{alias}_{}\" {{\n  provider        = vsphere.{alias}\n  name            = {}\n  role_privileges = [\n    {},\n  ]\n}}\n\n",
                role.name.replace('-', "_"),
                quoted(&role.name),
                ids.join(",\n    ")
            );
        }
        let _ = writeln!(text, "locals {{\n  {alias}_permissions = [");
        for one in &wanted.permissions {
            let _ = writeln!(
                text,
                "    {{ path = {}, principal = {}, role = {}, propagate = {} }},",
                quoted(&one.path),
                quoted(&one.account),
                quoted(&one.role),
                one.propagate
            );
        }
        text.push_str("  ]\n}\n");
    }
    text
}

fn alias(server: &str) -> String {
    let name: String = server
        .chars()
        .map(|sign| {
            if sign.is_ascii_alphanumeric() {
                sign
            } else {
                '_'
            }
        })
        .collect();
    // Names do not begin with a digit.
    format!("vc_{name}")
}

fn quoted(word: &str) -> String {
    let escaped = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace("${", "$${")
        .replace("%{", "%%{");
    format!("\"{escaped}\"")
}
