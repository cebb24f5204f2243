//! No secret value in anything that is written, at any log level.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod stage;

use std::io::Write;
use std::sync::{Arc, Mutex};

use stage::Stage;
use testbed::issuer::{Fault, Kind, Verb};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Everything any crate logs, down to the last detail.
fn capture() -> Captured {
    let captured = Captured::default();
    let writer = captured.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .init();
    captured
}

#[tokio::test]
async fn no_value_is_written_anywhere_but_into_its_secret() {
    let captured = capture();
    for (kind, in_place) in [
        (Kind::Chosen, false),
        (Kind::ReadBack, false),
        (Kind::ShownOnce, true),
        (Kind::SelfRotating, true),
        (Kind::Provided, false),
    ] {
        let stage = Stage::new(kind, in_place);
        stage.prepare().await;
        let operator = stage.operator().await;
        stage.create().await;
        stage.until("the first version", || stage.settled()).await;
        // Trouble has the longest texts.
        stage.issuer.faults().next(Verb::Login, Fault::Error(500));
        stage.issuer.faults().next(Verb::Revoke, Fault::CutBody);
        stage.rotate("again").await;
        stage
            .until("trouble or success", || async {
                stage.reason().await != "UpToDate" || stage.settled().await
            })
            .await;
        stage.issuer.faults().clear();
        stage.clock.jump(1200);
        operator.engine.world().queue.timers.notify_one();
        stage
            .until("the second version", || async {
                stage.version().await.as_deref() >= Some("2.1")
            })
            .await;
        let scraped = operator.engine.world().telemetry.scrape();
        stage.delete().await;
        stage
            .until("the end", || async {
                stage.clock.jump(120);
                operator.engine.world().queue.timers.notify_one();
                stage.object().await.is_none()
            })
            .await;
        operator.stop().await;

        let canaries = stage.canaries();
        canaries.assert_absent("metrics", scraped.as_bytes());
        canaries.assert_absent("logs", &captured.0.lock().unwrap());
        assert!(stage.leaks().is_empty(), "{:?}", stage.leaks());
        assert!(scraped.contains("keyward_steps"), "{scraped}");
    }
    let logged = captured.0.lock().unwrap().len();
    println!("{logged} bytes of logs at TRACE, no value in them");
    assert!(logged > 10_000, "the log was captured");
}

#[tokio::test]
async fn a_planted_leak_is_found() {
    let stage = Stage::new(Kind::Chosen, false);
    stage.prepare().await;
    let operator = stage.operator().await;
    stage.create().await;
    stage.until("the first version", || stage.settled()).await;
    assert!(stage.leaks().is_empty());
    let (_, value) = stage.handed_out().await.unwrap();
    stage.annotate("example.org/careless", Some(&value)).await;
    assert!(!stage.leaks().is_empty());
    operator.stop().await;
}
