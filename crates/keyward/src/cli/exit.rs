//! How a command ends. One table: help text, `docs/reference/exit-codes.md` and the code itself come from it.

use std::fmt;

use crate::engine::trouble::Fault;

macro_rules! exits {
    ($($name:ident = $code:literal, $short:literal, $long:literal;)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Exit {
            $(#[doc = $long] $name),+
        }

        impl Exit {
            pub const ALL: &[Self] = &[$(Self::$name),+];

            pub const fn code(self) -> u8 {
                match self { $(Self::$name => $code),+ }
            }

            /// A few words, for help.
            pub const fn short(self) -> &'static str {
                match self { $(Self::$name => $short),+ }
            }

            /// A sentence, for the reference page.
            pub const fn long(self) -> &'static str {
                match self { $(Self::$name => $long),+ }
            }
        }
    };
}

exits! {
    Fine = 0, "done", "It is done, or was already so.";
    Failed = 1, "failed", "It failed; the message says what, and what to do about it.";
    Usage = 2, "wrong usage", "The command line makes no sense: an unknown option, kind, controller or value.";
    NotFound = 3, "not found", "The named resource does not exist, or its kind is not installed in this cluster.";
    TimedOut = 4, "timed out", "What was asked for did not happen within `--timeout`. It may still happen.";
    PromiseBroken = 5, "a promise was broken", "`keyward demo` saw one of Keyward's promises broken. It says which, and how.";
    Unreachable = 6, "cluster unreachable", "No kubeconfig could be used, or the API server gave no usable answer.";
    Denied = 7, "not allowed", "The API server refused: the login is not accepted, or lacks a permission.";
    Busy = 8, "cluster busy", "The API server is overloaded (429), and did not accept the request for half a minute. It was not carried out; try again later.";
    Differs = 9, "there are differences", "`keyward vsphere diff` or `plan --live` found that the cluster differs from what would be rendered.";
    Lacking = 10, "privileges are missing", "`keyward vsphere check-privileges` found a login that lacks privileges its component needs.";
    Unanswered = 11, "a vCenter could not be asked", "A vCenter was unreachable or refused a login, so nothing is known about it.";
    Interrupted = 130, "interrupted", "Ended by a second signal, without waiting for work in progress.";
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command did not do what it was asked to, for the person who asked.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub text: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self {
            exit,
            text: text.into(),
            hint: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What the API server said, or that it said nothing. Kube's own text can quote what was sent, so that it is used
    /// only where nothing was.
    pub fn of_request(act: &str, error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 401 || status.code == 403 => {
                Self::new(Exit::Denied, format!("{act}: the API server refused"))
                    .hint("check who you are with `kubectl auth whoami`, and what you may do with `kubectl auth can-i`")
            }
            kube::Error::Api(status) if status.code == 404 => {
                Self::new(Exit::NotFound, format!("{act}: not found"))
            }
            kube::Error::Api(status) if status.code == 429 => {
                Self::new(Exit::Busy, format!("{act}: the API server is overloaded (429)"))
                    .hint("the request was not carried out; try again later")
            }
            kube::Error::Api(status) if status.code >= 500 => Self::new(
                Exit::Unreachable,
                format!("{act}: the API server answered {}", status.code),
            ),
            kube::Error::Api(status) => Self::new(
                Exit::Failed,
                format!("{act}: the API server refused ({} {})", status.code, status.reason),
            ),
            _ => Self::unreachable(act),
        }
    }

    pub fn of_fault(fault: &Fault) -> Self {
        match fault {
            Fault::Refused {
                code: 401 | 403, ..
            } => Self::new(Exit::Denied, fault.to_string())
                .hint("check what you may do with `kubectl auth can-i --list`"),
            Fault::TimedOut(_) | Fault::Unreachable(_) => {
                Self::new(Exit::Unreachable, fault.to_string()).hint(REACH)
            }
            Fault::Outrun(_)
            | Fault::Refused { .. }
            | Fault::Issuer(_)
            | Fault::Unchanged(_)
            | Fault::Deposed(_)
            | Fault::Past => Self::new(Exit::Failed, fault.to_string()),
        }
    }

    pub fn unreachable(act: &str) -> Self {
        Self::new(
            Exit::Unreachable,
            format!("{act}: the API server could not be reached"),
        )
        .hint(REACH)
    }
}

const REACH: &str =
    "try `kubectl version`; choose another cluster with KUBECONFIG, --kubeconfig or --context";

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  {hint}")?;
        }
        Ok(())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}

/// The same table as text, below the long help.
pub fn in_help() -> String {
    use std::fmt::Write;
    let mut text = String::from("Exit codes:");
    for exit in Exit::ALL {
        let _ = write!(text, "\n  {:>3}  {}", exit.code(), exit.short());
    }
    text
}

/// The reference page.
pub fn page() -> String {
    use std::fmt::Write;
    let mut page = String::from(
        "# Exit codes\n\nEvery `keyward` command ends with one of these. They do not change their meaning between releases.\n\n| code | meaning |\n|---|---|\n",
    );
    for exit in Exit::ALL {
        let _ = writeln!(page, "| {} | {} |", exit.code(), exit.long());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_api_server_says_decides_how_a_command_ends() {
        for (code, exit) in [
            (401, Exit::Denied),
            (403, Exit::Denied),
            (404, Exit::NotFound),
            (409, Exit::Failed),
            (429, Exit::Busy),
            (500, Exit::Unreachable),
            (503, Exit::Unreachable),
        ] {
            let status = kube::core::Status::failure("", "").with_code(code);
            let error = kube::Error::Api(status.boxed());
            let failure = Failure::of_request("listing tokens", &error);
            assert_eq!(failure.exit, exit, "{code}");
            assert!(failure.text.starts_with("listing tokens: "), "{failure}");
        }
    }
}
