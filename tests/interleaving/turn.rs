//! What a client of each kind does between coming and going.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::{Client, LegacyClient, Setup, StdioHost};
use crate::tasks::{accept, script, text, wait};

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Modern with Tasks.
    Tasks,
    /// Modern without.
    Rounds,
    Legacy,
    /// Over `longshore stdio`, which is a bridge here.
    Bridge,
    LegacyBridge,
}

pub const KINDS: [Kind; 5] = [
    Kind::Tasks,
    Kind::Rounds,
    Kind::Legacy,
    Kind::Bridge,
    Kind::LegacyBridge,
];

/// What a client does in one turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    Call,
    Ask,
    Cancel,
    /// Never ends by itself.
    Wait,
    /// Follows the host's own messages; never ends by itself.
    Listen,
}

pub const ACTS: [Act; 5] = [Act::Call, Act::Ask, Act::Cancel, Act::Wait, Act::Listen];

/// One turn: who, what, and a word that no other turn knows.
pub struct Turn {
    pub url: String,
    pub setup: Arc<Setup>,
    pub act: Act,
    /// Whether it calls the tool that holds more: one that waits in memory for its answer, one that goes
    /// on when it is left.
    pub holds: bool,
    pub mark: String,
}

impl Turn {
    pub async fn take(self, kind: Kind) {
        match kind {
            Kind::Tasks => self.with_tasks().await,
            Kind::Rounds => self.in_rounds().await,
            Kind::Legacy => self.in_a_session().await,
            Kind::Bridge => self.over_a_bridge().await,
            Kind::LegacyBridge => self.in_a_session_over_a_bridge().await,
        }
    }

    /// Tells its progress and its mark, which must come back to this client and to no other.
    fn says(&self) -> Value {
        script(json!([
            {"do": "progress", "message": self.mark},
            {"do": "wait", "ms": 50},
            {"do": "say", "text": self.mark},
        ]))
    }

    /// For a client with Tasks, and for one without.
    fn asking_tool(&self, with_tasks: bool) -> &'static str {
        match (with_tasks, self.holds) {
            (true, true) => "script_fail",
            (true, false) => "script_resume",
            (false, true) => "script_once",
            (false, false) => "script_auto",
        }
    }

    /// For a client without Tasks.
    fn called_tool(&self) -> &'static str {
        match self.holds {
            true => "script_detach",
            false => "script_inline",
        }
    }

    fn asks(&self) -> Value {
        script(json!([
            {"do": "confirm", "key": "go", "message": self.mark},
            {"do": "say", "text": self.mark},
        ]))
    }

    fn waits(&self) -> Value {
        script(json!([{"do": "progress", "message": self.mark}, wait()]))
    }

    fn check(&self, result: &Value) {
        let text = text(result);
        assert!(text.ends_with(&self.mark), "{}: {result:#}", self.mark);
    }

    fn params(&self, tool: &str, arguments: Value) -> Value {
        json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": self.mark}})
    }

    async fn with_tasks(self) {
        let client = Client::new(&self.url);
        match self.act {
            Act::Call => {
                let id = client.start("script_resume", self.says()).await;
                let task = client.until_status(&id, "completed").await;
                self.check(&task["result"]);
            }
            Act::Ask => {
                let id = client.start(self.asking_tool(true), self.asks()).await;
                let asked = client.until_asked(&id).await;
                assert_eq!(asked["go"]["params"]["message"], self.mark);
                let yes = json!({"go": accept(json!({"confirm": true}))});
                client.answer(&id, yes).await.result();
                let task = client.until_status(&id, "completed").await;
                self.check(&task["result"]);
            }
            Act::Cancel => {
                let id = client.start("script_resume", self.waits()).await;
                client.cancel(&id).await.result();
                client.until_status(&id, "cancelled").await;
            }
            Act::Wait => {
                let id = client.start("script_restart", self.waits()).await;
                client.until_status(&id, "completed").await;
            }
            Act::Listen => listen(&client).await,
        }
    }

    async fn in_rounds(self) {
        let client = Client::new(&self.url).without_tasks();
        match self.act {
            Act::Call => {
                let mut stream = client
                    .stream("tools/call", self.params(self.called_tool(), self.says()))
                    .await;
                while let Some(message) = stream.next().await {
                    match message.get("method") {
                        Some(_) => assert_eq!(message["params"]["progressToken"], self.mark),
                        None => self.check(&message["result"]),
                    }
                }
            }
            Act::Ask => {
                let mut params = self.params(self.asking_tool(false), self.asks());
                let asked = client.request("tools/call", params.clone()).await.result();
                assert_eq!(asked["inputRequests"]["go"]["params"]["message"], self.mark);
                params["requestState"] = asked["requestState"].clone();
                params["inputResponses"] = json!({"go": accept(json!({"confirm": true}))});
                self.check(&client.request("tools/call", params).await.result());
            }
            // Closing the stream is this era's cancel.
            Act::Cancel => {
                let params = self.params("script_inline", self.waits());
                let mut stream = client.stream("tools/call", params).await;
                stream.next().await.expect("the call tells that it runs");
            }
            Act::Wait => {
                let params = self.params("script_inline", self.waits());
                client.request("tools/call", params).await;
            }
            Act::Listen => listen(&client).await,
        }
    }

    async fn in_a_session(self) {
        let client = LegacyClient::open(&self.url, "2025-11-25").await;
        let token = Some(self.mark.as_str());
        match self.act {
            Act::Call => {
                let answer = client.call(self.called_tool(), self.says()).await;
                self.check(&answer["result"]);
                assert_eq!(client.delete().await, 202);
            }
            Act::Ask => {
                let mut stream = client
                    .call_stream(self.asking_tool(false), self.asks(), None)
                    .await;
                while let Some(message) = stream.next().await {
                    if message["method"] == "elicitation/create" {
                        assert_eq!(message["params"]["message"], self.mark);
                        let yes = json!({"result": accept(json!({"confirm": true}))});
                        client.respond(&message["id"], yes).await;
                    } else if message.get("method").is_none() {
                        self.check(&message["result"]);
                    }
                }
            }
            Act::Cancel => {
                let mut stream = client
                    .call_stream("script_inline", self.waits(), token)
                    .await;
                stream.next().await.expect("the call tells that it runs");
                let call = json!({"requestId": stream.id});
                client.notify("notifications/cancelled", call).await;
                while stream.next().await.is_some() {}
            }
            Act::Wait => {
                let _stream = client
                    .call_stream("script_inline", self.waits(), token)
                    .await;
                std::future::pending::<()>().await;
            }
            Act::Listen => while client.get(None).await.next().await.is_some() {},
        }
    }

    async fn over_a_bridge(self) {
        let mut host = StdioHost::start(&self.setup);
        match self.act {
            Act::Call => {
                let called = host
                    .request("tools/call", self.params("script_inline", self.says()))
                    .await;
                self.check(&called["result"]);
            }
            Act::Ask => {
                let params = json!({"name": self.asking_tool(true), "arguments": self.asks()});
                let task = host.request("tools/call", params).await;
                let id = task["result"]["taskId"].clone();
                let yes = json!({"go": accept(json!({"confirm": true}))});
                let answer = json!({"taskId": id, "inputResponses": yes});
                loop {
                    let task = host.request("tasks/get", json!({"taskId": id})).await;
                    match task["result"]["status"].as_str() {
                        Some("working") => {}
                        Some("input_required") => {
                            host.request("tasks/update", answer.clone()).await;
                        }
                        _ => break self.check(&task["result"]["result"]),
                    }
                }
            }
            Act::Cancel => {
                let call = host
                    .ask("tools/call", self.params("script_inline", self.waits()))
                    .await;
                host.next().await.expect("the call tells that it runs");
                host.send(&json!({
                    "jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"requestId": call},
                }))
                .await;
            }
            Act::Wait => {
                host.request("tools/call", self.params("script_inline", self.waits()))
                    .await;
            }
            Act::Listen => {
                let all = json!({"notifications": {"toolsListChanged": true}});
                host.ask("subscriptions/listen", all).await;
                while host.next().await.is_some() {}
            }
        }
        assert!(host.end().await.success());
    }

    async fn in_a_session_over_a_bridge(self) {
        let mut host = StdioHost::start(&self.setup);
        host.initialize().await;
        match self.act {
            Act::Call => {
                let params = self.params(self.called_tool(), self.says());
                let call = host.ask_bare("tools/call", params).await;
                self.check(&host.answer(&call).await["result"]);
            }
            Act::Ask => {
                let params = json!({"name": self.asking_tool(false), "arguments": self.asks()});
                let call = host.ask_bare("tools/call", params).await;
                let question = host.next().await.expect("the tool asks");
                assert_eq!(question["params"]["message"], self.mark);
                host.send(&json!({
                    "jsonrpc": "2.0", "id": question["id"],
                    "result": accept(json!({"confirm": true})),
                }))
                .await;
                self.check(&host.answer(&call).await["result"]);
            }
            Act::Cancel => {
                let params = self.params("script_inline", self.waits());
                let call = host.ask_bare("tools/call", params).await;
                host.next().await.expect("the call tells that it runs");
                host.send(&json!({
                    "jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"requestId": call},
                }))
                .await;
            }
            Act::Wait => {
                let params = self.params("script_inline", self.waits());
                let call = host.ask_bare("tools/call", params).await;
                host.answer(&call).await;
            }
            Act::Listen => while host.next().await.is_some() {},
        }
        assert!(host.end().await.success());
    }
}

async fn listen(client: &Client) {
    let all = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = client.stream("subscriptions/listen", all).await;
    while stream.next().await.is_some() {}
}
