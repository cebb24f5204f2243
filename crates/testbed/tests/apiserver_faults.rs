//! Trouble on order: faults, denials, expiry, stops.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, ResourceExt as _,
    api::{
        DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, WatchEvent,
        WatchParams,
    },
};
use serde_json::json;
use testbed::apiserver::{Deny, Fault, Options, Server, Verb};

const OPERATOR: &str = "operator";

fn server() -> (Server, Api<Secret>) {
    let server = Server::in_process(Options {
        seed: 7,
        ..Options::default()
    });
    let secrets = Api::namespaced(server.client_named(OPERATOR), "default");
    (server, secrets)
}

fn secret(name: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(name.into()),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    }
}

fn code(result: Result<Secret, kube::Error>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        Err(other) => panic!("no answer from the server: {other}"),
        Ok(_) => panic!("accepted"),
    }
}

async fn create(secrets: &Api<Secret>, name: &str) -> Result<Secret, kube::Error> {
    secrets.create(&PostParams::default(), &secret(name)).await
}

/// Whether an answer comes; a held request never gives one.
async fn is_held<T>(request: impl Future<Output = T>) -> bool {
    tokio::time::timeout(Duration::from_millis(50), request)
        .await
        .is_err()
}

#[tokio::test]
async fn a_crash_before_leaves_nothing_and_a_crash_after_leaves_the_write() {
    for (fault, stored) in [(Fault::CrashBefore, 0), (Fault::CrashAfter, 1)] {
        let (server, secrets) = server();
        let crashed = Arc::new(AtomicBool::new(false));
        let seen = crashed.clone();
        server.faults().on_crash(move |line| {
            assert_eq!(line.to_string(), "#1 create secrets default/");
            seen.store(true, Ordering::SeqCst);
        });
        server.faults().at(OPERATOR, 1, fault);
        assert!(is_held(create(&secrets, "a")).await, "{fault:?}");
        assert!(crashed.load(Ordering::SeqCst));
        assert_eq!(server.objects("secrets").len(), stored, "{fault:?}");
        assert_eq!(server.faults().writes_since(0).len(), stored, "{fault:?}");
    }
}

#[tokio::test]
async fn a_timeout_may_have_been_applied_or_not() {
    for (fault, stored) in [(Fault::TimeoutNotApplied, 0), (Fault::TimeoutApplied, 1)] {
        let (server, secrets) = server();
        server.faults().at(OPERATOR, 1, fault);
        assert!(is_held(create(&secrets, "a")).await, "{fault:?}");
        assert_eq!(server.objects("secrets").len(), stored, "{fault:?}");
    }
}

#[tokio::test]
async fn an_injected_error_applies_nothing() {
    let (server, secrets) = server();
    server.faults().at(OPERATOR, 1, Fault::Error(500));
    assert_eq!(code(create(&secrets, "a").await), 500);
    assert!(server.objects("secrets").is_empty());
    create(&secrets, "a").await.unwrap();
}

#[tokio::test]
async fn a_write_delivered_twice_is_answered_by_the_second() {
    let (server, secrets) = server();
    server.faults().at(OPERATOR, 1, Fault::DeliveredTwice);
    assert_eq!(code(create(&secrets, "a").await), 409);
    assert_eq!(server.objects("secrets").len(), 1);
}

#[tokio::test]
async fn a_conflict_can_be_ordered_for_a_patch() {
    let (server, secrets) = server();
    create(&secrets, "a").await.unwrap();
    server.faults().at(OPERATOR, 2, Fault::Conflict);
    let patch = Patch::Merge(json!({"metadata": {"labels": {"x": "1"}}}));
    let patched = secrets.patch("a", &PatchParams::default(), &patch).await;
    assert_eq!(code(patched), 409);
    assert!(server.objects("secrets")[0]["metadata"]["labels"].is_null());
}

#[tokio::test]
async fn a_stale_read_answers_from_the_past() {
    let (server, secrets) = server();
    create(&secrets, "a").await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"labels": {"x": "1"}}}));
    secrets
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    server.faults().plan(|line| match line.verb {
        Verb::Get => Fault::StaleRead(1),
        Verb::List => Fault::StaleRead(2),
        _ => Fault::Pass,
    });
    assert!(secrets.get("a").await.unwrap().labels().is_empty());
    assert!(
        secrets
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    server.faults().clear();
    assert_eq!(secrets.get("a").await.unwrap().labels()["x"], "1");
    // A deleted object is still there for a stale reader.
    secrets.delete("a", &DeleteParams::default()).await.unwrap();
    server.faults().plan(|_| Fault::StaleRead(1));
    assert_eq!(secrets.get("a").await.unwrap().labels()["x"], "1");
}

#[tokio::test]
async fn requests_are_numbered_per_client_and_watches_are_exempt() {
    let (server, secrets) = server();
    let others: Api<Secret> = Api::namespaced(server.client_named("auditor"), "default");
    create(&secrets, "a").await.unwrap();
    others.list(&ListParams::default()).await.unwrap();
    let watch = secrets.watch(&WatchParams::default(), "0").await.unwrap();
    drop(watch);
    secrets.get("a").await.unwrap();
    let lines: Vec<(u64, u64, Verb)> = server
        .faults()
        .log()
        .iter()
        .map(|l| (l.line.n, l.line.nth, l.line.verb))
        .collect();
    assert_eq!(
        lines,
        [
            (1, 1, Verb::Create),
            (2, 1, Verb::List),
            (0, 0, Verb::Watch),
            (3, 2, Verb::Get)
        ]
    );
    assert_eq!(server.faults().count_of(OPERATOR), 2);
    assert_eq!(
        server.faults().counts()[&(Verb::Create, "secrets".into())],
        1
    );
    assert!(server.faults().writes_since(1).is_empty());
}

#[tokio::test]
async fn watches_have_a_plan_of_their_own() {
    let (server, secrets) = server();
    server.faults().plan(|_| Fault::Error(500));
    drop(secrets.watch(&WatchParams::default(), "0").await.unwrap());
    server.faults().plan_watches(|_| Fault::Error(503));
    let Err(kube::Error::Api(status)) = secrets.watch(&WatchParams::default(), "0").await.map(drop)
    else {
        panic!("opened");
    };
    assert_eq!(status.code, 503);
    server.faults().clear();
    create(&secrets, "a").await.unwrap();
}

#[tokio::test]
async fn a_client_over_the_socket_has_a_name_too() {
    let server = Server::start(Options::default()).await.unwrap();
    let config = server.kube_config_named(OPERATOR).unwrap();
    let secrets: Api<Secret> = Api::default_namespaced(Client::try_from(config).unwrap());
    create(&secrets, "a").await.unwrap();
    assert_eq!(server.faults().count_of(OPERATOR), 1);
}

#[tokio::test]
async fn a_denied_verb_is_forbidden_as_rbac_says_it() {
    let (server, secrets) = server();
    server.deny(Deny::verb(Verb::Get, "secrets").in_namespace("default"));
    let Err(kube::Error::Api(status)) = secrets.get("a").await else {
        panic!("allowed");
    };
    assert_eq!(status.code, 403);
    assert_eq!(status.reason, "Forbidden");
    assert_eq!(
        status.message,
        "secrets \"a\" is forbidden: User \"system:admin\" cannot get resource \"secrets\" in API group \"\" in the namespace \"default\""
    );
    server.allow_all();
    assert_eq!(code(secrets.get("a").await), 404);
}

#[tokio::test]
async fn a_token_names_its_user_and_a_wrong_one_is_unauthorized() {
    let server = Server::start(Options {
        tokens: vec![("right".into(), "alice".into())],
        ..Options::default()
    })
    .await
    .unwrap();
    let mut config = server.kube_config().unwrap();
    let good: Api<Secret> = Api::default_namespaced(Client::try_from(config.clone()).unwrap());
    create(&good, "a").await.unwrap();
    config.auth_info.token = Some("wrong".to_owned().into());
    let bad: Api<Secret> = Api::default_namespaced(Client::try_from(config).unwrap());
    assert_eq!(code(bad.get("a").await), 401);
}

#[tokio::test]
async fn an_expired_watch_is_told_410_and_so_is_a_page() {
    let (server, secrets) = server();
    for name in ["a", "b", "c"] {
        create(&secrets, name).await.unwrap();
    }
    let page = secrets.list(&ListParams::default().limit(1)).await.unwrap();
    let start = page.metadata.resource_version.clone().unwrap();
    let mut watch = Box::pin(
        secrets
            .watch(&WatchParams::default(), &start)
            .await
            .unwrap(),
    );
    create(&secrets, "d").await.unwrap();
    assert!(
        matches!(watch.try_next().await.unwrap(), Some(WatchEvent::Added(s)) if s.name_any() == "d")
    );
    server.expire_watches();
    assert!(matches!(watch.try_next().await.unwrap(), Some(WatchEvent::Error(e)) if e.code == 410));
    assert!(watch.try_next().await.unwrap().is_none());
    let mut again = Box::pin(
        secrets
            .watch(&WatchParams::default(), &start)
            .await
            .unwrap(),
    );
    assert!(matches!(again.try_next().await.unwrap(), Some(WatchEvent::Error(e)) if e.code == 410));
    let next = ListParams::default()
        .limit(1)
        .continue_token(&page.metadata.continue_.unwrap());
    let Err(kube::Error::Api(status)) = secrets.list(&next).await else {
        panic!("the page is still there");
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn a_short_history_expires_watches_by_itself() {
    let server = Server::in_process(Options {
        history: 3,
        ..Options::default()
    });
    let secrets: Api<Secret> = Api::namespaced(server.client(), "default");
    for n in 0..6 {
        create(&secrets, &format!("s{n}")).await.unwrap();
    }
    let mut watch = Box::pin(secrets.watch(&WatchParams::default(), "1").await.unwrap());
    assert!(matches!(watch.try_next().await.unwrap(), Some(WatchEvent::Error(e)) if e.code == 410));
}

#[tokio::test]
async fn a_stopped_server_is_gone_and_comes_back_on_its_port() {
    let server = Server::start(Options::default()).await.unwrap();
    let near: Api<Secret> = Api::namespaced(server.client(), "default");
    let far = Client::try_from(server.kube_config().unwrap()).unwrap();
    let far: Api<Secret> = Api::namespaced(far, "default");
    create(&far, "a").await.unwrap();
    let mut watch = Box::pin(near.watch(&WatchParams::default(), "0").await.unwrap());
    watch.try_next().await.unwrap();
    let url = server.url();
    server.stop();
    assert!(near.get("a").await.is_err());
    assert!(far.get("a").await.is_err());
    assert!(watch.try_next().await.is_err(), "the watch breaks");
    server.restart().await.unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(near.get("a").await.unwrap().name_any(), "a");
    assert_eq!(far.get("a").await.unwrap().name_any(), "a");
}

#[tokio::test]
async fn a_thousand_servers_start_in_a_blink() {
    let started = Instant::now();
    for _ in 0..1000 {
        let (_server, secrets) = server();
        create(&secrets, "a").await.unwrap();
    }
    let each = started.elapsed() / 1000;
    println!("start, create and drop: {each:?} each");
    assert!(each < Duration::from_millis(5), "{each:?}");
}

#[tokio::test]
async fn a_server_with_a_socket_starts_within_five_milliseconds() {
    let started = Instant::now();
    for _ in 0..50 {
        let server = Server::start(Options::default()).await.unwrap();
        assert!(server.url().is_some());
    }
    let each = started.elapsed() / 50;
    println!("start and drop with a socket: {each:?} each");
    assert!(each < Duration::from_millis(5), "{each:?}");
}

#[tokio::test]
async fn the_same_seed_and_clock_give_the_same_store() {
    let run = || async {
        let server = Server::in_process(Options {
            seed: 42,
            clock: Arc::new(|| "2026-01-01T00:00:00Z".parse().unwrap_or_default()),
            ..Options::default()
        });
        let secrets: Api<Secret> = Api::namespaced(server.client(), "default");
        let mut made = secret("a");
        made.metadata.generate_name = Some("x-".into());
        made.metadata.name = None;
        secrets.create(&PostParams::default(), &made).await.unwrap();
        format!("{:?}", server.everything())
    };
    assert_eq!(run().await, run().await);
}

#[tokio::test]
async fn a_watcher_and_a_reflector_of_kube_runtime_follow_the_store() {
    use futures::StreamExt as _;
    use kube::runtime::{WatchStreamExt as _, watcher};
    let server = Server::in_process(Options::default());
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let name = format!("m{}", server.version());
        let body = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        maps.create(&PostParams::default(), &body).await.unwrap();
        let seen = AtomicUsize::new(0);
        let mut stream = Box::pin(watcher(maps.clone(), config).applied_objects());
        let found = tokio::time::timeout(Duration::from_secs(5), async {
            while let Some(object) = stream.next().await {
                seen.fetch_add(1, Ordering::SeqCst);
                if object.unwrap().name_any() == name {
                    return true;
                }
            }
            false
        });
        assert!(found.await.unwrap());
    }
}
