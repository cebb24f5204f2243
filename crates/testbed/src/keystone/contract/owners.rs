//! Whose an application credential is.

use http::Method;
use serde_json::json;

use super::case_list;
use super::world::{World, same, says};

case_list![
    nobody_else_lists_shows_makes_or_deletes_them,
    an_administrator_looks_and_deletes_but_does_not_make_them,
    an_administrator_finds_their_user_by_name_and_domain,
    an_unknown_one_is_not_found,
    a_restricted_one_looks_but_makes_and_deletes_nothing,
    an_unrestricted_one_makes_and_deletes_others,
    a_trust_token_may_do_nothing,
];

const UNKNOWN: &str = "0123456789abcdef0123456789abcdef";

/// A token of somebody without any right over the user.
async fn strangers_token(world: &World) -> anyhow::Result<String> {
    let name = format!("{}-stranger", world.user);
    world.admin.create_user(&name, "a password").await?;
    world
        .admin
        .assign_role(&name, &world.project, "member")
        .await?;
    let login = crate::keystone::wire::by_password(&name, "a password", &world.project);
    let reply = world
        .http()
        .log_in(&login)
        .await?
        .expect("the stranger", 201)?;
    Ok(reply.token().unwrap_or_default())
}

async fn nobody_else_lists_shows_makes_or_deletes_them(world: World) -> anyhow::Result<()> {
    let made = world.made(&world.token().await?, json!({})).await?;
    let stranger = strangers_token(&world).await?;
    let reply = world.list(&stranger).await?.expect("listing", 403)?;
    says(&reply, "identity:list_application_credentials")?;
    world
        .show(&stranger, &made.id)
        .await?
        .expect("showing", 403)?;
    world
        .show(&stranger, UNKNOWN)
        .await?
        .expect("showing what is not there", 403)?;
    world
        .delete(&stranger, &made.id)
        .await?
        .expect("deleting", 403)?;
    let wanted = json!({"name": "x"});
    let reply = world
        .create(&stranger, &wanted)
        .await?
        .expect("making", 403)?;
    says(&reply, "identity:create_application_credential")?;
    world
        .log_in_with(&made)
        .await?
        .expect("it still works", 201)
        .map(drop)
}

async fn an_administrator_looks_and_deletes_but_does_not_make_them(
    world: World,
) -> anyhow::Result<()> {
    let made = world.made(&world.token().await?, json!({})).await?;
    let admin = world.admin.token().await?;
    world.list(&admin).await?.expect("listing", 200)?;
    world.show(&admin, &made.id).await?.expect("showing", 200)?;
    let wanted = json!({"name": "x"});
    world.create(&admin, &wanted).await?.expect("making", 403)?;
    world
        .delete(&admin, &made.id)
        .await?
        .expect("deleting", 204)?;
    world
        .log_in_with(&made)
        .await?
        .expect("it is gone", 404)
        .map(drop)
}

async fn an_administrator_finds_their_user_by_name_and_domain(world: World) -> anyhow::Result<()> {
    let admin = world.admin.token().await?;
    let ask = async |path: &str| {
        let reply = world.send(Method::GET, path, &admin, None).await?;
        reply.expect(path, 200)
    };
    let reply = ask("/v3/domains?name=Default").await?;
    same(
        "domains",
        &reply.body["domains"][0]["id"],
        &json!("default"),
    )?;
    let reply = ask("/v3/domains?name=nowhere").await?;
    same("domains", &reply.body["domains"], &json!([]))?;
    let users = format!("/v3/users?name={}&domain_id", world.user);
    let reply = ask(&format!("{users}=default")).await?;
    let found = &reply.body["users"];
    same("users", found.as_array().map(Vec::len), Some(1))?;
    same("id", &found[0]["id"], &json!(world.user_id))?;
    same("its domain", &found[0]["domain_id"], &json!("default"))?;
    let reply = ask(&format!("{users}={UNKNOWN}")).await?;
    same("users elsewhere", &reply.body["users"], &json!([]))?;
    // Nobody else may look.
    let stranger = strangers_token(&world).await?;
    for path in ["/v3/domains?name=Default", "/v3/users?name=admin"] {
        let reply = world.send(Method::GET, path, &stranger, None).await?;
        reply.expect(path, 403)?;
    }
    Ok(())
}

async fn an_unknown_one_is_not_found(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let text = format!("Could not find Application Credential: {UNKNOWN}.");
    says(
        &world.show(&token, UNKNOWN).await?.expect("showing", 404)?,
        &text,
    )?;
    says(
        &world
            .delete(&token, UNKNOWN)
            .await?
            .expect("deleting", 404)?,
        &text,
    )
}

async fn a_restricted_one_looks_but_makes_and_deletes_nothing(world: World) -> anyhow::Result<()> {
    let own = world.token().await?;
    for wanted in [json!({}), json!({"unrestricted": false})] {
        let made = world.made(&own, wanted).await?;
        let token = world.token_with(&made).await?;
        world.list(&token).await?.expect("listing", 200)?;
        world
            .show(&token, &made.id)
            .await?
            .expect("showing itself", 200)?;
        let child = json!({"name": "child"});
        let reply = world.create(&token, &child).await?.expect("making", 403)?;
        says(
            &reply,
            "is not allowed for managing additional application credentials",
        )?;
        world
            .delete(&token, &made.id)
            .await?
            .expect("deleting itself", 403)?;
    }
    Ok(())
}

async fn an_unrestricted_one_makes_and_deletes_others(world: World) -> anyhow::Result<()> {
    let made = world
        .made(&world.token().await?, json!({"unrestricted": true}))
        .await?;
    let token = world.token_with(&made).await?;
    let child = world.made(&token, json!({"unrestricted": true})).await?;
    let grandchild = world
        .made(&world.token_with(&child).await?, json!({}))
        .await?;
    for made in [grandchild, child, made] {
        world
            .delete(&token, &made.id)
            .await?
            .expect("deleting", 204)?;
    }
    Ok(())
}

async fn a_trust_token_may_do_nothing(world: World) -> anyhow::Result<()> {
    let own = world.token().await?;
    let made = world.made(&own, json!({})).await?;
    let wanted = json!({"trust": {
        "trustor_user_id": world.user_id, "trustee_user_id": world.user_id,
        "project_id": world.project_id, "impersonation": true, "roles": [{"name": "member"}],
    }});
    let path = "/v3/OS-TRUST/trusts";
    let reply = world.send(Method::POST, path, &own, Some(&wanted)).await?;
    let trust = reply.expect("trusting oneself", 201)?.text("/trust/id")?;
    let login = json!({
        "identity": {"methods": ["token"], "token": {"id": own}},
        "scope": {"OS-TRUST:trust": {"id": trust}},
    });
    let reply = world
        .http()
        .log_in(&login)
        .await?
        .expect("the login", 201)?;
    let token = reply.token().unwrap_or_default();
    world.list(&token).await?.expect("listing", 403)?;
    world.show(&token, &made.id).await?.expect("showing", 403)?;
    world
        .delete(&token, &made.id)
        .await?
        .expect("deleting", 403)?;
    let wanted = json!({"name": "x"});
    world.create(&token, &wanted).await?.expect("making", 403)?;
    let rules = world.rules_path();
    let reply = world.send(Method::GET, &rules, &token, None).await?;
    reply.expect("listing access rules", 403)?;
    // Nor does a token got with an application credential make a trust.
    let unrestricted = world.made(&own, json!({"unrestricted": true})).await?;
    let with = world.token_with(&unrestricted).await?;
    let wanted = json!({"trust": {
        "trustor_user_id": world.user_id, "trustee_user_id": world.user_id,
        "project_id": world.project_id, "impersonation": true, "roles": [{"name": "member"}],
    }});
    let reply = world.send(Method::POST, path, &with, Some(&wanted)).await?;
    reply
        .expect("a trust by an application credential", 403)
        .map(drop)
}
