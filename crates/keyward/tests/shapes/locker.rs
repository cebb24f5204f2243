//! A remote thing for tests: a Locker, at an issuer that is a map in this process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use keyward::engine::telling::Told;
use keyward::engine::{About, Closed, Reader};
use keyward::remote::{Remote, Seen, Wish};
use kube::api::DynamicObject;
use lifecycle::{Because, Holder, Owner, Refusal, TroubleKind};
use serde_json::{Value, json};
use sources::{Found, SourceError, ThingId, Things};

use crate::kinds::{LOCKERS, resource};

pub(crate) const GUARD: &str = "test.keyward.dev/locker";
pub(crate) const RECORD: &str = "test.keyward.dev/locker-id";

/// What the next request to the issuer comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    LostBefore,
    LostAfter,
    CrashBefore,
    CrashAfter,
    Refused,
}

type Hook = Arc<dyn Fn() + Send + Sync>;

/// The issuer. A thing has an owner and a state; some are in use.
#[derive(Default)]
pub(crate) struct Lockers {
    pub(crate) things: Mutex<BTreeMap<String, (String, Value)>>,
    pub(crate) in_use: Mutex<Vec<Holder>>,
    pub(crate) requests: Mutex<u64>,
    pub(crate) fate: Mutex<Option<(u64, Fate)>>,
    pub(crate) crash: Mutex<Option<Hook>>,
    /// Every thing that was ever made.
    pub(crate) made: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Lockers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lockers")
    }
}

impl Lockers {
    async fn answer<T>(&self, act: impl FnOnce() -> T) -> Result<T, SourceError> {
        let number = {
            let mut requests = self.requests.lock().unwrap();
            *requests += 1;
            *requests
        };
        let fate = *self.fate.lock().unwrap();
        let fate = fate.filter(|(at, _)| *at == number).map(|(_, fate)| fate);
        let lost = |kind| Err(SourceError::new("asking", kind, "as the test wants it"));
        let done = match fate {
            Some(Fate::LostBefore) => return lost(TroubleKind::Unreachable),
            Some(Fate::Refused) => return lost(TroubleKind::Rejected),
            Some(Fate::CrashBefore) => None,
            Some(Fate::LostAfter | Fate::CrashAfter) | None => Some(act()),
        };
        match (fate, done) {
            (None, Some(done)) => Ok(done),
            (Some(Fate::LostAfter), _) => lost(TroubleKind::Unreachable),
            (Some(_), _) | (None, None) => {
                let crash = self.crash.lock().unwrap().clone();
                if let Some(crash) = crash {
                    crash();
                }
                std::future::pending().await
            }
        }
    }
}

#[async_trait]
impl Things for Lockers {
    fn place(&self) -> &'static str {
        "lockers"
    }

    async fn look(&self, id: &ThingId, owner: &Owner) -> Result<Option<Found>, SourceError> {
        let found = self.answer(|| self.things.lock().unwrap().get(id.as_str()).cloned());
        let found = found.await?;
        Ok(found.map(|(whose, state)| Found {
            state,
            ours: whose == owner.prefix(),
        }))
    }

    async fn put(&self, id: &ThingId, owner: &Owner, wanted: &Value) -> Result<(), SourceError> {
        self.answer(|| {
            let mut things = self.things.lock().unwrap();
            let known = things.contains_key(id.as_str());
            if !known {
                self.made.lock().unwrap().push(id.as_str().to_owned());
            }
            things.insert(id.as_str().to_owned(), (owner.prefix(), wanted.clone()));
        })
        .await
    }

    async fn blockers(&self, _id: &ThingId, _owner: &Owner) -> Result<Vec<Holder>, SourceError> {
        self.answer(|| self.in_use.lock().unwrap().clone()).await
    }

    async fn remove(&self, id: &ThingId, _owner: &Owner) -> Result<(), SourceError> {
        let remove = || drop(self.things.lock().unwrap().remove(id.as_str()));
        self.answer(remove).await
    }
}

#[derive(Debug)]
pub(crate) struct Locker(About, Arc<Lockers>);

impl Locker {
    pub(crate) fn new(lockers: Arc<Lockers>) -> Self {
        let about = About::new("locker", resource(LOCKERS), GUARD);
        Self(about, lockers)
    }
}

#[async_trait]
impl Remote for Locker {
    fn about(&self) -> &About {
        &self.0
    }

    fn record(&self) -> &'static str {
        RECORD
    }

    async fn wanted(
        &self,
        object: &DynamicObject,
        _owner: &Owner,
        _reader: &mut Reader<'_>,
    ) -> Result<Wish, Closed> {
        let spec = &object.data["spec"];
        let size = spec["size"].as_i64().filter(|size| *size > 0);
        let size = size.ok_or_else(|| Refusal {
            because: Because::InvalidSpec,
            detail: "size must be more than nothing".into(),
        })?;
        let named = spec["id"].as_str().map(str::to_owned);
        let id = named.or_else(|| object.metadata.uid.clone());
        Ok(Wish {
            id: id.unwrap_or_default().into(),
            thing: json!({ "size": size }),
            keep: spec["keep"] == true,
        })
    }

    async fn open(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Arc<dyn Things>, Closed> {
        let login = object.data["spec"]["login"].as_str().unwrap_or("login");
        reader.secret(login).await?.ok_or_else(|| Refusal {
            because: Because::LoginMissing,
            detail: format!("there is no Secret {login}"),
        })?;
        Ok(self.1.clone())
    }

    fn status(&self, _object: &DynamicObject, seen: &Seen, _told: &Told) -> Value {
        json!({ "id": seen.record.as_ref().map(|record| &record.id) })
    }
}
