//! How an application credential ends, and what it survives.

use std::time::Duration;

use anyhow::ensure;
use http::Method;
use serde_json::json;

use super::case_list;
use super::world::{World, eventually, from_now, names, same, says};

case_list![
    a_deleted_one_is_gone_for_logins_tokens_and_looks,
    an_expired_one_lets_nobody_in_and_stays_until_deleted,
    a_token_does_not_outlive_its_credential,
    a_disabled_user_keeps_them_and_they_work_again_later,
    a_role_taken_away_takes_the_login_and_gives_it_back,
    a_role_taken_away_leaves_the_others,
    a_role_of_a_group_is_enough,
    a_deleted_role_ends_all_of_its_holders_on_that_project,
    a_deleted_project_leaves_them_without_use,
    a_deleted_user_takes_them_along,
    a_password_change_ends_tokens_and_leaves_credentials,
    a_token_of_the_second_of_a_password_change_is_refused_and_a_later_one_works,
];

async fn a_deleted_one_is_gone_for_logins_tokens_and_looks(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let made = world.made(&token, json!({})).await?;
    let with = world.token_with(&made).await?;
    world
        .delete(&token, &made.id)
        .await?
        .expect("deleting", 204)?;
    let text = format!("Could not find Application Credential: {}.", made.id);
    says(
        &world.log_in_with(&made).await?.expect("logging in", 404)?,
        &text,
    )?;
    says(
        &world.list(&with).await?.expect("using its token", 404)?,
        &text,
    )?;
    let looked = world.look_at(&with, &[]).await?;
    says(&looked.expect("looking at its token", 404)?, &text)?;
    world.show(&token, &made.id).await?.expect("showing", 404)?;
    world
        .delete(&token, &made.id)
        .await?
        .expect("deleting again", 404)
        .map(drop)
}

async fn an_expired_one_lets_nobody_in_and_stays_until_deleted(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let expiry = from_now(Duration::from_secs(2));
    let made = world.made(&token, json!({"expires_at": expiry})).await?;
    let with = world.token_with(&made).await?;
    eventually("it expires", 401, async || world.log_in_with(&made).await).await?;
    world.list(&with).await?.expect("its token", 401)?;
    world
        .look_at(&with, &[])
        .await?
        .expect("looking at its token", 404)?;
    world.show(&token, &made.id).await?.expect("showing", 200)?;
    same("they are listed", world.admin.count(&world.user).await?, 1)?;
    world
        .delete(&token, &made.id)
        .await?
        .expect("deleting", 204)
        .map(drop)
}

async fn a_token_does_not_outlive_its_credential(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let expiry = from_now(Duration::from_mins(5));
    let made = world.made(&token, json!({"expires_at": expiry})).await?;
    let reply = world.log_in_with(&made).await?.expect("the login", 201)?;
    // In whole seconds, and never later.
    let cut = format!("{}.000000Z", &expiry[..19]);
    same("expiry", reply.text("/token/expires_at")?, cut)?;
    let made = world
        .made(&token, json!({"expires_at": "2099-01-01T00:00:00Z"}))
        .await?;
    let reply = world.log_in_with(&made).await?.expect("the login", 201)?;
    let expires = reply.text("/token/expires_at")?;
    ensure!(
        expires < from_now(Duration::from_hours(2)),
        "expires at {expires}"
    );
    Ok(())
}

async fn a_disabled_user_keeps_them_and_they_work_again_later(world: World) -> anyhow::Result<()> {
    let made = world.made(&world.token().await?, json!({})).await?;
    let with = world.token_with(&made).await?;
    world.admin.disable_user(&world.user).await?;
    world.log_in_with(&made).await?.expect("logging in", 401)?;
    world
        .log_in(&world.password)
        .await?
        .expect("with the password", 401)?;
    world.list(&with).await?.expect("its token", 401)?;
    same("they are there", world.admin.count(&world.user).await?, 1)?;
    world.admin.enable_user(&world.user).await?;
    world
        .log_in_with(&made)
        .await?
        .expect("enabled again", 201)?;
    world
        .list(&with)
        .await?
        .expect("the old token", 401)
        .map(drop)
}

async fn a_role_taken_away_takes_the_login_and_gives_it_back(world: World) -> anyhow::Result<()> {
    let wanted = json!({"roles": [{"name": world.role}]});
    let made = world.made(&world.token().await?, wanted).await?;
    let with = world.token_with(&made).await?;
    let (user, project, role) = (&world.user, &world.project, &world.role);
    world.admin.unassign_role(user, project, role).await?;
    world.log_in_with(&made).await?.expect("logging in", 401)?;
    world.list(&with).await?.expect("its token", 401)?;
    world
        .look_at(&with, &[])
        .await?
        .expect("looking at its token", 404)?;
    same("it is there", world.admin.count(user).await?, 1)?;
    world.admin.assign_role(user, project, role).await?;
    world
        .log_in_with(&made)
        .await?
        .expect("with the role again", 201)
        .map(drop)
}

async fn a_role_taken_away_leaves_the_others(world: World) -> anyhow::Result<()> {
    let made = world.made(&world.token().await?, json!({})).await?;
    let (user, project, role) = (&world.user, &world.project, &world.role);
    world.admin.unassign_role(user, project, role).await?;
    let reply = world.log_in_with(&made).await?.expect("logging in", 201)?;
    let left = vec!["member".to_owned(), "reader".to_owned()];
    same("roles", names(&reply.body["token"]["roles"]), left)
}

async fn a_role_of_a_group_is_enough(world: World) -> anyhow::Result<()> {
    let (user, project, role) = (&world.user, &world.project, &world.role);
    for direct in ["member", role] {
        world.admin.unassign_role(user, project, direct).await?;
    }
    let group = format!("{user}-group");
    world.admin.create_group(&group, project, role).await?;
    world.admin.add_to_group(&group, user).await?;
    let token = world.working_token(&world.password).await?;
    let made = world
        .made(&token, json!({"roles": [{"name": role}]}))
        .await?;
    let reply = world.log_in_with(&made).await?.expect("logging in", 201)?;
    same(
        "roles",
        names(&reply.body["token"]["roles"]),
        vec![role.clone()],
    )
}

async fn a_deleted_role_ends_all_of_its_holders_on_that_project(
    world: World,
) -> anyhow::Result<()> {
    let token = world.token().await?;
    let with_it = json!({"name": "with", "roles": [{"name": world.role}]});
    let without_it = json!({"name": "without", "roles": [{"name": "member"}]});
    let (with_it, without_it) = (
        world.made(&token, with_it).await?,
        world.made(&token, without_it).await?,
    );
    world.admin.delete_role(&world.role).await?;
    world
        .log_in_with(&with_it)
        .await?
        .expect("with the role", 404)?;
    // It never had that role; its user did.
    world
        .log_in_with(&without_it)
        .await?
        .expect("without the role", 404)?;
    same("listed", world.admin.count(&world.user).await?, 0)?;
    let token = world.working_token(&world.password).await?;
    let anew = world.made(&token, json!({"name": "with"})).await?;
    world
        .log_in_with(&anew)
        .await?
        .expect("a new one", 201)
        .map(drop)
}

async fn a_deleted_project_leaves_them_without_use(world: World) -> anyhow::Result<()> {
    let made = world.made(&world.token().await?, json!({})).await?;
    let with = world.token_with(&made).await?;
    world.admin.delete_project(&world.project).await?;
    let text = format!("Could not find project: {}.", world.project_id);
    says(
        &world.log_in_with(&made).await?.expect("logging in", 404)?,
        &text,
    )?;
    says(&world.list(&with).await?.expect("its token", 404)?, &text)?;
    same("listed", world.admin.count(&world.user).await?, 1)
}

async fn a_deleted_user_takes_them_along(world: World) -> anyhow::Result<()> {
    let made = world.made(&world.token().await?, json!({})).await?;
    let with = world.token_with(&made).await?;
    world.admin.delete_user(&world.user).await?;
    let text = format!("Could not find Application Credential: {}.", made.id);
    says(
        &world.log_in_with(&made).await?.expect("logging in", 404)?,
        &text,
    )?;
    let text = format!("Could not find user: {}.", world.user_id);
    says(&world.list(&with).await?.expect("its token", 404)?, &text)?;
    let reply = world.admin.ask(Method::GET, &world.path(), None).await?;
    let listed = reply.expect("listing", 200)?.body;
    same("listed", &listed["application_credentials"], &json!([]))
}

async fn a_password_change_ends_tokens_and_leaves_credentials(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let made = world.made(&token, json!({})).await?;
    let with = world.token_with(&made).await?;
    world
        .admin
        .set_password(&world.user, "a new password")
        .await?;
    world.list(&token).await?.expect("the old token", 401)?;
    world
        .list(&with)
        .await?
        .expect("the credential's old token", 401)?;
    world
        .log_in(&world.password)
        .await?
        .expect("the old password", 401)?;
    world
        .log_in_with(&made)
        .await?
        .expect("the credential", 201)?;
    let token = world.working_token("a new password").await?;
    world
        .show(&token, &made.id)
        .await?
        .expect("it is there", 200)
        .map(drop)
}

async fn a_token_of_the_second_of_a_password_change_is_refused_and_a_later_one_works(
    world: World,
) -> anyhow::Result<()> {
    // A second can end between the change and the login: then the token is good, and it is tried again.
    for attempt in 1.. {
        let password = format!("password number {attempt}");
        world.admin.set_password(&world.user, &password).await?;
        let reply = world.log_in(&password).await?.expect("the login", 201)?;
        let used = world.list(&reply.token().unwrap_or_default()).await?;
        if used.status == 401 {
            world.working_token(&password).await?;
            return Ok(());
        }
        used.expect("a token of the next second", 200)?;
        ensure!(attempt < 10, "every one of {attempt} tokens was good");
    }
    Ok(())
}
