//! Who gets a token.

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use super::case_list;
use super::world::{World, eventually, names, same, says};
use crate::keystone::wire::{by_application_credential, by_password};

case_list![
    discovery_answers_300_at_the_root_and_200_at_v3,
    a_password_login_tells_user_project_roles_and_expiry,
    a_wrong_password_and_an_unknown_user_are_refused_alike,
    a_project_that_is_unknown_or_not_ones_own_is_refused_like_a_wrong_password,
    a_malformed_login_is_a_bad_request,
    a_login_without_a_scope_is_for_the_default_project,
    failed_passwords_lock_the_account_but_not_its_application_credentials,
    an_application_credential_logs_in_by_id_and_by_name,
    a_wrong_secret_is_unauthorized_and_an_unknown_id_not_found,
    an_application_credential_cannot_ask_for_a_scope,
    a_token_got_with_an_application_credential_says_so,
    a_token_got_with_an_application_credential_gets_no_other_token,
    a_revoked_token_is_of_no_use,
    without_a_token_that_counts_nothing_is_shown,
    a_head_is_a_get_without_a_body,
];

async fn discovery_answers_300_at_the_root_and_200_at_v3(world: World) -> anyhow::Result<()> {
    let root = world
        .send(Method::GET, "/", "", None)
        .await?
        .expect("GET /", 300)?;
    let link = root.text("/versions/values/0/links/0/href")?;
    ensure!(link.ends_with("/v3/"), "the link leads to {link}");
    let v3 = world
        .send(Method::GET, "/v3", "", None)
        .await?
        .expect("GET /v3", 200)?;
    ensure!(v3.text("/version/id")?.starts_with("v3."), "no version 3");
    Ok(())
}

async fn a_password_login_tells_user_project_roles_and_expiry(world: World) -> anyhow::Result<()> {
    let reply = world
        .log_in(&world.password)
        .await?
        .expect("the login", 201)?;
    ensure!(reply.token().is_some(), "no X-Subject-Token");
    same("user", reply.text("/token/user/id")?, world.user_id.clone())?;
    same(
        "project",
        reply.text("/token/project/id")?,
        world.project_id.clone(),
    )?;
    let expected = ["member".to_owned(), "reader".into(), world.role.clone()];
    same(
        "roles",
        names(&reply.body["token"]["roles"]),
        expected.to_vec(),
    )?;
    for field in ["issued_at", "expires_at"] {
        let time = reply.text(&format!("/token/{field}"))?;
        ensure!(time.ends_with(".000000Z"), "{field} is {time}");
    }
    Ok(())
}

async fn a_wrong_password_and_an_unknown_user_are_refused_alike(
    world: World,
) -> anyhow::Result<()> {
    let wrong = world
        .log_in("wrong")
        .await?
        .expect("a wrong password", 401)?;
    let login = by_password("nobody-at-all", "wrong", &world.project);
    let unknown = world
        .http()
        .log_in(&login)
        .await?
        .expect("an unknown user", 401)?;
    same("the answer", &wrong.body, &unknown.body)?;
    says(
        &unknown,
        "The request you have made requires authentication.",
    )
}

async fn a_project_that_is_unknown_or_not_ones_own_is_refused_like_a_wrong_password(
    world: World,
) -> anyhow::Result<()> {
    let refused = world.log_in("wrong").await?.body;
    for project in ["no-such-project", "admin"] {
        let login = by_password(&world.user, &world.password, project);
        let reply = world.http().log_in(&login).await?.expect(project, 401)?;
        same(project, reply.body, refused.clone())?;
    }
    let mut login = by_password(&world.user, &world.password, &world.project);
    login["scope"]["project"]["domain"] = json!({"name": "no-such-domain"});
    let reply = world
        .http()
        .log_in(&login)
        .await?
        .expect("another domain", 401)?;
    same("another domain", reply.body, refused)
}

async fn a_malformed_login_is_a_bad_request(world: World) -> anyhow::Result<()> {
    let path = "/v3/auth/tokens";
    let empty = world.send(Method::POST, path, "", Some(&json!({}))).await?;
    says(
        &empty.expect("an empty login", 400)?,
        "Expecting to find auth",
    )?;
    let mut login = by_password(&world.user, &world.password, &world.project);
    let user = &mut login["identity"]["password"]["user"];
    user.as_object_mut().map(|user| user.remove("domain"));
    let reply = world.http().log_in(&login).await?;
    says(
        &reply.expect("a user without a domain", 400)?,
        "Expecting to find domain",
    )?;
    let login = json!({"identity": {"methods": ["application_credential"],
        "application_credential": {"secret": "x"}}});
    let reply = world.http().log_in(&login).await?;
    reply.expect("neither name nor id", 400).map(drop)
}

async fn a_login_without_a_scope_is_for_the_default_project(world: World) -> anyhow::Result<()> {
    let name = format!("{}-with-default", world.user);
    let user = json!({"user": {
        "name": name, "domain_id": "default", "password": "a password",
        "default_project_id": world.project_id,
    }});
    let reply = world
        .admin
        .ask(Method::POST, "/v3/users", Some(&user))
        .await?;
    reply.expect("creating a user", 201)?;
    world
        .admin
        .assign_role(&name, &world.project, "member")
        .await?;
    let mut login = by_password(&name, "a password", "");
    login.as_object_mut().map(|login| login.remove("scope"));
    let reply = world
        .http()
        .log_in(&login)
        .await?
        .expect("the login", 201)?;
    same(
        "project",
        reply.text("/token/project/id")?,
        world.project_id.clone(),
    )?;
    // Whoever has no default project gets a token for nothing.
    let mut login = by_password(&world.user, &world.password, "");
    login.as_object_mut().map(|login| login.remove("scope"));
    let reply = world
        .http()
        .log_in(&login)
        .await?
        .expect("the login", 201)?;
    same("project", &reply.body["token"]["project"], &Value::Null)
}

async fn failed_passwords_lock_the_account_but_not_its_application_credentials(
    world: World,
) -> anyhow::Result<()> {
    let made = world.made(&world.token().await?, json!({})).await?;
    for _ in 0..super::LOCKOUT.attempts {
        world
            .log_in("wrong")
            .await?
            .expect("a wrong password", 401)?;
    }
    world
        .log_in(&world.password)
        .await?
        .expect("the right password", 401)?;
    world
        .log_in_with(&made)
        .await?
        .expect("the application credential", 201)?;
    eventually("the lock ends", 201, async || {
        world.log_in(&world.password).await
    })
    .await?;
    Ok(())
}

async fn an_application_credential_logs_in_by_id_and_by_name(world: World) -> anyhow::Result<()> {
    let made = world
        .made(&world.token().await?, json!({"name": "by-name"}))
        .await?;
    let reply = world.log_in_with(&made).await?.expect("by id", 201)?;
    same("user", reply.text("/token/user/id")?, world.user_id.clone())?;
    same(
        "project",
        reply.text("/token/project/id")?,
        world.project_id.clone(),
    )?;
    let users = [
        json!({"id": world.user_id}),
        json!({"name": world.user, "domain": {"name": "Default"}}),
    ];
    for user in users {
        let login = json!({"identity": {"methods": ["application_credential"],
            "application_credential": {"name": "by-name", "user": user, "secret": made.secret}}});
        world.http().log_in(&login).await?.expect("by name", 201)?;
    }
    Ok(())
}

async fn a_wrong_secret_is_unauthorized_and_an_unknown_id_not_found(
    world: World,
) -> anyhow::Result<()> {
    let made = world.made(&world.token().await?, json!({})).await?;
    let unknown = "0123456789abcdef0123456789abcdef";
    let login = by_application_credential(&made.id, "wrong");
    world
        .http()
        .log_in(&login)
        .await?
        .expect("a wrong secret", 401)?;
    let login = by_application_credential(unknown, &made.secret);
    let reply = world
        .http()
        .log_in(&login)
        .await?
        .expect("an unknown id", 404)?;
    says(
        &reply,
        &format!("Could not find Application Credential: {unknown}."),
    )?;
    let login = json!({"identity": {"methods": ["application_credential"],
        "application_credential": {"name": "unknown", "user": {"id": world.user_id}, "secret": "x"}}});
    let reply = world.http().log_in(&login).await?;
    reply.expect("an unknown name", 401).map(drop)
}

async fn an_application_credential_cannot_ask_for_a_scope(world: World) -> anyhow::Result<()> {
    let made = world.made(&world.token().await?, json!({})).await?;
    let mut login = by_application_credential(&made.id, &made.secret);
    login["scope"] = json!({"project": {"id": world.project_id}});
    let reply = world
        .http()
        .log_in(&login)
        .await?
        .expect("with a scope", 401)?;
    says(&reply, "Application credentials cannot request a scope.")
}

async fn a_token_got_with_an_application_credential_says_so(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    for unrestricted in [false, true] {
        let made = world
            .made(&token, json!({"unrestricted": unrestricted}))
            .await?;
        let reply = world.log_in_with(&made).await?.expect("the login", 201)?;
        let about = &reply.body["token"]["application_credential"];
        same("id", &about["id"], &json!(made.id))?;
        same("restricted", &about["restricted"], &json!(!unrestricted))?;
        same(
            "methods",
            &reply.body["token"]["methods"],
            &json!(["application_credential"]),
        )?;
    }
    Ok(())
}

async fn a_token_got_with_an_application_credential_gets_no_other_token(
    world: World,
) -> anyhow::Result<()> {
    let token = world.token().await?;
    let made = world.made(&token, json!({"unrestricted": true})).await?;
    let with = |token: &str| json!({"identity": {"methods": ["token"], "token": {"id": token}}});
    let reply = world
        .http()
        .log_in(&with(&world.token_with(&made).await?))
        .await?;
    says(
        &reply.expect("a token for a token", 403)?,
        "Using a delegated token",
    )?;
    let reply = world.http().log_in(&with(&token)).await?;
    reply.expect("got with a password, it may", 201).map(drop)
}

async fn a_revoked_token_is_of_no_use(world: World) -> anyhow::Result<()> {
    let (token, other) = (world.token().await?, world.token().await?);
    let revoke = async || {
        let subject = [("x-subject-token", token.as_str())];
        let path = "/v3/auth/tokens";
        world
            .http()
            .send_with(Method::DELETE, path, &other, &subject, None)
            .await
    };
    revoke().await?.expect("revoking", 204)?;
    world.list(&token).await?.expect("using it", 401)?;
    world
        .look_at(&token, &[])
        .await?
        .expect("looking at it", 404)?;
    revoke().await?.expect("revoking again", 404)?;
    world
        .list(&other)
        .await?
        .expect("the other one", 200)
        .map(drop)
}

async fn without_a_token_that_counts_nothing_is_shown(world: World) -> anyhow::Result<()> {
    for token in ["", "nonsense"] {
        world.list(token).await?.expect("listing", 401)?;
        let wanted = json!({"name": "x"});
        world
            .create(token, &wanted)
            .await?
            .expect("creating", 401)?;
        world.delete(token, "x").await?.expect("deleting", 401)?;
    }
    let reply = world.look_at("nonsense", &[]).await?;
    reply.expect("looking at nonsense", 404).map(drop)
}

async fn a_head_is_a_get_without_a_body(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let path = world.path();
    let reply = world.send(Method::HEAD, &path, &token, None).await?;
    same("body", reply.expect("of a list", 200)?.body, Value::Null)?;
    let headers = [("x-subject-token", token.as_str())];
    let path = "/v3/auth/tokens";
    let look = world
        .http()
        .send_with(Method::HEAD, path, &token, &headers, None);
    look.await?.expect("of a token", 200)?;
    let headers = [("x-subject-token", "nonsense")];
    let look = world
        .http()
        .send_with(Method::HEAD, path, &token, &headers, None);
    look.await?.expect("of nonsense", 404).map(drop)
}
