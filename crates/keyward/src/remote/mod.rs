//! A thing at an issuer that has no value of its own: an account, a user.
//!
//! Its id is chosen by us and written down, with our finalizer, before it is made. So there is never a second one, whatever
//! is lost or dies; what stands there under that id without our mark is somebody else's, and is left alone.

mod controller;
mod decide;
mod thought;

pub use controller::{Credentials, Keeping, Remote};
pub use decide::{Act, Clears, Next, Record, Seen, Wish, decide};
