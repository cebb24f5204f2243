//! The stand-in GitLab, driven by python-gitlab as it is released.
#![expect(clippy::unwrap_used, reason = "a test may stop")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use testbed::gitlab::client;
use testbed::gitlab::{Added, RateLimit, Settings, StandIn, TooMany, level};

/// How many project tokens there are from the start: enough for several pages.
const MANY: usize = 45;

/// `olga` owns project and group.
fn gitlab(settings: Settings) -> (StandIn, Added) {
    let gitlab = StandIn::start(settings).unwrap();
    let (project, group) = (gitlab.add_project("team/app"), gitlab.add_group("team"));
    let owner = gitlab.add_user("olga");
    for place in [project, group] {
        gitlab.add_member(place, owner, level::OWNER);
    }
    for i in 0..MANY {
        let name = format!("many {i}");
        gitlab.add_resource_token(project, owner, &name, level::GUEST, &["api"], None);
    }
    let login = gitlab.add_token(owner, "login", &["api"], None);
    (gitlab, login)
}

/// Values go by arguments, which is fine where the server is gone in a moment.
async fn run(script: &str, arguments: &[&str]) -> String {
    let python = client::python().await.unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/gitlab_python")
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

#[tokio::test]
async fn python_gitlab_is_content_with_the_stand_in() {
    let (gitlab, login) = gitlab(Settings::default());
    let admin = gitlab.add_token(testbed::gitlab::ROOT, "root", &["api"], None);
    let url = gitlab.url();
    let many = MANY.to_string();
    let arguments = [&url, login.value.reveal(), admin.value.reveal(), &many];
    assert_eq!(run("contented.py", &arguments).await.trim(), "content");
    let left = gitlab.live();
    let left: Vec<_> = left
        .iter()
        .filter(|live| !live.name.starts_with("many"))
        .collect();
    let names: Vec<_> = left.iter().map(|live| live.name.as_str()).collect();
    assert_eq!(names, ["login", "root"]);
}

#[tokio::test]
async fn python_gitlab_waits_as_long_as_the_stand_in_tells_it_to() {
    let limit = RateLimit {
        requests: 2,
        window: Duration::from_secs(2),
        answer: TooMany::Plain,
    };
    let (gitlab, login) = gitlab(Settings {
        rate_limit: Some(limit),
        ..Settings::default()
    });
    let took = run("limited.py", &[&gitlab.url(), login.value.reveal()]).await;
    let took: f64 = took.trim().parse().unwrap();
    assert!(took < 15.0, "{took} s");
    let refused = gitlab
        .journal()
        .iter()
        .filter(|line| line.status == 429)
        .count();
    assert!(refused >= 1, "it was never limited");
}
