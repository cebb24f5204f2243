//! The GitLab sources against a server that says exactly what a test wants: what is believed, and what is not.
#![expect(clippy::unwrap_used, reason = "a test may stop, and may tell")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lifecycle::{ClusterId, IssuedId, Owner, TroubleKind, Verdict, Version};
use serde_json::json;
use sources::gitlab::{Home, PersonalToken, ResourceTokens, Server, token_id};
use sources::http::Settings;
use sources::{Order, Proof, SecretValue, Source, SourceError, Values};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LOGIN: &str = "glpat-login-7Yq2mZ4x";
const VALUE: &str = "glpat-value-9Kd3wQ1c";

/// What it was asked, line by line.
type Heard = Arc<Mutex<Vec<String>>>;

/// Answers each request line as told: status line, headers and body.
async fn serve(answer: impl Fn(&str) -> String + Send + 'static) -> (Arc<Server>, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let heard = Heard::default();
    let told = Arc::clone(&heard);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let line = read_request(&mut stream).await;
            told.lock().unwrap().push(line.clone());
            let _ = stream.write_all(answer(&line).as_bytes()).await;
        }
    });
    let settings = Settings {
        timeout: Duration::from_secs(5),
        ..Settings::default()
    };
    (Arc::new(Server::new(&url, &settings).unwrap()), heard)
}

/// The request line, after the whole request was read.
async fn read_request(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.unwrap();
    let line = head.lines().next().unwrap_or_default();
    line.trim_end_matches(" HTTP/1.1").to_owned()
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

fn project(server: &Arc<Server>) -> ResourceTokens {
    let home = Home::Project("team/app".into());
    let login = SecretValue::new(LOGIN);
    ResourceTokens::new(Arc::clone(server), home, Some(&login), "token").unwrap()
}

fn owner() -> Owner {
    Owner::new(ClusterId::of_cluster("here"), "some uid")
}

fn now() -> Timestamp {
    "2026-11-16T10:00:00Z".parse().unwrap()
}

fn order() -> Order {
    Order {
        mark: owner().mark(Version::new(1, 1)),
        chosen: None,
        present: None,
        wish: json!({
            "scopes": ["read_api"], "accessLevel": 30, "lifetimeSeconds": 3600, "description": "a test's",
        }),
        now: now(),
    }
}

fn token(id: u64, name: &str) -> serde_json::Value {
    json!({
        "id": id, "name": name, "revoked": false, "active": true, "scopes": ["read_api"],
        "access_level": 30, "expires_at": "2026-11-17", "last_used_at": null,
    })
}

fn values() -> Values {
    Values::new().with("token", SecretValue::new(VALUE))
}

fn shows_nothing(error: &SourceError, more: &[&str]) {
    let printed = format!("{error} {error:?} {:?}", error.to_trouble());
    for never in ["127.0.0.1", "http", LOGIN, VALUE].iter().chain(more) {
        assert!(!printed.contains(never), "{never} in {printed}");
    }
}

#[tokio::test]
async fn error_bodies_of_every_shape_are_understood_and_none_is_ever_echoed() {
    const SPICE: &str = "Xq7-never-to-be-seen";
    let bodies = [
        format!(r#"{{"message":"400 Bad request - {SPICE}"}}"#),
        format!(r#"{{"message":{{"base":["{SPICE}"]}}}}"#),
        format!(r#"{{"message":["{SPICE}"]}}"#),
        format!(r#"{{"error":"{SPICE}"}}"#),
        format!(r#"{{"error":"invalid_token","error_description":"{SPICE}"}}"#),
        format!(r#"{{"error":"insufficient_scope","scope":"{SPICE}"}}"#),
        format!("<html>{SPICE}</html>"),
        format!("\"{SPICE}\""),
    ];
    for (status, kind) in [
        (400, TroubleKind::Rejected),
        (401, TroubleKind::Denied),
        (403, TroubleKind::Denied),
        (404, TroubleKind::Rejected),
        (422, TroubleKind::Rejected),
        (429, TroubleKind::Throttled),
        (500, TroubleKind::Unreachable),
        (502, TroubleKind::Unreachable),
        (301, TroubleKind::Rejected),
    ] {
        for body in bodies.clone() {
            let (server, _) = serve(move |_| answer(status, "", &body)).await;
            let source = project(&server);
            let (id, mark) = (IssuedId::from("7"), order().mark);
            for error in [
                source.mint(&order()).await.unwrap_err(),
                source.list(&owner(), &[]).await.unwrap_err(),
                source.revoke(&Proof::by(&mark), &id).await.unwrap_err(),
                source.gone(&id, None).await.unwrap_err(),
                source.used(&id).await.unwrap_err(),
            ] {
                assert_eq!(error.kind, kind, "{status}: {error}");
                shows_nothing(&error, &[SPICE]);
            }
        }
    }
}

#[tokio::test]
async fn a_list_is_followed_by_its_header_and_never_by_its_link() {
    let mark = order().mark.to_string();
    let (server, heard) = serve(move |line| {
        let link = "link: <https://elsewhere.example/api/v4/x?page=2>; rel=\"next\"\r\n";
        if line.contains("&page=1&") {
            answer(
                200,
                &format!("{link}x-next-page: 2\r\n"),
                &json!([token(1, &mark)]).to_string(),
            )
        } else {
            answer(
                200,
                &format!("{link}x-next-page: \r\n"),
                &json!([token(2, &mark)]).to_string(),
            )
        }
    })
    .await;
    let listed = project(&server).list(&owner(), &[]).await.unwrap();
    assert_eq!(listed.len(), 2);
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 2);
    assert!(
        heard[0].starts_with("GET /api/v4/projects/team%2Fapp/access_tokens?search=kw1-"),
        "{heard:?}"
    );
    assert!(
        heard.iter().all(|line| !line.contains("state=")),
        "{heard:?}"
    );
}

#[tokio::test]
async fn a_list_that_goes_back_or_never_ends_is_not_believed() {
    for next in ["1", "0", "-1", "two", "99999999999999999999", "2.5"] {
        let header = format!("x-next-page: {next}\r\n");
        let (server, heard) = serve(move |_| answer(200, &header, "[]")).await;
        let error = project(&server).list(&owner(), &[]).await.unwrap_err();
        assert_eq!(error.kind, TroubleKind::Unexpected, "{next}");
        assert_eq!(heard.lock().unwrap().len(), 1, "{next}");
    }
    let (server, heard) = serve(|line| {
        let page = line
            .split("&page=")
            .nth(1)
            .unwrap()
            .split('&')
            .next()
            .unwrap();
        let next = page.parse::<u32>().unwrap() + 1;
        answer(200, &format!("x-next-page: {next}\r\n"), "[]")
    })
    .await;
    let error = project(&server).list(&owner(), &[]).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unexpected);
    assert_eq!(heard.lock().unwrap().len(), 100);
}

#[tokio::test]
async fn a_full_page_without_a_header_may_have_another_after_it() {
    let mark = order().mark.to_string();
    let (server, _) = serve(move |line| {
        let page: Vec<_> = if line.contains("&page=1&") {
            (1..=100).map(|id| token(id, &mark)).collect()
        } else {
            vec![token(101, &mark)]
        };
        answer(200, "", &json!(page).to_string())
    })
    .await;
    assert_eq!(
        project(&server).list(&owner(), &[]).await.unwrap().len(),
        101
    );
}

#[tokio::test]
async fn what_is_revoked_or_expired_is_not_listed_whoever_tells_it() {
    let mark = order().mark.to_string();
    let mut tokens: Vec<_> = (1..=5).map(|id| token(id, &mark)).collect();
    tokens[0]["revoked"] = json!(true);
    tokens[1]["active"] = json!(false);
    // Where `active` is not told, the date is held against the server's own clock.
    for (index, date) in [(2, "2026-11-16"), (3, "2026-11-17")] {
        tokens[index]["active"] = json!(null);
        tokens[index]["expires_at"] = json!(date);
    }
    tokens[4]["expires_at"] = json!(null);
    let body = json!(tokens).to_string();
    let date = "date: Mon, 16 Nov 2026 10:00:00 GMT\r\n";
    let (server, _) = serve(move |_| answer(200, date, &body)).await;
    let listed = project(&server).list(&owner(), &[]).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|issued| token_id(&issued.id)).collect();
    assert_eq!(ids, ["4", "5"]);
}

#[tokio::test]
async fn an_answer_that_is_not_the_token_asked_for_is_not_taken() {
    let mark = order().mark.to_string();
    let good = || {
        let mut good = token(7, &order().mark.to_string());
        good["token"] = json!(VALUE);
        good
    };
    let spoiled = |key: &str, value: serde_json::Value| {
        let mut token = good();
        token[key] = value;
        token
    };
    let made = move |body: serde_json::Value| async move {
        let body = body.to_string();
        let (server, heard) = serve(move |_| answer(201, "", &body)).await;
        let made = project(&server).mint(&order()).await;
        assert_eq!(
            heard.lock().unwrap().len(),
            1,
            "asked once, whatever came back"
        );
        made
    };
    let minted = made(good()).await.unwrap();
    assert_eq!(token_id(&minted.id), "7");
    assert_eq!(
        minted.expires,
        Some("2026-11-17T00:00:00Z".parse().unwrap())
    );
    assert_eq!(
        made(spoiled("expires_at", json!(null)))
            .await
            .unwrap()
            .expires,
        None
    );
    for odd in [
        spoiled("id", json!("7")),
        spoiled("id", json!(-7)),
        spoiled("id", json!("../users")),
        spoiled("name", json!(format!("{mark}-copy"))),
        spoiled("scopes", json!(["api"])),
        spoiled("access_level", json!(50)),
        spoiled("active", json!(false)),
        spoiled("revoked", json!(true)),
        spoiled("token", json!(null)),
        spoiled("token", json!("")),
        spoiled("token", json!("two words")),
        spoiled("token", json!("a\nb")),
        spoiled("token", json!("x".repeat(2000))),
        spoiled("expires_at", json!("soon")),
        json!([]),
    ] {
        let error = made(odd.clone()).await.unwrap_err();
        assert_eq!(error.kind, TroubleKind::Unexpected, "{odd}");
        shows_nothing(&error, &[]);
    }
}

#[tokio::test]
async fn a_token_that_says_something_else_of_itself_than_its_mint_did_is_not_published() {
    let mut made = token(7, &order().mark.to_string());
    made["token"] = json!(VALUE);
    let (made, other) = (made.to_string(), token(8, "another").to_string());
    let (server, _) = serve(move |line| {
        if line.starts_with("POST") {
            answer(201, "", &made)
        } else {
            answer(200, "", &other)
        }
    })
    .await;
    let source = project(&server);
    let minted = source.mint(&order()).await.unwrap();
    let error = source.verify(&minted.values).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Unexpected);
}

#[tokio::test]
async fn every_form_of_too_many_requests_says_how_long_to_wait() {
    let date = "date: Mon, 16 Nov 2026 10:00:00 GMT\r\n";
    for (headers, wait) in [
        ("retry-after: 17\r\n".to_owned(), 17),
        (format!("{date}ratelimit-reset: 1794823242\r\n"), 42),
        (format!("{date}ratelimit-reset: 1\r\n"), 1),
        (format!("{date}ratelimit-reset: 99999999999\r\n"), 3600),
        (
            format!("{date}ratelimit-reset: 1794823242\r\nretry-after: 5\r\n"),
            5,
        ),
        ("ratelimit-reset: soon\r\n".to_owned(), 60),
        (String::new(), 60),
    ] {
        let said = headers.clone();
        let (server, _) = serve(move |_| answer(429, &said, "Retry later\n")).await;
        let error = project(&server).list(&owner(), &[]).await.unwrap_err();
        assert_eq!(error.kind, TroubleKind::Throttled);
        assert_eq!(
            error.wait,
            Some(SignedDuration::from_secs(wait)),
            "{headers}"
        );
    }
}

#[tokio::test]
async fn a_limit_that_makes_no_sense_is_not_asked_for() {
    for named in [
        "2026-11-16",
        "1999-01-01",
        "2026-11-17",
        "2099-01-01",
        "9999-99-99",
        "soon",
    ] {
        let body =
            format!(r#"{{"message":"400 Bad request - Expiration date must be before {named}"}}"#);
        let (server, heard) = serve(move |_| answer(400, "", &body)).await;
        let error = project(&server).mint(&order()).await.unwrap_err();
        assert_eq!(error.kind, TroubleKind::Rejected, "{named}");
        assert_eq!(heard.lock().unwrap().len(), 1, "{named}");
    }
}

#[tokio::test]
async fn the_clock_of_gitlab_is_held_against_ours() {
    let (server, _) = serve(|_| answer(200, "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "[]")).await;
    let source = project(&server);
    assert_eq!(source.skew(), None, "nothing was heard yet");
    source.list(&owner(), &[]).await.unwrap();
    let skew = source.skew().unwrap();
    assert!(skew < SignedDuration::from_hours(-24), "{skew:?}");
}

#[tokio::test]
async fn a_plain_401_about_a_value_is_no_verdict_while_the_login_gets_one_too() {
    let plain = r#"{"message":"401 Unauthorized"}"#;
    let (server, _) = serve(move |_| answer(401, "", plain)).await;
    let error = project(&server).verify(&values()).await.unwrap_err();
    assert_eq!(error.kind, TroubleKind::Denied);
    let dead = r#"{"error":"invalid_token","error_description":"Token was revoked."}"#;
    let (server, heard) = serve(move |_| answer(401, "", dead)).await;
    assert_eq!(
        project(&server).verify(&values()).await.unwrap(),
        Verdict::Refused
    );
    assert_eq!(
        heard.lock().unwrap().len(),
        1,
        "the proof needs no second opinion"
    );
}

#[tokio::test]
async fn what_cannot_be_a_token_or_an_id_is_never_sent() {
    let (server, heard) = serve(|_| answer(500, "", "")).await;
    let source = project(&server);
    for odd in ["", " ", "two words", "a\r\nx: y"] {
        let odd = Values::new().with("token", SecretValue::new(odd));
        assert_eq!(source.verify(&odd).await.unwrap(), Verdict::Refused);
    }
    assert_eq!(
        source.verify(&Values::new()).await.unwrap(),
        Verdict::Refused
    );
    let (mark, values) = (order().mark, values());
    let proof = Proof {
        values: Some(&values),
        ..Proof::by(&mark)
    };
    for odd in [
        "",
        "self",
        "../1",
        "+7",
        "-7",
        "7/rotate",
        "99999999999999999999999",
    ] {
        let id = IssuedId::from(odd);
        let error = source.revoke(&proof, &id).await.unwrap_err();
        assert_eq!(error.kind, TroubleKind::Rejected, "{odd}");
        assert!(source.gone(&id, Some(&values)).await.is_err(), "{odd}");
    }
    let personal = PersonalToken::new(server, Some(&SecretValue::new(LOGIN)), "token");
    assert!(
        personal
            .revoke(&proof, &IssuedId::from("self"))
            .await
            .is_err()
    );
    assert!(heard.lock().unwrap().is_empty());
}
