//! An API server in this process: the rules of Kubernetes that matter to an operator, over HTTP(S) on
//! loopback for kubectl or without any socket for tests, and a fault at any request.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use testbed::apiserver::{Fault, Options, Server};
//! let server = Server::in_process(Options::default());
//! let client = server.client_named("operator");
//! server.faults().at("operator", 3, Fault::TimeoutApplied);
//! # Ok(()) }
//! ```
//!
//! What a request passes through, one file each: `http` (wire, faults), `dispatch` (verbs), `core` (create
//! and update), `delete`, `apply`, `patch`, `reads`, `watch`; beneath them `objects` (metadata), `schema`,
//! `validate` and `cel` (custom kinds), `builtin` (single kinds), `gc` (what follows a deletion) and `store`.
//!
//! `testbed::contract` holds its behaviour against the real server's.

mod access;
mod apply;
mod builtin;
mod cel;
mod core;
mod crds;
mod delete;
mod discovery;
mod dispatch;
mod faults;
mod fields;
mod form;
mod frozen;
mod gc;
mod http;
mod identity;
mod jsonpath;
mod kinds;
mod objects;
mod patch;
mod protobuf;
mod reads;
mod request;
mod schema;
mod selectors;
mod server;
mod status;
mod store;
mod stream;
mod table;
pub(crate) mod tls;
mod validate;
mod watch;
mod wire;

pub use self::{
    access::Deny,
    core::Clock,
    faults::{Fault, Faults, Logged, RequestLine},
    request::Verb,
    server::{Options, Server},
    status::Failure,
    store::Key,
};
