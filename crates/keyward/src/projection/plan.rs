//! What a plan is made of. All of it can be written out: for `keyward explain`, and for golden files.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject, ObjectMeta, TypeMeta};
use lifecycle::{Because, Holder, Severity, Wait};
use serde::Serialize;
use serde_json::Value;

use crate::engine::reader::Reader;
use crate::engine::telling::Told;
use crate::engine::trouble::Fault;
use crate::telemetry::Figure;

/// What a projection wants to happen, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The one thing to do next. `None`: rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Effect>,
    pub because: Because,
    /// What is not yet so, and what it hangs on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// What status says beside the conditions that come of the above. With an effect: what it says if that is refused.
    pub status: Value,
    /// What people are told when the effect is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub news: Option<News>,
    /// Numbers of this resource.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
}

/// A change worth an event. A warning is written before the effect, all else after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct News {
    pub warning: bool,
    pub because: Because,
    pub text: String,
    /// Part of the event's name: the same news is told once, however often the effect is tried.
    pub once: String,
}

impl Plan {
    pub fn act(next: Effect, because: Because) -> Self {
        Self {
            next: Some(next),
            because,
            waits: Vec::new(),
            status: Value::Null,
            news: None,
            figures: Vec::new(),
        }
    }

    pub fn rest(because: Because, status: Value) -> Self {
        Self {
            next: None,
            because,
            waits: Vec::new(),
            status,
            news: None,
            figures: Vec::new(),
        }
    }

    /// The same, with what exactly is so.
    #[must_use]
    pub fn because_of(self, detail: impl Into<String>) -> Self {
        let wait = Wait {
            because: self.because,
            version: None,
            on: Vec::new(),
            until: None,
            detail: detail.into(),
        };
        Self {
            waits: self.waits.into_iter().chain([wait]).collect(),
            ..self
        }
    }

    /// The same, waiting for somebody.
    #[must_use]
    pub fn waiting(self, because: Because, on: Vec<Holder>, until: Option<Timestamp>) -> Self {
        let wait = Wait {
            because,
            version: None,
            on,
            until,
            detail: String::new(),
        };
        Self {
            waits: self.waits.into_iter().chain([wait]).collect(),
            ..self
        }
    }

    /// The same, with a word on what is waited for.
    #[must_use]
    pub fn with_detail(mut self, detail: &str) -> Self {
        if let Some(wait) = self.waits.last_mut() {
            detail.clone_into(&mut wait.detail);
        }
        self
    }

    pub(super) fn is_calm(&self) -> bool {
        self.next.is_none() && self.because.severity() == Severity::Calm
    }

    pub(super) fn told(&self) -> Told {
        let on: Vec<Holder> = self.waits.iter().flat_map(|wait| wait.on.clone()).collect();
        let details = self.waits.iter().map(|wait| wait.detail.as_str());
        let details: Vec<&str> = details.filter(|detail| !detail.is_empty()).collect();
        Told::of(self.because, &on, &details.join("; "))
    }
}

/// Something in the cluster, exactly as it was seen: whoever acts on it finds it so, or does nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    pub api_version: String,
    pub kind: String,
    pub plural: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub finalizers: Vec<String>,
    pub leaving: bool,
}

impl Target {
    pub fn of(resource: &ApiResource, object: &DynamicObject) -> Self {
        Self {
            api_version: resource.api_version.clone(),
            kind: resource.kind.clone(),
            plural: resource.plural.clone(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            finalizers: object.finalizers().to_vec(),
            leaving: object.metadata.deletion_timestamp.is_some(),
        }
    }

    pub fn is_held_by(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|one| one == finalizer)
    }
}

/// A Secret as a plan may know it: which keys it has, and whether two of them hold the same. No value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretSeen {
    #[serde(flatten)]
    pub target: Target,
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub immutable: bool,
    /// Digests of this process's own: the same value has the same, and no other process can tell anything by them.
    pub digests: BTreeMap<String, String>,
}

impl SecretSeen {
    /// `None`: there is no such Secret.
    pub async fn read(reader: &mut Reader<'_>, name: &str) -> Result<Option<Self>, Fault> {
        let found = reader.judged(name, |_| ()).await?;
        Ok(found.map(|found| Self::of(found.secret, found.digests)))
    }

    /// A Secret whose values were taken out.
    pub fn of(secret: Secret, digests: BTreeMap<String, String>) -> Self {
        let immutable = secret.immutable == Some(true);
        let labels = secret.labels().clone();
        let annotations = secret.annotations().clone();
        let object = DynamicObject {
            types: None,
            metadata: secret.metadata,
            data: Value::Null,
        };
        Self {
            target: Target::of(&ApiResource::erase::<Secret>(&()), &object),
            labels,
            annotations,
            immutable,
            digests,
        }
    }
}

/// The resource itself, as far as every projection needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Own {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub leaving: bool,
    /// Our finalizer is on it.
    pub guarded: bool,
}

impl Own {
    pub fn of(object: &DynamicObject, finalizer: &str) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            leaving: object.metadata.deletion_timestamp.is_some(),
            guarded: object.finalizers().iter().any(|one| one == finalizer),
        }
    }
}

/// A copy to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Copying {
    pub from: Target,
    /// Namespace and name.
    pub to: (String, String),
    /// The one of ours that stands there. `None`: nothing does.
    pub over: Option<Target>,
    /// From which key to which.
    pub keys: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels, annotations and owners that others put on the copy stay. Its data is replaced in any case.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub beside_others: bool,
}

/// One place of the resource itself, and what is to stand there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// A JSON pointer. What it leads through is made where it is not there.
    pub path: String,
    /// Null: nothing.
    pub to: Value,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Effect {
    /// Makes these fields so, and no others, by server-side apply under the controller's own name.
    Apply {
        object: Box<DynamicObject>,
        plural: String,
        /// What it is done to. `None`: there is no such thing yet.
        over: Option<Box<Target>>,
    },
    Delete {
        what: Target,
    },
    /// Copies keys of a Secret into one of ours, by reference: no value is part of a plan.
    Copy(Box<Copying>),
    /// Puts a finalizer on a Secret: it is in use from now on.
    Hold {
        secret: Target,
        by: String,
    },
    /// Takes that finalizer off.
    LetGo {
        secret: Target,
        by: String,
    },
    /// Changes these places of the resource itself, and no others.
    Edit {
        changes: Vec<Change>,
    },
    /// Puts our finalizer on the resource itself.
    Guard,
    /// Takes it off: nothing of ours is left anywhere.
    Unguard,
}

impl Effect {
    /// Makes these fields of something that is there so.
    pub fn set(over: &Target, fields: &Value) -> Self {
        let types = TypeMeta {
            api_version: over.api_version.clone(),
            kind: over.kind.clone(),
        };
        let object = DynamicObject {
            types: Some(types),
            metadata: ObjectMeta {
                name: Some(over.name.clone()),
                namespace: Some(over.namespace.clone()),
                ..ObjectMeta::default()
            },
            data: fields.clone(),
        };
        Self::Apply {
            object: Box::new(object),
            plural: over.plural.clone(),
            over: Some(Box::new(over.clone())),
        }
    }

    /// Copies a whole Secret, each key under its own name.
    pub fn copy(
        from: &SecretSeen,
        to: (&str, &str),
        over: Option<&SecretSeen>,
        labels: BTreeMap<String, String>,
    ) -> Self {
        let keys = from.digests.keys().map(|key| (key.clone(), key.clone()));
        Self::Copy(Box::new(Copying {
            from: from.target.clone(),
            to: (to.0.to_owned(), to.1.to_owned()),
            over: over.map(|over| over.target.clone()),
            keys: keys.collect(),
            labels,
            annotations: BTreeMap::new(),
            beside_others: false,
        }))
    }

    pub fn hold(secret: &SecretSeen, by: &str) -> Self {
        Self::Hold {
            secret: secret.target.clone(),
            by: by.to_owned(),
        }
    }

    pub fn let_go(secret: &SecretSeen, by: &str) -> Self {
        Self::LetGo {
            secret: secret.target.clone(),
            by: by.to_owned(),
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::Apply { .. } => "Apply",
            Self::Delete { .. } => "Delete",
            Self::Copy(_) => "Copy",
            Self::Hold { .. } => "Hold",
            Self::LetGo { .. } => "LetGo",
            Self::Edit { .. } => "Edit",
            Self::Guard => "Guard",
            Self::Unguard => "Unguard",
        }
    }
}
