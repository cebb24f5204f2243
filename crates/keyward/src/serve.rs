//! `/livez`, `/readyz`, `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::engine::readiness::Verdict;
use crate::engine::world::World;

/// Serves until the process ends. The address is returned first, so that port 0 can be used.
pub async fn serve(
    world: Arc<World>,
    listen: SocketAddr,
) -> std::io::Result<(SocketAddr, tokio::task::JoinHandle<()>)> {
    let listener = tokio::net::TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let app = Router::new()
        .route("/livez", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(world);
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, app).await {
            tracing::error!(%error, "the listener for health and metrics ended");
        }
    });
    Ok((address, task))
}

/// Ready means: nothing to worry about, and the replica that this one replaces may end. So a replica says it that does
/// its work, if not everywhere, and so does one that could take over.
async fn ready(State(world): State<Arc<World>>) -> (StatusCode, String) {
    if !world.leads() {
        return match world.trouble_with_lease() {
            None => (
                StatusCode::OK,
                "ok: another replica has the lease".to_owned(),
            ),
            Some(trouble) => (
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the lease cannot be acquired: {trouble}"),
            ),
        };
    }
    match world.ready.verdict() {
        Verdict::Ready => (StatusCode::OK, "ok".to_owned()),
        Verdict::ReadyElsewhere(refused) => (
            StatusCode::OK,
            listing("ok, but not everywhere. Not watched:", &refused),
        ),
        Verdict::NotYet(awaited) => (
            StatusCode::SERVICE_UNAVAILABLE,
            listing("not yet. Watches that have not listed:", &awaited),
        ),
        Verdict::Useless(refused) => (
            StatusCode::SERVICE_UNAVAILABLE,
            listing("nothing can be worked on. Not watched:", &refused),
        ),
    }
}

fn listing(head: &str, items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| format!("  {item}\n")).collect();
    format!("{head}\n{}", items.concat())
}

async fn metrics(State(world): State<Arc<World>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        world.telemetry.scrape(),
    )
}
