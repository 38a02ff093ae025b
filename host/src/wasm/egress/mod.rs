//! Outgoing HTTP: only where a grant says so (I5), only to addresses that were checked, within
//! limits. Redirects are the guest's business: each is a request of its own and is checked again.

mod address;
mod body;
mod connect;
mod policy;
mod redact;
mod substitute;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use wasmtime_wasi::runtime::spawn;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use self::body::ResponseBody;
use self::connect::Refusal;
use self::policy::Reach;
use self::redact::Redactor;
use super::log::Log;
use super::secrets::Secrets;
use super::{Grants, HttpGrant};
use crate::task::Trace;

pub(super) use self::connect::Connector;
pub(super) use self::policy::{Asked, Target};

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
    /// Tenant, plugin and tool, for the host's log.
    caller: Arc<str>,
    log: Log,
    /// What a person said about the very next request.
    permission: Option<Result<HttpGrant, String>>,
}

impl Egress {
    /// `trace` goes with every request, `caller` into the host's log.
    pub fn new(
        caller: &str,
        grants: Arc<Grants>,
        secrets: Secrets,
        connector: Connector,
        trace: Option<Trace>,
        log: Log,
    ) -> Egress {
        Egress {
            caller: caller.into(),
            trace: trace.map(Arc::new),
            grants,
            secrets: Arc::new(secrets),
            connector,
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            log,
            permission: None,
        }
    }

    /// Whether a person may be asked for anything.
    pub fn may_ask(&self) -> bool {
        !self.grants.ask.is_empty()
    }

    /// What a person may be asked for, so that this request can be sent; None when it is granted
    /// anyway, or out of reach of every rule.
    pub fn asked(&self, target: &Target, method: &Method) -> Option<Asked> {
        let method = method.as_str();
        match policy::find_reach(&self.grants.http, target, method) {
            Some(_) => None,
            None => policy::find_askable(&self.grants.ask, target, method),
        }
    }

    /// Allows the next request, as far as it is covered.
    pub fn permit(&mut self, grant: HttpGrant) {
        self.permission = Some(Ok(grant));
    }

    /// Refuses the next request, with a reason.
    pub fn deny(&mut self, why: String) {
        self.permission = Some(Err(why));
    }

    pub fn forget_permission(&mut self) {
        self.permission = None;
    }

    /// Whether the request may be sent at all; otherwise why not, also in the run's log.
    fn admit(&mut self, request: &Request<WasiBody>) -> Result<Exchange, Error> {
        let permission = self.permission.take();
        let method = request.method();
        let refuse = |error: Error, note: String| {
            tracing::debug!(caller = %self.caller, %method, note, "guest request refused");
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
        let granted = policy::find_reach(&self.grants.http, &target, method.as_str());
        let reach = match (granted, permission) {
            (Some(reach), _) => reach,
            (None, Some(Err(why))) => {
                let note = format!("refused {method} {place}: {why}");
                return refuse(Error::HttpRequestDenied, note);
            }
            (None, permission) => {
                let permitted = permission.and_then(Result::ok);
                let permitted = permitted.as_slice();
                let Some(reach) = policy::find_reach(permitted, &target, method.as_str()) else {
                    let note = format!(
                        "refused {method} {place}: no grant allows it; the plugin must ask for, and \
                         the operator grant, http to {place}"
                    );
                    return refuse(Error::HttpRequestDenied, note);
                };
                reach
            }
        };
        let Ok(permit) = Arc::clone(&self.requests).try_acquire_owned() else {
            let note = format!(
                "refused {method} {place}: a run may have {REQUESTS_MAX} requests under way; read or \
                 drop the responses of earlier ones"
            );
            return refuse(Error::ConnectionLimitReached, note);
        };
        Ok(Exchange {
            method: method.clone(),
            caller: Arc::clone(&self.caller),
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
    method: Method,
    caller: Arc<str>,
    target: Target,
    reach: Reach,
    permit: OwnedSemaphorePermit,
    secrets: Arc<Secrets>,
    connector: Connector,
    trace: Option<Arc<Trace>>,
    log: Log,
}

impl Exchange {
    /// Sends, and tells the log of it: one line a request, without its query, headers and body.
    async fn send(self, request: Request<WasiBody>, patience: Patience) -> Answer {
        let started = Instant::now();
        let (caller, method) = (Arc::clone(&self.caller), self.method.clone());
        let place = self.target.describe();
        let answer = self.exchange(request, patience).await;
        let took = started.elapsed();
        match &answer {
            Ok((response, _)) => {
                let status = response.status().as_u16();
                tracing::debug!(%caller, %method, place, status, ?took, "guest request answered");
            }
            Err(error) => {
                tracing::debug!(%caller, %method, place, ?error, ?took, "guest request failed");
            }
        }
        answer
    }

    async fn exchange(self, request: Request<WasiBody>, patience: Patience) -> Answer {
        let filling = substitute::fill_in(&self.secrets, &self.target, request, &self.log);
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
        let response = self.answer(response, patience.between_bytes);
        let background = async move {
            connection.await;
            Ok(())
        };
        Ok((response, Box::new(background)))
    }

    /// What the guest gets: bounded, and without its secrets.
    fn answer(self, response: Response<Incoming>, between_bytes: Duration) -> Response<WasiBody> {
        let mut redactor = Redactor::new(&self.secrets);
        let (mut parts, incoming) = response.into_parts();
        if let Some(redactor) = &mut redactor {
            redactor.headers(&mut parts.headers);
            // A placeholder has another length. A HEAD has no body that could be cut off.
            if self.method != Method::HEAD {
                parts.headers.remove(CONTENT_LENGTH);
            }
        }
        let body = ResponseBody::new(incoming, between_bytes, redactor, self.permit);
        Response::from_parts(parts, body.boxed_unsync())
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
