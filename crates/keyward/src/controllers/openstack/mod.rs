//! The kinds of the OpenStack designs.

pub mod appcred;
mod keystone;
mod nodes;
