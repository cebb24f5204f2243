//! What becomes of accounts.

use anyhow::ensure;
use http::Method;
use serde_json::json;

use super::case_list;
use super::world::{World, new_account_id};

case_list![
    a_new_account_is_answered_whole_and_found_by_id_and_name,
    an_id_a_name_and_an_email_are_used_once,
    a_malformed_id_is_refused_with_the_reason,
    a_name_with_a_dollar_sign_is_refused_and_none_at_all_is_not,
    an_account_that_is_not_there_is_told,
    an_account_can_be_renamed_unless_the_name_is_taken,
    an_email_can_be_changed_and_not_cleared,
    limits_and_quotas_are_answered_as_they_were_set,
    a_deleted_account_is_gone,
];

impl World {
    async fn made(&self, more: &[(&str, &str)]) -> anyhow::Result<String> {
        let id = new_account_id();
        let name = format!("account-{id}");
        let mut query = vec![("id", id.as_str()), ("name", name.as_str())];
        query.extend_from_slice(more);
        let made = self.account(Method::POST, &query).await?;
        made.expect("making an account", 200)?;
        Ok(id)
    }

    async fn shown(&self, id: &str) -> anyhow::Result<serde_json::Value> {
        let shown = self.account(Method::GET, &[("id", id)]).await?;
        Ok(shown.expect("looking at an account", 200)?.json())
    }
}

async fn a_new_account_is_answered_whole_and_found_by_id_and_name(
    world: World,
) -> anyhow::Result<()> {
    let (id, name) = (new_account_id(), format!("name {}", world.mark));
    let query = [("id", id.as_str()), ("name", name.as_str())];
    let made = world.account(Method::POST, &query).await?;
    let made = made.expect("making an account", 200)?.json();
    let no_quota = json!({
        "enabled": false, "check_on_raw": false, "max_size": -1, "max_size_kb": 0, "max_objects": -1,
    });
    let whole = json!({
        "id": id, "tenant": "", "name": name, "email": "", "quota": no_quota, "bucket_quota": no_quota,
        "max_users": 1000, "max_roles": 1000, "max_groups": 1000, "max_buckets": 1000, "max_access_keys": 4,
    });
    ensure!(made == whole, "{made}");
    for by in [("id", id.as_str()), ("name", name.as_str())] {
        let found = world.account(Method::GET, &[by]).await?;
        ensure!(found.expect("looking", 200)?.json() == whole);
    }
    Ok(())
}

async fn an_id_a_name_and_an_email_are_used_once(world: World) -> anyhow::Result<()> {
    let email = format!("{}@example.org", world.mark);
    let id = world.made(&[("email", &email)]).await?;
    let name = format!("account-{id}");
    let other = new_account_id();
    for (what, query) in [
        ("the id", [("id", id.as_str()), ("name", "another")]),
        ("the name", [("id", &other), ("name", &name)]),
    ] {
        let again = world.account(Method::POST, &query).await?;
        let again = again.expect_error(what, 409, "AccountAlreadyExists")?;
        ensure!(again.message().is_empty(), "it is not said what is taken");
    }
    let query = [("id", other.as_str()), ("name", &other), ("email", &email)];
    let again = world.account(Method::POST, &query).await?;
    again.expect_error("the email", 409, "AccountAlreadyExists")?;
    Ok(())
}

async fn a_malformed_id_is_refused_with_the_reason(world: World) -> anyhow::Result<()> {
    for (id, reason) in [
        ("RGW123", "account id must be 20 bytes long"),
        ("rgw00000000000000001", "account id must start with RGW"),
        (
            "RGW0000000000000000X",
            "account id must end with numeric digits",
        ),
    ] {
        let query = [("id", id), ("name", "any")];
        let refused = world.account(Method::POST, &query).await?;
        let refused = refused.expect_error(id, 400, "InvalidArgument")?;
        ensure!(refused.message() == reason, "{}", refused.message());
    }
    Ok(())
}

async fn a_name_with_a_dollar_sign_is_refused_and_none_at_all_is_not(
    world: World,
) -> anyhow::Result<()> {
    let id = new_account_id();
    let query = [("id", id.as_str()), ("name", "a$b")];
    let refused = world.account(Method::POST, &query).await?;
    refused.expect_error("a dollar sign", 400, "InvalidArgument")?;
    let nameless = world.account(Method::POST, &[("id", &id)]).await?;
    let nameless = nameless.expect("without a name", 200)?.json();
    ensure!(nameless["name"] == "", "whoever asks has to refuse it");
    Ok(())
}

async fn an_account_that_is_not_there_is_told(world: World) -> anyhow::Result<()> {
    let nobody = new_account_id();
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let query = [("id", nobody.as_str()), ("name", "any")];
        let query = if method == Method::PUT {
            &query[..]
        } else {
            &query[..1]
        };
        let reply = world.account(method.clone(), query).await?;
        reply.expect_error(method.as_str(), 404, "NoSuchKey")?;
    }
    Ok(())
}

async fn an_account_can_be_renamed_unless_the_name_is_taken(world: World) -> anyhow::Result<()> {
    let (one, other) = (world.made(&[]).await?, world.made(&[]).await?);
    let name = format!("renamed-{}", world.mark);
    let query = [("id", one.as_str()), ("name", name.as_str())];
    let renamed = world.account(Method::PUT, &query).await?;
    ensure!(renamed.expect("a new name", 200)?.json()["name"] == name);
    let query = [("id", other.as_str()), ("name", name.as_str())];
    let taken = world.account(Method::PUT, &query).await?;
    taken.expect_error("a taken name", 409, "BucketAlreadyExists")?;
    ensure!(world.shown(&other).await?["name"] == format!("account-{other}"));
    Ok(())
}

async fn an_email_can_be_changed_and_not_cleared(world: World) -> anyhow::Result<()> {
    let id = world
        .made(&[("email", &format!("a{}@x.io", world.mark))])
        .await?;
    let email = format!("b{}@x.io", world.mark);
    for sent in [email.as_str(), ""] {
        let query = [("id", id.as_str()), ("email", sent)];
        let changed = world.account(Method::PUT, &query).await?;
        ensure!(changed.expect("a change", 200)?.json()["email"] == email);
    }
    Ok(())
}

async fn limits_and_quotas_are_answered_as_they_were_set(world: World) -> anyhow::Result<()> {
    let id = world.made(&[]).await?;
    let limits = [
        ("id", id.as_str()),
        ("max-users", "5"),
        ("max-roles", "6"),
        ("max-groups", "7"),
        ("max-buckets", "8"),
        ("max-access-keys", "3"),
    ];
    let set = world.account(Method::PUT, &limits).await?;
    let set = set.expect("limits", 200)?.json();
    for (name, value) in &limits[1..] {
        let name = name.replace('-', "_");
        let is = &set[&name];
        ensure!(is.as_i64() == value.parse().ok(), "{name} is {is}");
    }
    for (sort, field) in [("account", "quota"), ("bucket", "bucket_quota")] {
        let query = [
            ("quota", ""),
            ("id", &id),
            ("quota-type", sort),
            ("enabled", "true"),
            ("max-size", "4096"),
            ("max-objects", "9"),
        ];
        let set = world.account(Method::PUT, &query).await?;
        let quota = &set.expect("a quota", 200)?.json()[field];
        ensure!(quota["enabled"] == true && quota["max_size"] == 4096);
        ensure!(quota["max_objects"] == 9);
    }
    Ok(())
}

async fn a_deleted_account_is_gone(world: World) -> anyhow::Result<()> {
    let id = world.made(&[]).await?;
    let query = [("id", id.as_str())];
    let deleted = world.account(Method::DELETE, &query).await?;
    ensure!(deleted.expect("deleting", 200)?.text.is_empty());
    let again = world.account(Method::DELETE, &query).await?;
    again.expect_error("twice", 404, "NoSuchKey")?;
    Ok(())
}
