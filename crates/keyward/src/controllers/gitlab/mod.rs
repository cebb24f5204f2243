//! Tokens of GitLab on the engine: of projects, of groups, and personal ones that rotate themselves.

mod cycles;
mod events;
mod force;
mod place;
mod spec;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{
    Delivery, Entry, Fingerprint, IssuedId, Policy, Refusal, Retire, SecretName, Version,
};
use serde_json::{Value, json};
use sources::Source;
use sources::gitlab::{PERSONAL, RESOURCE, RotateWish, TokenWish, token_id, whole_id};

use crate::api::gitlab::shared::GITLAB_COM;
use crate::api::gitlab::{
    GitLabGroupAccessToken, GitLabPersonalAccessToken, GitLabProjectAccessToken,
};
use crate::controllers::addresses::{Allowed, BaseUrl};
use crate::engine::trouble::Fault;
use crate::engine::{Access, Closed, Reader, names};
use crate::rotation::events::{Happening, Note};
use crate::rotation::report::Report;
use crate::rotation::{About, Kind, Reading, Voice, Wish};
use cycles::Dependencies;
use place::{Place, Places};

/// A leaving resource whose tokens cannot be revoked is let go after this time, with a warning that names them: they
/// end by themselves.
const ABANDONED_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Which {
    Project,
    Group,
    Personal,
}

impl Which {
    fn resource(self) -> ApiResource {
        match self {
            Self::Project => ApiResource::erase::<GitLabProjectAccessToken>(&()),
            Self::Group => ApiResource::erase::<GitLabGroupAccessToken>(&()),
            Self::Personal => ApiResource::erase::<GitLabPersonalAccessToken>(&()),
        }
    }

    /// The kind, for people.
    fn word(self) -> &'static str {
        match self {
            Self::Project => "GitLabProjectAccessToken",
            Self::Group => "GitLabGroupAccessToken",
            Self::Personal => "GitLabPersonalAccessToken",
        }
    }
}

/// One of the three kinds. They share their connections, and what is known of who depends on whom.
#[derive(Debug)]
pub struct GitLab {
    which: Which,
    about: About,
    places: Arc<Places>,
    dependencies: Arc<Dependencies>,
    all: Arc<[(Which, ApiResource)]>,
}

/// The three kinds, speaking to these addresses and no others; to gitlab.com alone if there are none.
pub fn kinds(allowed: &[BaseUrl], plain_http: bool) -> Vec<Arc<dyn Kind>> {
    kinds_reaching(&Allowed::Only(allowed.to_vec()), plain_http)
}

pub fn kinds_reaching(allowed: &Allowed, plain_http: bool) -> Vec<Arc<dyn Kind>> {
    let all: Arc<[(Which, ApiResource)]> = [Which::Project, Which::Group, Which::Personal]
        .into_iter()
        .map(|which| (which, which.resource()))
        .collect();
    let places = Arc::new(Places::new(allowed.clone(), plain_http));
    let dependencies = Arc::new(Dependencies::default());
    all.iter()
        .map(|(which, resource)| -> Arc<dyn Kind> {
            Arc::new(GitLab {
                which: *which,
                about: About {
                    metrics_source: Some("gitlab"),
                    ..About::new(resource.clone(), "gitlab")
                },
                places: places.clone(),
                dependencies: dependencies.clone(),
                all: all.clone(),
            })
        })
        .collect()
}

/// What the spec asks for, or what is wrong with it.
fn wish(which: Which, object: &DynamicObject) -> Result<Wish, Refusal> {
    let asked = spec::read(which, object)?;
    let mut parts = vec![
        which.word().to_owned(),
        asked.place.base_url.clone(),
        format!("{:?}", asked.place.home()),
        asked.place.export.key.clone(),
    ];
    if let Some(rights) = &asked.rights {
        parts.push(rights.level.number().to_string());
        parts.extend(rights.scopes.iter().cloned());
    }
    Ok(Wish {
        fingerprint: Fingerprint::of(parts.iter().map(String::as_str)),
        // Made when it is asked for: how long a token must live depends on the time.
        order: Value::Null,
        target: Some(SecretName::from(asked.secret.as_str())),
        adopt: asked.adopt,
        keys: vec![asked.place.export.key],
        annotations: asked.annotations,
    })
}

#[async_trait]
impl Kind for GitLab {
    fn about(&self) -> &About {
        &self.about
    }

    fn access(&self) -> &dyn Access {
        self
    }

    fn voice(&self) -> &dyn Voice {
        self
    }

    /// The grace period is the policy, to the minute: no overlap beside it, and never more than one token too many.
    fn read(&self, object: &DynamicObject) -> Reading {
        let (issuer, grace) = match self.which {
            Which::Project | Which::Group => (RESOURCE, spec::grace_or_longest(object)),
            Which::Personal => (PERSONAL, SignedDuration::ZERO),
        };
        let policy = Policy {
            delivery: Delivery::InPlace,
            retire: Retire::AfterGrace(grace),
            overlap: SignedDuration::ZERO,
            deletion: spec::deletion(self.which, object),
            one_extra: true,
            unused: spec::waits_until_unused(object),
            abandon: Some(ABANDONED_AFTER),
            ..Policy::default()
        };
        Reading {
            policy,
            issuer,
            wish: wish(self.which, object),
            labels: BTreeMap::new(),
        }
    }

    fn order(&self, object: &DynamicObject, _wish: Wish, now: Timestamp) -> Value {
        let Ok(asked) = spec::read(self.which, object) else {
            return Value::Null;
        };
        let lifetime_seconds = asked.schedule.life(now).as_secs();
        let max_days = asked.most_days;
        match asked.rights {
            Some(rights) => json!(TokenWish {
                scopes: rights.scopes,
                access_level: rights.level.number().into(),
                lifetime_seconds,
                max_days,
                description: format!(
                    "Keyward: {}/{}",
                    object.namespace().unwrap_or_default(),
                    object.name_any()
                ),
            }),
            None => json!(RotateWish {
                lifetime_seconds,
                max_days,
            }),
        }
    }

    fn rotate_request(&self, object: &DynamicObject, handled: Option<&str>) -> Option<String> {
        let note = object.annotations().get(names::ROTATE);
        let note: Option<String> = note.map(|note| note.chars().take(200).collect());
        let forced = object
            .metadata
            .generation
            .filter(|_| spec::force_now(object));
        force::request(note.as_deref(), forced, handled)
    }

    fn annotation_in<'a>(&self, handled: &'a str) -> Option<&'a str> {
        force::annotation(Some(handled))
    }

    async fn obstacle(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Refusal>, Fault> {
        self.dependencies
            .ring_of(self.which, object, &self.all, reader)
            .await
    }

    fn due(&self, object: &DynamicObject, current: &Entry) -> Option<Timestamp> {
        let asked = spec::read(self.which, object).ok()?;
        let uid = object.uid().unwrap_or_default();
        asked.schedule.due(&uid, current.minted, current.expires)
    }

    /// GitLab's number was all there was of it.
    fn whole_id(&self, id: &IssuedId, spec: &dyn Fn() -> Option<Value>) -> Option<IssuedId> {
        let is_whole = id.as_str() != token_id(id);
        if is_whole {
            return None;
        }
        let spec = spec()?;
        let base_url = spec.get("baseURL").and_then(Value::as_str);
        whole_id(id, base_url.unwrap_or(GITLAB_COM))
    }

    /// In place, the one name there is.
    fn secret_names(
        &self,
        object: &DynamicObject,
        _version: Version,
        _id: &IssuedId,
    ) -> Vec<SecretName> {
        let place = Place::of(self.which, object);
        place
            .map(|place| vec![SecretName::from(place.export.name.as_str())])
            .unwrap_or_default()
    }
}

impl Voice for GitLab {
    fn status(&self, report: &Report) -> Value {
        status::of(report)
    }

    fn named_in_status(&self, object: &DynamicObject) -> Option<SecretName> {
        let current = object.data.get("status")?.get("currentTokenRef")?;
        current.get("name")?.as_str().map(SecretName::from)
    }

    fn shown_id<'a>(&self, id: &'a IssuedId) -> &'a str {
        token_id(id)
    }

    fn tells(&self, object: &DynamicObject, happening: &Happening) -> Option<Note> {
        let asked = spec::read(self.which, object).ok();
        let needed = |minted| asked.map(|asked| asked.schedule.life(minted));
        events::tells(object, happening, needed)
    }
}

#[async_trait]
impl Access for GitLab {
    fn place_as_spec(&self, object: &DynamicObject) -> Option<Value> {
        Some(json!(Place::of(self.which, object).ok()?))
    }

    fn place(&self, object: &DynamicObject) -> String {
        Place::of(self.which, object)
            .map(|place| place.text())
            .unwrap_or_default()
    }

    async fn open(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Arc<dyn Source>, Closed> {
        let place = Place::of(self.which, object)?;
        self.places.open(&place, reader).await
    }

    fn without_login(&self, object: &DynamicObject) -> Option<Arc<dyn Source>> {
        let place = Place::of(self.which, object).ok()?;
        let namespace = object.namespace().unwrap_or_default();
        self.places.without_login(&namespace, &place).ok()
    }
}
