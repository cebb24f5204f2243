//! Processes that die, answers that are lost, writes that are refused: no token is lost track of.

mod forge;

use forge::openings::{settled, settled_in};
use forge::{
    EXPORT, Forge, Kind, NAME, OPERATOR, Running, hours, minutes, stores_a_value, stores_or_asks,
};
use serde_json::json;
use testbed::apiserver::{self, Verb};
use testbed::gitlab::{CREATE_PROJECT_TOKEN, REVOKE_PROJECT_TOKEN, Use};
use testbed::proxy::Fault;

/// The process dies at the next request of this kind, before or after GitLab has done it; another takes over.
async fn dies_at_gitlab(forge: &Forge, operator: Running, kind: &str, fault: Fault) -> Running {
    let (told, dead) = std::sync::mpsc::channel();
    let killer = operator.killer();
    forge.faults().on_crash(move |_| {
        killer.abort();
        let _ = told.send(());
    });
    forge.faults().next(kind, fault);
    forge
        .until("the process has died", || async { dead.try_recv().is_ok() })
        .await;
    drop(operator);
    forge.faults().clear();
    forge.operator().await
}

/// The process dies when it has written this; another takes over.
async fn dies_at_the_cluster(
    forge: &Forge,
    operator: Running,
    meant: impl Fn(&apiserver::RequestLine) -> bool + Send + Sync + 'static,
) -> Running {
    let (told, dead) = std::sync::mpsc::channel();
    let killer = operator.killer();
    forge.server.faults().on_crash(move |_| {
        killer.abort();
        let _ = told.send(());
    });
    let done = std::sync::atomic::AtomicBool::new(false);
    forge.server.faults().plan(move |line| {
        let ours = line.user_agent == OPERATOR && meant(line);
        if ours && !done.swap(true, std::sync::atomic::Ordering::SeqCst) {
            apiserver::Fault::CrashAfter
        } else {
            apiserver::Fault::Pass
        }
    });
    forge
        .until("the process has died", || async { dead.try_recv().is_ok() })
        .await;
    drop(operator);
    forge.server.faults().clear();
    forge.operator().await
}

/// GL1.
#[tokio::test]
async fn a_crash_between_mint_and_export_leaves_no_orphan() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        let forge = Forge::new().await;
        let operator = forge.operator().await;
        forge.create(forge.example()).await;
        let operator = dies_at_gitlab(&forge, operator, CREATE_PROJECT_TOKEN, fault).await;
        forge.until_settled().await;
        forge.live_through(&operator, minutes(15)).await;
        let current = forge.current().await;
        assert_eq!(forge.use_exported().await, Use::Works);
        forge
            .until("the orphan is gone", || async { forge.live().len() == 1 })
            .await;
        forge.assert_live(&[current]);
    }
}

/// GL1: the same with a lost answer, and with one that breaks off.
#[tokio::test]
async fn a_lost_answer_to_a_mint_leaves_no_orphan() {
    for fault in [Fault::DropApplied, Fault::CutBody, Fault::ErrorApplied(502)] {
        let forge = Forge::new().await;
        let operator = forge.operator().await;
        forge.faults().next(CREATE_PROJECT_TOKEN, fault);
        forge.create(forge.example()).await;
        forge.until_told_of("RotationFailed").await;
        forge
            .until("it is made good", || async {
                forge.live_through(&operator, minutes(2)).await;
                forge.is_settled(Kind::Project, NAME).await && forge.live().len() == 1
            })
            .await;
        let current = forge.current().await;
        forge.assert_live(&[current]);
    }
}

/// A proxy may deliver a request twice, and GitLab lets two tokens have one name: nobody is told of the second.
#[tokio::test]
async fn a_twin_that_a_doubled_request_made_is_ended_within_two_minutes() {
    let forge = Forge::new().await;
    let operator = forge.operator().await;
    forge.faults().next(CREATE_PROJECT_TOKEN, Fault::Twice);
    forge.create(forge.example()).await;
    forge.until_settled().await;
    assert_eq!(forge.live().len(), 2, "{:#?}", forge.gitlab.live());
    let current = forge.current().await;
    forge.live_through(&operator, minutes(1)).await;
    forge
        .until("the twin is ended", || async { forge.live().len() == 1 })
        .await;
    forge.assert_live(&[current]);
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.calm(&operator).await;
    let asked = forge.faults().total();
    forge.live_through(&operator, hours(1)).await;
    assert_eq!(forge.faults().total(), asked, "looked for once");
}

#[tokio::test]
async fn looking_for_a_twin_costs_one_request_and_no_write() {
    let (forge, operator, _) = settled().await;
    forge.calm(&operator).await;
    let before = (forge.faults().total(), forge.writes());
    forge.live_through(&operator, minutes(1)).await;
    forge.live_through(&operator, minutes(5)).await;
    let after = (forge.faults().total(), forge.writes());
    assert_eq!(after, (before.0 + 1, before.1));
}

/// GL2.
#[tokio::test]
async fn a_crash_between_export_and_status_needs_no_second_mint() {
    let forge = Forge::new().await;
    let operator = forge.operator().await;
    forge.create(forge.example()).await;
    let _operator = dies_at_the_cluster(&forge, operator, |line| {
        line.verb == Verb::Update && line.resource == "secrets" && line.name == EXPORT
    })
    .await;
    forge.until_settled().await;
    assert_eq!(forge.minted(), 1);
    let current = forge.current().await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[current]);
}

/// GL3.
#[tokio::test]
async fn a_crash_between_revoke_and_clearing_is_made_good() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        let (forge, operator, first) = settled().await;
        forge.rotate("now").await;
        let operator = dies_at_gitlab(&forge, operator, REVOKE_PROJECT_TOKEN, fault).await;
        forge
            .until("only the second is left", || async {
                forge.live_through(&operator, minutes(1)).await;
                forge.current().await != first && forge.is_settled(Kind::Project, NAME).await
            })
            .await;
        let second = forge.current().await;
        assert_ne!(first, second);
        forge.assert_live(&[second]);
    }
}

/// GL4, S002-14.
#[tokio::test]
async fn a_token_that_cannot_be_stored_is_revoked_at_once() {
    let forge = Forge::new().await;
    let object = forge.keeping_old("2h");
    let (forge, operator, first) = settled_in(forge, object).await;
    // Reserving the Secret is allowed, writing the value is not.
    forge.cluster_refuses(403, stores_a_value);
    forge.rotate("now").await;
    forge
        .until("the failure is told", || async {
            forge.event("RotationFailed").contains("ExportFailed")
        })
        .await;
    forge
        .until("the new one is revoked", || async {
            forge.live().len() == 1
        })
        .await;
    forge.assert_live(&[first]);
    assert_eq!(forge.current().await, first);
    assert_eq!(forge.previous().await, 0, "no window was opened");
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.server.faults().clear();
    forge
        .until("it is made good", || async {
            forge.live_through(&operator, minutes(5)).await;
            forge.current().await != first
        })
        .await;
    forge.live_through(&operator, hours(3)).await;
    forge.until_settled().await;
    let current = forge.current().await;
    assert!(forge.most_live() <= 2);
    forge.assert_live(&[current]);
}

/// GL4: the revoke fails, too; it is kept and tried again.
#[tokio::test]
async fn a_token_that_can_neither_be_stored_nor_revoked_is_kept_on_record() {
    let (forge, operator, first) = settled().await;
    forge
        .faults()
        .every_where(|line| line.method == "DELETE", Fault::Error(500));
    forge.cluster_refuses(403, stores_a_value);
    forge.rotate("now").await;
    forge
        .until("the failure is told", || async {
            forge.event("RotationFailed").contains("ExportFailed")
        })
        .await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.server.faults().clear();
    forge.faults().clear();
    forge
        .until("all is well in the end", || async {
            forge.live_through(&operator, minutes(5)).await;
            forge.is_settled(Kind::Project, NAME).await
                && forge.current().await != first
                && forge.live().len() == 1
        })
        .await;
    let current = forge.current().await;
    forge.assert_live(&[current]);
}

/// GL5.
#[tokio::test]
async fn a_target_that_cannot_be_written_is_noticed_before_anything_is_minted() {
    let forge = Forge::new().await;
    let operator = forge.operator().await;
    forge.cluster_refuses(403, |line| {
        let writes = matches!(line.verb, Verb::Create | Verb::Update | Verb::Patch);
        writes && line.resource == "secrets"
    });
    forge.create(forge.example()).await;
    forge.until_told_of("RotationFailed").await;
    assert_eq!(forge.minted(), 0);
    forge.assert_live(&[]);
    forge.server.faults().clear();
    forge
        .until("it is made good", || async {
            forge.live_through(&operator, minutes(5)).await;
            forge.is_settled(Kind::Project, NAME).await
        })
        .await;
    let current = forge.current().await;
    forge.assert_live(&[current]);
}

/// GL5: reserving it is allowed, and writing a value is not.
#[tokio::test]
async fn a_target_that_takes_no_value_is_noticed_before_anything_is_minted() {
    let (forge, operator, first) = settled().await;
    forge.cluster_refuses(403, stores_or_asks);
    forge.rotate("now").await;
    forge.until_told_of("RotationFailed").await;
    assert_eq!(forge.minted(), 1);
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[first]);
    forge.server.faults().clear();
    forge
        .until("it is made good", || async {
            forge.live_through(&operator, minutes(5)).await;
            forge.current().await != first && forge.is_settled(Kind::Project, NAME).await
        })
        .await;
    let current = forge.current().await;
    forge.assert_live(&[current]);
}

/// GL35: two operators without a lease. A double mint is seen by its mark, and undone.
#[tokio::test]
async fn two_operators_at_once_end_with_one_token() {
    let forge = Forge::new().await;
    let one = forge.operator().await;
    let other = forge.operator().await;
    forge.create(forge.example()).await;
    let all_is_well = async |what: &str, before: u64| {
        forge
            .until(what, || async {
                forge.live_through(&one, minutes(11)).await;
                forge.ring(&other);
                forge.calm(&other).await;
                forge.current().await != before
                    && forge.is_settled(Kind::Project, NAME).await
                    && forge.live().len() == 1
            })
            .await;
    };
    all_is_well("the first", 0).await;
    let first = forge.current().await;
    forge.edit_spec(json!({ "forceNow": true })).await;
    all_is_well("the second", first).await;
    let current = forge.current().await;
    assert_eq!(forge.use_exported().await, Use::Works);
    forge.assert_live(&[current]);
}
