//! Outgoing HTTP of a whole host: methods, TLS, and what the log says of it.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{given, run};
use crate::harness::{Server, Setup};

#[tokio::test]
async fn a_grant_of_some_methods_lets_no_other_through() {
    let server = Server::start(|_| async { (200, String::new()) }).await;
    let setup = given(&format!(
        "http = [{{ host = \"http://{}\", methods = [\"GET\"] }}]",
        server.authority()
    ));
    let host = setup.start().await;
    let fetch = |body: &str| {
        json!([{
            "do": "fetch", "urls": [server.url("/")], "concurrency": 1, "timeout_ms": 5_000,
            "body": body,
        }])
    };
    let told = run(&host.client(), fetch("")).await;
    assert!(told.contains("200"), "{told}");
    let told = run(&host.client(), fetch("a body, so it is a POST")).await;
    assert!(told.contains("not allowed"), "{told}");
    assert_eq!(server.lines(), ["GET /"]);
}

#[tokio::test]
async fn the_log_has_a_line_for_each_request_and_no_secret() {
    let server = Server::start(|_| async { (204, String::new()) }).await;
    let setup = given(&format!("http = [\"http://{}\"]", server.authority()));
    let setup = setup.logging("longshore=debug");
    let host = setup.start().await;
    let url = server.url("/path?key=hunter2");
    let fetch = json!([{"do": "fetch", "urls": [url], "concurrency": 1, "timeout_ms": 5_000}]);
    run(&host.client(), fetch).await;
    host.until_said("guest request answered").await;
    let output = host.output();
    let line = output
        .lines()
        .find(|line| line.contains("guest request answered"))
        .unwrap();
    for part in ["local/script/script_inline", "GET", "/path", "status=204"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!output.contains("hunter2"), "{output}");
}

/// A certificate authority of the test's own.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn write(&self, file: &Path) {
        std::fs::write(file, self.0.pem()).unwrap();
    }

    /// A server for `name` that answers one request a connection; its port.
    async fn serve(&self, name: &str) -> u16 {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that does not trust it ends the handshake.
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let mut head = [0; 4_096];
                let _ = stream.read(&mut head).await;
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecure";
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        port
    }
}

async fn fetch_https(setup: &Setup, port: u16) -> String {
    let host = setup.start().await;
    let url = format!("https://localhost:{port}/");
    let fetch = json!([{"do": "fetch", "urls": [url], "concurrency": 1, "timeout_ms": 5_000}]);
    let told = run(&host.client(), fetch).await;
    host.kill().await;
    told
}

#[tokio::test]
async fn https_is_verified() {
    let authority = Authority::new();
    let right = authority.serve("localhost").await;
    let wrong = authority.serve("example.com").await;
    let setup = given(&format!(
        "http = [\"https://localhost:{right}\", \"https://localhost:{wrong}\"]"
    ));
    let told = fetch_https(&setup, right).await;
    assert!(!told.contains("200"), "nobody vouches for it: {told}");

    let file = setup.path("authority.pem");
    authority.write(&file);
    let setup = setup.environment("SSL_CERT_FILE", file.to_str().unwrap());
    let told = fetch_https(&setup, right).await;
    assert!(told.contains("200, 6 bytes"), "{told}");
    let told = fetch_https(&setup, wrong).await;
    assert!(!told.contains("200"), "it is another's certificate: {told}");
}
