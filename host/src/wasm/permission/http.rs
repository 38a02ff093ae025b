//! Requests a person is asked about: the host's own `handle` stands in the place of wasmtime's, and
//! asks before that sends.

use http::{Method, Uri};
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::http::outgoing_handler;
use wasmtime_wasi_http::p2::bindings::http::types::{self, ErrorCode, Scheme};
use wasmtime_wasi_http::p2::types::{HostFutureIncomingResponse, HostOutgoingRequest};
use wasmtime_wasi_http::{RequestOptions, WasiHttpView};

use super::Wish;
use crate::wasm::egress::Target;
use crate::wasm::guest::Guest;

/// As wasmtime 48 names it; older guests' versions are found by it, too.
const HANDLER: &str = "wasi:http/outgoing-handler@0.2.12";

/// The guest waits in its call: its time limits have not begun, and it can do nothing else meanwhile.
pub(in crate::wasm) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    type Parameters = (
        Resource<HostOutgoingRequest>,
        Option<Resource<RequestOptions>>,
    );
    type Handled = Result<Resource<HostFutureIncomingResponse>, ErrorCode>;
    linker.allow_shadowing(true);
    linker.instance(HANDLER)?.func_wrap_async(
        "handle",
        |mut store, (request, options): Parameters| {
            Box::new(async move {
                let guest = store.data_mut();
                guest.ask_for(&request).await?;
                let handled = outgoing_handler::Host::handle(&mut guest.http(), request, options);
                let handled: Handled = match handled {
                    Ok(future) => Ok(future),
                    Err(error) => Err(error.downcast()?),
                };
                Ok((handled,))
            })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

impl Guest {
    /// Asks for the request if it can be asked for; the egress is told what came of it.
    async fn ask_for(&mut self, request: &Resource<HostOutgoingRequest>) -> wasmtime::Result<()> {
        self.egress.forget_permission();
        if !self.egress.may_ask() {
            return Ok(());
        }
        let Some((target, method)) = read_request(self.http().table.get(request)?) else {
            return Ok(());
        };
        let Some(asked) = self.egress.asked(&target, &method) else {
            return Ok(());
        };
        let place = asked.http.to_string();
        let wish = Wish {
            kept_as: place.clone(),
            target: place,
            about: format!("{method} {}", target.describe()),
            why: asked.why,
            remember: asked.remember,
            once: "Allow one request",
        };
        match self.decide(&wish).await? {
            Ok(()) => self.egress.permit(asked.http),
            Err(why) => self.egress.deny(why),
        }
        Ok(())
    }
}

/// Where a request goes. None for what will be refused as it is.
fn read_request(request: &HostOutgoingRequest) -> Option<(Target, Method)> {
    let scheme = match &request.scheme {
        Some(Scheme::Http) => "http",
        Some(Scheme::Https) | None => "https",
        Some(Scheme::Other(_)) => return None,
    };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(request.authority.as_deref()?)
        .path_and_query(request.path_with_query.as_deref().unwrap_or("/"))
        .build()
        .ok()?;
    let method = match &request.method {
        types::Method::Get => Method::GET,
        types::Method::Head => Method::HEAD,
        types::Method::Post => Method::POST,
        types::Method::Put => Method::PUT,
        types::Method::Delete => Method::DELETE,
        types::Method::Options => Method::OPTIONS,
        types::Method::Trace => Method::TRACE,
        types::Method::Patch => Method::PATCH,
        types::Method::Connect => return None,
        types::Method::Other(name) => Method::from_bytes(name.as_bytes()).ok()?,
    };
    Some((Target::parse(&uri)?, method))
}
