//! A shell script for govc.

use std::fmt::Write;

use super::{READ_ONLY, Wanted};
use crate::cli::vsphere::catalogue::Profile;

/// What the script is made of; the vCenters follow.
const HEAD: &str = r#"# It can be run again: what is as it should be is left alone. It makes no accounts, because govc takes passwords only
# as arguments, where every user of the machine can read them. On the vCenter appliance, `dir-cli user create --account
# NAME` asks for the password.
#
# Log in as an administrator by GOVC_USERNAME and GOVC_PASSWORD; GOVC_TLS_CA_CERTS names the CA. Without arguments all
# vCenters are worked on; name some where their administrators differ.
set -euo pipefail
export GOVC_PERSIST_SESSION="${GOVC_PERSIST_SESSION:-false}"

account() { # NAME@DOMAIN: it must be there, as far as govc can tell
    if [[ ${1,,} != *@vsphere.local ]]; then return; fi
    if ! govc sso.user.ls "${1%@*}" | WHO=${1%@*} awk 'tolower($1) == tolower(ENVIRON["WHO"]) { found = 1 } END { exit !found }'; then
        echo "account $1 does not exist at $GOVC_URL: make it first" >&2
        return 1
    fi
}

role() { # NAME PRIVILEGE...
    local name=$1 now want
    shift
    # vCenter adds these three to every role.
    want=$(printf '%s\n' System.Anonymous System.Read System.View "$@" | sort -u)
    if ! govc role.ls | awk '{ print $1 }' | grep -qxF -- "$name"; then
        govc role.create "$name" "$@"
        echo "role $name: made"
        return
    fi
    now=$(govc role.ls "$name" | sort -u)
    if [[ $now == "$want" ]]; then
        echo "role $name: as it should be"
    else
        govc role.update "$name" "$@"
        echo "role $name: changed"
    fi
}

permission() { # ACCOUNT ROLE PROPAGATE PATH
    if govc permissions.ls -a=false "$4" | WHO=$1 ROLE=$2 BELOW=$3 awk '
        function plain(name, parts) { # DOMAIN\name and name@domain are one account
            name = tolower(name)
            return split(name, parts, /\\/) == 2 ? parts[2] "@" parts[1] : name
        }
        $1 == ENVIRON["ROLE"] && plain($(NF - 1)) == plain(ENVIRON["WHO"]) && ($NF == "Yes") == (ENVIRON["BELOW"] == "true") { found = 1 }
        END { exit !found }'; then
        echo "permission of $1 on $4: as it should be"
    else
        govc permissions.set -principal "$1" -role "$2" -propagate="$3" "$4"
        echo "permission of $1 on $4: set"
    fi
}

chosen() { # SERVER ARGUMENT...
    local server=$1 name
    shift
    if (($# == 0)); then return 0; fi
    for name in "$@"; do
        if [[ $name == "$server" ]]; then return 0; fi
    done
    return 1
}
"#;

pub(super) fn script(all: &[Wanted], profile: Profile) -> String {
    let mut text = format!(
        "#!/usr/bin/env bash\n# Roles and permissions for OpenShift's components, profile {}. Made by `keyward vsphere roles`.\n#\n{HEAD}",
        profile.name()
    );
    for wanted in all {
        text.push_str(&vcenter(wanted));
    }
    text
}

fn vcenter(wanted: &Wanted) -> String {
    let server = &wanted.server;
    let address = match wanted.port {
        Some(port) => format!("https://{server}:{port}"),
        None => format!("https://{server}"),
    };
    let mut text = format!(
        "\nif chosen {} \"$@\"; then\n    export GOVC_URL={}\n    echo \"== {server}\"\n",
        quoted(server),
        quoted(&address)
    );
    for component in &wanted.shared {
        let _ = writeln!(
            text,
            "    # {component} uses the main login here: nothing is granted for it."
        );
    }
    for account in &wanted.accounts {
        let _ = writeln!(text, "    account {}", quoted(account));
    }
    for role in &wanted.roles {
        let _ = write!(text, "    role {}", role.name);
        for privilege in &role.privileges {
            let _ = write!(text, " \\\n        {privilege}");
        }
        text.push('\n');
    }
    for one in &wanted.permissions {
        let _ = writeln!(
            text,
            "    permission {} {} {} {}",
            quoted(&one.account),
            one.role,
            one.propagate,
            quoted(&one.path)
        );
    }
    text.push_str("fi\n");
    text
}

/// The line that grants one role on one object.
pub(in crate::cli::vsphere) fn mending(
    account: &str,
    role: &str,
    privileges: &std::collections::BTreeSet<String>,
    propagate: bool,
    path: &str,
) -> Vec<String> {
    let set = format!(
        "govc permissions.set -principal {} -role {role} -propagate={propagate} {}",
        quoted(account),
        quoted(path)
    );
    if role == READ_ONLY {
        return vec![set];
    }
    let ids: Vec<&str> = privileges.iter().map(String::as_str).collect();
    let ids = ids.join(" ");
    vec![
        format!("govc role.create {role} {ids} || govc role.update {role} {ids}"),
        set,
    ]
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
