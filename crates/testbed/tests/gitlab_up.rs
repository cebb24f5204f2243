//! `testbed-up --with gitlab`: a control plane and a stand-in GitLab that know of each other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use testbed::controlplane::programs::{self, Program};

/// The status of a request with this token.
fn status(url: &str, path: &str, token: &str) -> String {
    let host = url.strip_prefix("http://").expect("plain HTTP");
    let mut stream = TcpStream::connect(host).expect("GitLab listens");
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nPRIVATE-TOKEN: {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let code = answer.split_whitespace().nth(1).expect("a status");
    code.to_owned()
}

#[tokio::test]
async fn it_has_a_login_that_works_and_a_project_to_try_it_on() {
    let programs = programs::ready().await.expect("the programs");
    let mut stack = Command::new(env!("CARGO_BIN_EXE_testbed-up"))
        .args(["--with", "gitlab"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("testbed-up starts");
    let output = BufReader::new(stack.stdout.take().expect("its output"));
    let mut lines = output.lines().map(|line| line.expect("a line"));
    let mut after = |start: &str| {
        let found = lines.find_map(|line| Some(line.strip_prefix(start)?.to_owned()));
        found.unwrap_or_else(|| panic!("no line begins with {start:?}"))
    };
    let kubeconfig = after("export KUBECONFIG=");
    let url = after("A stand-in GitLab listens at ");
    let url = url.trim_end_matches('.');
    let header = after("curl -H @");
    let header = header.split(' ').next().expect("a file");
    let login = Command::new(programs.path(Program::Kubectl))
        .args(["--kubeconfig", &kubeconfig, "-n", "team-a"])
        .args(["get", "secret", "gitlab-root"])
        .arg("-ogo-template={{.data.token | base64decode}}")
        .output()
        .expect("kubectl runs");
    let login = String::from_utf8(login.stdout).expect("text");
    let header = std::fs::read_to_string(header).expect("a file");
    let admin = header.trim().strip_prefix("PRIVATE-TOKEN: ").expect("one");
    let tokens = "/api/v4/projects/team%2Fapp/access_tokens";
    for token in [&login, admin] {
        assert!(status(url, tokens, token) == "200");
    }
    stack.kill().expect("SIGKILL");
    stack.wait().expect("it is dead");
    assert!(TcpStream::connect(url.trim_start_matches("http://")).is_err());
}
