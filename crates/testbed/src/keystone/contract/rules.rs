//! Access rules.

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use super::case_list;
use super::world::{Made, World, same, says};

case_list![
    a_repeated_rule_has_one_id_and_can_be_given_by_it,
    an_empty_list_of_rules_is_no_limit,
    a_rule_that_is_wrong_is_a_bad_request,
    a_rule_that_is_incomplete_is_a_server_error,
    a_rule_in_use_cannot_be_deleted_and_stays_after_its_credential,
    rules_are_listed_by_what_they_say,
    rules_are_for_their_user_and_the_systems_administrator,
    a_token_with_rules_is_valid_only_with_the_header,
    a_token_with_rules_does_only_what_they_say,
    an_unrestricted_one_makes_others_where_a_rule_says_so,
];

const HEADER: (&str, &str) = ("openstack-identity-access-rules", "1.0");

fn servers() -> Value {
    json!({"service": "compute", "path": "/v2.1/servers", "method": "GET"})
}

async fn rules_of(world: &World, token: &str, made: &Made) -> anyhow::Result<Value> {
    let reply = world.show(token, &made.id).await?.expect("showing", 200)?;
    Ok(reply.body["application_credential"]["access_rules"].clone())
}

async fn a_repeated_rule_has_one_id_and_can_be_given_by_it(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let first = world
        .made(&token, json!({"access_rules": [servers()]}))
        .await?;
    let first = rules_of(&world, &token, &first).await?;
    let id = &first[0]["id"];
    ensure!(id.is_string(), "a rule without an id");
    for rule in [servers(), json!({ "id": id })] {
        let made = world.made(&token, json!({"access_rules": [rule]})).await?;
        let again = rules_of(&world, &token, &made).await?;
        same("the rule", &again, &first)?;
    }
    let listed = world
        .send(Method::GET, &world.rules_path(), &token, None)
        .await?;
    let listed = listed.expect("listing", 200)?;
    same(
        "rules",
        listed.body["access_rules"].as_array().map(Vec::len),
        Some(1),
    )
}

async fn an_empty_list_of_rules_is_no_limit(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let made = world.made(&token, json!({"access_rules": []})).await?;
    same("rules", rules_of(&world, &token, &made).await?, Value::Null)?;
    let with = world.token_with(&made).await?;
    world
        .list(&with)
        .await?
        .expect("listing with it", 200)
        .map(drop)
}

async fn a_rule_that_is_wrong_is_a_bad_request(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    for (what, value) in [
        ("method", "FETCH"),
        ("method", "get"),
        ("path", ""),
        ("path", "no-slash"),
        ("service", ""),
        ("unknown", "x"),
    ] {
        let mut rule = servers();
        rule[what] = json!(value);
        let wanted = json!({"name": "x", "access_rules": [rule]});
        let reply = world.create(&token, &wanted).await?;
        reply.expect(&format!("{what} {value:?}"), 400)?;
    }
    let mut rule = servers();
    rule["path"] = json!(format!("/{}", "x".repeat(128)));
    let wanted = json!({"name": "x", "access_rules": [rule]});
    world
        .create(&token, &wanted)
        .await?
        .expect("a long path", 400)
        .map(drop)
}

async fn a_rule_that_is_incomplete_is_a_server_error(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    for missing in ["service", "path", "method"] {
        let mut rule = servers();
        rule.as_object_mut().map(|rule| rule.remove(missing));
        let wanted = json!({"name": "x", "access_rules": [rule]});
        let reply = world.create(&token, &wanted).await?.expect(missing, 500)?;
        same("JSON", &reply.body, &Value::Null)?;
    }
    let unknown = json!({"id": "0123456789abcdef0123456789abcdef"});
    let wanted = json!({"name": "x", "access_rules": [unknown]});
    world
        .create(&token, &wanted)
        .await?
        .expect("an unknown id", 500)?;
    // None of them was made.
    let listed = world.list(&token).await?.expect("listing", 200)?;
    same(
        "credentials",
        &listed.body["application_credentials"],
        &json!([]),
    )
}

async fn a_rule_in_use_cannot_be_deleted_and_stays_after_its_credential(
    world: World,
) -> anyhow::Result<()> {
    let token = world.token().await?;
    let made = world
        .made(&token, json!({"access_rules": [servers()]}))
        .await?;
    let rules = rules_of(&world, &token, &made).await?;
    let id = rules[0]["id"].as_str().unwrap_or_default();
    let path = format!("{}/{id}", world.rules_path());
    let ask = async |method| world.send(method, &path, &token, None).await;
    let reply = ask(Method::DELETE)
        .await?
        .expect("deleting one in use", 403)?;
    says(&reply, "May not delete access rule in use")?;
    world
        .delete(&token, &made.id)
        .await?
        .expect("deleting its credential", 204)?;
    ask(Method::GET).await?.expect("it is still there", 200)?;
    ask(Method::DELETE).await?.expect("deleting it", 204)?;
    ask(Method::DELETE)
        .await?
        .expect("deleting it again", 404)?;
    let reply = ask(Method::GET).await?.expect("showing it", 404)?;
    says(&reply, "Could not find Access Rule")
}

async fn rules_are_listed_by_what_they_say(world: World) -> anyhow::Result<()> {
    let token = world.token().await?;
    let image = json!({"service": "image", "path": "/v2/images", "method": "POST"});
    let both = json!({"access_rules": [servers(), image]});
    world.made(&token, both).await?;
    for (query, count) in [
        ("", 2),
        ("?service=image", 1),
        ("?method=POST", 1),
        ("?path=/v2/images", 1),
        ("?service=volume", 0),
    ] {
        let path = format!("{}{query}", world.rules_path());
        let reply = world.send(Method::GET, &path, &token, None).await?;
        let reply = reply.expect("listing", 200)?;
        let listed = reply.body["access_rules"].as_array().map(Vec::len);
        same(query, listed, Some(count))?;
    }
    Ok(())
}

async fn rules_are_for_their_user_and_the_systems_administrator(
    world: World,
) -> anyhow::Result<()> {
    let token = world.token().await?;
    world
        .made(&token, json!({"access_rules": [servers()]}))
        .await?;
    let admin = world.admin.token().await?;
    let reply = world
        .send(Method::GET, &world.rules_path(), &admin, None)
        .await?;
    let reply = reply.expect("an administrator of a project", 403)?;
    says(&reply, "identity:list_access_rules")?;
    let listed = world.admin.access_rules(&world.user).await?;
    same("by the system's", listed.len(), 1)
}

async fn a_token_with_rules_is_valid_only_with_the_header(world: World) -> anyhow::Result<()> {
    let own = world.token().await?;
    let made = world
        .made(&own, json!({"access_rules": [servers()]}))
        .await?;
    let token = world.token_with(&made).await?;
    world
        .look_at(&token, &[])
        .await?
        .expect("without the header", 404)?;
    let reply = world
        .look_at(&token, &[HEADER])
        .await?
        .expect("with it", 200)?;
    let about = &reply.body["token"]["application_credential"];
    same(
        "path",
        &about["access_rules"][0]["path"],
        &json!("/v2.1/servers"),
    )?;
    // It may look at itself, whatever its rules say.
    let headers = [("x-subject-token", token.as_str()), HEADER];
    let path = "/v3/auth/tokens";
    let reply = world
        .http()
        .send_with(Method::GET, path, &token, &headers, None)
        .await?;
    reply.expect("at itself", 200).map(drop)
}

async fn a_token_with_rules_does_only_what_they_say(world: World) -> anyhow::Result<()> {
    let own = world.token().await?;
    let list = json!({
        "service": "identity", "path": "/v3/users/*/application_credentials", "method": "GET",
    });
    let made = world
        .made(&own, json!({"access_rules": [list, servers()]}))
        .await?;
    let token = world.token_with(&made).await?;
    world.list(&token).await?.expect("what a rule says", 200)?;
    world
        .show(&token, &made.id)
        .await?
        .expect("another path", 401)?;
    let reply = world
        .send(Method::GET, &world.rules_path(), &token, None)
        .await?;
    reply.expect("yet another", 401)?;
    let wanted = json!({"name": "x"});
    world
        .create(&token, &wanted)
        .await?
        .expect("another method", 401)
        .map(drop)
}

async fn an_unrestricted_one_makes_others_where_a_rule_says_so(world: World) -> anyhow::Result<()> {
    let own = world.token().await?;
    let rule = json!({
        "service": "identity", "path": "/v3/users/**", "method": "POST",
    });
    let wanted = json!({"unrestricted": true, "access_rules": [rule]});
    let made = world.made(&own, wanted).await?;
    let token = world.token_with(&made).await?;
    let child = world.made(&token, json!({})).await?;
    world
        .delete(&token, &child.id)
        .await?
        .expect("which no rule says", 401)
        .map(drop)
}
