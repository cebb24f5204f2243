//! Where users and projects are looked up.

use anyhow::ensure;
use serde_json::json;

use super::case_list;
use super::world::{Elsewhere, World, same};
use crate::keystone::wire::{by_password, by_password_in};
use crate::keystone::{Reply, password_of};

case_list![
    the_same_names_in_another_domain_are_another_user_and_another_project,
    a_user_of_one_domain_may_work_on_a_project_of_another,
    a_service_user_is_at_home_in_project_service_of_the_default_domain,
];

/// Whom and what a token is for: user, the user's domain, project, the project's domain.
fn meant(reply: &Reply) -> anyhow::Result<[String; 4]> {
    Ok([
        reply.text("/token/user/id")?,
        reply.text("/token/user/domain/id")?,
        reply.text("/token/project/id")?,
        reply.text("/token/project/domain/id")?,
    ])
}

async fn the_same_names_in_another_domain_are_another_user_and_another_project(
    world: World,
) -> anyhow::Result<()> {
    let other = Elsewhere::new(&world).await?;
    ensure!(other.user_id != world.user_id && other.project_id != world.project_id);
    world
        .admin
        .assign_role_by_ids(&other.user_id, &other.project_id, &world.role)
        .await?;
    let there = by_password_in(
        &other.domain,
        &world.user,
        &other.password,
        &other.domain,
        &world.project,
    );
    let reply = world.http().log_in(&there).await?.expect("there", 201)?;
    same(
        "there",
        meant(&reply)?,
        [
            other.user_id.clone(),
            other.domain_id.clone(),
            other.project_id.clone(),
            other.domain_id.clone(),
        ],
    )?;
    let reply = world.log_in(&world.password).await?.expect("here", 201)?;
    same(
        "here",
        meant(&reply)?,
        [
            world.user_id.clone(),
            "default".into(),
            world.project_id.clone(),
            "default".into(),
        ],
    )?;
    // What belongs to the one is of no use to the other.
    for (what, user_domain, password, project_domain) in [
        (
            "the other's password",
            "Default",
            &other.password,
            "Default",
        ),
        (
            "the other's user",
            &*other.domain,
            &world.password,
            &*other.domain,
        ),
        (
            "the other's project",
            "Default",
            &world.password,
            &*other.domain,
        ),
    ] {
        let login = by_password_in(
            user_domain,
            &world.user,
            password,
            project_domain,
            &world.project,
        );
        world.http().log_in(&login).await?.expect(what, 401)?;
    }
    Ok(())
}

async fn a_user_of_one_domain_may_work_on_a_project_of_another(world: World) -> anyhow::Result<()> {
    let other = Elsewhere::new(&world).await?;
    world
        .admin
        .assign_role_by_ids(&world.user_id, &other.project_id, &world.role)
        .await?;
    let login = by_password_in(
        "Default",
        &world.user,
        &world.password,
        &other.domain,
        &world.project,
    );
    let reply = world.http().log_in(&login).await?.expect("there", 201)?;
    same(
        "there",
        meant(&reply)?,
        [
            world.user_id.clone(),
            "default".into(),
            other.project_id.clone(),
            other.domain_id.clone(),
        ],
    )?;
    // A credential made so is for that project.
    let token = reply.token().unwrap_or_default();
    let made = world.made(&token, json!({})).await?;
    let shown = world.show(&token, &made.id).await?.expect("showing", 200)?;
    same(
        "its project",
        shown.text("/application_credential/project_id")?,
        other.project_id,
    )
}

async fn a_service_user_is_at_home_in_project_service_of_the_default_domain(
    world: World,
) -> anyhow::Result<()> {
    let login = by_password("barbican", &password_of("barbican"), "service");
    let reply = world.http().log_in(&login).await?.expect("barbican", 201)?;
    same(
        "barbican",
        meant(&reply)?,
        [
            world.admin.user_id("barbican").await?,
            "default".into(),
            world.admin.project_id("service").await?,
            "default".into(),
        ],
    )
}
