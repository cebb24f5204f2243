use super::*;

fn password_in(line: &str) -> Result<String, String> {
    let text = format!("[vc]\nuser = u@vsphere.local\n{line}\n");
    match read(text.as_bytes()) {
        Ok(sections) => {
            let (login, _) = &sections[0].logins[&Whose::Main];
            Ok(login.password.expose_str().unwrap().to_owned())
        }
        Err(mistakes) => {
            assert!(mistakes.iter().all(|one| one.line == 3), "{mistakes:?}");
            Err(mistakes[0].text.clone())
        }
    }
}

fn mistakes(text: &str) -> Vec<(usize, String)> {
    let found = read(text.as_bytes()).expect_err("it is refused");
    found.into_iter().map(|one| (one.line, one.text)).collect()
}

#[test]
fn awkward_passwords_come_through_unchanged() {
    for (line, password) in [
        ("password = `Pa#ss;w\\`", "Pa#ss;w\\"),
        ("password = \"\"\"a\"b#\"\"\"", "a\"b#"),
        ("password: 'quoted'", "quoted"),
        ("password=\"quoted\"", "quoted"),
        ("password = it's", "it's"),
        ("password = 'it's'", "'it's'"),
        ("password = a=b:c", "a=b:c"),
        ("password = %(unknown)s", "%(unknown)s"),
        ("password = pass wörd ✓", "pass wörd ✓"),
        ("password = `  spaces  `", "  spaces  "),
        ("password = `back`tick`", "back`tick"),
        ("\tpassword   =   tabs\t", "tabs"),
    ] {
        assert_eq!(password_in(line).as_deref(), Ok(password), "{line}");
    }
    let long = "x".repeat(200);
    assert_eq!(password_in(&format!("password = {long}")), Ok(long));
}

#[test]
fn what_the_installer_would_read_otherwise_is_refused_with_its_line() {
    for (line, says) in [
        ("password = Pa#ss", "cut the value"),
        ("password = \"Pa;ss\"", "cut the value"),
        ("password = Pass\\", "backslash"),
        ("password = `Pass", "closing quote"),
        ("password = \"\"\"", "closing quote"),
        ("password = `Pass` word", "closing quote"),
        ("password = `a%(user)s`", "%(user)s"),
        ("password = x%(machine-api.user)s", "%(machine-api.user)s"),
        ("password =", "empty"),
        ("password = ``", "empty"),
        ("pasword = x", "not known"),
        ("Password = x", "not known"),
        ("\"password\" = x", "not known"),
        ("password", "key = value"),
        ("password = a\rb", "control"),
        ("password = a\0b", "control"),
    ] {
        let refused = password_in(line).expect_err(line);
        assert!(refused.contains(says), "{line}: {refused}");
    }
}

#[test]
fn half_a_pair_is_refused() {
    assert_eq!(
        mistakes("[vc]\nuser = u\npassword = p\ncsi-driver.user = c\n"),
        [(
            4,
            "csi-driver.password is missing beside this user".to_owned()
        )]
    );
    assert_eq!(
        mistakes("[vc]\npassword = p\n"),
        [(2, "user is missing beside this password".to_owned())]
    );
}

#[test]
fn sections_do_not_inherit() {
    let two = "[vc]\nuser = u\npassword = p\n[vc.example.com]\ncsi-driver.user = c\ncsi-driver.password = d\n";
    let found = mistakes(two);
    assert_eq!((found.len(), found[0].0), (1, 4));
    assert!(found[0].1.contains("[vc]"));
    let complete = "[vc]\nuser = u\npassword = p\n[vc.example.com]\nuser = c\npassword = d\n[vc2]\nuser = e\npassword = f\n";
    let sections = read(complete.as_bytes()).unwrap();
    assert_eq!(sections[1].logins[&Whose::Main].0.user, "c");
}

#[test]
fn duplicates_and_strays_are_refused() {
    let text =
        "user = a\n[vc]\nuser = u\nuser = v\npassword = p\n[DEFAULT]\n[vc]\n[ x ]\n[y\n[z] w\n";
    let lines: Vec<usize> = mistakes(text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 4, 6, 7, 8, 9, 10]);
}

#[test]
fn a_byte_order_mark_and_both_line_ends_are_fine() {
    let text = "\u{feff}# comment\r\n\r\n[vc] ; the first\r\nuser = u\r\npassword = `p#`\r\n";
    let sections = read(text.as_bytes()).unwrap();
    let (login, line) = &sections[0].logins[&Whose::Main];
    assert_eq!(
        (login.user.as_str(), login.password.expose(), *line),
        ("u", b"p#".as_slice(), 4)
    );
    assert!(read(&[0xff, 0xfe, b'[', 0]).is_err());
}

#[test]
fn no_error_and_no_debug_output_holds_a_value() {
    let text = "[vc]\nuser = u\npassword = hunter2#\ncsi-driver.user = hunter2\\\nhunter2\nhunter2 = x\n[hunter2\n";
    let found = format!("{:?}", read(text.as_bytes()).expect_err("refused"));
    assert!(!found.contains("hunter2"), "{found}");
    let fine = read(b"[vc]\nuser = u\npassword = hunter2\n").unwrap();
    assert!(!format!("{fine:?}").contains("hunter2"));
}

/// The same each time.
fn scrambled(pieces: &[&str], seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::new();
    for _ in 0..(seed % 40) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = usize::try_from(state % pieces.len() as u64).unwrap();
        text.push_str(pieces[at]);
    }
    text
}

#[test]
fn any_text_is_read_or_refused_and_never_quoted() {
    let pieces = [
        "[",
        "]",
        "vc",
        "\n",
        "\r\n",
        "user",
        "password",
        "csi-driver.",
        "=",
        ":",
        " ",
        "`",
        "\"\"\"",
        "\"",
        "'",
        "#",
        ";",
        "\\",
        "%(user)s",
        "hunter2",
        "\u{feff}",
        "\0",
        "ö",
        "DEFAULT",
        ".",
        "\n[vc]\nuser = u\npassword = ",
    ];
    for seed in 0..20_000 {
        let text = scrambled(&pieces, seed);
        if let Err(found) = read(text.as_bytes()) {
            // Sections are servers, which may be told.
            let told = found
                .iter()
                .any(|one| one.text.contains("hunter2") && !one.text.contains("[hunter2"));
            assert!(!told, "{found:?}");
            assert!(found.iter().all(|one| one.line >= 1));
        }
    }
}
