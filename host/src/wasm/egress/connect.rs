//! From an allowed destination to a connection: look the name up, drop the addresses it must not
//! stand for, and connect to one of those that are left. The address that was checked is the one
//! connected to, so that a name can't change its meaning in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use wasmtime_wasi_http::Error;

use rustls_platform_verifier::BuilderVerifierExt;

use super::address::is_public;
use super::policy::{Host, Reach, Target};

/// How long a name lookup may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Lookups under way, all guests together: they hold threads that file operations need too (I6).
const LOOKUPS_MAX: usize = 16;

/// What `localhost` stands for.
const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Why there is no connection: what the guest sees, and what its log says.
pub(super) struct Refusal {
    pub error: Error,
    pub note: String,
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Who knows names.
#[derive(Clone)]
enum Names {
    System,
    /// What each lookup finds, one after the other.
    #[cfg(test)]
    Scripted(Arc<std::sync::Mutex<Vec<Vec<IpAddr>>>>),
}

impl Names {
    async fn find(&self, name: &str, port: u16) -> std::io::Result<Vec<IpAddr>> {
        match self {
            // This machine, whatever a name server says, and also where nothing knows the name
            // (RFC 6761, 6.3).
            Names::System if name == "localhost" => Ok(LOOPBACK.to_vec()),
            Names::System => {
                let found = lookup_host((name, port)).await?;
                Ok(found.map(|address| address.ip()).collect())
            }
            #[cfg(test)]
            Names::Scripted(script) => {
                let mut script = script.lock().unwrap();
                assert!(!script.is_empty(), "{name} was looked up once more");
                Ok(script.remove(0))
            }
        }
    }
}

/// Shared by all runs. Cheap to clone.
#[derive(Clone)]
pub(in crate::wasm) struct Connector {
    lookups: Arc<Semaphore>,
    names: Names,
    /// Made at the first HTTPS request: reading the system's certificates takes a while.
    tls: Arc<OnceLock<Result<TlsConnector, String>>>,
}

impl Connector {
    pub fn new() -> Connector {
        Connector {
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            names: Names::System,
            tls: Arc::default(),
        }
    }

    /// Connects within `limit`.
    pub(super) async fn connect(
        &self,
        target: &Target,
        reach: Reach,
        limit: Duration,
    ) -> Result<Box<dyn Stream>, Refusal> {
        let addresses = self.resolve(target, reach).await?;
        let connecting = async {
            let stream = connect_to_any(&addresses, target.port).await?;
            if target.is_tls {
                self.secure(target, stream).await
            } else {
                Ok(Box::new(stream) as Box<dyn Stream>)
            }
        };
        timeout(limit, connecting).await.unwrap_or_else(|_| {
            Err(Refusal {
                error: Error::ConnectionTimeout,
                note: format!("no connection within {limit:?}"),
            })
        })
    }

    async fn resolve(&self, target: &Target, reach: Reach) -> Result<Vec<IpAddr>, Refusal> {
        let name = match (&target.host, reach) {
            (_, Reach::Exactly(address)) => return Ok(vec![address]),
            (Host::Address(address), _) => return Ok(vec![*address]),
            (Host::Name(name), _) => name,
        };
        let found = self.look_up(name, target.port).await?;
        let allowed = |address: &IpAddr| match reach {
            Reach::Loopback => address.is_loopback(),
            Reach::Public | Reach::Exactly(_) => is_public(*address),
        };
        let (allowed, denied): (Vec<_>, Vec<_>) = found.into_iter().partition(allowed);
        if allowed.is_empty() {
            let denied: Vec<_> = denied
                .iter()
                .take(ADDRESSES_MAX)
                .map(IpAddr::to_string)
                .collect();
            return Err(Refusal {
                error: Error::DestinationIpProhibited,
                note: format!(
                    "`{name}` leads to {}, which is not an address of the public internet; if that is \
                     meant, a grant must name the address itself",
                    denied.join(", ")
                ),
            });
        }
        Ok(allowed)
    }

    async fn look_up(&self, name: &str, port: u16) -> Result<Vec<IpAddr>, Refusal> {
        let looking = async {
            let _turn = self.lookups.acquire().await;
            self.names.find(name, port).await
        };
        match timeout(LOOKUP_TIMEOUT, looking).await {
            Err(_) => Err(Refusal {
                error: Error::DnsTimeout,
                note: format!("looking up `{name}` took longer than {LOOKUP_TIMEOUT:?}"),
            }),
            Ok(Err(error)) => Err(Refusal {
                error: Error::DnsError {
                    rcode: None,
                    info_code: None,
                },
                note: format!("`{name}` can't be looked up: {error}"),
            }),
            Ok(Ok(mut addresses)) => {
                addresses.dedup();
                Ok(addresses)
            }
        }
    }

    async fn secure(&self, target: &Target, stream: TcpStream) -> Result<Box<dyn Stream>, Refusal> {
        let connector = match self.tls.get_or_init(tls_connector) {
            Ok(connector) => connector.clone(),
            Err(cause) => {
                return Err(Refusal {
                    error: Error::ConfigurationError,
                    note: format!("the host has no TLS: {cause}"),
                });
            }
        };
        let name = match &target.host {
            Host::Address(address) => ServerName::from(*address),
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(|_| Refusal {
                error: Error::HttpRequestUriInvalid,
                note: format!("`{name}` is not a name a certificate can have"),
            })?,
        };
        match connector.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(Refusal {
                error: Error::TlsCertificateError,
                note: format!("no secure connection: {error}"),
            }),
        }
    }
}

async fn connect_to_any(addresses: &[IpAddr], port: u16) -> Result<TcpStream, Refusal> {
    let mut refusal = Refusal {
        error: Error::DestinationNotFound,
        note: "the name has no address".to_owned(),
    };
    for address in addresses.iter().take(ADDRESSES_MAX) {
        match TcpStream::connect(SocketAddr::new(*address, port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                refusal = Refusal {
                    error: Error::ConnectionRefused,
                    note: format!("no connection: {error}"),
                }
            }
        }
    }
    Err(refusal)
}

fn tls_connector() -> Result<TlsConnector, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(|error| error.to_string())?
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn connector(script: &[&[&str]]) -> Connector {
        let lookup = |addresses: &&[&str]| addresses.iter().map(|a| a.parse().unwrap()).collect();
        let script = script.iter().map(lookup).collect();
        Connector {
            names: Names::Scripted(Arc::new(Mutex::new(script))),
            ..Connector::new()
        }
    }

    fn target(name: &str, port: u16) -> Target {
        Target::parse(&format!("http://{name}:{port}/").parse().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn of_the_addresses_of_a_name_only_public_ones_are_left() {
        let connector = connector(&[
            &["10.0.0.1", "127.0.0.1", "8.8.8.8", "::1", "169.254.169.254"],
            &["::ffff:127.0.0.1"],
            &["127.0.0.1", "8.8.8.8"],
        ]);
        let target = target("a.example", 80);
        let found = connector.resolve(&target, Reach::Public).await;
        assert_eq!(found.ok(), Some(vec!["8.8.8.8".parse().unwrap()]));
        let Err(refusal) = connector.resolve(&target, Reach::Public).await else {
            panic!("an address of the host itself was let through");
        };
        assert!(matches!(refusal.error, Error::DestinationIpProhibited));
        let found = connector.resolve(&target, Reach::Loopback).await;
        assert_eq!(found.ok(), Some(vec![Ipv4Addr::LOCALHOST.into()]));
    }

    #[tokio::test]
    async fn localhost_is_this_machine_without_asking_anybody() {
        let found = Connector::new().look_up("localhost", 80).await;
        assert_eq!(found.ok(), Some(LOOPBACK.to_vec()));
    }

    #[tokio::test]
    async fn the_address_that_was_checked_is_the_one_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // A second lookup, which would find another address, fails the test.
        let connector = connector(&[&["127.0.0.1"]]);
        let target = target("localhost", port);
        let connected = connector.connect(&target, Reach::Loopback, PATIENCE).await;
        assert!(connected.is_ok());
        assert!(listener.accept().await.is_ok());
    }
}
