//! The stand-in GitLab behaves like the one it stands for: each of its rules, asked over HTTP.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

mod bench;
mod creates;
mod faults;
mod lists;
mod order;
mod others;
mod revokes;
mod rotates;
mod times;
mod versions;
