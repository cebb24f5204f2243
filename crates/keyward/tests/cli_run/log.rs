//! What a process logs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::program::eventually;

/// Lines of the JSON log up to the first with this message.
pub(crate) async fn log_until(child: &mut Child, message: &str) -> Vec<Value> {
    let pipe = child.stderr.as_mut().expect("stderr is piped");
    let mut lines = BufReader::new(pipe).lines();
    let mut seen: Vec<Value> = Vec::new();
    let read = async {
        while let Some(line) = lines.next_line().await.expect("text") {
            let value: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            seen.push(value.clone());
            if value["message"] == message {
                return;
            }
        }
        panic!("the log ended before {message:?}");
    };
    tokio::time::timeout(Duration::from_secs(20), read)
        .await
        .expect("in time");
    seen
}

/// Everything that a process logs, read as it comes.
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn of(child: &mut Child) -> Self {
        let kept = Arc::default();
        let log = Self(Arc::clone(&kept));
        let pipe = child.stderr.take().expect("stderr is piped");
        tokio::spawn(async move {
            let mut lines = BufReader::new(pipe).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                kept.lock().unwrap().push(line);
            }
        });
        log
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// The lines with this message, of a log in JSON.
    pub(crate) fn with(&self, message: &str) -> Vec<Value> {
        let lines = self.lines();
        let parsed = lines.iter().map(|line| serde_json::from_str(line).unwrap());
        parsed
            .filter(|line: &Value| line["message"] == message)
            .collect()
    }

    pub(crate) async fn until(&self, message: &str) -> Value {
        eventually(message, || async { !self.with(message).is_empty() }).await;
        self.with(message).remove(0)
    }

    /// Where it serves what is asked for over HTTP.
    pub(crate) async fn address(&self) -> String {
        let serving = self.until("serving /livez, /readyz and /metrics").await;
        serving["address"].as_str().unwrap().to_owned()
    }
}
