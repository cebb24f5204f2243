//! Who may ask.

use anyhow::ensure;
use http::Method;

use super::case_list;
use super::world::World;
use crate::rgw::Login;

case_list![
    an_unknown_access_key_is_told_from_a_wrong_secret_key,
    who_lacks_a_capability_is_denied_and_not_even_shown_itself,
    a_capability_to_read_lets_nobody_write,
];

async fn an_unknown_access_key_is_told_from_a_wrong_secret_key(world: World) -> anyhow::Result<()> {
    let stranger = Login::new("NOBODYKNOWSTHISKEY00", "whatever");
    let forgetful = Login::new(&world.admin.access_key, "another");
    let ask = async |login: &Login| {
        let query = [("uid", world.uid.as_str())];
        world.by(login, Method::GET, "user", &query).await
    };
    let reply = ask(&stranger).await?;
    reply.expect_error("an unknown access key", 403, "InvalidAccessKeyId")?;
    let reply = ask(&forgetful).await?;
    reply.expect_error("a wrong secret key", 403, "SignatureDoesNotMatch")?;
    let key = world.key().await?;
    let wrong = Login::new(&key.access_key, "another");
    world
        .is_refused_everywhere(&wrong, "SignatureDoesNotMatch")
        .await?;
    world
        .is_refused_everywhere(&stranger, "InvalidAccessKeyId")
        .await
}

async fn who_lacks_a_capability_is_denied_and_not_even_shown_itself(
    world: World,
) -> anyhow::Result<()> {
    let key = world.key().await?;
    for (what, query) in [
        ("user", ("uid", world.uid.as_str())),
        ("account", ("id", "RGW00000000000000000")),
        ("bucket", ("uid", world.uid.as_str())),
    ] {
        let reply = world.by(&key, Method::GET, what, &[query]).await?;
        reply.expect_error(what, 403, "AccessDenied")?;
    }
    Ok(())
}

async fn a_capability_to_read_lets_nobody_write(world: World) -> anyhow::Result<()> {
    let key = world.key().await?;
    let caps = [
        ("caps", ""),
        ("uid", &world.uid),
        ("user-caps", "users=read"),
    ];
    let put = world.user(Method::PUT, &caps).await?;
    put.expect("granting a capability", 200)?;
    let own = [("uid", world.uid.as_str())];
    let shown = world.by(&key, Method::GET, "user", &own).await?;
    let shown = shown.expect("reading", 200)?;
    ensure!(shown.json()["user_id"] == world.uid);
    let written = world.by(&key, Method::POST, "user", &own).await?;
    written.expect_error("writing", 403, "AccessDenied")?;
    Ok(())
}
