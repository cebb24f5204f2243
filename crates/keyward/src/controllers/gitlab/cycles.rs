//! Tokens whose logins are tokens: who depends on whom, and whether any of them depends on itself.
//!
//! One resource's Secret may be another's login. Those that wait for each other in a ring would wait forever, or, once
//! running, go down together; each of them says so. A token that rotates itself depends on nobody.
//!
//! What is kept here between looks are names only, and only to save reading a whole namespace for every resource in it:
//! each look puts its own resource right, and a ring counts only after everything was read again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use lifecycle::{Because, Refusal};

use super::Which;
use super::place::Place;
use crate::engine::conditions;
use crate::engine::reader::Reader;
use crate::engine::trouble::Fault;

/// How long a namespace is believed without reading it again.
const BELIEVED: Duration = Duration::from_mins(10);

/// Longer rings are not looked for: nobody builds them, and the walk must end.
const LONGEST_RING: usize = 64;

/// One resource, as far as others depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    which: Which,
    name: String,
    uid: String,
    /// The Secret it logs in with.
    needs: Option<String>,
    /// The Secret it writes.
    writes: String,
    /// Its status says that it is in a ring.
    says_so: bool,
}

#[derive(Debug, Default)]
struct Graph {
    /// By uid.
    nodes: HashMap<String, Node>,
    /// Secrets that carry a resource's label, whatever the spec says by now.
    labelled: HashMap<String, String>,
}

impl Graph {
    /// The ring this resource is in, from itself back to itself; empty if it is in none.
    fn ring(&self, uid: &str) -> Vec<&Node> {
        let mut way: Vec<&Node> = Vec::new();
        self.walk(uid, uid, &mut way, &mut HashSet::new());
        way
    }

    /// Follows logins depth first. A Secret has several writers only while somebody waits to be told so.
    fn walk<'a>(
        &'a self,
        from: &str,
        back_to: &str,
        way: &mut Vec<&'a Node>,
        seen: &mut HashSet<String>,
    ) -> bool {
        let Some(node) = self.nodes.get(from) else {
            return false;
        };
        if way.len() >= LONGEST_RING || !seen.insert(from.to_owned()) {
            return false;
        }
        way.push(node);
        for next in self.writers(node.needs.as_deref()) {
            if next.uid == back_to || self.walk(&next.uid, back_to, way, seen) {
                return true;
            }
        }
        way.pop();
        false
    }

    fn writers(&self, secret: Option<&str>) -> Vec<&Node> {
        let Some(secret) = secret else {
            return Vec::new();
        };
        let labelled = self.labelled.get(secret);
        let mut writers: Vec<&Node> = self
            .nodes
            .values()
            .filter(|node| node.writes == secret || Some(&node.uid) == labelled)
            .collect();
        writers.sort_unstable_by(|a, b| a.uid.cmp(&b.uid));
        writers
    }
}

/// What is known of each namespace.
#[derive(Debug, Default)]
pub(super) struct Dependencies {
    namespaces: Mutex<HashMap<String, (Graph, Instant)>>,
}

impl Dependencies {
    /// Why this resource cannot be served, if it is in a ring. Others whose status is wrong about that are woken.
    pub(super) async fn ring_of(
        &self,
        which: Which,
        object: &DynamicObject,
        kinds: &[(Which, ApiResource)],
        reader: &mut Reader<'_>,
    ) -> Result<Option<Refusal>, Fault> {
        let Some(node) = node(which, object) else {
            return Ok(None);
        };
        if node.needs.is_none() && !node.says_so {
            return Ok(None);
        }
        let uid = node.uid.clone();
        if self.knows_no_ring(reader.namespace(), node) {
            return Ok(None);
        }
        let graph = read(kinds, reader).await?;
        for other in graph.nodes.values().filter(|other| other.uid != uid) {
            if other.says_so == graph.ring(&other.uid).is_empty() {
                let resource = kinds.iter().find(|(which, _)| *which == other.which);
                if let Some((_, resource)) = resource {
                    reader.wake(resource, &other.name);
                }
            }
        }
        let refusal = tell(&graph.ring(&uid));
        let mut namespaces = self.lock();
        namespaces.insert(reader.namespace().to_owned(), (graph, Instant::now()));
        Ok(refusal)
    }

    /// Puts this resource right, and says whether what is known speaks for peace.
    fn knows_no_ring(&self, namespace: &str, node: Node) -> bool {
        let mut namespaces = self.lock();
        let Some((graph, read)) = namespaces.get_mut(namespace) else {
            return false;
        };
        if read.elapsed() > BELIEVED {
            return false;
        }
        let (uid, says_so) = (node.uid.clone(), node.says_so);
        graph.nodes.insert(uid.clone(), node);
        graph.ring(&uid).is_empty() && !says_so
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Graph, Instant)>> {
        self.namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(kinds: &[(Which, ApiResource)], reader: &mut Reader<'_>) -> Result<Graph, Fault> {
    let mut graph = Graph::default();
    for (which, resource) in kinds {
        for object in reader.look_at_all(resource).await? {
            if let Some(node) = node(*which, &object) {
                graph.nodes.insert(node.uid.clone(), node);
            }
        }
    }
    graph.labelled = reader.owned_secrets().await?.into_iter().collect();
    Ok(graph)
}

fn node(which: Which, object: &DynamicObject) -> Option<Node> {
    if object.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let place = Place::of(which, object).ok()?;
    let says_so = conditions::of(object.data.get("status"))
        .iter()
        .any(|condition| {
            condition["type"] == "Ready" && condition["reason"] == Because::DependencyCycle.code()
        });
    Some(Node {
        which,
        name: object.name_any(),
        uid: object.uid()?,
        needs: place.login.map(|login| login.name),
        writes: place.export.name,
        says_so,
    })
}

fn tell(ring: &[&Node]) -> Option<Refusal> {
    let first = ring.first()?;
    let steps: Vec<String> = ring
        .iter()
        .chain([first])
        .map(|node| format!("{} {}", node.which.word(), node.name))
        .collect();
    Some(Refusal {
        because: Because::DependencyCycle,
        detail: format!(
            "each logs in with the token of the next: {}",
            steps.join(" → ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, Option<&str>, &str)]) -> Graph {
        let nodes = edges.iter().map(|(name, needs, writes)| Node {
            which: Which::Project,
            name: (*name).to_owned(),
            uid: (*name).to_owned(),
            needs: needs.map(str::to_owned),
            writes: (*writes).to_owned(),
            says_so: false,
        });
        Graph {
            nodes: nodes.map(|node| (node.uid.clone(), node)).collect(),
            labelled: HashMap::new(),
        }
    }

    fn ring(graph: &Graph, of: &str) -> Vec<String> {
        graph
            .ring(of)
            .iter()
            .map(|node| node.name.clone())
            .collect()
    }

    #[test]
    fn a_ring_is_found_from_each_of_its_members_and_from_nobody_else() {
        let graph = graph(&[
            ("a", Some("b-token"), "a-token"),
            ("b", Some("c-token"), "b-token"),
            ("c", Some("a-token"), "c-token"),
            ("outside", Some("a-token"), "outside-token"),
            ("root", None, "root-token"),
            ("leaf", Some("root-token"), "leaf-token"),
        ]);
        assert_eq!(ring(&graph, "a"), ["a", "b", "c"]);
        assert_eq!(ring(&graph, "b"), ["b", "c", "a"]);
        assert_eq!(ring(&graph, "c"), ["c", "a", "b"]);
        for free in ["outside", "root", "leaf", "unknown"] {
            assert_eq!(ring(&graph, free), Vec::<String>::new(), "{free}");
        }
    }

    #[test]
    fn a_secret_that_still_carries_a_label_counts_too() {
        let mut graph = graph(&[
            ("a", Some("old-name"), "a-token"),
            ("b", Some("a-token"), "b-token"),
        ]);
        assert!(ring(&graph, "a").is_empty());
        graph.labelled.insert("old-name".into(), "b".into());
        assert_eq!(ring(&graph, "a"), ["a", "b"]);
    }

    #[test]
    fn a_token_that_is_its_own_login_is_a_ring_of_one() {
        let graph = graph(&[("a", Some("a-token"), "a-token")]);
        assert_eq!(ring(&graph, "a"), ["a"]);
    }

    #[test]
    fn the_walk_ends_whatever_it_walks_in() {
        let long: Vec<(String, String)> = (0..500)
            .map(|n| (format!("n{n}"), format!("s{}", (n + 1) % 500)))
            .collect();
        let writes: Vec<String> = (0..500).map(|n| format!("s{n}")).collect();
        let edges: Vec<(&str, Option<&str>, &str)> = long
            .iter()
            .zip(&writes)
            .map(|((name, needs), writes)| (name.as_str(), Some(needs.as_str()), writes.as_str()))
            .collect();
        assert!(ring(&graph(&edges), "n0").is_empty());
    }
}
