//! Runs a task's tool in the version the task began with, whatever serves new calls by now.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{Catalog, Tool};
use crate::scheduler::{Call, Run, RunEnd, Runner};
use crate::task::{RpcError, ToolRef};
use crate::wasm::{Component, Grants};

/// JSON-RPC's internal error.
const INTERNAL_ERROR: i32 = -32603;

impl Runner for Catalog {
    fn run(&self, call: Call, run: Run) -> BoxFuture<'static, RunEnd> {
        let catalog = self.clone();
        Box::pin(async move {
            // Compiling an older version anew may take a while; a killed run does not wait for it.
            let resolved = tokio::select! {
                resolved = catalog.resolve(&call.tool) => resolved,
                () = run.killed() => return RunEnd::Abandoned,
            };
            match resolved {
                Ok((component, grants)) => {
                    let tool = catalog.tool(&call.tool);
                    let end = catalog
                        .inner
                        .sandbox
                        .run(component, grants, call, run)
                        .await;
                    match tool {
                        Some(tool) => check_result(&tool, end),
                        None => end,
                    }
                }
                Err(message) => failed(message),
            }
        })
    }
}

/// A result that breaks the tool's own output schema must not reach a client (MCP, tools, "Output
/// Schema"); one that reports a failure need not fit it.
fn check_result(tool: &Tool, end: RunEnd) -> RunEnd {
    let (RunEnd::Returned(result), Some(schema)) = (&end, &tool.output) else {
        return end;
    };
    if result.is_error {
        return end;
    }
    let content: Value = serde_json::from_str(&result.json).unwrap_or_default();
    match content.get("structuredContent") {
        None => failed(format!(
            "the tool `{}` returned no structured result",
            tool.name
        )),
        Some(structured) => match schema.check_output(structured) {
            Ok(()) => end,
            Err(mismatch) => failed(format!(
                "the result of the tool `{}` does not fit its output schema: {mismatch}",
                tool.name
            )),
        },
    }
}

fn failed(message: String) -> RunEnd {
    RunEnd::Failed(RpcError {
        code: INTERNAL_ERROR,
        message,
        data: None,
    })
}

impl Catalog {
    /// The tool that serves now, if it is of the version a task began with.
    fn tool(&self, wanted: &ToolRef) -> Option<Arc<Tool>> {
        let snapshot = self.snapshot();
        let mut tools = snapshot.tools.values();
        tools
            .find(|tool| {
                tool.plugin.digest == wanted.digest
                    && tool.plugin.name == wanted.plugin
                    && tool.declaration.name == wanted.tool
            })
            .cloned()
    }

    /// The component the task began with, and the grants its plugin has now: what an operator took
    /// away stays away from older versions, too (I5). The error is for the client.
    async fn resolve(&self, tool: &ToolRef) -> Result<(Component, Arc<Grants>), String> {
        let snapshot = self.snapshot();
        if let Some(plugin) = snapshot.plugins.get(&tool.plugin)
            && plugin.digest == tool.digest
        {
            return Ok((plugin.component.clone(), plugin.grants.clone()));
        }
        let Some(grants) = snapshot.grants.get(&tool.plugin) else {
            return Err(format!(
                "the plugin `{}` is no longer installed, so its task can't go on",
                tool.plugin
            ));
        };
        match self.inner.sandbox.load_digest(tool.digest).await {
            Ok(Some(component)) => Ok((component, grants.clone())),
            Ok(None) => Err(format!(
                "the version of the plugin `{}` this task began with is gone, so it can't go on; \
                 start it anew",
                tool.plugin
            )),
            Err(error) => {
                tracing::error!(plugin = tool.plugin, digest = %tool.digest, "{error}");
                Err(format!(
                    "the version of the plugin `{}` this task began with can't be loaded",
                    tool.plugin
                ))
            }
        }
    }
}
