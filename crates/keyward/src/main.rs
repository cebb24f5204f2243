//! The binary is thin: everything it does lives in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    keyward::cli::main(std::env::args_os())
}
