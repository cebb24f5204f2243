//! How the world must be in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use testbed::issuer::{Happened, Kind};

use crate::run::Run;
use crate::scenarios::Expected;
use crate::stage::Stage;

/// Nothing extra, nothing missing, and nothing more is written.
pub(crate) async fn check(run: &mut Run, expected: &Expected) -> Result<(), String> {
    let live = expected.live;
    run.until("only what is recorded is alive", |stage| {
        let count = stage.live().len();
        async move { count == live }
    })
    .await?;
    if !expected.gone {
        run.until("rest", Stage::now_settled).await?;
        hands_out_what_works(run).await?;
    }
    run.until("no Secret too many", Stage::now_tidy).await?;
    let family = run.stage.count(|happened| {
        matches!(
            happened,
            Happened::Ended {
                how: testbed::issuer::Ended::Family,
                ..
            }
        )
    });
    if family > 0 {
        return Err("a dead value was used to rotate, and took its successor along".to_owned());
    }
    let leaks = run.stage.leaks();
    if !leaks.is_empty() {
        return Err(format!(
            "a value was written where it must not be: {leaks:?}"
        ));
    }
    let most = most_alive(&run.stage);
    if most > 5 {
        return Err(format!("{most} credentials were alive at once"));
    }
    run.stop_consuming();
    let quiet = Arc::new(AtomicU64::new(0));
    run.until("quiet", |stage| {
        let now = stage.server.version();
        let quiet = quiet.clone();
        async move {
            let before = quiet.swap(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(15)).await;
            before == now
        }
    })
    .await
}

/// Where a value is rotated by itself, the Secret holds a dead one between the rotation and the write, and the person
/// who answers a loss may answer it twice, so that one more rotation is under way: there it may take a moment.
async fn hands_out_what_works(run: &mut Run) -> Result<(), String> {
    if run.stage.kind == Kind::SelfRotating {
        let alive = |stage: &Stage| {
            let (secrets, issuer) = (stage.secrets(), stage.issuer.clone());
            async move {
                let target = secrets.get_opt("target").await.ok().flatten();
                let value = target.and_then(|target| target.data?.remove("secret"));
                value.is_some_and(|value| {
                    let mut live = issuer.live("realm").into_iter();
                    live.any(|live| live.value.reveal().as_bytes() == value.0)
                })
            }
        };
        return run.until("a value in place that works", alive).await;
    }
    let handed_out = run.stage.handed_out().await;
    let (id, _) = handed_out.ok_or("nothing is handed out")?;
    let live = run.stage.issuer.live("realm");
    if live.iter().any(|live| live.id == id) {
        Ok(())
    } else {
        Err("what is handed out is dead".to_owned())
    }
}

pub(crate) fn most_alive(stage: &Stage) -> usize {
    let mut alive = std::collections::HashSet::new();
    let mut most = 0;
    for event in stage.issuer.history("realm") {
        match event.happened {
            Happened::Minted { id, name } if name.starts_with("kw1-") => {
                alive.insert(id);
            }
            Happened::Ended { id, .. } => {
                alive.remove(&id);
            }
            _ => {}
        }
        most = most.max(alive.len());
    }
    most
}
