//! What is in an account, and what that keeps from being done.

use anyhow::ensure;
use http::Method;
use serde_json::json;

use super::case_list;
use super::world::{World, new_account_id};
use crate::rgw::Login;

case_list![
    a_user_of_an_account_says_so_and_may_do_nothing_by_itself,
    names_in_an_account_fit_iam_and_are_used_once,
    a_user_of_an_unknown_account_is_refused,
    a_user_does_not_change_its_account,
    the_root_user_sees_members_and_is_no_administrator,
    the_root_flag_can_be_taken_and_given_back,
    an_account_stays_while_it_has_users,
    an_account_stays_while_it_has_buckets,
    an_account_stays_while_it_has_roles,
    an_account_stays_while_it_has_groups,
    deleting_a_user_leaves_the_buckets_to_its_account,
];

async fn a_user_of_an_account_says_so_and_may_do_nothing_by_itself(
    world: World,
) -> anyhow::Result<()> {
    let (account, _) = world.account_with_root().await?;
    let uid = format!("member-{}", world.mark);
    let made = world.new_user(&uid, &[("account-id", &account)]).await?;
    ensure!(made.json()["account_id"] == account && made.json()["type"] == "rgw");
    let key = world.key_of(&uid).await?;
    world.is_refused_everywhere(&key, "AccessDenied").await
}

async fn names_in_an_account_fit_iam_and_are_used_once(world: World) -> anyhow::Result<()> {
    let (account, _) = world.account_with_root().await?;
    let long = "x".repeat(65);
    for bad in ["two words", "a/b", long.as_str()] {
        let query = [
            ("uid", "bad"),
            ("display-name", bad),
            ("account-id", &account),
        ];
        let refused = world.user(Method::PUT, &query).await?;
        refused.expect_error(bad, 400, "InvalidArgument")?;
    }
    // The plus sign is escaped once more: it would arrive as a space.
    let (good, sent) = ("good+=,.@-_1", "good%2B=,.@-_1");
    let (uid, other) = (
        format!("good-{}", world.mark),
        format!("other-{}", world.mark),
    );
    let in_it = ("account-id", account.as_str());
    let made = world
        .new_user(&uid, &[("display-name", sent), in_it])
        .await?;
    ensure!(made.json()["display_name"] == good);
    let query = [("uid", other.as_str()), ("display-name", sent), in_it];
    let taken = world.user(Method::PUT, &query).await?;
    taken.expect_error("a taken name", 409, "UserAlreadyExists")?;
    world.new_user(&other, &[in_it]).await?;
    let query = [("uid", other.as_str()), ("display-name", sent)];
    let taken = world.user(Method::POST, &query).await?;
    taken.expect_error("renamed to a taken name", 409, "BucketAlreadyExists")?;
    Ok(())
}

async fn a_user_of_an_unknown_account_is_refused(world: World) -> anyhow::Result<()> {
    let nobody = new_account_id();
    let query = [
        ("uid", "lost"),
        ("display-name", "lost"),
        ("account-id", &nobody),
    ];
    let refused = world.user(Method::PUT, &query).await?;
    refused.expect_error("an unknown account", 404, "NoSuchKey")?;
    let query = [("uid", "lost"), ("display-name", "a"), ("account-id", "a")];
    let refused = world.user(Method::PUT, &query).await?;
    refused.expect_error("no account id", 400, "InvalidArgument")?;
    Ok(())
}

async fn a_user_does_not_change_its_account(world: World) -> anyhow::Result<()> {
    let (account, _) = world.account_with_root().await?;
    let other = new_account_id();
    let query = [("id", other.as_str()), ("name", &format!("o-{other}"))];
    world
        .account(Method::POST, &query)
        .await?
        .expect("another", 200)?;
    let uid = format!("member-{}", world.mark);
    world.new_user(&uid, &[("account-id", &account)]).await?;
    let query = [("uid", uid.as_str()), ("account-id", &other)];
    let moved = world.user(Method::POST, &query).await?;
    ensure!(moved.status == 400, "{moved:?}");
    ensure!(world.show(&uid).await?["account_id"] == account);
    Ok(())
}

async fn the_root_user_sees_members_and_is_no_administrator(world: World) -> anyhow::Result<()> {
    let (account, root) = world.account_with_root().await?;
    let uid = format!("member-{}", world.mark);
    world.new_user(&uid, &[("account-id", &account)]).await?;
    for (action, members) in [("ListUsers", 1), ("ListRoles", 0), ("ListGroups", 0)] {
        let listed = world.iam(&root, action, &[]).await?.expect(action, 200)?;
        let found = listed.text.matches("<member>").count();
        ensure!(found == members, "{action}: {found}, itself is not shown");
        ensure!(listed.text.contains("<IsTruncated>false</IsTruncated>"));
    }
    let query = [("uid", uid.as_str())];
    let asked = world.by(&root, Method::GET, "user", &query).await?;
    asked.expect_error("Admin Ops", 403, "AccessDenied")?;
    Ok(())
}

async fn the_root_flag_can_be_taken_and_given_back(world: World) -> anyhow::Result<()> {
    world.account_with_root().await?;
    let uid = format!("root-{}", world.mark);
    ensure!(world.show(&uid).await?["type"] == "root");
    for (flag, sort) in [("false", "rgw"), ("true", "root")] {
        let query = [("uid", uid.as_str()), ("account-root", flag)];
        let changed = world.user(Method::POST, &query).await?;
        ensure!(changed.expect("the flag", 200)?.json()["type"] == sort);
    }
    Ok(())
}

/// Refused for this reason while it has a member, and done when it has none.
async fn stays_while(
    world: &World,
    account: &str,
    code: &str,
    kind: &str,
    remove: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let query = [("id", account)];
    let refused = world.account(Method::DELETE, &query).await?;
    let refused = refused.expect_error("deleting too early", 409, code)?;
    let reason = format!("The account cannot be deleted until all {kind} are removed.");
    ensure!(refused.message() == reason, "{}", refused.message());
    remove().await?;
    let deleted = world.account(Method::DELETE, &query).await?;
    deleted.expect("deleting when it is empty", 200)?;
    Ok(())
}

async fn delete_root(world: &World) -> anyhow::Result<()> {
    let root = format!("root-{}", world.mark);
    let deleted = world.user(Method::DELETE, &[("uid", &root)]).await?;
    deleted.expect("deleting the root user", 200)?;
    Ok(())
}

/// A new root user, after the first one went.
async fn new_root(world: &World, account: &str) -> anyhow::Result<Login> {
    let root = format!("root-{}", world.mark);
    let in_it = [("account-id", account), ("account-root", "true")];
    world.new_user(&root, &in_it).await?;
    world.key_of(&root).await
}

async fn an_account_stays_while_it_has_users(world: World) -> anyhow::Result<()> {
    let (account, _) = world.account_with_root().await?;
    stays_while(&world, &account, "BucketNotEmpty", "users", async || {
        delete_root(&world).await
    })
    .await
}

async fn an_account_stays_while_it_has_buckets(world: World) -> anyhow::Result<()> {
    let (account, root) = world.account_with_root().await?;
    let bucket = format!("/bucket-{}", world.mark);
    world
        .s3(&root, Method::PUT, &bucket)
        .await?
        .expect("a bucket", 200)?;
    delete_root(&world).await?;
    stays_while(
        &world,
        &account,
        "BucketAlreadyExists",
        "buckets",
        async || {
            let root = new_root(&world, &account).await?;
            let removed = world.s3(&root, Method::DELETE, &bucket).await?;
            removed.expect("removing the bucket", 204)?;
            delete_root(&world).await
        },
    )
    .await
}

async fn an_account_stays_while_it_has_roles(world: World) -> anyhow::Result<()> {
    let (account, root) = world.account_with_root().await?;
    let policy = json!({"Version": "2012-10-17", "Statement": []}).to_string();
    let role = [
        ("RoleName", "reader"),
        ("AssumeRolePolicyDocument", &policy),
    ];
    world
        .iam(&root, "CreateRole", &role)
        .await?
        .expect("a role", 200)?;
    delete_root(&world).await?;
    stays_while(&world, &account, "BucketNotEmpty", "roles", async || {
        let root = new_root(&world, &account).await?;
        let removed = world.iam(&root, "DeleteRole", &role[..1]).await?;
        removed.expect("removing the role", 200)?;
        delete_root(&world).await
    })
    .await
}

async fn an_account_stays_while_it_has_groups(world: World) -> anyhow::Result<()> {
    let (account, root) = world.account_with_root().await?;
    let group = [("GroupName", "readers")];
    world
        .iam(&root, "CreateGroup", &group)
        .await?
        .expect("a group", 200)?;
    delete_root(&world).await?;
    stays_while(&world, &account, "BucketNotEmpty", "groups", async || {
        let root = new_root(&world, &account).await?;
        let removed = world.iam(&root, "DeleteGroup", &group).await?;
        removed.expect("removing the group", 200)?;
        delete_root(&world).await
    })
    .await
}

async fn deleting_a_user_leaves_the_buckets_to_its_account(world: World) -> anyhow::Result<()> {
    let (account, root) = world.account_with_root().await?;
    let bucket = format!("/bucket-{}", world.mark);
    world
        .s3(&root, Method::PUT, &bucket)
        .await?
        .expect("a bucket", 200)?;
    delete_root(&world).await?;
    let query = [("account-id", account.as_str())];
    let listed = world
        .by(&world.admin, Method::GET, "bucket", &query)
        .await?;
    ensure!(listed.expect("its buckets", 200)?.json() == json!([bucket[1..]]));
    Ok(())
}
