//! The kinds of the OpenStack designs.

pub mod appcred;
mod consumers;
pub mod controlplane;
mod deployed;
mod keystone;
mod nodes;
pub mod nodeset;
pub mod services;
