//! Sends the cases' requests through the SDK's client.

use std::ops::ControlFlow;
use std::time::Duration;

use longshore_plugin::http::{Batch, HttpError, Request, Response};

use crate::case::Case;
use crate::check::Answer;
use crate::curl;
use crate::run::{Reply, Sender};

/// An answer's body, bytes: several are in memory at once.
const BODY_MAX_BYTES: usize = 1024 * 1024;

/// The network, as far as grants allow.
pub struct Network;

impl Sender for Network {
    fn send(
        &mut self,
        base_url: &str,
        cases: &[&Case],
        concurrency: usize,
        ended: &mut dyn FnMut(usize, Reply) -> ControlFlow<()>,
    ) {
        let mut batch = Batch::new(concurrency);
        for (index, case) in cases.iter().enumerate() {
            batch.push(index, request(base_url, case));
        }
        while let Some((index, result)) = batch.next() {
            if ended(index, reply(result)).is_break() {
                batch.drain_waiting();
            }
        }
    }
}

fn request(base_url: &str, case: &Case) -> Request {
    let url = curl::url(base_url, &case.request.path);
    let mut request = Request::new(case.request.method.as_str(), url)
        .timeout(Duration::from_millis(case.time_limit_ms))
        .body_max_bytes(BODY_MAX_BYTES);
    for (name, value) in &case.request.headers {
        request = request.header(name.as_str(), value.as_str());
    }
    match &case.request.body {
        Some(body) => request.body(body.as_str()),
        None => request,
    }
}

fn reply(result: Result<Response, HttpError>) -> Reply {
    match result {
        Ok(response) => Reply::Answered(Answer {
            status: response.status,
            headers: response.headers,
            body: response.body,
            duration_ms: u64::try_from(response.elapsed.as_millis()).unwrap_or(u64::MAX),
        }),
        Err(HttpError::TimedOut) => Reply::TimedOut,
        Err(HttpError::Denied) => Reply::Denied(HttpError::Denied.to_string()),
        Err(error) => Reply::Failed(error.to_string()),
    }
}
