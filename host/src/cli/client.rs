//! A small MCP client (revision 2026-07-28 with the Tasks extension) over HTTP. It knows the
//! protocol's methods and nothing of terminals.

mod exchange;
mod room;

use std::time::Duration;

use reqwest::Response;
use serde_json::{Map, Value, json};

use super::sse::Parser;
use super::wire::{ClientError, Progress, Reply, Round, TaskState, ToolInfo};
use exchange::{Endpoint, Message, is_event_stream, next_message, param_headers, read_answer};
use room::Room;

/// Where a host listens that was told nothing else.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7331/mcp";
pub const URL_VARIABLE: &str = "LONGSHORE_URL";

/// For requests that are answered at once; a call may take as long as its tool does.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// A host with more pages than these is going round in circles.
const PAGES_MAX: usize = 1_000;

/// Speaks to one host.
pub struct Client {
    endpoint: Endpoint,
}

/// A request that a plugin answers: it may take its time, and ask before it does.
pub struct Request {
    method: &'static str,
    /// The tool, the prompt or the URI it is about.
    pub name: String,
    params: Map<String, Value>,
    headers: Vec<(String, String)>,
}

impl Request {
    pub fn call(tool: &ToolInfo, arguments: Map<String, Value>) -> Request {
        let headers = param_headers(&tool.input_schema, &arguments);
        Request {
            headers,
            ..Request::named("tools/call", &tool.name, arguments)
        }
    }

    pub fn read(uri: &str) -> Request {
        Request {
            method: "resources/read",
            name: uri.to_owned(),
            params: Map::from_iter([("uri".to_owned(), uri.into())]),
            headers: Vec::new(),
        }
    }

    pub fn prompt(name: &str, arguments: Map<String, Value>) -> Request {
        Request::named("prompts/get", name, arguments)
    }

    /// What whoever waits for it is told.
    pub fn doing(&self) -> &'static str {
        match self.method {
            "tools/call" => "calling",
            "resources/read" => "reading",
            _ => "asking for",
        }
    }

    fn named(method: &'static str, name: &str, arguments: Map<String, Value>) -> Request {
        let params = [
            ("name".to_owned(), name.into()),
            ("arguments".to_owned(), arguments.into()),
        ];
        Request {
            method,
            name: name.to_owned(),
            params: Map::from_iter(params),
            headers: Vec::new(),
        }
    }
}

/// An open `subscriptions/listen` stream for one task.
pub struct Listening {
    response: Response,
    parser: Parser,
}

impl Client {
    /// A client of the host whose MCP endpoint is at `url`.
    pub fn new(url: &str, token: Option<String>) -> Result<Client, ClientError> {
        let endpoint = Endpoint::new(url, token)?;
        Ok(Client { endpoint })
    }

    /// What a command needs to be told to reach this host, for commands that are shown to a person.
    pub fn flags(&self) -> String {
        let usual = std::env::var(URL_VARIABLE).unwrap_or_else(|_| DEFAULT_URL.to_owned());
        let url = self.endpoint.url().as_str();
        let is_word = |c: char| c.is_ascii_alphanumeric() || ":/.-_[]%".contains(c);
        match url.chars().all(is_word) {
            _ if url == usual => String::new(),
            true => format!(" --url {url}"),
            // A shell would take it apart.
            false => format!(" --url '{}'", url.replace('\'', "%27")),
        }
    }

    /// Every tool of the host.
    pub async fn tools(&self) -> Result<Vec<ToolInfo>, ClientError> {
        let tools = self.pages("tools/list", "tools").await?;
        serde_json::from_value(tools.into())
            .map_err(|error| ClientError::Malformed(format!("tools/list: {error}")))
    }

    /// All items of a list that comes in pages, as they came.
    pub async fn pages(
        &self,
        method: &'static str,
        member: &str,
    ) -> Result<Vec<Value>, ClientError> {
        let mut items = Vec::new();
        let mut params = Map::new();
        let mut room = Room::new();
        for _ in 0..PAGES_MAX {
            let mut page = self
                .ask_within(&mut room, method, params.clone(), None)
                .await?;
            match page.get_mut(member).map(Value::take) {
                Some(Value::Array(more)) => items.extend(more),
                _ => return Err(ClientError::Malformed(format!("{method} without {member}"))),
            }
            match page.get("nextCursor") {
                Some(cursor) => params.insert("cursor".to_owned(), cursor.clone()),
                None => break,
            };
        }
        Ok(items)
    }

    /// Sends a request to a plugin; `round` carries answers to the questions of an earlier reply.
    pub async fn send(
        &self,
        request: &Request,
        round: Option<&Round>,
        on_progress: impl FnMut(Progress),
    ) -> Result<Reply, ClientError> {
        let mut params = request.params.clone();
        if let Some(round) = round {
            params.insert("inputResponses".to_owned(), round.responses.clone().into());
            if let Some(state) = &round.request_state {
                params.insert("requestState".to_owned(), state.clone().into());
            }
        }
        let message = Message {
            method: request.method,
            params,
            name: Some(&request.name),
            headers: &request.headers,
            timeout: None,
        };
        let (id, response) = self.endpoint.post(message).await?;
        let result = read_answer(response, id, &mut Room::new(), on_progress).await?;
        match result.get("resultType").and_then(Value::as_str) {
            Some("task") => Ok(Reply::Task(Box::new(TaskState::parse(result)?))),
            Some("input_required") => serde_json::from_value(result)
                .map(Reply::InputRequired)
                .map_err(|error| ClientError::Malformed(format!("questions: {error}"))),
            _ => Ok(Reply::Result(result)),
        }
    }

    pub async fn task(&self, id: &str) -> Result<TaskState, ClientError> {
        let result = self.ask("tasks/get", task_params(id), Some(id)).await?;
        TaskState::parse(result)
    }

    pub async fn answer(&self, id: &str, responses: Map<String, Value>) -> Result<(), ClientError> {
        let mut params = task_params(id);
        params.insert("inputResponses".to_owned(), responses.into());
        self.ask("tasks/update", params, Some(id)).await.map(drop)
    }

    pub async fn cancel(&self, id: &str) -> Result<(), ClientError> {
        let cancelled = self.ask("tasks/cancel", task_params(id), Some(id));
        cancelled.await.map(drop)
    }

    /// What a resource of the host itself holds, which is there at once.
    pub async fn read(&self, uri: &str) -> Result<Value, ClientError> {
        let params = Map::from_iter([("uri".to_owned(), uri.into())]);
        self.ask("resources/read", params, Some(uri)).await
    }

    /// What the task's tool wrote to its output: a method of this host's own, beside MCP's.
    pub async fn log(&self, id: &str) -> Result<Value, ClientError> {
        self.ask("longshore/tasks/log", task_params(id), Some(id))
            .await
    }

    /// The tenant's tasks, newest first: a method of this host's own, too.
    pub async fn tasks(&self) -> Result<Vec<TaskState>, ClientError> {
        let mut tasks = self.pages("longshore/tasks/list", "tasks").await?;
        let mut states = Vec::with_capacity(tasks.len());
        for task in tasks.drain(..) {
            states.push(TaskState::parse(task)?);
        }
        states.sort_by(|a, b| b.created_at.cmp(&a.created_at));
        Ok(states)
    }

    /// Opens a stream of the task's changes; None when the host offers none for it, or says nothing.
    pub async fn listen(&self, id: &str) -> Result<Option<Listening>, ClientError> {
        // The stream itself has no end, so the request has no time-out of its own.
        let opened = tokio::time::timeout(ANSWER_TIMEOUT, self.open_stream(id)).await;
        opened.unwrap_or(Ok(None))
    }

    async fn open_stream(&self, id: &str) -> Result<Option<Listening>, ClientError> {
        let mut params = Map::new();
        params.insert("notifications".to_owned(), json!({ "taskIds": [id] }));
        let (_, response) = self
            .endpoint
            .post(Message {
                method: "subscriptions/listen",
                params,
                name: None,
                headers: &[],
                timeout: None,
            })
            .await?;
        if !is_event_stream(&response) {
            return Ok(None);
        }
        let mut listening = Listening {
            response,
            parser: Parser::default(),
        };
        // The first message says what the host agreed to (MCP, Subscriptions, "Acknowledgment").
        let accepted = listening.next_message().await?;
        let ids = accepted
            .as_ref()
            .and_then(|message| message.pointer("/params/notifications/taskIds")?.as_array());
        let is_accepted = ids.is_some_and(|ids| ids.iter().any(|accepted| accepted == id));
        Ok(is_accepted.then_some(listening))
    }

    /// A request that is answered at once.
    async fn ask(
        &self,
        method: &'static str,
        params: Map<String, Value>,
        name: Option<&str>,
    ) -> Result<Value, ClientError> {
        self.ask_within(&mut Room::new(), method, params, name)
            .await
    }

    /// The same for one of several whose answers are kept together.
    async fn ask_within(
        &self,
        room: &mut Room,
        method: &'static str,
        params: Map<String, Value>,
        name: Option<&str>,
    ) -> Result<Value, ClientError> {
        let message = Message {
            method,
            params,
            name,
            headers: &[],
            timeout: Some(ANSWER_TIMEOUT),
        };
        let (id, response) = self.endpoint.post(message).await?;
        read_answer(response, id, room, |_| {}).await
    }
}

impl Listening {
    /// The task after its next change; None once the stream has ended. Safe to cancel.
    pub async fn changed(&mut self) -> Result<Option<TaskState>, ClientError> {
        while let Some(mut message) = self.next_message().await? {
            if message.get("method").and_then(Value::as_str) == Some("notifications/tasks") {
                return TaskState::parse(message["params"].take()).map(Some);
            }
            if message.get("id").is_some() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    async fn next_message(&mut self) -> Result<Option<Value>, ClientError> {
        next_message(&mut self.response, &mut self.parser).await
    }
}

fn task_params(id: &str) -> Map<String, Value> {
    Map::from_iter([("taskId".to_owned(), id.into())])
}
