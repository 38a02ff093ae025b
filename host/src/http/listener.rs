//! Accepts connections, as many as there is room for, and ends them in order.

use std::io;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::HttpOptions;

/// How long to wait when the system has no descriptor left for a connection: closing ones give
/// theirs back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `shutdown` becomes true, then lets open requests finish for a while.
///
/// # Errors
/// When the listener itself breaks; a broken connection ends alone.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: HttpOptions,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_header_size(options.head_max_bytes);
    let mut connections = JoinSet::new();
    loop {
        // At the limit nothing is accepted, and the kernel's queue holds back whoever comes.
        let has_room = connections.len() < options.connections_max;
        tokio::select! {
            () = ending(&mut shutdown) => break,
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    let router = router.clone();
                    connections.spawn(connection(server.clone(), stream, router, shutdown.clone()));
                }
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection; trying again");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    let finished = timeout(options.drain_timeout, async {
        while connections.join_next().await.is_some() {}
    });
    if finished.await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "closing connections that did not finish in time"
        );
        connections.shutdown().await;
    }
    Ok(())
}

async fn connection(
    server: http1::Builder,
    stream: TcpStream,
    router: Router,
    mut shutdown: watch::Receiver<bool>,
) {
    // Messages are small and waited for.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    let mut serving = pin!(server.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = ending(&mut shutdown) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        // A client that goes away is no fault of the host.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Resolves when the host shuts down, also when whoever would say so is gone.
async fn ending(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|is_ending| *is_ending).await;
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
