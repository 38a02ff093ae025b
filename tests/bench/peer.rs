//! (j) Calls and reads in the newest revision against a server made with rmcp whose handler is
//! native: what a server costs that keeps nothing and has no sandbox.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, DetailedTask,
    GetTaskParams, GetTaskResult, ServerCapabilities, ServerConfig, Task, TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::host::{Host, Place, start_task, until};
use crate::reads::{RIDE, Side};
use crate::table::{Table, Target};
use crate::{Effort, message};

/// Makes this program the server.
pub const FLAG: &str = "--serve-peer";

const SAID: &str = "what the tool found, in a line or two of text";
const PROGRESS: &str = "37/120, 2 failing";

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?;
    let host = place.start().await?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(FLAG);
    let peer = Host::start(command).await?;

    let mut connection = host.connect().await?;
    let script = json!([
        {"do": "progress", "message": PROGRESS, "done": 37, "total": 120},
        {"do": "sleep", "ms": 3_600_000},
    ]);
    let task = start_task(&mut connection, "script_resume", script).await?;
    until(&mut connection, &task, |task| {
        task["statusMessage"] == PROGRESS
    })
    .await?;
    let call = message::call("script_inline", json!([{"do": "say", "text": SAID}]));
    for (what, ours, theirs) in [
        ("tools/call", call.clone(), call),
        ("tasks/get", message::get(&task), message::get("a task")),
    ] {
        for (server, request) in [(&host, &ours), (&peer, &theirs)] {
            let answer = server.connect().await?.result(request).await?;
            let text = answer.to_string();
            let is_right = text.contains(SAID) || text.contains(PROGRESS);
            anyhow::ensure!(is_right, "{what}: {text}");
        }
        let mut sides = [
            Side::new(&host, &ours).await?,
            Side::new(&peer, &theirs).await?,
        ];
        for side in &mut sides {
            side.fleet.ride(RIDE).await?;
        }
        for _ in 0..3 * effort.rounds {
            for (side, process) in sides.iter_mut().zip([&host, &peer]) {
                side.round(process).await?;
            }
        }
        let [ours, theirs] = sides;
        table.row('j', &format!("{what}, 32 connections"), "/s", &ours.rates);
        table.row(
            'j',
            "the same, rmcp with a native handler",
            "/s",
            &theirs.rates,
        );
        let ratio = ours.rates.over(&theirs.rates);
        let name = format!("{what} a second: host / rmcp");
        table.ratio('j', &name, &ratio, Target::AtLeast(1.5));
        table.row('j', "processor time a request, host", "µs", &ours.costs);
        table.row('j', "processor time a request, rmcp", "µs", &theirs.costs);
    }
    Ok(())
}

/// Serves until killed, on as many threads as the host would.
pub fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        eprintln!("listening on http://{}/mcp", listener.local_addr()?);
        // As plain as the host answers: JSON, and no session.
        let config = StreamableHttpServerConfig::default().with_json_response(true);
        let service = StreamableHttpService::new(
            || Ok(Native),
            Arc::new(LocalSessionManager::default()),
            config,
        );
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
            let _ = stream.set_nodelay(true);
        });
        let router = Router::new().route_service("/mcp", service);
        Ok(axum::serve(listener, router).await?)
    })
}

struct Native;

impl ServerHandler for Native {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = said(request.arguments.as_ref().and_then(|all| all.get("script")));
        let text = text.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let time = "2026-07-28T00:00:00.000Z";
        let task = Task::new(request.task_id, TaskStatus::Working, time, time)
            .with_status_message(PROGRESS)
            .with_ttl_ms(86_400_000)
            .with_poll_interval_ms(1_000);
        Ok(GetTaskResult::new(DetailedTask::new(
            task,
            TaskPayload::Working,
        )))
    }
}

/// What the scripted tool does with a script of one word.
fn said(script: Option<&Value>) -> anyhow::Result<String> {
    let text = script.and_then(|script| script[0]["text"].as_str());
    Ok(text.context("a script that says something")?.to_owned())
}
