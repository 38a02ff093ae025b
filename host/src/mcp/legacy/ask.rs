//! A tool's question as a request to its client: `elicitation/create`, `sampling/createMessage` or
//! `roots/list`, on the stream of the call.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::model::{
    CancelledNotificationParam, ClientResult, CustomRequest, RequestId, ServerRequest,
};
use rmcp::service::PeerRequestOptions;
use rmcp::{Peer, RoleServer, ServiceError};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::mcp::error::shortened;
use crate::service::LiveQuestion;
use crate::task::Ask;

/// A question that its client has and has not answered.
pub struct Asking {
    id: RequestId,
    answer: BoxFuture<'static, Result<ClientResult, ServiceError>>,
    reply: oneshot::Sender<Result<Value, String>>,
}

impl Asking {
    /// Sends the question; None when it could not be sent, which the tool hears.
    pub async fn start(peer: &Peer<RoleServer>, question: LiveQuestion) -> Option<Asking> {
        let LiveQuestion { request, reply } = question;
        let sent = match wire_request(&request.ask) {
            // Sent as it is, because rmcp's own types drop what they do not know of a form.
            Ok(request) => {
                let request = ServerRequest::CustomRequest(request);
                peer.send_request_with_option(request, PeerRequestOptions::no_options())
                    .await
                    .map_err(|_| gone())
            }
            Err(error) => Err(error),
        };
        match sent {
            Ok(handle) => Some(Asking {
                id: handle.id.clone(),
                answer: handle.await_response().boxed(),
                reply,
            }),
            Err(error) => {
                // A tool that stopped meanwhile has no use for it.
                let _ = reply.send(Err(error));
                None
            }
        }
    }

    /// Waits for the answer and passes it on; for ever when nothing is asked.
    pub async fn end(asking: &mut Option<Asking>) {
        let Some(current) = asking else {
            return std::future::pending().await;
        };
        let answer = (&mut current.answer).await;
        if let Some(asking) = asking.take() {
            let _ = asking.reply.send(read(answer));
        }
    }

    /// Tells the client that its answer is not waited for any more.
    pub async fn withdraw(self, peer: &Peer<RoleServer>) {
        let reason = Some("the tool has ended".to_owned());
        let params = CancelledNotificationParam::new(Some(self.id), reason);
        // A client that is gone shows no question.
        let _ = peer.notify_cancelled(params).await;
    }
}

fn wire_request(ask: &Ask) -> Result<CustomRequest, String> {
    let parsed = |text: &str| {
        serde_json::from_str::<Value>(text)
            .map_err(|error| format!("the question can't be sent: {error}"))
    };
    let (method, params) = match ask {
        Ask::Form { message, schema } => {
            let schema = parsed(schema)?;
            let params = json!({"message": message, "requestedSchema": schema});
            ("elicitation/create", Some(params))
        }
        Ask::Url { message, url } => {
            let id = elicitation_id();
            let params =
                json!({"mode": "url", "message": message, "url": url, "elicitationId": id});
            ("elicitation/create", Some(params))
        }
        Ask::Sampling(parameters) => ("sampling/createMessage", Some(parsed(parameters)?)),
        Ask::Roots => ("roots/list", None),
    };
    Ok(CustomRequest::new(method, params))
}

/// The revision wants one that is unique within the host.
fn elicitation_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system's random generator works");
    format!("{:032x}", u128::from_be_bytes(bytes))
}

fn read(answer: Result<ClientResult, ServiceError>) -> Result<Value, String> {
    match answer {
        Ok(result) => serde_json::to_value(result).map_err(|error| error.to_string()),
        Err(ServiceError::McpError(error)) => Err(format!(
            "the client answered with an error: {}",
            shortened(&error.message)
        )),
        Err(_) => Err(gone()),
    }
}

fn gone() -> String {
    "the client is gone".to_owned()
}
