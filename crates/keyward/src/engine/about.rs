//! What a controller of a small shape says of itself, whatever its resources say.

use kube::api::ApiResource;

use super::rights::Right;
use super::status::Owned;

/// Where it is told how a resource stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// In its status.
    Status,
    /// In this annotation, on what has a status that is somebody else's alone.
    Annotation(&'static str),
}

#[derive(Debug, Clone)]
pub struct About {
    /// The word for `--controllers`, and in metrics.
    pub name: &'static str,
    pub resource: ApiResource,
    /// Ours on the resource.
    pub finalizer: &'static str,
    pub tells: Tells,
    /// Which part of status is ours.
    pub owned: Owned,
    /// The condition that says whether all is well.
    pub condition: &'static str,
    /// Other kinds that it reads. They are watched, so that a change wakes those who depend on it.
    pub neighbours: Vec<ApiResource>,
    /// Kinds without a namespace that it reads. They are watched in the same way.
    pub cluster_neighbours: Vec<ApiResource>,
    /// Numbers that it gives for each of its resources: name and description.
    pub figures: &'static [(&'static str, &'static str)],
    /// Other namespaces that it reads or writes in.
    pub reaches: Vec<String>,
    /// What it may do beyond working on its own kind and reading its neighbours.
    pub rights: Vec<Right>,
}

impl About {
    pub fn new(name: &'static str, resource: ApiResource, finalizer: &'static str) -> Self {
        Self {
            name,
            resource,
            finalizer,
            tells: Tells::Status,
            owned: Owned::All,
            condition: "Ready",
            neighbours: Vec::new(),
            cluster_neighbours: Vec::new(),
            figures: &[],
            reaches: Vec::new(),
            rights: Vec::new(),
        }
    }

    /// All that it may do in each namespace that it looks after.
    pub fn all_rights(&self) -> Vec<Right> {
        let [work, status] = Right::to_work_on(&self.resource);
        let status = match self.tells {
            Tells::Status => Some(status),
            Tells::Annotation(_) => None,
        };
        let own = [work].into_iter().chain(status);
        let read = self.neighbours.iter().map(Right::to_read);
        let beyond = self.rights.iter().cloned();
        let told = [Right::to_tell()];
        own.chain(read).chain(beyond).chain(told).collect()
    }
}
