//! The stand-in issuer as a process of its own, with its control API: `testbed-issuer PORT` (0 takes a free port).
//! Prints its address on the first line and serves until it is killed or its standard input ends.

use std::io::{Read, Write};

use anyhow::{Context, bail};
use testbed::issuer::{Control, StandIn};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(port), None) = (arguments.next(), arguments.next()) else {
        bail!("usage: testbed-issuer PORT (0 takes a free port)");
    };
    let port = port.parse().context("PORT is a number from 0 to 65535")?;
    let issuer = StandIn::start_on(port, Control::On).context("listening on 127.0.0.1")?;
    writeln!(std::io::stdout(), "{}", issuer.url())?;
    // Whoever started it holds the other end: it never outlives them.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
