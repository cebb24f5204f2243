//! Our reader of credentials files against the installer's.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use testbed::vcenter::programs;

/// The reader itself, taken in here: it hands out passwords, and so nobody outside the program may have it.
#[allow(dead_code, reason = "the program uses the rest")]
#[path = "../../src/cli/vsphere/credentials_file.rs"]
mod credentials_file;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the program uses the rest, and all of its own"
)]
#[path = "../../src/controllers/vsphere/component.rs"]
mod component;

/// Texts that the two readers must agree on, where ours reads them at all.
fn corpus() -> Vec<String> {
    let pieces = [
        "a", "#", ";", "\\", "\"", "'", "`", "\"\"\"", "%(user)s", "%(x)s", "%", "=", ":", "[",
        "]", " ", "\t", "ö", "\u{a0}", "\u{2028}", "$",
    ];
    let mut texts = Vec::new();
    let mut value = |value: &str| {
        texts.push(format!(
            "[vc]\nuser = u\npassword = {value}\ncsi-driver.user = c\ncsi-driver.password = d\n"
        ));
    };
    for a in pieces {
        for b in pieces {
            for c in pieces {
                value(&format!("{a}{b}{c}"));
            }
            value(&format!("`{a}{b}`"));
            value(&format!("\"{a}{b}\""));
            value(&format!("'{a}{b}'"));
            value(&format!("\"\"\"{a}{b}\"\"\""));
        }
    }
    for text in [
        "",
        "\u{feff}[vc]\r\nuser = a\r\npassword = b\r\n",
        "[vc]\nuser=a\npassword=b",
        "user = a\n[vc]\nuser = a\npassword = b\n",
        "[vc] # x\nuser: a\npassword: b\n",
        "[vc]\nuser = a\npassword = b\n[vc.x]\nuser = c\npassword = d\n",
        "[vc]\nuser = a\npassword = b\n[vc.x]\ncsi-driver.user = c\ncsi-driver.password = d\n",
        "[vc]\nuser = a\nuser = b\npassword = c\n",
        "[DEFAULT]\nuser = a\npassword = b\n",
        "[ vc ]\nuser = a\npassword = b\n",
        "[vc\nuser = a\n",
        "[a]b]\nuser = a\npassword = b\n",
        "  [vc]\n  user = a\n  password = b\n",
        "[vc]\nuser = a \\\n b\npassword = c\n",
        "[vc]\nuser = `a\nb`\npassword = c\n",
    ] {
        texts.push(text.to_owned());
    }
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn real_the_installers_reader_reads_every_accepted_file_alike() {
    let programs = programs::ready().await.unwrap();
    let texts = corpus();
    let theirs = theirs(&programs.readini(), &texts);
    let (mut accepted, mut refused, mut otherwise) = (0, 0, Vec::new());
    for (text, theirs) in texts.iter().zip(theirs) {
        let Some(ours) = ours(text) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        let theirs = theirs.map(|mut read| {
            read.remove("DEFAULT");
            read
        });
        if theirs.as_ref() != Some(&ours) {
            otherwise.push((text, theirs));
        }
    }
    otherwise.truncate(20);
    assert!(otherwise.is_empty(), "{otherwise:#?}");
    assert!(
        accepted > 2_000 && refused > 2_000,
        "{accepted} accepted, {refused} refused"
    );
}

type Read = BTreeMap<String, BTreeMap<String, String>>;

fn ours(text: &str) -> Option<Read> {
    let sections = credentials_file::read(text.as_bytes()).ok()?;
    let read = sections.into_iter().map(|section| {
        let pairs = section.logins.into_iter().flat_map(|(whose, (login, _))| {
            let password = login.password.expose_str().unwrap_or_default().to_owned();
            let key = |field| credentials_file::key(whose, field);
            [(key("user"), login.user), (key("password"), password)]
        });
        (section.server, pairs.collect())
    });
    Some(read.collect())
}

fn theirs(program: &Path, texts: &[String]) -> Vec<Option<Read>> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = serde_json::to_vec(texts).unwrap();
    let writer = std::thread::spawn(move || input.write_all(&text));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}
