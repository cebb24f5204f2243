//! `testbed-up --with keystone`, as `cargo xtask up` runs it: a control plane, a Keystone and the operator that know of
//! each other, and go together.

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

/// What `cargo xtask up --with keystone` becomes.
fn up() -> Stack {
    let program = env!("CARGO_BIN_EXE_testbed-up");
    let keyward = Path::new(program).with_file_name("keyward");
    assert!(
        keyward.exists(),
        "the operator is not built: cargo build -p keyward"
    );
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples");
    let mut process = Command::new(program)
        .arg("--keyward")
        .arg(keyward)
        .arg("--samples")
        .arg(samples)
        .args(["--with", "keystone", "--"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
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

/// The processes that were told where this stack's Keystone is, but for who started them: the operator, and its keeper.
fn of_this_stack(stack: &Stack) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("a list of processes");
    let told = all.filter_map(|process| {
        let line = fs::read(process.ok()?.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.contains("--allow-keystone-url") && line.contains(&stack.keystone)).then_some(line)
    });
    told.collect()
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

    let mut stack = up();
    let get = |what: &[&str]| {
        let mut kubectl = Command::new(programs.path(Program::Kubectl));
        kubectl.arg("--kubeconfig").arg(&stack.kubeconfig);
        kubectl.args(["-n", "openstack", "get"]).args(what);
        let output = kubectl.output().expect("kubectl runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let ready = r#"-ojsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
    assert_eq!(
        get(&[
            "keystoneapi",
            "keystone",
            "-ojsonpath={.status.apiEndpoints.internal}"
        ]),
        stack.keystone
    );
    assert_eq!(get(&["keystoneapi", "keystone", ready]), "True");
    let samples = get(&["appcred", "-oname"]);
    assert_eq!(samples.lines().count(), 1, "{samples}");
    let admin = Admin::new(&stack.keystone);
    for sample in samples.lines() {
        eventually("the sample is Ready", async || {
            get(&[sample, ready]) == "True"
        })
        .await;
        let user = get(&[sample, "-ojsonpath={.spec.userName}"]);
        let id = get(&[sample, "-ojsonpath={.status.acID}"]);
        let alive = admin.application_credentials(&user).await;
        let ids: Vec<String> = alive
            .expect("a list")
            .into_iter()
            .map(|one| one.id)
            .collect();
        assert_eq!(ids, [id]);
    }
    let template = "-ogo-template={{.data.NovaPassword | base64decode}}";
    assert!(get(&["secret", "osp-secret", template]) == password_of("nova"));
    let login = admin
        .log_in_with_password("nova", &password_of("nova"))
        .await;
    assert_eq!(login.expect("an answer"), 201);
    let openrc = fs::read_to_string(&stack.openrc).expect("a file");
    assert!(openrc.contains(&format!("OS_AUTH_URL={}/v3\n", stack.keystone)));

    assert!(!of_this_stack(&stack).is_empty(), "the operator is at work");
    let dirs = [&stack.kubeconfig, &stack.openrc].map(|file| file.parent().expect("a directory"));
    stack.process.kill().expect("SIGKILL"); // no handler runs, nothing is dropped
    stack.process.wait().expect("it is dead");
    eventually("Keystone is gone", async || {
        admin.user_id("nova").await.is_err()
    })
    .await;
    eventually("the operator is gone", async || {
        of_this_stack(&stack).is_empty()
    })
    .await;
    eventually("the directories are gone", async || {
        !dirs.iter().any(|dir| dir.exists())
    })
    .await;
}
