//! What an application credential can be.

use std::time::Duration;

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use super::case_list;
use super::world::{World, eventually, from_now, names, same, says};

case_list![
    a_new_credential_is_answered_whole_and_its_secret_only_once,
    a_secret_can_be_chosen,
    a_name_is_used_once_per_user,
    a_name_has_up_to_255_characters,
    an_expiry_in_the_past_or_in_another_form_is_refused,
    an_expiry_is_answered_in_utc_without_a_zone,
    a_role_not_held_is_a_bad_request_and_an_unknown_one_not_found,
    implied_roles_come_along,
    without_roles_it_has_those_of_the_token,
    what_is_not_known_is_refused_and_an_id_of_ones_own_ignored,
    null_is_nothing_except_for_lists,
    the_limit_counts_what_exists_and_ends_with_a_deletion,
    the_limit_counts_expired_ones_too,
    a_credential_cannot_be_changed,
    a_body_is_looked_at_before_whoever_sent_it,
    listing_filters_by_name,
    a_token_for_no_project_makes_a_credential_for_none,
];

async fn a_new_credential_is_answered_whole_and_its_secret_only_once(
    world: World,
) -> anyhow::Result<()> {
    let token = world.token().await?;
    let wanted = json!({
        "name": "whole", "description": "what it is for", "roles": [{"name": world.role}],
        "unrestricted": false,
        "access_rules": [{"service": "compute", "path": "/v2.1/servers", "method": "GET"}],
    });
    let reply = world
        .create(&token, &wanted)
        .await?
        .expect("creating", 201)?;
    let made = &reply.body["application_credential"];
    same("secret", made["secret"].as_str().map(str::len), Some(86))?;
    for (field, value) in [
        ("name", json!("whole")),
        ("description", json!("what it is for")),
        ("user_id", json!(world.user_id)),
        ("project_id", json!(world.project_id)),
        ("expires_at", Value::Null),
        ("unrestricted", json!(false)),
    ] {
        same(field, &made[field], &value)?;
    }
    same("roles", names(&made["roles"]), vec![world.role.clone()])?;
    same(
        "service",
        &made["access_rules"][0]["service"],
        &json!("compute"),
    )?;
    let id = reply.text("/application_credential/id")?;
    let shown = world.show(&token, &id).await?.expect("showing", 200)?;
    let listed = world.list(&token).await?.expect("listing", 200)?;
    let (mut made, shown) = (made.clone(), &shown.body["application_credential"]);
    made.as_object_mut().map(|made| made.remove("secret"));
    same("what is shown", shown, &made)?;
    same(
        "what is listed",
        &listed.body["application_credentials"],
        &json!([made]),
    )
}

async fn a_secret_can_be_chosen(world: World) -> anyhow::Result<()> {
    let made = world
        .made(&world.token().await?, json!({"secret": "chosen by us"}))
        .await?;
    same("secret", made.secret.as_str(), "chosen by us")?;
    world
        .log_in_with(&made)
        .await?
        .expect("the login", 201)
        .map(drop)
}

async fn a_name_is_used_once_per_user(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let first = world
        .made(&token, json!({"name": "taken", "secret": "first"}))
        .await?;
    let again = json!({"name": "taken", "secret": "second"});
    let reply = world
        .create(&token, &again)
        .await?
        .expect("the same name", 409)?;
    says(&reply, "Duplicate entry found with name taken.")?;
    world
        .log_in_with(&first)
        .await?
        .expect("the first one", 201)?;
    world
        .delete(&token, &first.id)
        .await?
        .expect("deleting", 204)?;
    world
        .create(&token, &again)
        .await?
        .expect("after a deletion", 201)
        .map(drop)
}

async fn a_name_has_up_to_255_characters(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    for (name, status) in [
        (Some("x".repeat(255)), 201),
        (Some("x".repeat(256)), 400),
        (Some(String::new()), 400),
        (None, 400),
    ] {
        let wanted = name.map_or(json!({}), |name| json!({ "name": name }));
        world
            .create(&token, &wanted)
            .await?
            .expect("creating", status)?;
    }
    Ok(())
}

async fn an_expiry_in_the_past_or_in_another_form_is_refused(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    for expiry in [
        "2001-05-19T00:00:00Z",
        "tomorrow",
        "2099-01-01",
        "2099-01-01T00:00:00+02:00",
    ] {
        let wanted = json!({"name": "x", "expires_at": expiry});
        world.create(&token, &wanted).await?.expect(expiry, 400)?;
    }
    Ok(())
}

async fn an_expiry_is_answered_in_utc_without_a_zone(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    for (given, answered) in [
        ("2099-01-01T10:00:00Z", "2099-01-01T10:00:00.000000"),
        ("2099-01-01T10:00:00", "2099-01-01T10:00:00.000000"),
        ("2099-01-01T10:00:00.123456Z", "2099-01-01T10:00:00.123456"),
    ] {
        let wanted = json!({"name": given, "expires_at": given});
        let reply = world.create(&token, &wanted).await?.expect(given, 201)?;
        let is = reply.text("/application_credential/expires_at")?;
        same(given, is.as_str(), answered)?;
    }
    Ok(())
}

async fn a_role_not_held_is_a_bad_request_and_an_unknown_one_not_found(
    world: World,
) -> anyhow::Result<()> {
    let token = world.token().await?;
    for (role, status) in [
        (json!({"name": "admin"}), 400),
        (json!({"name": "no-such-role"}), 404),
        (json!({"id": "0123456789abcdef0123456789abcdef"}), 400),
        (json!({"id": "x", "name": "member"}), 400),
        (json!({}), 400),
    ] {
        let wanted = json!({"name": "x", "roles": [role]});
        world
            .create(&token, &wanted)
            .await?
            .expect(&role.to_string(), status)?;
    }
    Ok(())
}

async fn implied_roles_come_along(world: World) -> anyhow::Result<()> {
    let wanted = json!({"name": "implied", "roles": [{"name": "member"}]});
    let reply = world.create(&world.token().await?, &wanted).await?;
    let reply = reply.expect("creating", 201)?;
    let roles = names(&reply.body["application_credential"]["roles"]);
    same("roles", roles, vec!["member".into(), "reader".into()])
}

async fn without_roles_it_has_those_of_the_token(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    for wanted in [
        json!({"name": "none"}),
        json!({"name": "empty", "roles": []}),
    ] {
        let reply = world
            .create(&token, &wanted)
            .await?
            .expect("creating", 201)?;
        let made = &reply.body["application_credential"];
        let all = vec!["member".into(), "reader".into(), world.role.clone()];
        same("roles", names(&made["roles"]), all)?;
        same("unrestricted", &made["unrestricted"], &Value::Null)?;
    }
    Ok(())
}

async fn what_is_not_known_is_refused_and_an_id_of_ones_own_ignored(
    world: World,
) -> anyhow::Result<()> {
    let token = world.token().await?;
    let unknown = json!({"name": "x", "unknown": true});
    world
        .create(&token, &unknown)
        .await?
        .expect("an unknown property", 400)?;
    let foreign = "0123456789abcdef0123456789abcdef";
    let own = json!({"name": "own", "id": foreign, "project_id": foreign});
    let reply = world
        .create(&token, &own)
        .await?
        .expect("an id of one's own", 201)?;
    ensure!(
        reply.text("/application_credential/id")? != foreign,
        "the id was taken"
    );
    let project = reply.text("/application_credential/project_id")?;
    same("project", project, world.project_id.clone())
}

async fn null_is_nothing_except_for_lists(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    for (field, status) in [
        ("expires_at", 201),
        ("secret", 201),
        ("description", 201),
        ("unrestricted", 201),
        ("roles", 400),
        ("access_rules", 400),
        ("name", 400),
    ] {
        let mut wanted = json!({"name": field});
        wanted[field] = Value::Null;
        world.create(&token, &wanted).await?.expect(field, status)?;
    }
    Ok(())
}

async fn the_limit_counts_what_exists_and_ends_with_a_deletion(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let mut last = None;
    for _ in 0..super::USER_LIMIT {
        last = Some(world.made(&token, json!({})).await?);
    }
    let more = json!({"name": "more"});
    let reply = world
        .create(&token, &more)
        .await?
        .expect("one too many", 403)?;
    let text = format!("maximum of {} already exceeded for user", super::USER_LIMIT);
    says(&reply, &text)?;
    if let Some(last) = last {
        world
            .delete(&token, &last.id)
            .await?
            .expect("deleting one", 204)?;
    }
    world
        .create(&token, &more)
        .await?
        .expect("after a deletion", 201)
        .map(drop)
}

async fn the_limit_counts_expired_ones_too(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let soon = from_now(Duration::from_secs(2));
    let first = world.made(&token, json!({"expires_at": soon})).await?;
    for _ in 1..super::USER_LIMIT {
        world.made(&token, json!({})).await?;
    }
    eventually("it expires", 401, async || world.log_in_with(&first).await).await?;
    let more = json!({"name": "more"});
    let reply = world.create(&token, &more).await?;
    reply.expect("one too many", 403).map(drop)
}

async fn a_credential_cannot_be_changed(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let made = world.made(&token, json!({})).await?;
    for method in [Method::PATCH, Method::PUT] {
        let path = world.path_of(&made.id);
        let reply = world.send(method, &path, &token, Some(&json!({}))).await?;
        let reply = reply.expect("changing", 405)?;
        same("an error", &reply.body["error"], &Value::Null)?;
        ensure!(reply.body["message"].is_string(), "no message either");
    }
    Ok(())
}

async fn a_body_is_looked_at_before_whoever_sent_it(world: World) -> anyhow::Result<()> {
    let bad = json!({"name": ""});
    world
        .create("", &bad)
        .await?
        .expect("without a token", 400)?;
    let admin = world.admin.token().await?;
    world
        .create(&admin, &bad)
        .await?
        .expect("by somebody else", 400)
        .map(drop)
}

async fn listing_filters_by_name(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    for name in ["one", "one more"] {
        world.made(&token, json!({ "name": name })).await?;
    }
    for (query, found) in [
        ("one", vec!["one"]),
        ("one%20more", vec!["one more"]),
        ("on", vec![]),
    ] {
        let path = format!("{}?name={query}", world.path());
        let reply = world.send(Method::GET, &path, &token, None).await?;
        let reply = reply.expect("listing by name", 200)?;
        let found = found.into_iter().map(str::to_owned).collect::<Vec<_>>();
        same(query, names(&reply.body["application_credentials"]), found)?;
    }
    Ok(())
}

async fn a_token_for_no_project_makes_a_credential_for_none(world: World) -> anyhow::Result<()> {
    let login = json!({
        "identity": {"methods": ["password"], "password": {"user": {
            "id": world.user_id, "password": world.password,
        }}},
        "scope": "unscoped",
    });
    let reply = world
        .http()
        .log_in(&login)
        .await?
        .expect("the login", 201)?;
    let token = reply.token().unwrap_or_default();
    let wanted = json!({"name": "for-nothing"});
    let reply = world
        .create(&token, &wanted)
        .await?
        .expect("creating", 201)?;
    let made = &reply.body["application_credential"];
    same("project", &made["project_id"], &Value::Null)?;
    same("roles", &made["roles"], &json!([]))
}
