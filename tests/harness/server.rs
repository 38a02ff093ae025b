//! A web server of the test's own: it keeps what it is sent, and answers as the test says.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use tokio::sync::watch;

const BODY_MAX_BYTES: usize = 1 << 20;

/// A running server; stopped when dropped.
pub struct Server {
    authority: String,
    seen: watch::Sender<Vec<Seen>>,
    serving: tokio::task::JoinHandle<()>,
}

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub method: String,
    /// With its query.
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Method and path.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

impl Server {
    /// Starts a server that answers with a status and a body, once `answer` is ready. A client that
    /// goes away meanwhile drops the answer.
    pub async fn start<F, A>(answer: F) -> Server
    where
        F: Fn(Seen) -> A + Send + Sync + 'static,
        A: Future<Output = (u16, String)> + Send + 'static,
    {
        let seen = watch::Sender::new(Vec::new());
        let (keep, answer) = (seen.clone(), Arc::new(answer));
        let router = Router::new().fallback(async move |request: Request| {
            // A client that died in the middle of a request has not made one.
            let Some(request) = read(request).await else {
                return StatusCode::BAD_REQUEST.into_response();
            };
            keep.send_modify(|all: &mut Vec<Seen>| all.push(request.clone()));
            let (status, body) = answer(request).await;
            let response = axum::response::Response::builder().status(status);
            response.body(Body::from(body)).unwrap()
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Server {
            authority,
            seen,
            serving,
        }
    }

    /// Address and port.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.authority)
    }

    /// All requests so far, in the order they arrived.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.borrow().clone()
    }

    /// Method and path of all requests so far.
    pub fn lines(&self) -> Vec<String> {
        self.seen.borrow().iter().map(Seen::line).collect()
    }

    /// Waits until so many requests have arrived.
    pub async fn until_seen(&self, count: usize) -> Vec<Seen> {
        let mut seen = self.seen.subscribe();
        let enough = seen.wait_for(|all| all.len() >= count).await;
        enough.expect("the server lives").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// None if it did not arrive whole.
async fn read(request: Request) -> Option<Seen> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, BODY_MAX_BYTES).await.ok()?;
    let headers = head.headers.iter().map(|(name, value)| {
        let value = value.to_str().unwrap_or_default();
        (name.to_string(), value.to_owned())
    });
    Some(Seen {
        method: head.method.to_string(),
        path: head.uri.to_string(),
        headers: headers.collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
