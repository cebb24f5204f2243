//! `keyward vsphere` against vCenter's simulator, govc, the installer's own reader of credentials files, and the real API
//! server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cluster;
mod desk;
mod privileges;
mod reader;
#[path = "../real_stage/mod.rs"]
mod real_stage;
