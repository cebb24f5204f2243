//! Followers on real rollouts: real kube-apiserver, kube-controller-manager and kube-scheduler, a node that plays the
//! kubelet, and the operator as a process of its own with the rights of `deploy/rbac`. All the time it is watched whether
//! what a pod names still lets it in at the issuer.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod crowd;
mod hand_over;
#[path = "../real_stage/mod.rs"]
mod real_stage;
mod rollouts;
mod scene;
