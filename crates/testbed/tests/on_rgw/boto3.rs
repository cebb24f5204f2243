//! boto3, as it is released, with keys that Keyward made.

use std::path::Path;
use std::process::{Command, Output};

use sources::rgw::{ACCESS_KEY, Accounts, SECRET_KEY, UserWish, Users};
use sources::{Source, ThingId, Things};
use testbed::rgw::client;

use super::accounts::{resource, wish};
use super::{administrator, first, json, keys_of, order, owner, plain_user, text};

/// The root user manages the members of its account; a member may do nothing until it is given a policy; both at both gateways.
pub(crate) async fn boto3_is_content_with_root_and_member(urls: &[String]) {
    let (uid, root, id) = resource();
    let accounts = Accounts::new(administrator(urls), &uid);
    accounts
        .put(&id, &root, &json(&wish(id.as_str())))
        .await
        .unwrap();
    let key = keys_of(urls, &uid, &root)
        .mint(&order(first(&root)))
        .await
        .unwrap();
    let member_uid = format!("member-{uid}");
    let member = owner(&member_uid);
    let in_it = UserWish {
        display_name: "my-user".into(),
        account_id: id.as_str().into(),
        ..plain_user()
    };
    let users = Users::new(administrator(urls));
    let dev = ThingId::from(member_uid.as_str());
    users.put(&dev, &member, &json(&in_it)).await.unwrap();
    let member_key = keys_of(urls, &member_uid, &member)
        .mint(&order(first(&member)))
        .await
        .unwrap();
    let mut arguments = urls.to_vec();
    for key in [&key, &member_key] {
        arguments.push(text(&key.values, ACCESS_KEY));
        arguments.push(text(&key.values, SECRET_KEY));
    }
    assert_eq!(run("contented.py", &arguments).await.trim(), "content");
    users.remove(&dev, &member).await.unwrap();
    accounts.remove(&id, &root).await.unwrap();
}

/// Values go by arguments, which is fine where the server is gone in a moment.
async fn run(script: &str, arguments: &[String]) -> String {
    let python = client::python().await.unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/on_rgw")
        .join(script);
    let mut command = Command::new(python);
    command.arg(script).args(arguments).env("no_proxy", "*");
    let output = tokio::task::spawn_blocking(move || command.output());
    let Output {
        status,
        stdout,
        stderr,
    } = output.await.unwrap().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}
