//! A fault at every request to the store, in the life of a user and of an account: nothing is lost, nothing is left.

use serde_json::json;
use testbed::proxy::Fault;

use super::stage::{ACCOUNT, ANNS_SECRET, Kind, ROOT_SECRET, Running, Stage, USER, hours, minutes};

/// Makes it, rotates its key and removes it; the process is started anew when it died. The result: requests to the store.
async fn life(kind: Kind, trouble: Option<(u64, Fault)>) -> u64 {
    let stage = Stage::new().await;
    let mut operator = stage.operator().await;
    let (told, dead) = std::sync::mpsc::channel::<()>();
    if let Some((nth, fault)) = trouble {
        let killer = operator.killer();
        stage.faults().on_crash(move |_| {
            killer.abort();
            let _ = told.send(());
        });
        stage.faults().at(nth, fault);
    }
    let (name, secret) = if kind == ACCOUNT {
        ("acme", ROOT_SECRET)
    } else {
        ("ann", ANNS_SECRET)
    };
    stage.create(kind, name, json!({})).await;
    let goes_on =
        async |operator: &mut Running,
               what: &str,
               is: &dyn Fn() -> std::pin::Pin<Box<dyn Future<Output = bool>>>| {
            for _ in 0..400 {
                if is().await {
                    return;
                }
                if dead.try_recv().is_ok() {
                    *operator = stage.operator().await;
                }
                stage.later(operator, minutes(1));
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            panic!("{what} with {trouble:?}\n{}", stage.describe().await);
        };
    let client = stage.api(kind);
    let ready = || -> std::pin::Pin<Box<dyn Future<Output = bool>>> {
        let client = client.clone();
        Box::pin(async move {
            let object = client.get(name).await.unwrap();
            object.data["status"]["phase"] == "Ready"
        })
    };
    goes_on(&mut operator, "it never was ready", &ready).await;
    let first = stage.login(secret).await;
    assert_eq!(stage.try_login(&first).await, [200, 200], "{trouble:?}");
    stage
        .annotate(kind, name, "keyward.dev/rotate", "now")
        .await;
    let secrets = stage.secrets();
    let access_key = first.access_key.clone();
    let rotated = || -> std::pin::Pin<Box<dyn Future<Output = bool>>> {
        let (secrets, access_key) = (secrets.clone(), access_key.clone());
        Box::pin(async move {
            let found = secrets.get(secret).await.unwrap().data.unwrap_or_default();
            found["AccessKey"].0 != access_key.as_bytes()
        })
    };
    goes_on(&mut operator, "it never was rotated", &rotated).await;
    assert!(stage.store.live().len() <= 2, "{trouble:?}");
    stage.later(&operator, hours(2));
    let (client, then) = (stage.api(kind), std::cell::Cell::new(0));
    let one_left = || -> std::pin::Pin<Box<dyn Future<Output = bool>>> {
        let live = stage.store.live().len();
        then.set(live);
        Box::pin(async move { live == 1 })
    };
    goes_on(&mut operator, "the old key never went", &one_left).await;
    let second = stage.login(secret).await;
    assert_eq!(stage.try_login(&second).await, [200, 200], "{trouble:?}");
    stage.delete(kind, name).await;
    let gone = || -> std::pin::Pin<Box<dyn Future<Output = bool>>> {
        let client = client.clone();
        Box::pin(async move { client.get_opt(name).await.unwrap().is_none() })
    };
    goes_on(&mut operator, "it never went", &gone).await;
    assert_eq!(stage.store.live(), [], "{trouble:?}");
    let uid = if kind == ACCOUNT {
        None
    } else {
        stage.user("ann").await
    };
    assert!(uid.is_none(), "{trouble:?}");
    assert!(stage.secret(secret).await.is_none(), "{trouble:?}");
    stage.assert_no_leak();
    u64::try_from(stage.faults().total()).unwrap()
}

/// Every request that a life without trouble makes is hit by each fault.
async fn sweep(kind: Kind) {
    let requests = life(kind, None).await;
    assert!(requests > 10, "{requests}");
    for fault in [
        Fault::DropNotApplied,
        Fault::DropApplied,
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::Error(503),
    ] {
        for nth in 1..=requests {
            Box::pin(life(kind, Some((nth, fault)))).await;
        }
    }
}

/// RGW5, RGW13, RGW34, RGW37, for a user.
#[tokio::test]
async fn a_user_survives_a_fault_at_every_request() {
    sweep(USER).await;
}

/// The same for an account and its root user.
#[tokio::test]
async fn an_account_survives_a_fault_at_every_request() {
    sweep(ACCOUNT).await;
}
