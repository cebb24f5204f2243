//! Finds or makes the programs of the real control plane, so that no test has to wait for it.

use std::io::Write;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let programs = testbed::controlplane::programs::ready().await?;
    writeln!(
        std::io::stdout(),
        "control plane programs from {}",
        programs.origin()
    )?;
    Ok(())
}
