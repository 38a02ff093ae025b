//! Outgoing HTTP against a server on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use longshore::wasm::{Grants, HttpGrant, SecretGrant, SecretPlace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::fixture::{Fixture, limits};

/// Answers every request with its own request line, and counts them.
pub async fn server() -> (SocketAddr, Arc<AtomicUsize>) {
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
        methods: None,
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
        // The same address in the clothes that some resolvers see through.
        format!("http://2130706433:{port}/api"),
        format!("http://0x7f000001:{port}/api"),
        format!("http://0177.0.0.1:{port}/api"),
        format!("http://127.0.0.1.:{port}/api"),
        format!("http://[::127.0.0.1]:{port}/api"),
        format!("http://0.0.0.0:{port}/api"),
    ] {
        let text = host.text("fetch", &url).await;
        assert!(text.contains("HttpRequestDenied"), "{url}: {text}");
    }
    for url in [
        format!("http://user@127.0.0.1:{port}/api"),
        format!("http://127.0.0.1:{port}@evil.example/api"),
    ] {
        let text = host.text("fetch", &url).await;
        assert!(text.starts_with("error"), "{url}: {text}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_name_that_leads_into_the_hosts_own_networks_is_not_followed() {
    let (address, count) = server().await;
    // The machine's own name; where it is not known, there is no address to refuse.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let name = name.trim().to_owned();
    let granted = name.clone();
    let host = Fixture::with(limits(), |_| grant(&granted, address.port(), "/")).await;
    let url = format!("http://{name}:{}/", address.port());
    let text = host.text("fetch", &url).await;
    let refused = ["DestinationIpProhibited", "DnsError"];
    assert!(refused.iter().any(|word| text.contains(word)), "{text}");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_redirect_is_the_guests_to_follow_and_checked_again() {
    let (secret, count) = server().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 1_024];
        let _ = stream.read(&mut head).await;
        let answer = format!(
            "HTTP/1.1 302 Found\r\nlocation: http://{secret}/\r\ncontent-length: 0\r\n\r\n"
        );
        let _ = stream.write_all(answer.as_bytes()).await;
    });
    let host = Fixture::with(limits(), |_| grant("127.0.0.1", address.port(), "/")).await;
    let text = host.text("fetch", &format!("http://{address}/")).await;
    assert_eq!(text, "302 ");
    let text = host.text("fetch", &format!("http://{secret}/")).await;
    assert!(text.contains("HttpRequestDenied"), "{text}");
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

/// Takes one request with a body, and gives it as text.
async fn recorder() -> (SocketAddr, tokio::sync::oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            let mut bytes = [0; 1_024];
            match stream.read(&mut bytes).await {
                Ok(length @ 1..) => request.extend_from_slice(&bytes[..length]),
                _ => break,
            }
        }
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = tell.send(String::from_utf8(request).unwrap());
    });
    (address, told)
}

#[tokio::test]
async fn a_secret_goes_only_where_it_may_and_the_guest_never_sees_it() {
    const VALUE: &str = "s3cret/+ value";
    let (trusted, at_trusted) = recorder().await;
    let (other, at_other) = recorder().await;
    let host = Fixture::with(limits(), |dir| {
        let file = dir.join("token");
        std::fs::write(&file, format!("{VALUE}\n")).unwrap();
        let mut grants = grant("127.0.0.1", trusted.port(), "/");
        let hosts = grants.http.clone();
        grants
            .http
            .extend(grant("127.0.0.1", other.port(), "/").http);
        grants.secrets.push(SecretGrant {
            name: "TOKEN".to_owned(),
            place: SecretPlace::File(file),
            hosts,
        });
        grants
    })
    .await;

    let seen = host.text("fetch-secret", &trusted.to_string()).await;
    let placeholder = seen.strip_prefix("200 ").expect("it was answered");
    assert!(placeholder.starts_with("longshore-secret-"), "{seen}");
    let request = at_trusted.await.unwrap();
    let line = format!("POST /{placeholder}?key=s3cret%2F%2B%20value HTTP/1.1\r\n");
    assert!(request.starts_with(&line), "{request}");
    assert!(request.contains("Bearer s3cret/+ value\r\n"), "{request}");
    assert!(request.contains("content-length: 26\r\n"), "{request}");
    assert!(
        request.ends_with(r#"{"token":"s3cret/+ value"}"#),
        "{request}"
    );

    // Another run has another placeholder, and another host gets nothing else.
    let again = host.text("fetch-secret", &other.to_string()).await;
    assert_ne!(again, seen);
    let request = at_other.await.unwrap();
    assert!(!request.contains("s3cret"), "{request}");
    assert!(
        request.contains(again.strip_prefix("200 ").unwrap()),
        "{request}"
    );
}

#[tokio::test]
async fn a_secret_that_is_not_there_fails_the_run_and_names_no_path() {
    let host = Fixture::with(limits(), |dir| Grants {
        secrets: vec![SecretGrant {
            name: "TOKEN".to_owned(),
            place: SecretPlace::File(dir.join("missing")),
            hosts: Vec::new(),
        }],
        ..Grants::default()
    })
    .await;
    let text = host.failure("echo", "x").await;
    assert!(text.contains("the secret granted as `TOKEN`"), "{text}");
    assert!(!text.contains("missing"), "{text}");
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

/// Answers with the whole head of the request, in a header and in the body.
async fn mirror() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut bytes = [0];
                match stream.read_exact(&mut bytes).await {
                    Ok(_) => head.push(bytes[0]),
                    Err(_) => return,
                }
            }
            let head = String::from_utf8(head).unwrap().replace("\r\n", "|");
            let answer = format!(
                "HTTP/1.1 200 OK\r\nx-echo: {head}\r\ncontent-length: {}\r\n\r\n{head}",
                head.len()
            );
            let (first, second) = answer.as_bytes().split_at(answer.len() - 20);
            // In two pieces, the cut somewhere in the secret.
            for piece in [first, second] {
                stream.write_all(piece).await.unwrap();
                stream.flush().await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
    address
}

#[tokio::test]
async fn a_secret_that_a_host_repeats_is_a_placeholder_again() {
    const VALUE: &str = "s3cret/+ value";
    let address = mirror().await;
    let host = Fixture::with(limits(), |dir| {
        let file = dir.join("token");
        std::fs::write(&file, VALUE).unwrap();
        let mut grants = grant("127.0.0.1", address.port(), "/");
        grants.secrets.push(SecretGrant {
            name: "TOKEN".to_owned(),
            place: SecretPlace::File(file),
            hosts: grants.http.clone(),
        });
        grants
    })
    .await;
    let told = host.text("fetch-echo", &address.to_string()).await;
    assert!(!told.contains("s3cret"), "{told}");
    assert_eq!(told.matches("Bearer TOKEN|").count(), 2, "{told}");
    assert_eq!(told.matches("GET /?key=TOKEN HTTP").count(), 2, "{told}");
    // A compressed answer could not be searched.
    assert!(!told.contains("gzip"), "{told}");
}

#[tokio::test]
async fn a_target_that_names_another_host_is_not_followed() {
    let (address, count) = server().await;
    let (other, at_other) = server().await;
    let host = Fixture::with(limits(), |_| grant("127.0.0.1", address.port(), "/")).await;
    for target in [
        format!("http://{other}/"),
        format!("//{other}/"),
        format!("@{other}/"),
        format!("/\\{other}/"),
    ] {
        host.text("fetch-target", &format!("{address} {target}"))
            .await;
    }
    assert_eq!(at_other.load(Ordering::SeqCst), 0);
    // What arrived at the granted host was a path there.
    let path = host
        .text("fetch-target", &format!("{address} //{other}/"))
        .await;
    assert!(path.contains(&format!("GET //{other}/ HTTP/1.1")), "{path}");
    assert!(count.load(Ordering::SeqCst) > 0);
}
