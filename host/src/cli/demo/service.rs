//! A small HTTP service with a few faults, for the demo's contract cases. Loopback only.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::cli::exit::Failure;

/// Items the service has.
pub const ITEMS: u32 = 40;
/// Slow enough that a run of all cases can be watched.
const THINKING_TIME: Duration = Duration::from_millis(120);
const REQUEST_MAX_BYTES: usize = 16 << 10;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const CONNECTIONS_MAX: usize = 64;

/// Runs until it is dropped.
pub struct Service {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Service {
    pub async fn start() -> Result<Service, Failure> {
        let failed = |error| Failure::failed(format!("the demo's HTTP service: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        Ok(Service {
            address: listener.local_addr().map_err(failed)?,
            serving: tokio::spawn(serve(listener)),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        connections.spawn(async {
            // A client that breaks off or dawdles is its own loss.
            let _ = tokio::time::timeout(REQUEST_TIMEOUT, answer(stream)).await;
        });
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !is_complete(&request) && request.len() < REQUEST_MAX_BYTES {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    tokio::time::sleep(THINKING_TIME).await;
    let text = String::from_utf8_lossy(&request);
    let mut words = text.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or("/"));
    let (status, body) = respond(method, path);
    let body = body.to_string();
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

/// Whether the head and the body it announces are there. A body left unread would reset the
/// connection under the answer.
fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().ok())?
    });
    match length {
        Some(length) => body.len() >= length,
        None if head
            .to_ascii_lowercase()
            .contains("transfer-encoding: chunked") =>
        {
            body.ends_with("0\r\n\r\n")
        }
        None => true,
    }
}

/// The service's faults: item 13 has run out, item 27 breaks, and orders are not there yet.
fn respond(method: &str, path: &str) -> (&'static str, Value) {
    let id = path.strip_prefix("/items/").and_then(|id| id.parse().ok());
    match (method, id) {
        ("GET", Some(27)) => (
            "500 Internal Server Error",
            json!({ "error": "price table not loaded" }),
        ),
        ("GET", Some(id @ 1..=ITEMS)) => (
            "200 OK",
            json!({ "id": id, "name": format!("item {id}"), "in_stock": id != 13 }),
        ),
        ("GET", _) => ("404 Not Found", json!({ "error": "not found" })),
        _ => ("405 Method Not Allowed", json!({ "error": "read only" })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_complete_with_its_body() {
        assert!(!is_complete(b"GET / HTTP/1.1\r\n"));
        assert!(is_complete(b"GET / HTTP/1.1\r\n\r\n"));
        assert!(!is_complete(
            b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{"
        ));
        assert!(is_complete(
            b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
        ));
        assert!(is_complete(
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        ));
    }

    #[test]
    fn the_faults_are_where_the_demo_expects_them() {
        assert_eq!(respond("GET", "/items/1").0, "200 OK");
        assert_eq!(respond("GET", "/items/13").1["in_stock"], json!(false));
        assert!(respond("GET", "/items/27").0.starts_with("500"));
        assert!(respond("GET", "/items/9999").0.starts_with("404"));
        assert!(respond("POST", "/orders").0.starts_with("405"));
    }
}
