//! A GitLab with a project, a group and the people of both, and a plain client.

use http::{HeaderMap, Method};
use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::{Value, json};
use testbed::gitlab::{Place, Settings, StandIn, level};

/// Noon, far from any change of date.
pub(crate) const NOON: &str = "2026-06-11T12:00:00Z";

pub(crate) struct Bench {
    pub(crate) gitlab: StandIn,
    pub(crate) project: Place,
    pub(crate) group: Place,
    pub(crate) owner: u64,
    pub(crate) login: String,
    client: reqwest::Client,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// `Null` if it is no JSON.
    pub(crate) body: Value,
}

impl Reply {
    /// Status and body at once, for errors.
    #[track_caller]
    pub(crate) fn must_be(&self, status: u16, body: &Value) {
        assert_eq!((self.status, &self.body), (status, body), "{}", self.text);
    }

    #[track_caller]
    pub(crate) fn must_say(&self, status: u16, message: &str) {
        self.must_be(status, &json!({ "message": message }));
    }

    pub(crate) fn id(&self) -> u64 {
        self.body["id"].as_u64().unwrap()
    }

    pub(crate) fn token(&self) -> String {
        self.body["token"].as_str().unwrap().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        let listed = self.body.as_array().unwrap().iter();
        listed.map(|one| one["name"].as_str().unwrap()).collect()
    }
}

pub(crate) fn date(text: &str) -> Date {
    text.parse().unwrap()
}

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn bench() -> Bench {
    bench_with(Settings::default())
}

/// `olga` owns project and group, and her token may do everything. The clock stands at noon.
pub(crate) fn bench_with(settings: Settings) -> Bench {
    // A second installation changes nothing.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let gitlab = StandIn::start(settings).unwrap();
    gitlab.stop_clock(at(NOON));
    let (project, group) = (gitlab.add_project("team/app"), gitlab.add_group("team"));
    let owner = gitlab.add_user("olga");
    for place in [project, group] {
        gitlab.add_member(place, owner, level::OWNER);
    }
    let login = gitlab.add_token(owner, "login", &["api"], None);
    Bench {
        gitlab,
        project,
        group,
        owner,
        login: login.value.reveal().to_owned(),
        client: reqwest::Client::builder().no_proxy().build().unwrap(),
    }
}

impl Bench {
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Option<Value>,
    ) -> Reply {
        let url = format!("{}/api/v4{path}", self.gitlab.url());
        let mut request = self.client.request(method, url);
        if !token.is_empty() {
            request = request.header("PRIVATE-TOKEN", token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        Self::read(request.send().await.unwrap()).await
    }

    pub(crate) async fn read(reply: reqwest::Response) -> Reply {
        let status = reply.status().as_u16();
        let headers = reply.headers().clone();
        let text = reply.text().await.unwrap();
        Reply {
            status,
            headers,
            body: serde_json::from_str(&text).unwrap_or_default(),
            text,
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}/api/v4{path}", self.gitlab.url());
        self.client.request(method, url)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.get_as(&self.login, path).await
    }

    pub(crate) async fn get_as(&self, token: &str, path: &str) -> Reply {
        self.ask(Method::GET, path, token, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.post_as(&self.login, path, body).await
    }

    pub(crate) async fn post_as(&self, token: &str, path: &str, body: Value) -> Reply {
        self.ask(Method::POST, path, token, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.delete_as(&self.login, path).await
    }

    pub(crate) async fn delete_as(&self, token: &str, path: &str) -> Reply {
        self.ask(Method::DELETE, path, token, None).await
    }

    /// A project token that expires in a month, with the scope `api`.
    pub(crate) async fn mint(&self, name: &str) -> Reply {
        let body = json!({"name": name, "scopes": ["api"], "expires_at": "2026-07-11"});
        let made = self.post(&self.tokens(), body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        made
    }

    /// `/projects/:id/access_tokens`
    pub(crate) fn tokens(&self) -> String {
        format!("/projects/{}/access_tokens", self.project.id())
    }

    /// `/projects/:id/access_tokens/:token_id`
    pub(crate) fn token(&self, id: u64) -> String {
        format!("{}/{id}", self.tokens())
    }

    pub(crate) fn group_tokens(&self) -> String {
        format!("/groups/{}/access_tokens", self.group.id())
    }

    /// A user with this level in the project and the group, and its token.
    pub(crate) fn person(&self, username: &str, level: u8) -> (u64, String) {
        let user = self.gitlab.add_user(username);
        if level > 0 {
            self.gitlab.add_member(self.project, user, level);
            self.gitlab.add_member(self.group, user, level);
        }
        let token = self.gitlab.add_token(user, "of a person", &["api"], None);
        (user, token.value.reveal().to_owned())
    }

    pub(crate) fn admin(&self) -> String {
        let root = testbed::gitlab::ROOT;
        let token = self.gitlab.add_token(root, "of root", &["api"], None);
        token.value.reveal().to_owned()
    }

    pub(crate) fn live_names(&self) -> Vec<String> {
        let live = self.gitlab.live().into_iter();
        live.map(|live| live.name).collect()
    }
}
