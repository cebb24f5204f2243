//! A `PowerShell` script for `PowerCLI`.

use std::fmt::Write;

use super::Wanted;
use crate::cli::vsphere::catalogue::{Profile, Scope};

const HEAD: &str = r#"# It can be run again: what is as it should be is left alone. It makes no accounts and holds no passwords:
# Connect-VIServer asks for the administrator's.
param(
    [Parameter(Mandatory = $true)]
    [string]$VCenterServer
)
$ErrorActionPreference = 'Stop'
$vc = Connect-VIServer -Server $VCenterServer

function Set-KeywardRole([string]$Name, [string[]]$Ids) {
    $role = Get-VIRole -Server $vc -Name $Name -ErrorAction SilentlyContinue
    if ($null -eq $role) {
        New-VIRole -Server $vc -Name $Name -Privilege (Get-VIPrivilege -Server $vc -Id $Ids) | Out-Null
        Write-Host "role ${Name}: made"
        return
    }
    # vCenter adds the System ones to every role.
    $have = @($role.PrivilegeList | Where-Object { $_ -notlike 'System.*' })
    $want = @($Ids | Where-Object { $_ -notlike 'System.*' })
    $add = @($want | Where-Object { $have -notcontains $_ })
    $remove = @($have | Where-Object { $want -notcontains $_ })
    if ($add) { Set-VIRole -Role $role -AddPrivilege (Get-VIPrivilege -Server $vc -Id $add) | Out-Null }
    if ($remove) { Set-VIRole -Role $role -RemovePrivilege (Get-VIPrivilege -Server $vc -Id $remove) | Out-Null }
    if ($add -or $remove) { Write-Host "role ${Name}: changed" } else { Write-Host "role ${Name}: as it should be" }
}

function Set-KeywardPermission([string]$Principal, [string]$Role, [bool]$Propagate, $Entity) {
    $found = Get-VIPermission -Server $vc -Entity $Entity -Principal $Principal -ErrorAction SilentlyContinue |
        Where-Object { $_.EntityId -eq $Entity.Id }
    $target = Get-VIRole -Server $vc -Name $Role
    if ($null -eq $found) {
        New-VIPermission -Entity $Entity -Principal $Principal -Role $target -Propagate:$Propagate | Out-Null
        Write-Host "permission of $Principal on $($Entity.Name): set"
    } elseif ($found.Role -ne $Role -or $found.Propagate -ne $Propagate) {
        Set-VIPermission -Permission $found -Role $target -Propagate:$Propagate | Out-Null
        Write-Host "permission of $Principal on $($Entity.Name): changed"
    } else {
        Write-Host "permission of $Principal on $($Entity.Name): as it should be"
    }
}

function Get-ByPath([string]$Path) {
    $index = Get-View -Server $vc $vc.ExtensionData.Content.SearchIndex
    $ref = $index.FindByInventoryPath($Path.TrimStart('/'))
    if ($null -eq $ref) { throw "$Path is not there" }
    Get-VIObjectByVIView -Server $vc -MORef $ref
}
"#;

pub(super) fn script(all: &[Wanted], profile: Profile) -> String {
    let mut text = format!(
        "# Roles and permissions for OpenShift's components, profile {}. Made by `keyward vsphere roles`.\n#\n{HEAD}\nswitch ($VCenterServer) {{\n",
        profile.name()
    );
    for wanted in all {
        text.push_str(&vcenter(wanted));
    }
    text.push_str("    default { throw \"$VCenterServer is not in the install-config\" }\n}\n");
    text
}

fn vcenter(wanted: &Wanted) -> String {
    let mut text = format!("    {} {{\n", quoted(&wanted.server));
    for component in &wanted.shared {
        let _ = writeln!(
            text,
            "        # {component} uses the main login here: nothing is granted for it."
        );
    }
    for role in &wanted.roles {
        let ids: Vec<String> = role.privileges.iter().map(|id| quoted(id)).collect();
        let _ = writeln!(
            text,
            "        Set-KeywardRole {} @(\n            {}\n        )",
            quoted(&role.name),
            ids.join(",\n            ")
        );
    }
    for one in &wanted.permissions {
        let entity = if one.scope == Scope::Root {
            "(Get-Folder -Server $vc -NoRecursion)".to_owned()
        } else {
            format!("(Get-ByPath {})", quoted(&one.path))
        };
        let _ = writeln!(
            text,
            "        Set-KeywardPermission {} {} ${} {entity}",
            quoted(&principal(&one.account)),
            quoted(&one.role),
            one.propagate
        );
    }
    text.push_str("    }\n");
    text
}

/// `PowerCLI` knows accounts as `DOMAIN\name`.
fn principal(account: &str) -> String {
    match account.split_once('@') {
        Some((name, domain)) => format!("{}\\{name}", domain.to_uppercase()),
        None => account.to_owned(),
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "''"))
}
