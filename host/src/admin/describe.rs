//! What a plugin is, for whoever must know before they trust it: read without serving it or giving it
//! anything. It has no words of its own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::shelf::read_as;
use super::{Admin, AdminError};
use crate::catalog::grants::{Row, compare_with_host, effective};
use crate::catalog::load::{CheckedTool, PluginError, load_component, load_plugin};
use crate::catalog::manifest::Manifest;
use crate::catalog::offers::Offers;
use crate::task::{Digest, Recovery};
use crate::wasm::{Component, Execution};

/// Everything there is to say about a plugin or a bare component.
pub struct Description {
    /// None for a component file on its own that has no name.
    pub manifest: Option<Manifest>,
    pub file: String,
    pub size_bytes: u64,
    pub digest: Digest,
    pub imports: Vec<String>,
    pub tools: Vec<CheckedTool>,
    pub offers: Offers,
    /// Whether it suggests values for arguments.
    pub completes: bool,
    pub grants: Vec<Row>,
}

impl Admin {
    /// The plugin at `path`; a component on its own as if it were called `name`.
    pub async fn inspect(
        &self,
        path: &Path,
        name: Option<&str>,
    ) -> Result<Description, AdminError> {
        let failed = |source: PluginError| AdminError::Plugin {
            path: path.to_owned(),
            source,
        };
        let max_bytes = self.sources.component_max_bytes;
        if !path.is_dir() && name.is_none() {
            let loaded = load_component(&self.sandbox, path, max_bytes).await;
            let (component, tools, offers) = loaded.map_err(failed)?;
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            return Ok(described(file.into_owned(), &component, tools, offers));
        }
        let (manifest, _) = read_as(path, name)?;
        let given = self.given(&manifest.name);
        let grants = Arc::new(effective(&manifest.grants, &given));
        let rows = compare_with_host(&manifest.grants, &given);
        let loaded = load_plugin(&self.sandbox, path, manifest, grants, max_bytes).await;
        let loaded = loaded.map_err(failed)?;
        let file = loaded.manifest.component.display().to_string();
        let component = &loaded.plugin.component;
        let mut described = described(file, component, loaded.tools, loaded.offers);
        described.manifest = Some(loaded.manifest);
        described.grants = rows;
        Ok(described)
    }
}

fn described(
    file: String,
    component: &Component,
    tools: Vec<CheckedTool>,
    offers: Offers,
) -> Description {
    Description {
        manifest: None,
        file,
        size_bytes: component.size_bytes(),
        digest: component.digest(),
        imports: component.imports(),
        tools,
        offers,
        completes: component.completes(),
        grants: Vec::new(),
    }
}

impl Description {
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.manifest.as_ref().map(|manifest| &manifest.name),
            "version": self.manifest.as_ref().map(|manifest| &manifest.version),
            "description": self.manifest.as_ref().map(|manifest| &manifest.description),
            "component": {
                "file": self.file,
                "sizeBytes": self.size_bytes,
                "sha256": self.digest.to_string(),
                "imports": self.imports,
            },
            "tools": self.tools.iter().map(tool_json).collect::<Vec<_>>(),
            "resources": resources_json(&self.offers),
            "resourceTemplates": templates_json(&self.offers),
            "prompts": prompts_json(&self.offers),
            "completes": self.completes,
            "grants": self.grants.iter().map(row_json).collect::<Vec<_>>(),
        })
    }
}

/// One row of grants as JSON.
pub fn row_json(row: &Row) -> Value {
    json!({
        "kind": row.kind.as_str(),
        "name": row.name,
        "asked": row.asked,
        "given": row.given,
        "effect": row.effect.as_str(),
        "why": row.why,
    })
}

fn tool_json(tool: &CheckedTool) -> Value {
    let declaration = &tool.declaration;
    let traits = &declaration.traits;
    let schema = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let millis =
        |time: Option<Duration>| time.and_then(|time| u64::try_from(time.as_millis()).ok());
    json!({
        "name": declaration.name,
        "title": declaration.title,
        "description": declaration.description,
        "inputSchema": schema(tool.input.text()),
        "outputSchema": tool.output.as_ref().map(|output| schema(output.text())),
        "traits": {
            "execution": match traits.execution {
                Execution::Inline => "inline",
                Execution::Task => "task",
                Execution::Auto => "auto",
            },
            "recovery": match traits.recovery {
                Recovery::Fail => "fail",
                Recovery::Restart => "restart",
                Recovery::Resume => "resume",
            },
            "cancellation": traits.cancellation,
            "cleanupOnCancel": traits.cleanup_on_cancel,
            "whenLeft": traits.when_left.as_str(),
            "cancelGraceMs": millis(traits.cancel_grace),
            "ttlMs": millis(traits.ttl),
            "pollIntervalMs": millis(traits.poll_interval),
            "questions": traits.questions.iter().map(|question| json!({
                "key": question.key,
                "decides": question.decides,
                "allowsEffect": question.allows_effect,
                "beforeTask": question.before_task,
            })).collect::<Vec<_>>(),
        },
    })
}

pub fn resources_json(offers: &Offers) -> Vec<Value> {
    let resources = offers.resources.iter().map(|resource| {
        json!({
            "uri": resource.uri,
            "name": resource.name,
            "description": resource.description,
            "mimeType": resource.mime_type,
        })
    });
    resources.collect()
}

pub fn templates_json(offers: &Offers) -> Vec<Value> {
    let templates = offers.templates.iter().map(|template| {
        json!({
            "uriTemplate": template.entry.uri_template,
            "name": template.entry.name,
            "description": template.entry.description,
            "mimeType": template.entry.mime_type,
        })
    });
    templates.collect()
}

pub fn prompts_json(offers: &Offers) -> Vec<Value> {
    let prompts = offers.prompts.iter().map(|prompt| {
        let arguments = prompt.arguments.iter().map(|argument| {
            json!({
                "name": argument.name,
                "description": argument.description,
                "required": argument.required,
            })
        });
        json!({
            "name": prompt.name,
            "description": prompt.description,
            "arguments": arguments.collect::<Vec<_>>(),
        })
    });
    prompts.collect()
}
