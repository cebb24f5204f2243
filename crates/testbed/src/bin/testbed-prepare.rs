//! Finds or makes the programs of the real control plane, the real Keystone, the real radosgw, vCenter's simulator and the
//! real clients of GitLab and S3, so that no test has to wait for it.

use std::io::Write;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let programs = testbed::controlplane::programs::ready().await?;
    let keystone = testbed::keystone::real::ready().await?;
    let client = testbed::gitlab::client::python().await?;
    let vcenter = testbed::vcenter::programs::ready().await?;
    let radosgw = testbed::rgw::real::ready().await?;
    let boto3 = testbed::rgw::client::python().await?;
    let mut out = std::io::stdout();
    writeln!(out, "control plane programs from {}", programs.origin())?;
    writeln!(out, "Keystone from the cache ({})", keystone.display())?;
    writeln!(out, "python-gitlab from the cache ({})", client.display())?;
    writeln!(out, "vcsim from the cache ({})", vcenter.dir().display())?;
    writeln!(out, "radosgw from the cache ({})", radosgw.display())?;
    writeln!(out, "boto3 from the cache ({})", boto3.display())?;
    Ok(())
}
