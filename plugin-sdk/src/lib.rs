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
//! # Resources and prompts
//!
//! A plugin can be a whole MCP server: things to read under URIs, and prompts that a person starts a
//! conversation with. They run under the same limits and grants as tools, with the same [`Context`].
//!
//! ```
//! use longshore_plugin::prelude::*;
//!
//! const BOOKS: [&str; 2] = ["emma", "persuasion"];
//!
//! #[derive(Deserialize)]
//! struct Page {
//!     book: String,
//!     page: String,
//! }
//!
//! fn page(_: &Context, at: Page) -> Result<Option<String>> {
//!     let exists = BOOKS.contains(&at.book.as_str());
//!     Ok(exists.then(|| format!("This is page {} of {}.", at.page, at.book)))
//! }
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Summary {
//!     /// The book to sum up.
//!     book: String,
//!     /// In how many sentences.
//!     length: Option<String>,
//! }
//!
//! fn summary(_: &Context, args: Summary) -> Result<String> {
//!     let length = args.length.unwrap_or("three".into());
//!     Ok(format!("Sum up {} in {length} sentences.", args.book))
//! }
//!
//! longshore_plugin::export! {
//!     tool("count", "Counts the books.", |_, _: NoArguments| Ok(BOOKS.len().to_string())),
//!     resource("books://all", "All books", |_| Ok(BOOKS.join("\n"))).mime_type("text/plain"),
//!     template("books://{book}/{page}", "A page", page).mime_type("text/plain"),
//!     prompt("summary", "Sums up a book.", summary)
//!         .complete("book", |_, typed| Suggestions::matching(typed, BOOKS)),
//! }
//!
//! # fn main() {
//! # use longshore_plugin::Subject;
//! let host = longshore_plugin::testing::Host::new();
//! let page = host.read(&offer(), "books://emma/7").unwrap().unwrap();
//! assert_eq!(page.joined_text(), "This is page 7 of emma.");
//! assert!(host.read(&offer(), "books://dracula/7").unwrap().is_none());
//!
//! let summary = host.prompt(&offer(), "summary", serde_json::json!({ "book": "emma" })).unwrap();
//! assert_eq!(summary.joined_text(), "Sum up emma in three sentences.");
//! let books = host.complete(&offer(), Subject::Prompt("summary"), "book", "P", &[]);
//! assert_eq!(books.values, ["persuasion"]);
//! # }
//! ```
//!
//! # Errors
//!
//! Any [`std::error::Error`] ends a tool with `?`: the caller gets a result that is marked as an
//! error. [`fail!`] does so with words of your own, and [`Error::invalid_arguments`] with what the
//! caller can mend. [`Error::rpc`] refuses the call itself, and a task then ends failed.
//!
//! # What outlives a task
//!
//! A plugin that asks for the grant `state` keeps small values of each tenant, durable and shared by
//! all its runs. [`State::update`] changes one together with the others:
//!
//! ```
//! # use longshore_plugin::prelude::*;
//! # fn main() -> Result<()> {
//! # let host = longshore_plugin::testing::Host::new();
//! # let ctx = host.context();
//! let runs = ctx.state().update("runs", |runs: Option<u64>| Ok(runs.unwrap_or(0) + 1))?;
//! assert_eq!(runs, 1);
//! # Ok(()) }
//! ```
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
mod completion;
mod contents;
mod context;
mod error;
#[doc(hidden)]
pub mod guest;
#[cfg(feature = "http")]
pub mod http;
#[cfg(target_arch = "wasm32")]
mod imports;
mod input;
mod offer;
mod output;
mod prompt;
mod resource;
mod schema;
#[rustfmt::skip]
#[doc(hidden)]
pub mod server_bindings;
mod state;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod tool;
mod uri_template;

#[cfg(target_arch = "wasm32")]
use imports as hooks;
#[cfg(not(target_arch = "wasm32"))]
use testing as hooks;

pub use completion::{Suggestions, Typed};
pub use contents::{Body, Contents, IntoContents};
pub use context::{Context, LogLevel};
pub use error::{Error, Result, Stopped};
pub use input::{Answers, InputRequest, Response, Root, Sampled, Sampling};
pub use offer::{Offer, Offered, Subject};
pub use output::{Content, IntoOutput, Output, ResourceBody, Structured};
pub use prompt::{Conversation, Message, Prompt, Role, prompt};
pub use resource::{Resource, Template, resource, template};
pub use schema::form as form_schema;
pub use state::State;
pub use tool::{Execution, NoArguments, Recovery, Tool, tool};

/// What nearly every tool needs.
pub mod prelude {
    pub use std::time::Duration;

    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};

    pub use crate::{
        Content, Contents, Context, Conversation, Error, InputRequest, LogLevel, NoArguments,
        Output, Recovery, Response, Result, Sampling, Structured, Suggestions, Typed, fail, prompt,
        resource, template, tool,
    };
}

/// Registers what a plugin offers: once in a crate, one [`tool`](tool()), [`resource`](resource()),
/// [`template`](template()) or [`prompt`](prompt()) a line.
///
/// A plugin whose lines are all `tool(…)` and methods is a component of the world `plugin`; any other
/// line makes it one of the world `server`. It also makes the functions by which tests call them:
/// `tools()`, and in a server `offer()`.
#[macro_export]
macro_rules! export {
    ($(tool($($tool:tt)*) $(.$method:ident($($argument:tt)*))*),+ $(,)?) => {
        /// The tools of this plugin.
        pub fn tools() -> ::std::vec::Vec<$crate::Tool> {
            ::std::vec![$($crate::tool($($tool)*)$(.$method($($argument)*))*),+]
        }

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Component;

            $crate::__export_tools!(Component, $crate::bindings);
            $crate::bindings::export!(Component with_types_in $crate::bindings);
        };
    };
    ($($line:expr),+ $(,)?) => {
        /// All that this plugin offers.
        pub fn offer() -> $crate::Offer {
            #[allow(unused_imports, reason = "the prelude may have brought them")]
            use $crate::{prompt, resource, template, tool};
            $crate::Offer::default()$(.with($line))+
        }

        /// The tools of this plugin.
        pub fn tools() -> ::std::vec::Vec<$crate::Tool> {
            offer().tools
        }

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            struct Component;

            $crate::__export_tools!(Component, $crate::server_bindings);
            $crate::__export_server!(Component);
            $crate::server_bindings::export!(Component with_types_in $crate::server_bindings);
        };
    };
}

/// The exports that both worlds have.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_tools {
    ($component:ident, $($bindings:tt)+) => {
        impl $($bindings)+::exports::longshore::plugin::tools::Guest for $component {
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
    };
}

/// The exports that only a server has.
#[doc(hidden)]
#[macro_export]
macro_rules! __export_server {
    ($component:ident) => {
        use $crate::bindings::longshore::plugin::types;
        use $crate::server_bindings::exports::longshore::plugin::{completion, prompts, resources};

        impl resources::Guest for $component {
            fn list_resources() -> resources::ResourceList {
                $crate::guest::list_resources(&offer())
            }

            fn read_resource(
                uri: ::std::string::String,
            ) -> ::std::result::Result<
                ::std::vec::Vec<types::EmbeddedResource>,
                resources::ResourceError,
            > {
                $crate::guest::read_resource(&offer(), &$crate::guest::context(), &uri)
            }
        }

        impl prompts::Guest for $component {
            fn list_prompts() -> ::std::vec::Vec<prompts::Prompt> {
                $crate::guest::list_prompts(&offer())
            }

            fn get_prompt(
                name: ::std::string::String,
                arguments: ::std::vec::Vec<(::std::string::String, ::std::string::String)>,
            ) -> ::std::result::Result<prompts::Conversation, prompts::PromptError> {
                $crate::guest::get_prompt(&offer(), &$crate::guest::context(), &name, &arguments)
            }
        }

        impl completion::Guest for $component {
            fn complete(
                subject: completion::Subject,
                argument: ::std::string::String,
                value: ::std::string::String,
                chosen: ::std::vec::Vec<(::std::string::String, ::std::string::String)>,
            ) -> completion::Suggestions {
                let context = $crate::guest::context();
                $crate::guest::complete(&offer(), &context, &subject, &argument, &value, &chosen)
            }
        }
    };
}

/// The README's tool compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
