//! Runs a task's tool in the version the task began with, whatever serves new calls by now.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::grants::effective;
use super::manifest::{Asked, MANIFEST_FILE, Manifest};
use super::naming::seen_name;
use super::{Catalog, Tool};
use crate::config::Given;
use crate::scheduler::{Call, Operation, Run, RunEnd, Runner};
use crate::task::{RpcError, ToolRef};
use crate::wasm::{Component, Grants};

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
                    let tool = match &call.operation {
                        Operation::CallTool => catalog.tool(&call.tool),
                        _ => None,
                    };
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
    let (json, is_error) = match &end {
        RunEnd::Returned(result) => (result.json.as_str(), result.is_error),
        RunEnd::ReturnedLarge(large) => large.shown(),
        _ => return end,
    };
    let Some(schema) = tool.output.as_ref().filter(|_| !is_error) else {
        return end;
    };
    let content: Value = serde_json::from_str(json).unwrap_or_default();
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
    RunEnd::Failed(RpcError::internal(message))
}

impl Catalog {
    /// The tool that serves now, if it is of the version a task began with.
    fn tool(&self, wanted: &ToolRef) -> Option<Arc<Tool>> {
        let snapshot = self.snapshot();
        let names =
            [false, true].map(|is_shared| seen_name(&wanted.tool, &wanted.plugin, is_shared));
        let mut tools = names.iter().filter_map(|name| snapshot.tools.get(name));
        let is_wanted = |tool: &&Arc<Tool>| {
            tool.plugin.digest == wanted.digest && tool.plugin.name == wanted.plugin
        };
        tools.find(is_wanted).cloned()
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
        let component = match self.inner.sandbox.load_digest(tool.digest).await {
            Ok(Some(component)) => component,
            Ok(None) => {
                return Err(format!(
                    "the version of the plugin `{}` this task began with is gone, so it can't go \
                     on; start it anew",
                    tool.plugin
                ));
            }
            Err(error) => {
                tracing::error!(plugin = tool.plugin, digest = %tool.digest, "{error}");
                return Err(format!(
                    "the version of the plugin `{}` this task began with can't be loaded",
                    tool.plugin
                ));
            }
        };
        let grants = match snapshot.grants.get(&tool.plugin) {
            Some(grants) => grants.clone(),
            None => self.kept_grants(tool).await,
        };
        Ok((component, grants))
    }

    /// What a plugin that was removed before this start asked for and is still given; nothing if
    /// its manifest is lost.
    async fn kept_grants(&self, tool: &ToolRef) -> Arc<Grants> {
        let kept = &self.inner.sandbox;
        let asked = match kept.read_manifest(tool.digest, &tool.plugin).await {
            Ok(Some(text)) => Manifest::parse(&text, Path::new(MANIFEST_FILE))
                .map(|manifest| manifest.grants)
                .map_err(|error| error.to_string()),
            Ok(None) => Err("it is not there".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let asked = asked.unwrap_or_else(|reason| {
            let plugin = &tool.plugin;
            tracing::warn!(
                plugin,
                "its task runs without grants: the kept manifest: {reason}"
            );
            Asked::default()
        });
        let none = Given::default();
        let given = self.inner.given.get(&tool.plugin).unwrap_or(&none);
        Arc::new(effective(&asked, given))
    }
}
