//! Outgoing HTTP against a server on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longshore::wasm::{Grants, HttpGrant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::fixture::{Fixture, limits};

/// Answers every request with its own request line, and counts them.
async fn server() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read_exact(&mut byte).await.is_err() {
                    break;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let line = head.lines().next().unwrap_or_default();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{line}",
                line.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, count)
}

fn grant(host: &str, port: u16, path_prefix: &str) -> Grants {
    let grant = HttpGrant {
        scheme: Some("http".to_owned()),
        host: host.to_owned(),
        port: Some(port),
        path_prefix: path_prefix.to_owned(),
    };
    Grants {
        http: vec![grant],
        ..Grants::default()
    }
}

#[tokio::test]
async fn a_granted_request_arrives_in_origin_form() {
    let (address, _) = server().await;
    let host = Fixture::with(limits(), |_| grant("127.0.0.1", address.port(), "/api")).await;
    let text = host
        .text("fetch", &format!("http://{address}/api/x?y=1"))
        .await;
    assert_eq!(text, "200 GET /api/x?y=1 HTTP/1.1");
}

#[tokio::test]
async fn localhost_may_be_granted_by_name() {
    let (address, _) = server().await;
    let host = Fixture::with(limits(), |_| grant("localhost", address.port(), "/")).await;
    let url = format!("http://localhost:{}/", address.port());
    assert_eq!(host.text("fetch", &url).await, "200 GET / HTTP/1.1");
}

#[tokio::test]
async fn what_no_grant_names_never_leaves_the_host() {
    let (address, count) = server().await;
    let host = Fixture::with(limits(), |_| grant("127.0.0.1", address.port(), "/api")).await;
    let port = address.port();
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}/api/../admin"),
        format!("http://127.0.0.1:{port}/api/%2e%2e/admin"),
        format!("http://localhost:{port}/api"),
        format!("http://127.1:{port}/api"),
        format!("http://[::ffff:127.0.0.1]:{port}/api"),
        format!("https://127.0.0.1:{port}/api"),
        "http://169.254.169.254/latest".to_owned(),
    ] {
        let text = host.text("fetch", &url).await;
        assert!(text.contains("HttpRequestDenied"), "{url}: {text}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_dead_destination_is_an_error_the_guest_can_handle() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let host = Fixture::with(limits(), |_| grant("127.0.0.1", address.port(), "/")).await;
    let text = host.text("fetch", &format!("http://{address}/")).await;
    assert!(text.contains("ConnectionRefused"), "{text}");
}
