//! The kinds of the OpenStack designs.

pub mod appcred;
pub mod controlplane;
mod keystone;
mod nodes;
pub mod services;
