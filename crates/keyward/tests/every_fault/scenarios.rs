//! What happens in a run, faults aside.

use kube::api::DeleteParams;
use serde_json::json;
use testbed::issuer::Kind;

use crate::consumer::HOLDER;
use crate::run::Run;
use crate::stage::Stage;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scenario {
    Create,
    Rotate,
    SpecChange,
    SecretDeleted,
    RotateTwice,
    NeverReleased,
    LateConsumer,
    Rollback,
    DeleteRevoke,
    DeleteOrphan,
    DeleteRetain,
    IssuerDownDuringDelete,
    LoginDeleted,
    Recreated,
    LedgerLost,
    StatusLost,
}

pub(crate) const SCENARIOS: [Scenario; 16] = [
    Scenario::Create,
    Scenario::Rotate,
    Scenario::SpecChange,
    Scenario::SecretDeleted,
    Scenario::RotateTwice,
    Scenario::NeverReleased,
    Scenario::LateConsumer,
    Scenario::Rollback,
    Scenario::DeleteRevoke,
    Scenario::DeleteOrphan,
    Scenario::DeleteRetain,
    Scenario::IssuerDownDuringDelete,
    Scenario::LoginDeleted,
    Scenario::Recreated,
    Scenario::LedgerLost,
    Scenario::StatusLost,
];

pub(crate) const WAYS: [(Kind, bool); 6] = [
    (Kind::Chosen, false),
    (Kind::ReadBack, false),
    (Kind::ShownOnce, false),
    (Kind::Provided, false),
    (Kind::ShownOnce, true),
    (Kind::SelfRotating, true),
];

/// Whether a scenario means anything for this way of issuing.
pub(crate) fn applies(scenario: Scenario, kind: Kind, in_place: bool) -> bool {
    match scenario {
        Scenario::NeverReleased | Scenario::LateConsumer | Scenario::Rollback => !in_place,
        // A person's Secret is gone: there is nothing to make a new one from.
        Scenario::LoginDeleted | Scenario::IssuerDownDuringDelete => kind != Kind::Provided,
        // The only copy of the value is gone with its Secret.
        Scenario::SecretDeleted | Scenario::Recreated => kind != Kind::SelfRotating,
        Scenario::Create
        | Scenario::Rotate
        | Scenario::SpecChange
        | Scenario::RotateTwice
        | Scenario::DeleteRevoke
        | Scenario::DeleteOrphan
        | Scenario::DeleteRetain
        | Scenario::LedgerLost
        | Scenario::StatusLost => true,
    }
}

/// How the world must look at the end.
pub(crate) struct Expected {
    /// Credentials of ours that are alive.
    pub(crate) live: usize,
    pub(crate) gone: bool,
}

pub(crate) async fn act(
    run: &mut Run,
    scenario: Scenario,
    spec: serde_json::Value,
) -> Result<Expected, String> {
    let minted =
        usize::from(run.stage.kind != Kind::Provided && run.stage.kind != Kind::SelfRotating);
    let one = Expected {
        live: minted,
        gone: false,
    };
    let second = |stage: &Stage| stage.now_settled_beyond(1);
    let first = run.stage.now_secret();
    match scenario {
        Scenario::Create => {
            run.stage.create_with(spec).await;
            run.consume();
            run.until("the first version", Stage::now_settled).await?;
        }
        Scenario::Rotate => {
            run.stage.rotate("again").await;
            run.until("the second version", second).await?;
        }
        Scenario::SpecChange => {
            run.stage
                .edit_spec(json!({ "rights": ["read", "write"] }))
                .await;
            run.until("the second version", second).await?;
        }
        Scenario::SecretDeleted => {
            let name = if run.stage.in_place { "target" } else { &first };
            // Without a Secret there is no value in place that could work.
            if run.stage.in_place {
                run.stop_consuming();
            }
            run.stage
                .secrets()
                .delete(name, &DeleteParams::default())
                .await
                .unwrap();
            run.until("the second version", second).await?;
        }
        Scenario::RotateTwice => {
            run.stage.rotate("again").await;
            run.until("the second version", |stage| stage.now_beyond(1))
                .await?;
            run.stage.rotate("and-again").await;
            run.until("the third version", |stage| stage.now_settled_beyond(2))
                .await?;
        }
        Scenario::NeverReleased => {
            run.stop_consuming();
            run.stage.hold(&first, "example.org/stubborn").await;
            run.stage.rotate("again").await;
            run.until("the wait is shown", |stage| {
                stage.now_says("HeldByConsumers")
            })
            .await?;
            // By its own name: what a fault left behind may be alive beside it for a while.
            let held = first.trim_start_matches(crate::stage::NAME);
            let alive = run.stage.live().iter().any(|name| name.ends_with(held));
            if minted > 0 && !alive {
                return Err("a held version was revoked".to_owned());
            }
            run.stage.release(&first, HOLDER).await;
            run.stage.release(&first, "example.org/stubborn").await;
            run.until("rest", second).await?;
        }
        Scenario::LateConsumer => {
            run.stage.rotate("again").await;
            run.consume();
            run.until("the second version", second).await?;
        }
        Scenario::Rollback => {
            let back = run.previous.clone();
            run.stage
                .annotate("keyward.dev/rollback", Some(&run.previous))
                .await;
            run.until("the first version again", |stage| stage.now_at(&back))
                .await?;
            run.stage
                .edit_spec(json!({ "retire": { "rollbackSeconds": 0 } }))
                .await;
            run.until("rest", Stage::now_settled).await?;
        }
        Scenario::DeleteRevoke | Scenario::DeleteOrphan | Scenario::DeleteRetain => {
            run.stage.delete().await;
            run.until("the end", Stage::now_gone).await?;
            let live = if scenario == Scenario::DeleteRevoke {
                0
            } else {
                minted
            };
            return Ok(Expected { live, gone: true });
        }
        Scenario::IssuerDownDuringDelete => {
            run.stage.issuer.disable_login("realm");
            run.stage.delete().await;
            run.until("the wait is shown", |stage| stage.now_says("IssuerDenied"))
                .await?;
            run.stage.issuer.enable_login("realm");
            run.until("the end", Stage::now_gone).await?;
            return Ok(Expected {
                live: 0,
                gone: true,
            });
        }
        Scenario::LoginDeleted => {
            let login = run.stage.secrets().get("login").await.unwrap();
            run.stage
                .secrets()
                .delete("login", &DeleteParams::default())
                .await
                .unwrap();
            run.stage.delete().await;
            // A login that was read a moment ago may still do.
            run.until("the wait is shown, or the end", |stage| {
                let either =
                    stage.now_waits_for_login().into_inner() || stage.now_gone().into_inner();
                std::future::ready(either)
            })
            .await?;
            let mut again = login.clone();
            again.metadata = kube::api::ObjectMeta {
                name: Some("login".into()),
                ..Default::default()
            };
            run.stage
                .secrets()
                .create(&kube::api::PostParams::default(), &again)
                .await
                .unwrap();
            run.until("the end", Stage::now_gone).await?;
            return Ok(Expected {
                live: 0,
                gone: true,
            });
        }
        Scenario::Recreated => {
            run.stage.delete().await;
            run.until("the end", Stage::now_gone).await?;
            run.stage.create_with(spec).await;
            run.until("a version of the new one", Stage::now_settled)
                .await?;
        }
        Scenario::LedgerLost => {
            run.stage.annotate("keyward.dev/ledger", None).await;
            run.until("the ledger is back", Stage::now_has_ledger)
                .await?;
            run.until("rest", Stage::now_settled).await?;
        }
        Scenario::StatusLost => {
            run.stage.lose_status().await;
            run.until("rest", Stage::now_settled).await?;
        }
    }
    Ok(one)
}
