//! What becomes of users.

use anyhow::ensure;
use http::Method;
use serde_json::json;

use super::case_list;
use super::world::World;

case_list![
    a_new_user_is_answered_whole_and_keeps_its_tag,
    a_uid_is_used_once,
    a_user_that_is_not_there_is_told_by_name,
    what_is_sent_is_decoded_twice,
    a_change_changes_what_it_names_and_nothing_else,
    capabilities_are_added_and_taken_away_and_never_narrowed,
    operations_can_be_limited_to_none,
    a_quota_is_kept_as_it_was_set,
    a_user_with_buckets_stays,
    deleting_a_user_ends_its_keys,
    keys_of_a_suspended_user_let_nobody_in_until_it_is_back,
];

async fn a_new_user_is_answered_whole_and_keeps_its_tag(world: World) -> anyhow::Result<()> {
    let uid = format!("tagged-{}", world.mark);
    let tag = format!("kw1-{}-{:032x}-", world.mark, rand::random::<u128>());
    let made = world
        .new_user(&uid, &[("placement-tags", &tag), ("max-buckets", "7")])
        .await?;
    for user in [made.json(), world.show(&uid).await?] {
        ensure!(user["user_id"] == uid && user["display_name"] == uid);
        ensure!(user["placement_tags"] == json!([tag]));
        ensure!(user["max_buckets"] == 7 && user["keys"] == json!([]));
        ensure!(user["account_id"] == "" && user["type"] == "rgw");
        ensure!(user["op_mask"] == "read, write, delete" && user["caps"] == json!([]));
    }
    let change = [("uid", uid.as_str()), ("display-name", "another")];
    world
        .user(Method::POST, &change)
        .await?
        .expect("a change", 200)?;
    let after = world.show(&uid).await?;
    ensure!(after["placement_tags"] == json!([tag]), "the tag stays");
    Ok(())
}

async fn a_uid_is_used_once(world: World) -> anyhow::Result<()> {
    let again = [("uid", world.uid.as_str()), ("display-name", "another")];
    let again = world.user(Method::PUT, &again).await?;
    again.expect_error("the same uid", 409, "UserAlreadyExists")?;
    ensure!(world.show(&world.uid).await?["display_name"] == world.uid);
    Ok(())
}

async fn a_user_that_is_not_there_is_told_by_name(world: World) -> anyhow::Result<()> {
    let nobody = [("uid", "nobody-at-all"), ("display-name", "a")];
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let reply = world.user(method.clone(), &nobody).await?;
        reply.expect_error(method.as_str(), 404, "NoSuchUser")?;
    }
    Ok(())
}

async fn what_is_sent_is_decoded_twice(world: World) -> anyhow::Result<()> {
    for (sent, kept) in [
        ("a+b", "a b"),
        ("a%41b", "aAb"),
        ("a%2Bb", "a+b"),
        ("a%2541b", "a%41b"),
        ("a=b,c.d@e-f_g/h", "a=b,c.d@e-f_g/h"),
    ] {
        let change = [("uid", world.uid.as_str()), ("display-name", sent)];
        let changed = world.user(Method::POST, &change).await?;
        let changed = changed.expect("a change", 200)?.json();
        let name = &changed["display_name"];
        ensure!(name == kept, "{sent} was kept as {name}");
    }
    Ok(())
}

async fn a_change_changes_what_it_names_and_nothing_else(world: World) -> anyhow::Result<()> {
    let key = world.key().await?;
    let before = world.show(&world.uid).await?;
    let change = [("uid", world.uid.as_str()), ("max-buckets", "3")];
    world
        .user(Method::POST, &change)
        .await?
        .expect("a change", 200)?;
    let mut after = world.show(&world.uid).await?;
    ensure!(after["max_buckets"] == 3);
    after["max_buckets"] = before["max_buckets"].clone();
    ensure!(after == before, "nothing else was changed");
    world.lets_in_everywhere(&key).await
}

async fn capabilities_are_added_and_taken_away_and_never_narrowed(
    world: World,
) -> anyhow::Result<()> {
    let caps = async |method: Method, text: &str| {
        let query = [("caps", ""), ("uid", &world.uid), ("user-caps", text)];
        let reply = world.user(method, &query).await?;
        Ok::<_, anyhow::Error>(reply.expect("changing capabilities", 200)?.json())
    };
    let both = json!([{"type": "buckets", "perm": "*"}, {"type": "users", "perm": "read"}]);
    ensure!(caps(Method::PUT, "users=read;buckets=*").await? == both);
    ensure!(
        caps(Method::PUT, "buckets=read").await? == both,
        "not narrowed"
    );
    let one = json!([{"type": "users", "perm": "read"}]);
    ensure!(caps(Method::DELETE, "buckets=*").await? == one);
    ensure!(caps(Method::DELETE, "buckets=*").await? == one, "and again");
    let more = json!([{"type": "users", "perm": "*"}]);
    ensure!(caps(Method::PUT, "users=write").await? == more);
    let query = [("caps", ""), ("uid", &world.uid), ("user-caps", "no=read")];
    let unknown = world.user(Method::PUT, &query).await?;
    unknown.expect_error("an unknown one", 400, "InvalidCapability")?;
    Ok(())
}

async fn operations_can_be_limited_to_none(world: World) -> anyhow::Result<()> {
    for (sent, kept) in [
        ("read", "read"),
        ("<none>", "<none>"),
        ("read, write", "read, write"),
        ("read, write, delete", "read, write, delete"),
    ] {
        let change = [("uid", world.uid.as_str()), ("op-mask", sent)];
        let changed = world.user(Method::POST, &change).await?;
        let mask = &changed.expect("a change", 200)?.json()["op_mask"];
        ensure!(mask == kept, "{sent} was kept as {mask}");
    }
    Ok(())
}

async fn a_quota_is_kept_as_it_was_set(world: World) -> anyhow::Result<()> {
    for (enabled, size, objects) in [("true", 1000, 5), ("false", -1, -1)] {
        let (size_text, objects_text) = (size.to_string(), objects.to_string());
        let query = [
            ("quota", ""),
            ("uid", &world.uid),
            ("quota-type", "user"),
            ("enabled", enabled),
            ("max-size", &size_text),
            ("max-objects", &objects_text),
        ];
        world
            .user(Method::PUT, &query)
            .await?
            .expect("a quota", 200)?;
        let quota = &world.show(&world.uid).await?["user_quota"];
        ensure!(quota["enabled"] == (enabled == "true"));
        ensure!(quota["max_size"] == size && quota["max_objects"] == objects);
    }
    Ok(())
}

async fn a_user_with_buckets_stays(world: World) -> anyhow::Result<()> {
    let key = world.key().await?;
    let bucket = format!("/bucket-{}", world.mark);
    world
        .s3(&key, Method::PUT, &bucket)
        .await?
        .expect("a bucket", 200)?;
    let own = [("uid", world.uid.as_str())];
    let listed = world.by(&world.admin, Method::GET, "bucket", &own).await?;
    ensure!(listed.expect("its buckets", 200)?.json() == json!([bucket[1..]]));
    let deleted = world.user(Method::DELETE, &own).await?;
    deleted.expect_error("with a bucket", 409, "BucketAlreadyExists")?;
    world.lets_in_everywhere(&key).await?;
    let removed = world.s3(&key, Method::DELETE, &bucket).await?;
    removed.expect("removing the bucket", 204)?;
    world
        .user(Method::DELETE, &own)
        .await?
        .expect("without", 200)?;
    Ok(())
}

async fn deleting_a_user_ends_its_keys(world: World) -> anyhow::Result<()> {
    let key = world.key().await?;
    let own = [("uid", world.uid.as_str())];
    let deleted = world.user(Method::DELETE, &own).await?;
    ensure!(deleted.expect("deleting", 200)?.text.is_empty());
    world
        .is_refused_everywhere(&key, "InvalidAccessKeyId")
        .await?;
    let again = world.user(Method::DELETE, &own).await?;
    again.expect_error("twice", 404, "NoSuchUser")?;
    let nothing = world.by(&world.admin, Method::GET, "bucket", &own).await?;
    ensure!(
        nothing.expect("buckets of nobody", 200)?.text.is_empty(),
        "not even an empty list"
    );
    Ok(())
}

async fn keys_of_a_suspended_user_let_nobody_in_until_it_is_back(
    world: World,
) -> anyhow::Result<()> {
    let key = world.key().await?;
    let change = [("uid", world.uid.as_str()), ("suspended", "true")];
    let changed = world.user(Method::POST, &change).await?;
    changed.expect("a change", 200)?;
    world.is_refused_everywhere(&key, "UserSuspended").await?;
    let change = [("uid", world.uid.as_str()), ("suspended", "false")];
    let changed = world.user(Method::POST, &change).await?;
    changed.expect("a change", 200)?;
    world.lets_in_everywhere(&key).await
}
