//! A baseline for benchmarks: the least that a server can do for a read. No route calls it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use offshoot_core::{Error, Result};

/// Answers `GET /file` with the bytes of one file, read through `tokio::fs`, with no check, no log
/// and no limit around it. For benchmarks; it answers until the process ends.
pub fn baseline_file_server(file: PathBuf) -> Result<SocketAddr> {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let serve = async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            let _ = tell.send(listener.local_addr()?);
            let router = Router::new()
                .route("/file", axum::routing::get(read))
                .with_state(Arc::new(file));
            axum::serve(listener, router).await
        };
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .and_then(|runtime| runtime.block_on(serve))
    });
    told.recv()
        .map_err(|_| Error::internal("the bare handler did not start"))
}

async fn read(State(file): State<Arc<PathBuf>>) -> Vec<u8> {
    tokio::fs::read(&*file).await.unwrap_or_default()
}
