//! `/livez`, `/readyz`, `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

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

async fn ready(State(world): State<Arc<World>>) -> impl IntoResponse {
    match world.ready.missing() {
        0 => (StatusCode::OK, "ok".to_owned()),
        missing => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{missing} watches have not listed yet"),
        ),
    }
}

async fn metrics(State(world): State<Arc<World>>) -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4")],
        world.telemetry.scrape(),
    )
}
