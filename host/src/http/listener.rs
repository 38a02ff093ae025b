//! Accepts connections, as many as there is room for, and ends them in order.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

use super::HttpOptions;
use super::connection::{Answer, Place};
use super::connections::Connections;
use crate::mcp::stopping;

/// How long to wait when every connection is busy, or the system has no descriptor left for one:
/// those that close give theirs back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long one that makes room may take to tell its client so; another waits for its place.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(100);

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
    let mut connections = Connections::new(options.connections_max, options.tenant_connections_max);
    // One that came while all turned busy: not a byte of it is read before it has a place.
    let mut at_the_door = None;
    loop {
        if let Some(stream) = at_the_door.take() {
            match connections.take_place() {
                Some(place) => connections.open(connection(
                    server.clone(),
                    bounded(stream, options.write_timeout),
                    router.clone(),
                    place,
                    shutdown.clone(),
                )),
                None => at_the_door = Some(stream),
            }
        }
        // While all are busy nothing is accepted, and the kernel's queue holds back whoever comes.
        let has_room = at_the_door.is_none() && connections.has_room();
        tokio::select! {
            () = stopping(&mut shutdown) => break,
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => at_the_door = Some(stream),
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "can't accept a connection; trying again");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(()) = connections.one_ended() => {}
            () = sleep(ACCEPT_PAUSE), if !has_room => {}
        }
    }
    drop((listener, at_the_door));
    let finished = timeout(options.drain_timeout, async {
        while connections.one_ended().await.is_some() {}
    });
    if finished.await.is_err() {
        tracing::warn!(
            open = connections.count(),
            "closing connections that did not finish in time"
        );
        connections.shutdown().await;
    }
    Ok(())
}

async fn connection(
    server: http1::Builder,
    stream: Pin<Box<TimeoutStream<TcpStream>>>,
    router: Router,
    place: Place,
    mut shutdown: watch::Receiver<bool>,
) {
    let connection = place.connection();
    let stream = connection.note(stream);
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        let busy = connection.begin();
        request.extensions_mut().insert(connection.clone());
        let answer = router.call(request);
        async {
            connection.turn().await;
            Ok::<_, Infallible>(answer.await?.map(|body| Answer::new(body, busy)))
        }
    });
    let mut serving = pin!(server.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.in_turns(serving.as_mut()) => ended,
        () = connection.leaving() => {
            if !connection.is_busy() {
                return;
            }
            // Its request is answered with the reason, if the client takes it at once.
            serving.as_mut().graceful_shutdown();
            match timeout(LEAVE_TIMEOUT, serving).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
        () = stopping(&mut shutdown) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        // A client that goes away is no fault of the host.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A client that leaves what it is sent unread holds an answer's memory, and its tool, no longer
/// than `unread`.
fn bounded(stream: TcpStream, unread: Duration) -> Pin<Box<TimeoutStream<TcpStream>>> {
    // Messages are small and waited for.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(unread));
    Box::pin(stream)
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
