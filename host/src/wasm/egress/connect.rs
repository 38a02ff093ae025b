//! From an allowed destination to a connection: look the name up, drop the addresses it must not
//! stand for, and connect to one of those that are left. The address that was checked is the one
//! connected to, so that a name can't change its meaning in between.

use std::net::{IpAddr, SocketAddr};
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

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Why there is no connection: what the guest sees, and what its log says.
pub(super) struct Refusal {
    pub error: Error,
    pub note: String,
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Shared by all runs. Cheap to clone.
#[derive(Clone)]
pub(in crate::wasm) struct Connector {
    lookups: Arc<Semaphore>,
    /// Made at the first HTTPS request: reading the system's certificates takes a while.
    tls: Arc<OnceLock<Result<TlsConnector, String>>>,
}

impl Connector {
    pub fn new() -> Connector {
        Connector {
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
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
            lookup_host((name, port)).await
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
            Ok(Ok(addresses)) => {
                let mut addresses: Vec<_> = addresses.map(|address| address.ip()).collect();
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
