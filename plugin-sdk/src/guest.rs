//! What the host calls (`tools` in `wit/`), behind the code of [`export!`](crate::export).

use crate::Tool;
use crate::bindings::longshore::plugin::types;
use crate::context::Context;
use crate::error::{self, Error};

/// The hooks of the host that runs this component.
#[cfg(target_arch = "wasm32")]
pub fn context() -> Context {
    Context::new(crate::imports::Hooks)
}

/// `tools.list-tools`.
pub fn list_tools(tools: &[Tool]) -> Vec<types::Tool> {
    tools.iter().map(Tool::declaration).collect()
}

/// `tools.call-tool`.
pub fn call_tool(
    tools: &[Tool],
    context: &Context,
    name: &str,
    arguments: &str,
) -> Result<types::Output, types::ToolError> {
    let called = tools.iter().find(|tool| tool.name() == name);
    error::into_wire(match called {
        Some(tool) => tool.call(context, arguments),
        None => Err(Error::defect(format!("this plugin has no tool `{name}`"))),
    })
}
