//! `testbed-up --with keystone`: a control plane and a Keystone that know of each other, and go together.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testbed::controlplane::programs::{self, Program};
use testbed::keystone::{Admin, password_of, real};

struct Stack {
    process: Child,
    kubeconfig: PathBuf,
    openrc: PathBuf,
    keystone: String,
}

fn up(samples: &Path) -> Stack {
    let mut process = Command::new(env!("CARGO_BIN_EXE_testbed-up"))
        .args(["--with", "keystone", "--samples"])
        .arg(samples)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("testbed-up starts");
    let output = BufReader::new(process.stdout.take().expect("its output"));
    let mut lines = output.lines().map(|line| line.expect("a line"));
    let mut after = |start: &str| {
        let found = lines.find_map(|line| Some(line.strip_prefix(start)?.to_owned()));
        found.unwrap_or_else(|| panic!("no line begins with {start:?}"))
    };
    let kubeconfig = after("export KUBECONFIG=").into();
    let keystone = after("Keystone listens at ");
    let openrc = after(". ").into();
    // It goes on writing; a closed pipe would end it before we do.
    std::thread::spawn(move || lines.for_each(drop));
    let (keystone, _) = keystone.split_once("/v3").expect("an address");
    Stack {
        process,
        kubeconfig,
        openrc,
        keystone: keystone.to_owned(),
    }
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "not within 30 s: {what}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn it_has_the_passwords_and_the_samples_and_goes_with_whoever_started_it() {
    let programs = programs::ready().await.expect("the programs");
    real::ready().await.expect("Keystone is installed");
    let samples = tempfile::tempdir().expect("a directory");
    fs::create_dir(samples.path().join("keystone")).expect("made");
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sample, namespace: openstack}\n\
                    data: {url: \"${KEYSTONE_URL}\"}\n";
    fs::write(samples.path().join("keystone/sample.yaml"), manifest).expect("written");

    let mut stack = up(samples.path());
    let get = |what: &[&str]| {
        let mut kubectl = Command::new(programs.path(Program::Kubectl));
        kubectl.arg("--kubeconfig").arg(&stack.kubeconfig);
        kubectl.args(["-n", "openstack", "get"]).args(what);
        let output = kubectl.output().expect("kubectl runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(
        get(&["configmap", "sample", "-ojsonpath={.data.url}"]),
        stack.keystone
    );
    let template = "-ogo-template={{.data.NovaPassword | base64decode}}";
    assert!(get(&["secret", "osp-secret", template]) == password_of("nova"));
    let admin = Admin::new(&stack.keystone);
    let login = admin
        .log_in_with_password("nova", &password_of("nova"))
        .await;
    assert_eq!(login.expect("an answer"), 201);
    let openrc = fs::read_to_string(&stack.openrc).expect("a file");
    assert!(openrc.contains(&format!("OS_AUTH_URL={}/v3\n", stack.keystone)));

    let dirs = [&stack.kubeconfig, &stack.openrc].map(|file| file.parent().expect("a directory"));
    stack.process.kill().expect("SIGKILL"); // no handler runs, nothing is dropped
    stack.process.wait().expect("it is dead");
    eventually("Keystone is gone", async || {
        admin.user_id("nova").await.is_err()
    })
    .await;
    eventually("the directories are gone", async || {
        !dirs.iter().any(|dir| dir.exists())
    })
    .await;
}
