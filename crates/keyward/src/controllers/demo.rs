//! The stand-in issuer's kind on the engine.

mod given;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use kube::api::{ApiResource, DynamicObject};
use kube::{Resource, ResourceExt};
use lifecycle::{
    Because, Deletion, Delivery, Entry, Fingerprint, IssuedId, Issuer, Minting, Policy, Refusal,
    Retire, SecretName, Version,
};
use serde_json::{Value, json};
use sources::http::{Http, Settings};
use sources::standin::StandIn;
use sources::{SecretValue, Source};

use crate::api::demo::{
    DemoCredential, DemoCredentialSpec, DemoDeletion, DemoDelivery, DemoIssuer, DemoMinting,
    DemoRetire, DemoRetireMode,
};
use crate::engine::conditions::{self, standard, whole_second};
use crate::engine::{Access, Closed, Held, Reader};
use crate::rotation::report::Report;
use crate::rotation::{About, Kind, Reading, Voice, Wish};

use given::Given;

/// Key of the login in its Secret.
pub const LOGIN: &str = "login";

#[derive(Debug)]
pub struct Demo {
    about: About,
    /// One pool of connections per issuer.
    pools: Mutex<HashMap<String, Http>>,
}

impl Default for Demo {
    fn default() -> Self {
        Self {
            about: About {
                metrics_source: Some("demo"),
                ..About::new(ApiResource::erase::<DemoCredential>(&()), "demo")
            },
            pools: Mutex::default(),
        }
    }
}

impl Demo {
    fn pool(&self, issuer: &DemoIssuer) -> Result<Http, Refusal> {
        if !is_on_this_machine(&issuer.url) {
            return Err(invalid(
                "the stand-in issuer must be on the loopback address",
            ));
        }
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&issuer.url) {
            return Ok(pool.clone());
        }
        let pool = Http::new(&issuer.url, &Settings::default())
            .map_err(|error| invalid(&error.to_string()))?;
        pools.insert(issuer.url.clone(), pool.clone());
        Ok(pool)
    }
}

/// The same rule as the schema's: a definition without it, or an old object, must not send us elsewhere.
fn is_on_this_machine(url: &str) -> bool {
    ["http://127.0.0.1:", "http://localhost:"]
        .iter()
        .any(|start| {
            url.strip_prefix(start).is_some_and(|rest| {
                let port = rest.trim_end_matches('/');
                !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
            })
        })
}

fn invalid(detail: &str) -> Refusal {
    Refusal {
        because: Because::InvalidSpec,
        detail: detail.to_owned(),
    }
}

fn no_login(detail: String) -> Closed {
    Closed::Refused(Refusal {
        because: Because::LoginMissing,
        detail,
    })
}

fn spec(object: &DynamicObject) -> Result<DemoCredentialSpec, Refusal> {
    let spec = object.data.get("spec").cloned().unwrap_or(Value::Null);
    serde_json::from_value(spec).map_err(|error| invalid(&error.to_string()))
}

fn minting(kind: DemoMinting) -> Minting {
    match kind {
        DemoMinting::Chosen => Minting::Chosen,
        DemoMinting::ReadBack => Minting::ReadBack,
        DemoMinting::ShownOnce => Minting::ShownOnce,
        DemoMinting::SelfRotating => Minting::SelfRotating,
        DemoMinting::Provided => Minting::Provided,
    }
}

fn issuer(kind: DemoMinting) -> Issuer {
    let (lists, revokes) = match kind {
        DemoMinting::Chosen | DemoMinting::ReadBack | DemoMinting::ShownOnce => (true, true),
        DemoMinting::SelfRotating => (false, true),
        DemoMinting::Provided => (false, false),
    };
    Issuer {
        minting: minting(kind),
        lists,
        revokes,
        tells_use: false,
    }
}

fn policy(delivery: DemoDelivery, retire: &DemoRetire, deletion: DemoDeletion) -> Policy {
    let seconds = SignedDuration::from_secs;
    Policy {
        delivery: match delivery {
            DemoDelivery::Versioned => Delivery::Versioned,
            DemoDelivery::InPlace => Delivery::InPlace,
        },
        retire: match retire.mode {
            DemoRetireMode::WhenReleased => Retire::WhenReleased,
            DemoRetireMode::AfterGrace => Retire::AfterGrace(seconds(retire.grace_seconds)),
            DemoRetireMode::WhenExpired => Retire::WhenExpired,
        },
        overlap: seconds(retire.overlap_seconds),
        rollback: seconds(retire.rollback_seconds),
        deletion: match deletion {
            DemoDeletion::Revoke => Deletion::Revoke,
            DemoDeletion::Orphan => Deletion::Orphan,
            DemoDeletion::Retain => Deletion::Retain,
        },
        ..Policy::default()
    }
}

/// One part of a spec that may be broken elsewhere.
fn part<T: serde::de::DeserializeOwned + Default>(object: &DynamicObject, name: &str) -> T {
    let value = object
        .data
        .get("spec")
        .and_then(|spec| spec.get(name))
        .cloned();
    value
        .and_then(|value| serde_json::from_value(value).ok())
        .unwrap_or_default()
}

/// What the spec asks for, or what is wrong with it.
fn wish(object: &DynamicObject) -> Result<Wish, Refusal> {
    let spec = spec(object)?;
    if spec.delivery == DemoDelivery::InPlace
        && spec.secret_name.as_deref().is_none_or(str::is_empty)
    {
        return Err(invalid("secretName is needed when delivery is InPlace"));
    }
    if !is_on_this_machine(&spec.issuer.url) {
        return Err(invalid(
            "the stand-in issuer must be on the loopback address",
        ));
    }
    let mut rights = spec.rights.clone();
    rights.sort_unstable();
    rights.dedup();
    let lifetime = spec
        .lifetime_seconds
        .map(|seconds| seconds.to_string())
        .unwrap_or_default();
    let fingerprint = Fingerprint::of(
        [spec.issuer.url.as_str(), &spec.issuer.realm, &lifetime]
            .into_iter()
            .chain(rights.iter().map(String::as_str)),
    );
    let mut order = json!({ "rights": rights });
    if let Some(seconds) = spec.lifetime_seconds {
        order["lifetimeSeconds"] = seconds.into();
    }
    let target = match spec.delivery {
        DemoDelivery::InPlace => spec.secret_name.as_deref().map(SecretName::from),
        DemoDelivery::Versioned => None,
    };
    Ok(Wish {
        fingerprint,
        order,
        target,
        adopt: spec.adopt_existing_secret,
        keys: Vec::new(),
        annotations: BTreeMap::new(),
    })
}

#[async_trait]
impl Kind for Demo {
    fn about(&self) -> &About {
        &self.about
    }

    fn access(&self) -> &dyn Access {
        self
    }

    fn voice(&self) -> &dyn Voice {
        self
    }

    fn read(&self, object: &DynamicObject) -> Reading {
        let kind = object
            .data
            .get("spec")
            .and_then(|spec| spec.get("issuer"))
            .and_then(|issuer| issuer.get("kind"));
        let kind = kind
            .and_then(|kind| serde_json::from_value(kind.clone()).ok())
            .unwrap_or_default();
        Reading {
            policy: policy(
                part(object, "delivery"),
                &part(object, "retire"),
                part(object, "deletionPolicy"),
            ),
            issuer: issuer(kind),
            wish: wish(object),
            labels: BTreeMap::new(),
        }
    }

    fn due(&self, object: &DynamicObject, current: &Entry) -> Option<Timestamp> {
        let after = spec(object).ok()?.rotate_after_seconds?;
        current
            .minted
            .checked_add(SignedDuration::from_secs(after))
            .ok()
    }

    fn secret_names(
        &self,
        object: &DynamicObject,
        version: Version,
        id: &IssuedId,
    ) -> Vec<SecretName> {
        let base: String = object.name_any().chars().take(200).collect();
        let name = format!("{base}-{}-{}", version.serial, version.attempt);
        // A former life of the resource may have left a Secret under that name.
        let digits = id.as_str().chars().filter(char::is_ascii_alphanumeric);
        let digits: String = digits.take(8).collect();
        let other = format!("{name}-{}", digits.to_ascii_lowercase());
        vec![SecretName::from(name), SecretName::from(other)]
    }
}

impl Voice for Demo {
    fn status(&self, report: &Report) -> Value {
        let current = report.ledger.current.as_ref();
        let held: Vec<&str> = report
            .view
            .holders
            .iter()
            .map(lifecycle::Holder::as_str)
            .collect();
        let mut status = json!({
            "observedGeneration": report.generation,
            "live": report.view.live,
            "conditions": standard(report.view, &conditions::of(report.before), report.generation, report.now),
        });
        let mut put = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                status[key] = value.into();
            }
        };
        put(
            "secretName",
            current.map(|current| current.secret.to_string()),
        );
        put(
            "version",
            current.map(|current| current.version.to_string()),
        );
        put("issuedId", current.map(|current| current.id.to_string()));
        put(
            "expires",
            current
                .and_then(|current| current.expires)
                .map(whole_second),
        );
        put("nextRotation", report.view.next_rotation.map(whole_second));
        put("heldBy", (!held.is_empty()).then(|| held.join(", ")));
        put("handledRotate", report.ledger.handled.clone());
        status
    }

    fn named_in_status(&self, object: &DynamicObject) -> Option<SecretName> {
        object
            .data
            .get("status")?
            .get("secretName")?
            .as_str()
            .map(SecretName::from)
    }
}

#[async_trait]
impl Access for Demo {
    fn place(&self, object: &DynamicObject) -> String {
        spec(object)
            .map(|spec| {
                let DemoIssuer { url, realm, kind } = spec.issuer;
                format!("{url} {realm} {kind:?} {}", spec.login_secret)
            })
            .unwrap_or_default()
    }

    async fn open(
        &self,
        object: &DynamicObject,
        reader: &mut Reader<'_>,
    ) -> Result<Arc<dyn Source>, Closed> {
        let spec = spec(object)?;
        let name = &spec.login_secret;
        let no_secret = || no_login(format!("there is no Secret {name} in this namespace"));
        let pool = self.pool(&spec.issuer)?;
        if spec.issuer.kind == DemoMinting::Provided {
            let values = reader.secret(name).await?.ok_or_else(no_secret)?;
            let inner = StandIn::over(
                pool,
                &spec.issuer.realm,
                SecretValue::new(""),
                Minting::Provided,
            );
            return Ok(Arc::new(Given { inner, values }));
        }
        let login = match reader.value(name, LOGIN).await? {
            Held::Is(login, _) => login,
            Held::NoSecret => return Err(no_secret()),
            Held::NoKey => {
                return Err(no_login(format!("the Secret {name} has no key {LOGIN}")));
            }
        };
        Ok(Arc::new(StandIn::over(
            pool,
            &spec.issuer.realm,
            login,
            minting(spec.issuer.kind),
        )))
    }
}

/// The plural, for those who build addresses by hand.
pub fn plural() -> String {
    DemoCredential::plural(&()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_spoken_to() {
        for good in ["http://127.0.0.1:80", "http://localhost:8080/"] {
            assert!(is_on_this_machine(good), "{good}");
        }
        for bad in [
            "http://169.254.169.254",
            "http://127.0.0.1:80@evil.example",
            "https://127.0.0.1:80",
            "http://127.0.0.1",
            "http://127.0.0.1:80/../x",
            "http://127.0.0.1:",
            "http://0.0.0.0:80",
        ] {
            assert!(!is_on_this_machine(bad), "{bad}");
        }
    }
}
