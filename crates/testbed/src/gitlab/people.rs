//! What is read only: the release, users, projects and groups.

use serde_json::json;

use super::refusal::Refusal;
use super::reply::{Answer, Done};
use super::route::Named;
use super::serve::Call;
use super::state::{Place, Visibility};

const REVISION: &str = "5f0e4a4b0c1";

impl Call<'_> {
    pub(super) fn metadata(&self) -> Done {
        let metadata = json!({
            "version": self.state.settings.version.to_string(),
            "revision": REVISION,
            "kas": {"enabled": false, "externalUrl": null, "externalK8sProxyUrl": null, "version": null},
            "enterprise": true,
        });
        Done::new(200, &metadata)
    }

    pub(super) fn version(&self) -> Done {
        let version = self.state.settings.version.to_string();
        Done::new(200, &json!({"version": version, "revision": REVISION}))
    }

    pub(super) fn user(&self, id: u64) -> Answer {
        let shown = self.state.show_user(id, self.actor.user);
        let shown = shown.ok_or_else(|| Refusal::not_found("User"))?;
        Ok(Done::new(200, &shown))
    }

    pub(super) fn users(&self) -> Answer {
        let wanted = self.params.text("username");
        let fits = |username: &str| {
            wanted
                .as_ref()
                .is_none_or(|w| w.eq_ignore_ascii_case(username))
        };
        let found = self.state.users.iter().rev();
        let found = found
            .filter(|(_, user)| fits(&user.username))
            .filter_map(|(id, _)| self.state.show_user(*id, self.actor.user))
            .collect();
        self.pages(found)
    }

    pub(super) fn place(&self, named: &Named) -> Answer {
        let place = self.find(named)?;
        let Some(namespace) = self.state.places.get(&place) else {
            return Err(Refusal::not_found_at_all());
        };
        let path = &namespace.path;
        let last = path.rsplit('/').next().unwrap_or(path);
        let visibility = match namespace.visibility {
            Visibility::Private => "private",
            Visibility::Internal => "internal",
            Visibility::Public => "public",
        };
        let web_url = format!("https://gitlab.example.com/{path}");
        let shown = match place {
            Place::Project(id) => {
                let own = namespace.members.get(&self.actor.user);
                let own = own.map(|level| json!({"access_level": level}));
                json!({
                    "id": id, "name": last, "path": last, "path_with_namespace": path,
                    "visibility": visibility, "web_url": web_url, "archived": false,
                    "permissions": {"project_access": own, "group_access": null},
                })
            }
            Place::Group(id) => json!({
                "id": id, "name": last, "path": last, "full_path": path,
                "visibility": visibility, "web_url": web_url, "parent_id": null,
            }),
        };
        Ok(Done::new(200, &shown))
    }
}
