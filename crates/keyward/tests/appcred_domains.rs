//! In which domains user and project are looked up.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod cloud;

use cloud::{Cloud, NAME, USER};
use serde_json::json;
use testbed::keystone::ApplicationCredential;

/// The project of the only credential of the user with this id.
async fn project_of_the_only_one(cloud: &Cloud, user: &str) -> String {
    let of = cloud.admin.application_credentials_of(user).await.unwrap();
    let [ApplicationCredential { project_id, .. }] = &of[..] else {
        panic!("one, and not {}", of.len());
    };
    project_id.clone().unwrap()
}

/// K2: what nobody says is `service` and `Default`.
#[tokio::test]
async fn without_a_word_the_project_is_service_and_the_domains_are_the_default_ones() {
    let cloud = Cloud::new().await;
    // Names alone would not tell them apart.
    let domain = cloud.admin.create_domain("elsewhere").await.unwrap();
    let other = cloud.admin.create_user_in(&domain, USER, "another");
    let other = other.await.unwrap();
    let project = cloud.admin.create_project_in(&domain, "service");
    project.await.unwrap();
    let _operator = cloud.operator().await;
    cloud.create().await;
    cloud.until_ready().await;
    let user = cloud.admin.user_id(USER).await.unwrap();
    let service = cloud.admin.project_id("service").await.unwrap();
    assert_eq!(project_of_the_only_one(&cloud, &user).await, service);
    let others = cloud.admin.application_credentials_of(&other);
    assert!(others.await.unwrap().is_empty());
}

/// K2: user and project of another domain, together and each alone.
#[tokio::test]
async fn user_and_project_are_those_of_the_domains_that_annotations_name() {
    let cloud = Cloud::new().await;
    let admin = &cloud.admin;
    let domain = admin.create_domain("elsewhere").await.unwrap();
    let there = admin.create_user_in(&domain, USER, "another-password");
    let there = there.await.unwrap();
    let here = admin.user_id(USER).await.unwrap();
    let project = admin.create_project_in(&domain, "service").await.unwrap();
    let service = admin.project_id("service").await.unwrap();
    for (user, project) in [(&there, &project), (&there, &service), (&here, &project)] {
        let role = admin.assign_role_by_ids(user, project, "service");
        role.await.unwrap();
    }
    cloud
        .set_password_in_secret("OtherPassword", "another-password")
        .await;
    let _operator = cloud.operator().await;
    let mut object = cloud::example();
    let notes = &mut object["metadata"]["annotations"];
    notes["keyward.dev/user-domain"] = "elsewhere".into();
    notes["keyward.dev/project-domain"] = "elsewhere".into();
    object["spec"]["passwordSelector"] = "OtherPassword".into();
    cloud.create_this(object).await;
    cloud.until_ready().await;
    assert_eq!(project_of_the_only_one(&cloud, &there).await, project);
    assert!(cloud.live().await.is_empty(), "of the user of that name");

    // Its user stays, its project is the one at home.
    let first = cloud.text("acID").await;
    let notes = json!({ "keyward.dev/project-domain": null });
    cloud
        .edit(json!({ "metadata": { "annotations": notes } }))
        .await;
    let second = cloud.until_rotated_from(&first).await;
    cloud.until_ready().await;
    assert_eq!(project_of_the_only_one(&cloud, &there).await, service);

    // The user at home, on the other domain's project. The old one is revoked as the user that had it.
    let notes = json!({
        "keyward.dev/user-domain": null, "keyward.dev/project-domain": "elsewhere",
    });
    cloud
        .edit(json!({
            "metadata": { "annotations": notes },
            "spec": { "passwordSelector": "BarbicanPassword" },
        }))
        .await;
    cloud.until_rotated_from(&second).await;
    cloud.until_ready().await;
    assert_eq!(project_of_the_only_one(&cloud, &here).await, project);
    let left = admin.application_credentials_of(&there).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    let refused = |asked: &testbed::proxy::Recorded| asked.status == Some(401);
    assert_eq!(
        cloud.faults().count_where(refused),
        0,
        "nobody's password is tried on anybody else"
    );
    cloud.delete(NAME).await;
    cloud.until_gone(NAME).await;
    assert!(cloud.live().await.is_empty());
}
