//! `keyward vsphere` without a vCenter: what it reads, renders, compares and prints.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cluster;
mod desk;
mod files;
mod migration;
mod rendering;
mod texts;
