//! What a client of a handshake revision sends, read before rmcp sees it: a key that stands twice is
//! refused, which rmcp would let pass, and a batch is taken apart, which rmcp does not know. It
//! answers nothing.

use std::collections::HashSet;
use std::fmt;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ProtocolVersion, RequestId};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::mcp::envelope::{self, Head, Rejection};
use crate::mcp::error::Refusal;
use crate::mcp::json;
use crate::mcp::members;

/// Messages in one batch. The size of all is that of a request's body.
const BATCH_MAX: usize = 64;

/// Said to an object of another shape.
pub const NO_MESSAGE: &str = "it has not the shape of a request, a notification or an answer";

/// Said to a batch that comes in another revision.
pub const NO_BATCHES: &str =
    "the revision of this session has no batches; send each message on its own";

/// The one revision with batches: the next took them out again.
pub fn has_batches(revision: &ProtocolVersion) -> bool {
    *revision == ProtocolVersion::V_2025_03_26
}

pub fn is_batch(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"[")
}

/// What is known of a message that rmcp may read.
pub struct Checked {
    /// Of a request.
    pub id: Option<RequestId>,
    pub is_call: bool,
}

/// Whether rmcp may read a body as one message.
pub fn check(body: &[u8]) -> Result<Checked, Rejection> {
    let (head, _) = read_object(body)?;
    let id = head.id.as_ref().filter(|_| is_request(&head));
    Ok(Checked {
        // What is no id to rmcp is refused by it.
        id: id.and_then(|id| serde_json::from_str(id.as_json()).ok()),
        is_call: head.method == "tools/call",
    })
}

/// Reads one message.
pub fn read(body: &[u8]) -> Result<ClientJsonRpcMessage, Rejection> {
    let (head, members) = read_object(body)?;
    let message = serde_json::from_value(Value::Object(members));
    message.map_err(|_| reject(head, Refusal::NotARequest(NO_MESSAGE.to_owned())))
}

/// Takes a batch apart. What is wrong with one of its messages does not concern the others.
pub fn read_batch(body: &[u8]) -> Result<Vec<Result<ClientJsonRpcMessage, Rejection>>, Refusal> {
    let text = json::read_text(body)?;
    let Batch(parts) = serde_json::from_str(text).map_err(json::misfit)?;
    if parts.is_empty() {
        return Err(Refusal::NotARequest("the batch is empty".to_owned()));
    }
    let mut ids = HashSet::new();
    let mut messages = Vec::with_capacity(parts.len());
    for part in parts {
        let body = part.get().as_bytes();
        let message = match json::has_few_parts(body) {
            true => read(body),
            // All of a batch are in memory at once.
            false => Err(reject(Head::read(body), Refusal::many_in_batch())),
        };
        messages.push(message.and_then(|message| {
            let ClientJsonRpcMessage::Request(request) = &message else {
                return Ok(message);
            };
            let not = |what: &str| Refusal::NotARequest(what.to_owned());
            if matches!(request.request, ClientRequest::InitializeRequest(_)) {
                let head = Head::read(part.get().as_bytes());
                return Err(reject(head, not("`initialize` can't be part of a batch")));
            }
            if !ids.insert(request.id.clone()) {
                let (id, refusal) = (None, Refusal::same_id());
                return Err(Rejection { id, refusal });
            }
            Ok(message)
        }));
    }
    Ok(messages)
}

fn read_object(body: &[u8]) -> Result<(Head, Map<String, Value>), Rejection> {
    if let Some(refusal) = envelope::unreadable(body) {
        return Err(Rejection { id: None, refusal });
    }
    let head = Head::read(body);
    let raw = serde_json::from_slice::<&RawValue>(body);
    let members = raw.map_err(|error| error.to_string());
    match members.and_then(|raw| members::read(raw, "the message")) {
        Ok(members) => Ok((head, members)),
        Err(what) if is_request(&head) => Err(reject(head, Refusal::InvalidParams(what))),
        Err(what) => Err(reject(head, Refusal::NotARequest(what))),
    }
}

/// Under the id of a request; the id of an answer is the host's own.
fn reject(head: Head, refusal: Refusal) -> Rejection {
    let id = if is_request(&head) { head.id } else { None };
    Rejection { id, refusal }
}

fn is_request(head: &Head) -> bool {
    head.id.is_some() && !head.method.is_empty()
}

/// The messages of a batch, unread.
struct Batch<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Batch<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Batch<'de>, D::Error> {
        deserializer.deserialize_seq(BatchVisitor)
    }
}

struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Batch<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Batch<'de>, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = items.next_element()? {
            if parts.len() == BATCH_MAX {
                return Err(A::Error::custom(format!(
                    "the batch has more than {BATCH_MAX} messages; send several"
                )));
            }
            parts.push(part);
        }
        Ok(Batch(parts))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::harm::{changed, changes, edited, edits};
    use crate::mcp::wire;

    fn told(rejection: &Rejection) -> String {
        let failure = wire::failure(rejection.id.as_ref(), &rejection.refusal.face());
        String::from_utf8(failure.to_vec()).unwrap()
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_wherever_it_is() {
        let bodies = [
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","other":1,"other":2}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
            r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a","arguments":{"to":[{"b":1,"b":2}]}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progress":2}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"action":"decline","action":"accept"}}"#,
        ];
        let told: Vec<String> = bodies
            .iter()
            .map(|body| match check(body.as_bytes()) {
                Ok(_) => "goes on".to_owned(),
                Err(rejection) => told(&rejection),
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        goes on
        {"jsonrpc":"2.0","error":{"code":-32600,"message":"the body is not a JSON-RPC request: duplicate field `id` at line 1 column 28"}}
        {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"the message: `other` stands there twice at line 1 column 57"}}
        {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"the message: `name` stands there twice at line 1 column 73"}}
        {"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"the message: `b` stands there twice at line 1 column 98"}}
        {"jsonrpc":"2.0","error":{"code":-32600,"message":"the body is not a JSON-RPC request: the message: `progress` stands there twice at line 1 column 84"}}
        {"jsonrpc":"2.0","error":{"code":-32600,"message":"the body is not a JSON-RPC request: the message: `action` stands there twice at line 1 column 61"}}
        "#);
    }

    #[test]
    fn a_batch_is_taken_apart_and_what_is_no_message_is_told_apart() {
        let batch = r#"[
            {"jsonrpc":"2.0","id":1,"method":"ping"},
            {"jsonrpc":"2.0","method":"notifications/initialized"},
            7,
            {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","name":"b"}},
            {"jsonrpc":"2.0","id":1,"method":"ping"},
            {"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}
        ]"#;
        let told: Vec<String> = read_batch(batch.as_bytes())
            .unwrap()
            .iter()
            .map(|message| match message {
                Ok(ClientJsonRpcMessage::Request(_)) => "a request".to_owned(),
                Ok(_) => "another message".to_owned(),
                Err(rejection) => told(rejection),
            })
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        a request
        another message
        {"jsonrpc":"2.0","error":{"code":-32600,"message":"the body is not a JSON-RPC request: it has to be an object"}}
        {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"the message: `name` stands there twice at line 1 column 73"}}
        {"jsonrpc":"2.0","error":{"code":-32600,"message":"the body is not a JSON-RPC request: a request with the same `id` is not answered yet"}}
        {"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"the body is not a JSON-RPC request: `initialize` can't be part of a batch"}}
        "#);
    }

    #[test]
    fn a_batch_that_is_empty_or_too_large_is_refused_whole() {
        let many = |count: usize| format!("[{}]", vec!["1"; count].join(","));
        assert!(read_batch(many(BATCH_MAX).as_bytes()).is_ok());
        for (batch, words) in [
            ("[]".to_owned(), "empty"),
            (many(BATCH_MAX + 1), "more than 64"),
            ("[1".to_owned(), "not JSON"),
            ("[".repeat(200), "deeper"),
        ] {
            let refusal = read_batch(batch.as_bytes()).unwrap_err().to_string();
            assert!(refusal.contains(words), "{refusal}");
        }
    }

    /// Messages of a session, the last one a batch of the others.
    fn messages() -> Vec<String> {
        let mut all = [
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"elicitation":{}},"clientInfo":{"name":"a","version":"1"}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"a","arguments":{"b":[1,{"c":null}]},"_meta":{"progressToken":7}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"2","reason":"no"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"ok":true}}}"#,
            r#"{"jsonrpc":"2.0","id":8,"error":{"code":-1,"message":"no"}}"#,
        ]
        .map(str::to_owned)
        .to_vec();
        all.push(format!("[{}]", all.join(",")));
        all
    }

    const WORDS: &[&str] = &[
        "2.0", "id", "method", "params", "result", "error", "name", "ping",
    ];

    proptest! {
        /// What goes on to the session is what every other reader finds there, each key once.
        #[test]
        fn whatever_comes_goes_on_as_it_is_or_is_refused_in_words(
            message in prop::sample::select(messages()),
            changes in changes(WORDS),
            edits in edits(),
        ) {
            let whole: Value = serde_json::from_str(&message).unwrap();
            let other = changed(&whole, &changes).to_string();
            for body in [&edited(message.as_bytes(), &edits), &edited(other.as_bytes(), &edits)] {
                let _ = is_batch(body);
                match read(body) {
                    Ok(_) => {
                        let found: Value = serde_json::from_slice(body).unwrap();
                        prop_assert_eq!(&found["jsonrpc"], "2.0");
                        prop_assert!(check(body).is_ok());
                    }
                    Err(rejection) => prop_assert!(!told(&rejection).is_empty()),
                }
                if let Ok(parts) = read_batch(body) {
                    // Other readers refuse a number in a message that is refused alone here.
                    let Ok(found) = serde_json::from_slice::<Vec<Value>>(body) else {
                        continue;
                    };
                    prop_assert_eq!(parts.len(), found.len());
                    prop_assert!(parts.len() <= BATCH_MAX);
                    let requests = parts.iter().filter_map(|part| match part {
                        Ok(ClientJsonRpcMessage::Request(request)) => Some(request.id.clone()),
                        _ => None,
                    });
                    let ids: Vec<_> = requests.collect();
                    prop_assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
                }
            }
        }
    }
}
