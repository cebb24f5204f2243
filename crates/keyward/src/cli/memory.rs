//! Keeping the memory of this process to itself: it holds logins and values.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Called before anything is read.
///
/// *Guarantees:* a crash leaves no core file. On Linux no collector of core dumps gets one either, and no other process
/// of the same user can read this memory; an administrator still can. *Safe to repeat because* it sets what is set.
pub(super) fn keep_to_ourselves() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none)?;
    // Where core dumps go to a program, the limit above does not count.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::{DumpableBehavior, dumpable_behavior};

    use super::*;

    #[test]
    fn neither_a_core_file_nor_a_neighbour_gets_at_the_memory() {
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::Dumpable);
        keep_to_ourselves().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        let limit = rustix::process::getrlimit(Resource::Core);
        assert_eq!((limit.current, limit.maximum), (Some(0), Some(0)));
    }
}
