//! Who runs from a workload's templates, of now and of before: its pods, and its jobs.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::Holder;
use serde::Serialize;
use serde_json::Value;

use super::references;
use super::rollout::Sort;
use crate::engine::reader::Reader;
use crate::engine::trouble::Fault;

/// A pod or a job that has not come to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct User {
    /// Such as `pod api-0 (terminating)`.
    pub who: Holder,
    /// The Secrets that it refers to.
    pub secrets: BTreeSet<String>,
    /// Where it is, and as what it was read.
    #[serde(skip)]
    pub resource: ApiResource,
    #[serde(skip)]
    pub name: String,
    #[serde(skip)]
    pub version: String,
}

impl User {
    pub fn refers_to(&self, secret: &str) -> bool {
        self.secrets.contains(secret)
    }

    /// A pod. `None`: all its containers have ended for good, so that it uses nothing. One that is being deleted has not:
    /// its containers may run for as long as their grace period, and what they hold lets them in until then.
    pub fn of_pod(pod: &DynamicObject) -> Option<Self> {
        if is_over(pod) {
            return None;
        }
        let leaving = pod.metadata.deletion_timestamp.is_some();
        let note = if leaving { " (terminating)" } else { "" };
        Some(Self {
            who: format!("pod {}{note}", pod.name_any()).into(),
            secrets: secrets_in(&pod.data["spec"]),
            resource: ApiResource::erase::<Pod>(&()),
            name: pod.name_any(),
            version: pod.resource_version().unwrap_or_default(),
        })
    }

    /// A job. `None`: it is complete or has failed for good. One that runs starts pods from its own template again and
    /// again, also when none is there at the moment.
    pub fn of_job(job: &DynamicObject) -> Option<Self> {
        let conditions = job.data["status"]["conditions"].as_array();
        let over = conditions.into_iter().flatten().any(|one| {
            let ended = one["type"] == "Complete" || one["type"] == "Failed";
            ended && one["status"] == "True"
        });
        let template = &job.data["spec"]["template"];
        (!over).then(|| Self {
            who: format!("job {}", job.name_any()).into(),
            secrets: secrets_in(&template["spec"]),
            resource: ApiResource::erase::<Job>(&()),
            name: job.name_any(),
            version: job.resource_version().unwrap_or_default(),
        })
    }
}

/// Whether its containers have all ended and are not started again.
pub fn is_over(pod: &DynamicObject) -> bool {
    let phase = pod.data["status"]["phase"].as_str();
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn secrets_in(pod_spec: &Value) -> BTreeSet<String> {
    let all = references::in_pod_spec(pod_spec).into_iter();
    all.map(|reference| reference.secret).collect()
}

/// Everybody who runs from this workload's templates, read live: those of an old template too, and those on their way out.
///
/// Pods are found by the workload's selector, which can never change, and jobs by their owner. What somebody relabelled
/// by hand is no longer the workload's; whoever ends a credential looks at all pods once more.
pub async fn of(
    reader: &mut Reader<'_>,
    sort: Sort,
    object: &DynamicObject,
) -> Result<Vec<User>, Fault> {
    let pods = ApiResource::erase::<Pod>(&());
    match sort {
        Sort::Deployment | Sort::StatefulSet | Sort::DaemonSet => {
            let selector = selector(&object.data["spec"]["selector"]);
            let found = reader.selected(&pods, &selector).await?;
            Ok(found.iter().filter_map(User::of_pod).collect())
        }
        Sort::CronJob => {
            let uid = object.uid().unwrap_or_default();
            let jobs = ApiResource::erase::<Job>(&());
            let jobs = reader.selected(&jobs, "").await?;
            let is_its = |job: &&DynamicObject| {
                let mut owners = job.owner_references().iter();
                owners.any(|owner| owner.uid == uid)
            };
            let its: Vec<&DynamicObject> = jobs.iter().filter(is_its).collect();
            let mut users: Vec<User> = its.iter().copied().filter_map(User::of_job).collect();
            let uids: Vec<String> = its.iter().filter_map(|job| job.uid()).collect();
            if !uids.is_empty() {
                let selector =
                    format!("batch.kubernetes.io/controller-uid in ({})", uids.join(","));
                let found = reader.selected(&pods, &selector).await?;
                users.extend(found.iter().filter_map(User::of_pod));
            }
            Ok(users)
        }
    }
}

/// A label selector in the words of a list request.
fn selector(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let plain = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let rules = selector["matchExpressions"].as_array();
    let rules = rules.into_iter().flatten().map(|rule| {
        let key = rule["key"].as_str().unwrap_or_default();
        let values = rule["values"].as_array().into_iter().flatten();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        let values = values.join(",");
        match rule["operator"].as_str().unwrap_or_default() {
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            "NotIn" => format!("{key} notin ({values})"),
            // Anything else that the API server lets in is `In`.
            _ => format!("{key} in ({values})"),
        }
    });
    let all: Vec<String> = plain.chain(rules).collect();
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).expect("an object")
    }

    fn pod(name: &str, more: &Value) -> DynamicObject {
        let mut pod = json!({
            "metadata": { "name": name },
            "spec": { "containers": [], "volumes": [{ "name": "v", "secret": { "secretName": "s" } }] },
        });
        for (key, value) in more.as_object().expect("fields") {
            pod[key] = value.clone();
        }
        object(pod)
    }

    #[test]
    fn a_pod_uses_what_it_names_until_its_containers_have_ended() {
        let running = User::of_pod(&pod("p", &json!({ "status": { "phase": "Running" } })));
        let running = running.expect("it runs");
        assert!(running.refers_to("s") && !running.refers_to("t"));
        assert_eq!(running.who, Holder::from("pod p"));
        let pending = pod("p", &json!({}));
        assert!(User::of_pod(&pending).is_some(), "it may start any moment");
        for phase in ["Succeeded", "Failed"] {
            let over = pod("p", &json!({ "status": { "phase": phase } }));
            assert_eq!(User::of_pod(&over), None, "{phase}");
        }
        let metadata = json!({ "name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z" });
        let leaving = pod(
            "p",
            &json!({ "metadata": metadata, "status": { "phase": "Running" } }),
        );
        let leaving = User::of_pod(&leaving).expect("it may still run");
        assert!(leaving.refers_to("s"));
        assert_eq!(leaving.who, Holder::from("pod p (terminating)"));
    }

    #[test]
    fn a_job_uses_what_its_template_names_until_it_is_over() {
        let job = |conditions: Value| {
            object(json!({
                "metadata": { "name": "j" },
                "spec": { "template": {
                    "spec": { "containers": [{ "name": "c", "envFrom": [{ "secretRef": { "name": "s" } }] }] },
                } },
                "status": { "conditions": conditions },
            }))
        };
        let running = User::of_job(&job(json!([]))).expect("it runs");
        assert!(running.refers_to("s"));
        let suspended = job(json!([{ "type": "Suspended", "status": "True" }]));
        assert!(User::of_job(&suspended).is_some(), "it may go on");
        let not_failed = job(json!([{ "type": "Failed", "status": "False" }]));
        assert!(User::of_job(&not_failed).is_some());
        for end in ["Complete", "Failed"] {
            let over = job(json!([{ "type": end, "status": "True" }]));
            assert_eq!(User::of_job(&over), None, "{end}");
        }
    }

    #[test]
    fn a_selector_is_written_as_a_list_request_has_it() {
        let written = selector(&json!({
            "matchLabels": { "app": "api", "tier": "" },
            "matchExpressions": [
                { "key": "a", "operator": "In", "values": ["x", "y"] },
                { "key": "b", "operator": "NotIn", "values": ["z"] },
                { "key": "c", "operator": "Exists" },
                { "key": "d", "operator": "DoesNotExist" },
            ],
        }));
        assert_eq!(written, "app=api,tier=,a in (x,y),b notin (z),c,!d");
    }
}
