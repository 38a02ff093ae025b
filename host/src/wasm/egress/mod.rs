//! Outgoing HTTP: only where a grant says so (I5), only to addresses that were checked, within
//! limits. Redirects are the guest's business: each is a request of its own and is checked again.

mod address;
mod body;
mod connect;
mod policy;
mod substitute;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use wasmtime_wasi::runtime::spawn;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use self::body::ResponseBody;
use self::connect::Refusal;
use self::policy::{Reach, Target};
use super::Grants;
use super::log::Log;
use super::secrets::Secrets;
use crate::task::Trace;

pub(super) use self::connect::Connector;

/// Requests one run may have under way.
const REQUESTS_MAX: usize = 32;

/// Body of one response, bytes.
const RESPONSE_MAX_BYTES: u64 = 64 << 20;

/// Head of one response, bytes.
const RESPONSE_HEAD_MAX_BYTES: usize = 64 << 10;

/// What a guest may wait for: unless it says less, and never longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(600);
const BETWEEN_BYTES_TIMEOUT: Duration = Duration::from_secs(600);

type Background = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Answer = Result<(Response<WasiBody>, Background), Error>;

/// One run's way out.
pub(super) struct Egress {
    grants: Arc<Grants>,
    secrets: Arc<Secrets>,
    connector: Connector,
    requests: Arc<Semaphore>,
    trace: Option<Arc<Trace>>,
    log: Log,
}

impl Egress {
    /// `trace` goes with every request.
    pub fn new(
        grants: Arc<Grants>,
        secrets: Secrets,
        connector: Connector,
        trace: Option<Trace>,
        log: Log,
    ) -> Egress {
        Egress {
            trace: trace.map(Arc::new),
            grants,
            secrets: Arc::new(secrets),
            connector,
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            log,
        }
    }

    /// Whether the request may be sent at all; otherwise why not, also in the run's log.
    fn admit(&self, request: &Request<WasiBody>) -> Result<Exchange, Error> {
        let method = request.method();
        let refuse = |error: Error, note: String| {
            tracing::debug!(%method, note, "guest request refused");
            self.log.note(&note);
            Err(error)
        };
        let Some(target) = Target::parse(request.uri()) else {
            let note = "refused a request whose URL is not a plain http or https URL".to_owned();
            return refuse(Error::HttpRequestUriInvalid, note);
        };
        let place = target.describe();
        // A tunnel would reach past the path that the grant names.
        if *method == Method::CONNECT {
            let note = format!("refused CONNECT {place}: tunnels are never granted");
            return refuse(Error::HttpRequestDenied, note);
        }
        let Some(reach) = policy::find_reach(&self.grants.http, &target) else {
            let note = format!(
                "refused {method} {place}: no grant allows it; the plugin must ask for, and the operator \
                 grant, http to {place}"
            );
            return refuse(Error::HttpRequestDenied, note);
        };
        let Ok(permit) = Arc::clone(&self.requests).try_acquire_owned() else {
            let note = format!(
                "refused {method} {place}: a run may have {REQUESTS_MAX} requests under way; read or \
                 drop the responses of earlier ones"
            );
            return refuse(Error::ConnectionLimitReached, note);
        };
        tracing::debug!(%method, %place, "guest request");
        Ok(Exchange {
            target,
            reach,
            permit,
            secrets: Arc::clone(&self.secrets),
            connector: self.connector.clone(),
            trace: self.trace.clone(),
            log: self.log.clone(),
        })
    }
}

impl WasiHttpHooks for Egress {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Background,
    ) -> Box<dyn Future<Output = Answer> + Send> {
        let admitted = self.admit(&request);
        Box::new(async move { admitted?.send(request, Patience::of(options)).await })
    }

    // The defaults of these warn in the host's log, which a guest could flood.
    fn p2_error_from_hyper(&mut self, error: &hyper::Error) -> ErrorCode {
        tracing::debug!(%error, "guest request failed");
        ErrorCode::HttpProtocolError
    }

    fn p2_error_from_connect(&mut self, error: &std::io::Error) -> ErrorCode {
        tracing::debug!(%error, "guest request failed");
        ErrorCode::ConnectionRefused
    }

    fn p2_error_from_tls(&mut self, error: &std::io::Error) -> ErrorCode {
        tracing::debug!(%error, "guest request failed");
        ErrorCode::TlsProtocolError
    }
}

/// How long each part of an exchange may take.
struct Patience {
    connect: Duration,
    first_byte: Duration,
    between_bytes: Duration,
}

impl Patience {
    fn of(options: Option<RequestOptions>) -> Patience {
        let options = options.unwrap_or_default();
        let at_most = |asked: Option<Duration>, cap: Duration| asked.unwrap_or(cap).min(cap);
        Patience {
            connect: at_most(options.connect_timeout, CONNECT_TIMEOUT),
            first_byte: at_most(options.first_byte_timeout, FIRST_BYTE_TIMEOUT),
            between_bytes: at_most(options.between_bytes_timeout, BETWEEN_BYTES_TIMEOUT),
        }
    }
}

/// A request that was admitted.
struct Exchange {
    target: Target,
    reach: Reach,
    permit: OwnedSemaphorePermit,
    secrets: Arc<Secrets>,
    connector: Connector,
    trace: Option<Arc<Trace>>,
    log: Log,
}

impl Exchange {
    async fn send(self, request: Request<WasiBody>, patience: Patience) -> Answer {
        let filling = substitute::fill_in(&self.secrets, &self.target, request);
        let mut request = timeout(patience.first_byte, filling)
            .await
            .map_err(|_| Error::ConnectionWriteTimeout)??;
        let connecting = self
            .connector
            .connect(&self.target, self.reach, patience.connect);
        let stream = connecting.await.map_err(|refusal| self.explain(refusal))?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(RESPONSE_HEAD_MAX_BYTES)
            .handshake::<_, WasiBody>(TokioIo::new(stream))
            .await?;
        // Owned by the answer: whoever drops the answer ends the connection with it.
        let connection = spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "guest connection ended");
            }
        });

        *request.uri_mut() = origin_form(request.uri())?;
        if let Some(trace) = &self.trace {
            trace::carry(trace, request.headers_mut());
        }
        let response = timeout(patience.first_byte, sender.send_request(request))
            .await
            .map_err(|_| Error::ConnectionReadTimeout)??;
        let response = response.map(|incoming| {
            ResponseBody::new(incoming, patience.between_bytes, self.permit).boxed_unsync()
        });
        let background = async move {
            connection.await;
            Ok(())
        };
        Ok((response, Box::new(background)))
    }

    fn explain(&self, refusal: Refusal) -> Error {
        let place = self.target.describe();
        tracing::debug!(%place, note = refusal.note, "guest request failed");
        self.log
            .note(&format!("request to {place}: {}", refusal.note));
        refusal.error
    }
}

/// A request line holds the path alone; an absolute one would address another host at a proxy.
fn origin_form(uri: &Uri) -> Result<Uri, Error> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    path.parse().map_err(|_| Error::HttpRequestUriInvalid)
}
