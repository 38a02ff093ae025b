//! Write a tool for Longshore, the host for long-running
//! tools.
//!
//! A tool is a plain function with typed arguments. One macro line registers it:
//!
//! ```
//! use longshore_plugin::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Greet {
//!     /// Whom to greet.
//!     name: String,
//! }
//!
//! fn greet(_: &Context, args: Greet) -> Result<String> {
//!     Ok(format!("Hello, {}!", args.name))
//! }
//!
//! longshore_plugin::export! {
//!     tool("greet", "Greets somebody.", greet).inline(),
//! }
//! # fn main() {}
//! ```
//!
//! The doc comments become the descriptions in the schema that clients see and the host enforces.
//!
//! A plugin is a crate of its own with `crate-type = ["cdylib"]`, built for `wasm32-wasip2`. It
//! needs `serde` and `schemars` beside this crate, for their derives, and a `plugin.toml` that says
//! what it is and which grants it asks for:
//!
//! ```toml
//! name = "greeter"
//! version = "0.1.0"
//! description = "Greets people."
//! component = "greeter.wasm"
//!
//! [grants] # nothing is reachable that is not asked for here and given by the operator
//! http = [{ host = "api.example.com", why = "to look up how people like to be greeted" }]
//! ```
//!
//! # A slow tool
//!
//! ```
//! use longshore_plugin::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Sync {
//!     /// The records to send.
//!     records: Vec<String>,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Synced {
//!     sent: u64,
//! }
//!
//! fn sync(ctx: &Context, args: Sync) -> Result<Structured<Synced>> {
//!     let total = args.records.len() as u64;
//!     if !ctx.confirm("send", format!("Send {total} records?"))? {
//!         fail!("nothing was sent, as you decided");
//!     }
//!     ctx.external_reference("batch 17", Some("https://example.org/batches/17"));
//!     // Where an earlier run left off: after a crash, a deployment or a day of waiting.
//!     let mut sent: u64 = ctx.saved_state()?.unwrap_or(0);
//!     for record in args.records.iter().skip(sent as usize) {
//!         // At most once, also when this run dies and another one comes this way.
//!         let _receipt: String = ctx.step(&format!("send {record}"), || Ok(record.to_uppercase()))?;
//!         sent += 1;
//!         ctx.progress_of(sent, total, format!("{sent}/{total} sent"));
//!         // Saves the place, and stops here when the task was cancelled.
//!         ctx.checkpoint(&sent)?;
//!     }
//!     Ok(Structured::with_text(Synced { sent }, format!("{sent} records sent")))
//! }
//!
//! longshore_plugin::export! {
//!     tool("sync", "Sends records to the archive.", sync)
//!         .task()
//!         .recovery(Recovery::Resume)
//!         .cancellation("Stops after the record being sent; what was sent stays sent.")
//!         .asks_effect("send", "whether anything is sent at all"),
//! }
//!
//! # fn main() {
//! // The same functions run natively in tests, against a double of the host.
//! let host = longshore_plugin::testing::Host::new().answering("send", serde_json::json!({ "confirm": true }));
//! let output = host.call(&tools(), "sync", serde_json::json!({ "records": ["a", "b"] })).unwrap();
//! assert_eq!(output.joined_text(), "2 records sent");
//! assert_eq!(host.steps(), ["send a", "send b"]);
//!
//! let host = longshore_plugin::testing::Host::new().declining("send");
//! let error = host.call(&tools(), "sync", serde_json::json!({ "records": ["a"] })).unwrap_err();
//! assert_eq!(error, Error::failed("nothing was sent, as you decided"));
//! # }
//! ```
//!
//! # Errors
//!
//! Any [`std::error::Error`] ends a tool with `?`: the caller gets a result that is marked as an
//! error. [`fail!`] does so with words of your own. [`Error::invalid_arguments`] and
//! [`Error::rpc`] refuse the call itself, and a task then ends failed.
//!
//! # Cancel
//!
//! A cancel reaches a tool at a checkpoint, a step or a question, as [`Error::Stopped`]; `?` ends
//! the tool there. To clean up first, look at the error:
//!
//! ```
//! # use longshore_plugin::prelude::*;
//! # fn work(ctx: &Context) -> Result<()> {
//! # fn remove_the_partial_file() {}
//! if let Err(error) = ctx.checkpoint(&1) {
//!     if error.is_stopped() {
//!         remove_the_partial_file();
//!         return Err(Error::cancelled("the partial file was removed"));
//!     }
//!     return Err(error);
//! }
//! # Ok(()) }
//! ```

#[rustfmt::skip]
#[doc(hidden)]
pub mod bindings;
mod context;
mod error;
#[doc(hidden)]
pub mod guest;
#[cfg(feature = "http")]
pub mod http;
#[cfg(target_arch = "wasm32")]
mod imports;
mod input;
mod output;
mod schema;
mod state;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod tool;

#[cfg(target_arch = "wasm32")]
use imports as hooks;
#[cfg(not(target_arch = "wasm32"))]
use testing as hooks;

pub use context::Context;
pub use error::{Error, Result, Stopped};
pub use input::{Answers, InputRequest, Response, Root, Sampled, Sampling};
pub use output::{Content, IntoOutput, Output, ResourceBody, Structured};
pub use schema::form as form_schema;
pub use state::State;
pub use tool::{Execution, NoArguments, Recovery, Tool, tool};

/// What nearly every tool needs.
pub mod prelude {
    pub use std::time::Duration;

    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};

    pub use crate::{
        Content, Context, Error, InputRequest, NoArguments, Output, Recovery, Response, Result,
        Sampling, Structured, fail, tool,
    };
}

/// Registers the tools of a plugin: once in a crate, one [`tool`] a line.
///
/// It also makes a function `tools()`, by which tests call them.
#[macro_export]
macro_rules! export {
    ($($tool:expr),+ $(,)?) => {
        /// The tools of this plugin.
        pub fn tools() -> ::std::vec::Vec<$crate::Tool> {
            #[allow(unused_imports, reason = "the prelude may have brought it")]
            use $crate::tool;
            ::std::vec![$($tool),+]
        }

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Component;

            impl $crate::bindings::exports::longshore::plugin::tools::Guest for Component {
                fn list_tools() -> ::std::vec::Vec<$crate::bindings::longshore::plugin::types::Tool> {
                    $crate::guest::list_tools(&tools())
                }

                fn call_tool(
                    name: ::std::string::String,
                    arguments: ::std::string::String,
                ) -> ::std::result::Result<
                    $crate::bindings::longshore::plugin::types::Output,
                    $crate::bindings::longshore::plugin::types::ToolError,
                > {
                    $crate::guest::call_tool(&tools(), &$crate::guest::context(), &name, &arguments)
                }
            }

            $crate::bindings::export!(Component with_types_in $crate::bindings);
        };
    };
}

/// The README's tool compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
