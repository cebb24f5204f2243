//! What the root user of an account may do with its members.

use super::reply::{Done, Refusal};
use super::state::{State, User};
use crate::rgw::sigv4::decoded;

/// The parameters of an action.
struct Form(Vec<(String, String)>);

impl Form {
    fn of(text: &str) -> Self {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        let plain = |text: &str| decoded(&text.replace('+', " "));
        Self(
            pairs
                .map(|(name, value)| (plain(name), plain(value)))
                .collect(),
        )
    }

    fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        Some(value)
    }

    fn needed(&self, name: &str) -> Result<String, Refusal> {
        self.get(name)
            .map(str::to_owned)
            .ok_or_else(Refusal::invalid)
    }
}

impl State {
    pub(super) fn iam(&mut self, by: &User, form: &str) -> Result<Done, Refusal> {
        let form = Form::of(form);
        let Some(account) = by.account.clone() else {
            return Err(Refusal::new(405, "MethodNotAllowed"));
        };
        if !by.root {
            return Err(Refusal::denied());
        }
        let action = form.needed("Action")?;
        let result = self.act(&account, &action, &form)?;
        Ok(Done::Xml(format!(
            r#"<{action}Response xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><{action}Result>{result}</{action}Result></{action}Response>"#
        )))
    }

    fn act(&mut self, id: &str, action: &str, form: &Form) -> Result<String, Refusal> {
        let exists = || Refusal::new(409, "EntityAlreadyExists");
        let missing = || Refusal::new(404, "NoSuchEntity");
        match action {
            "ListUsers" => {
                let members = self.members(id).filter(|user| !user.root);
                let members = members.map(|user| show_user(id, user));
                Ok(listed("Users", members))
            }
            "ListRoles" => {
                let roles = self.accounts[id].roles.iter();
                Ok(listed("Roles", roles.map(|name| show_role(id, name))))
            }
            "ListGroups" => {
                let groups = self.accounts[id].groups.iter();
                Ok(listed("Groups", groups.map(|name| show_group(id, name))))
            }
            "CreateUser" => {
                let name = form.needed("UserName")?;
                if self.has_member_named(id, &name) {
                    return Err(exists());
                }
                let hex = format!("{:032x}", rand::random::<u128>());
                let uid = format!("{}-{}-4000-8000-{}", &hex[..8], &hex[8..12], &hex[20..]);
                let mut user = User::new(&uid, &name);
                user.account = Some(id.to_owned());
                let shown = show_user(id, &user);
                self.users.insert(uid, user);
                Ok(format!("<User>{shown}</User>"))
            }
            "DeleteUser" => {
                let user = self.member_named(id, form)?;
                if !user.keys.is_empty() || !user.policies.is_empty() {
                    return Err(Refusal::new(409, "DeleteConflict"));
                }
                let uid = user.uid.clone();
                self.users.remove(&uid);
                Ok(String::new())
            }
            "PutUserPolicy" => {
                let policy = form.needed("PolicyName")?;
                self.member_named(id, form)?.policies.insert(policy);
                Ok(String::new())
            }
            "DeleteUserPolicy" => {
                let policy = form.needed("PolicyName")?;
                let removed = self.member_named(id, form)?.policies.remove(&policy);
                removed.then(String::new).ok_or_else(missing)
            }
            "CreateRole" => {
                let name = form.needed("RoleName")?;
                let made = self.account_of(id).roles.insert(name.clone());
                let shown = format!("<Role>{}</Role>", show_role(id, &name));
                made.then_some(shown).ok_or_else(exists)
            }
            "DeleteRole" => {
                let name = form.needed("RoleName")?;
                let removed = self.account_of(id).roles.remove(&name);
                removed.then(String::new).ok_or_else(missing)
            }
            "CreateGroup" => {
                let name = form.needed("GroupName")?;
                let made = self.account_of(id).groups.insert(name.clone());
                let shown = format!("<Group>{}</Group>", show_group(id, &name));
                made.then_some(shown).ok_or_else(exists)
            }
            "DeleteGroup" => {
                let name = form.needed("GroupName")?;
                let removed = self.account_of(id).groups.remove(&name);
                removed.then(String::new).ok_or_else(missing)
            }
            _other => Err(Refusal::new(405, "MethodNotAllowed")),
        }
    }

    fn account_of(&mut self, id: &str) -> &mut super::state::Account {
        self.accounts
            .get_mut(id)
            .expect("an account stays while it has a root user")
    }

    fn member_named(&mut self, id: &str, form: &Form) -> Result<&mut User, Refusal> {
        let name = form.needed("UserName")?;
        let mut users = self.users.values_mut();
        users
            .find(|user| user.account.as_deref() == Some(id) && user.display_name == name)
            .ok_or_else(|| Refusal::new(404, "NoSuchEntity"))
    }
}

fn listed(kind: &str, members: impl Iterator<Item = String>) -> String {
    let members: Vec<String> = members
        .map(|member| format!("<member>{member}</member>"))
        .collect();
    let members = members.concat();
    format!("<{kind}>{members}</{kind}><IsTruncated>false</IsTruncated>")
}

fn show_user(account: &str, user: &User) -> String {
    let (name, id, created) = (&user.display_name, &user.uid, &user.created);
    format!(
        "<Path>/</Path><UserName>{name}</UserName><UserId>{id}</UserId><Arn>arn:aws:iam::{account}:user/{name}</Arn><CreateDate>{created}</CreateDate>"
    )
}

fn show_role(account: &str, name: &str) -> String {
    format!(
        "<RoleId>{name}</RoleId><RoleName>{name}</RoleName><Path>/</Path><Arn>arn:aws:iam::{account}:role/{name}</Arn><CreateDate>2026-11-01T00:00:00.000Z</CreateDate>"
    )
}

fn show_group(account: &str, name: &str) -> String {
    format!(
        "<Path>/</Path><GroupName>{name}</GroupName><GroupId>{name}</GroupId><Arn>arn:aws:iam::{account}:group/{name}</Arn><CreateDate>2026-11-01T00:00:00.000Z</CreateDate>"
    )
}
