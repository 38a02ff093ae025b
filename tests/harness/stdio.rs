//! A `longshore stdio` process, and both sides of its pipes.

use std::collections::HashMap;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::Setup;
use super::record::record;

const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-06-18";

/// A running process; killed when dropped.
pub struct StdioHost {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Option<Lines<BufReader<ChildStdout>>>,
    next_id: u64,
    /// The methods of the requests sent, by id.
    methods: HashMap<String, String>,
    /// What the client speaks.
    revision: &'static str,
}

impl StdioHost {
    pub fn start(setup: &Setup) -> StdioHost {
        StdioHost::start_with(setup, &[])
    }

    pub fn start_with(setup: &Setup, arguments: &[&str]) -> StdioHost {
        let mut command: Command = setup.command("stdio");
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::inherit());
        let mut child = command.spawn().expect("the binary starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        StdioHost {
            stdin: child.stdin.take(),
            lines: Some(BufReader::new(stdout).lines()),
            child,
            next_id: 1,
            methods: HashMap::new(),
            revision: MODERN,
        }
    }

    pub async fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string()).await;
    }

    pub async fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        let line = format!("{line}\n");
        stdin.write_all(line.as_bytes()).await.unwrap();
    }

    /// Reads no more; the process finds its output closed.
    pub fn stop_reading(&mut self) {
        self.lines = None;
    }

    /// The side it writes to, for a test that writes and reads at once.
    pub fn take_input(&mut self) -> ChildStdin {
        self.stdin.take().expect("the input is open")
    }

    /// The process finds the end of its input.
    pub fn end_input(&mut self) {
        drop(self.take_input());
    }

    pub fn pid(&self) -> u32 {
        self.child.id().expect("the process runs")
    }

    /// The next line, which nothing is kept of.
    pub async fn line(&mut self) -> Option<String> {
        let lines = self.lines.as_mut().expect("the output is open");
        lines.next_line().await.unwrap()
    }

    /// The next message; None at the end. A line that is none fails the test: nothing else may be
    /// there.
    pub async fn next(&mut self) -> Option<Value> {
        let line = self.line().await?;
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        self.see(&message);
        Some(message)
    }

    /// The next line that answers a batch; messages before it are passed over.
    pub async fn next_batch(&mut self) -> Vec<Value> {
        loop {
            let line = self.line().await.expect("the batch is answered");
            let batch: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            let Some(answers) = batch.as_array() else {
                self.see(&batch);
                continue;
            };
            record(self.revision, None, &batch);
            for answer in answers {
                self.see(answer);
            }
            return answers.clone();
        }
    }

    fn see(&self, message: &Value) {
        assert_eq!(message["jsonrpc"], "2.0", "{message:#}");
        let answered = message.get("method").is_none();
        let method = self.methods.get(&message["id"].to_string());
        let method = method.filter(|_| answered).map(String::as_str);
        record(self.revision, method, message);
    }

    /// Sends a request of the modern era; its id.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut params = params;
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({
            "elicitation": {"form": {}},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        });
        self.ask_bare(method, params).await
    }

    /// Sends a request as it is; its id.
    pub async fn ask_bare(&mut self, method: &str, params: Value) -> Value {
        let id = Value::from(self.next_id);
        self.next_id += 1;
        self.methods.insert(id.to_string(), method.to_owned());
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    /// Reads until the answer to `id`; what comes before is passed over.
    pub async fn answer(&mut self, id: &Value) -> Value {
        loop {
            let message = self.next().await.expect("the request is answered");
            if message["id"] == *id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Asks and waits.
    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(&id).await
    }

    /// A handshake of the legacy era.
    pub async fn initialize(&mut self) -> Value {
        self.initialize_as(LEGACY).await
    }

    pub async fn initialize_as(&mut self, revision: &'static str) -> Value {
        let params = json!({
            "protocolVersion": revision,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "tests", "version": "1"},
        });
        self.revision = revision;
        let id = self.ask_bare("initialize", params).await;
        let answer = self.answer(&id).await;
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        answer["result"].clone()
    }

    /// Sends SIGTERM once the process watches for it, and waits for its end.
    pub async fn terminate(mut self) -> ExitStatus {
        let pid = self.pid();
        // A process that does not watch for a signal yet is ended by it.
        let watches = |status: &str| {
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = u64::from_str_radix(caught.unwrap_or("0").trim(), 16).unwrap();
            caught & (1 << (Signal::TERM.as_raw() - 1)) != 0
        };
        while !watches(&std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap()) {
            tokio::task::yield_now().await;
        }
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        self.child.wait().await.unwrap()
    }

    /// Ends the input and waits for the process, whose output must have ended with it.
    pub async fn end(mut self) -> ExitStatus {
        self.end_input();
        self.ended().await
    }

    /// Waits for the process, whose input has ended.
    pub async fn ended(mut self) -> ExitStatus {
        while self.lines.is_some() && self.next().await.is_some() {}
        self.child.wait().await.unwrap()
    }
}
