//! What becomes of a user's keys.

use anyhow::ensure;
use http::Method;
use serde_json::json;

use super::case_list;
use super::world::{World, login_in};
use crate::rgw::Login;

case_list![
    an_access_key_can_be_chosen_and_its_secret_key_is_made_by_the_gateway,
    the_same_access_key_again_gets_another_secret_key,
    a_key_is_shown_with_its_secret_key_whenever_it_is_asked_for,
    an_access_key_can_be_a_mark_of_ours,
    several_keys_let_in_at_once,
    a_deactivated_key_is_unknown_everywhere_and_comes_back_with_its_secret_key,
    a_deactivation_that_does_not_say_to_keep_the_secret_key_changes_it,
    a_deleted_key_is_unknown_everywhere_at_once,
    deleting_a_key_that_is_not_there_is_refused_like_a_bad_login,
    an_access_key_of_another_user_is_refused,
    the_last_key_may_go,
    keys_of_a_user_that_is_not_there_are_not_there,
];

const KEEP_THE_SECRET: (&str, &str) = ("generate-key", "false");

async fn an_access_key_can_be_chosen_and_its_secret_key_is_made_by_the_gateway(
    world: World,
) -> anyhow::Result<()> {
    let access_key = format!("CHOSEN{}", world.mark);
    let made = world.put_key(&access_key, &[]).await?;
    let keys = made.expect("making a key", 200)?.json();
    ensure!(keys.as_array().is_some_and(|keys| keys.len() == 1));
    let (user, active) = (&keys[0]["user"], &keys[0]["active"]);
    ensure!(*user == world.uid && *active == true, "{user} {active}");
    let login = login_in(&keys, &access_key)?;
    ensure!(login.secret_key.reveal().len() == 40);
    world.lets_in_everywhere(&login).await
}

async fn the_same_access_key_again_gets_another_secret_key(world: World) -> anyhow::Result<()> {
    let before = world.key().await?;
    let again = world.put_key(&before.access_key, &[]).await?;
    let after = login_in(
        &again.expect("asking again", 200)?.json(),
        &before.access_key,
    )?;
    ensure!(after.secret_key.reveal() != before.secret_key.reveal());
    world
        .is_refused_everywhere(&before, "SignatureDoesNotMatch")
        .await?;
    world.lets_in_everywhere(&after).await
}

async fn a_key_is_shown_with_its_secret_key_whenever_it_is_asked_for(
    world: World,
) -> anyhow::Result<()> {
    let key = world.key().await?;
    let by_uid = world.show(&world.uid).await?;
    let shown = login_in(&by_uid["keys"], &key.access_key)?;
    ensure!(shown.secret_key.reveal() == key.secret_key.reveal());
    let by_key = world
        .user(Method::GET, &[("access-key", &key.access_key)])
        .await?;
    let by_key = by_key.expect("asking by access key", 200)?.json();
    ensure!(by_key["user_id"] == world.uid);
    let never = [("access-key", "NOBODYKNOWSTHISKEY00")];
    let never = world.user(Method::GET, &never).await?;
    never.expect_error("asking for none", 400, "InvalidArgument")?;
    Ok(())
}

async fn an_access_key_can_be_a_mark_of_ours(world: World) -> anyhow::Result<()> {
    let mark = format!("kw1-{}-{:032x}-12-3", world.mark, rand::random::<u128>());
    let made = world.put_key(&mark, &[]).await?;
    let login = login_in(&made.expect("making a key", 200)?.json(), &mark)?;
    world.lets_in_everywhere(&login).await?;
    world.delete_key(&mark).await?.expect("deleting it", 200)?;
    world
        .is_refused_everywhere(&login, "InvalidAccessKeyId")
        .await
}

async fn several_keys_let_in_at_once(world: World) -> anyhow::Result<()> {
    let keys = [world.key().await?, world.key().await?, world.key().await?];
    for key in &keys {
        world.lets_in_everywhere(key).await?;
    }
    let shown = world.show(&world.uid).await?;
    let shown = shown["keys"].as_array().cloned().unwrap_or_default();
    let shown: Vec<_> = shown.iter().map(|key| key["access_key"].clone()).collect();
    let mut sorted: Vec<_> = keys.iter().map(|key| key.access_key.clone()).collect();
    sorted.sort();
    ensure!(
        json!(shown) == json!(sorted),
        "sorted by access key, not by age"
    );
    Ok(())
}

async fn a_deactivated_key_is_unknown_everywhere_and_comes_back_with_its_secret_key(
    world: World,
) -> anyhow::Result<()> {
    let key = world.key().await?;
    for (active, lets_in) in [("false", false), ("true", true)] {
        let switch = [KEEP_THE_SECRET, ("active", active)];
        let switched = world.put_key(&key.access_key, &switch).await?;
        let keys = switched.expect("switching a key", 200)?.json();
        ensure!(keys[0]["active"] == lets_in, "it is said how it is now");
        if lets_in {
            world.lets_in_everywhere(&key).await?;
        } else {
            world
                .is_refused_everywhere(&key, "InvalidAccessKeyId")
                .await?;
        }
    }
    Ok(())
}

async fn a_deactivation_that_does_not_say_to_keep_the_secret_key_changes_it(
    world: World,
) -> anyhow::Result<()> {
    let key = world.key().await?;
    let put = world
        .put_key(&key.access_key, &[("active", "false")])
        .await?;
    let after = login_in(&put.expect("switching", 200)?.json(), &key.access_key)?;
    ensure!(after.secret_key.reveal() != key.secret_key.reveal());
    Ok(())
}

async fn a_deleted_key_is_unknown_everywhere_at_once(world: World) -> anyhow::Result<()> {
    let (key, other) = (world.key().await?, world.key().await?);
    let deleted = world.delete_key(&key.access_key).await?;
    let deleted = deleted.expect("deleting a key", 200)?;
    ensure!(deleted.text.is_empty(), "nothing is said");
    world
        .is_refused_everywhere(&key, "InvalidAccessKeyId")
        .await?;
    world.lets_in_everywhere(&other).await
}

async fn deleting_a_key_that_is_not_there_is_refused_like_a_bad_login(
    world: World,
) -> anyhow::Result<()> {
    let key = world.key().await?;
    world
        .delete_key(&key.access_key)
        .await?
        .expect("once", 200)?;
    let again = world.delete_key(&key.access_key).await?;
    again.expect_error("twice", 403, "InvalidAccessKeyId")?;
    Ok(())
}

async fn an_access_key_of_another_user_is_refused(world: World) -> anyhow::Result<()> {
    let theirs = format!("other-{}", world.mark);
    world.new_user(&theirs, &[]).await?;
    let key = world.key_of(&theirs).await?;
    let taken = world.put_key(&key.access_key, &[]).await?;
    taken.expect_error("a key of another's", 409, "KeyExists")?;
    world.lets_in_everywhere(&key).await
}

async fn the_last_key_may_go(world: World) -> anyhow::Result<()> {
    let key = world.key().await?;
    world
        .delete_key(&key.access_key)
        .await?
        .expect("the last", 200)?;
    let shown = world.show(&world.uid).await?;
    ensure!(shown["keys"].as_array().is_some_and(Vec::is_empty));
    Ok(())
}

async fn keys_of_a_user_that_is_not_there_are_not_there(world: World) -> anyhow::Result<()> {
    let nobody = format!("nobody-{}", world.mark);
    let put = world.put_key_of(&nobody, "ANY", &[]).await?;
    put.expect_error("making one", 404, "NoSuchUser")?;
    let query = [("key", ""), ("uid", &nobody), ("access-key", "ANY")];
    let deleted = world.user(Method::DELETE, &query).await?;
    deleted.expect_error("deleting one", 404, "NoSuchUser")?;
    let stranger = Login::new("ANY", "whatever");
    world
        .is_refused_everywhere(&stranger, "InvalidAccessKeyId")
        .await
}
