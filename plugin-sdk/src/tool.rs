//! A tool: what people must know of it, and the function that runs.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bindings::longshore::plugin::types::{self, WhenLeft};
pub use crate::bindings::longshore::plugin::types::{Execution, Recovery};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::output::{IntoOutput, Output};
use crate::schema;

/// What a host says of a tool whose author said nothing.
const DEFAULT_CANCELLATION: &str =
    "Stops at the next safe place. Nothing is undone and no state is kept.";

/// A tool as [`export!`](crate::export) registers it.
///
/// Without further words it runs [`auto`](Self::auto), a run that is interrupted fails, and it
/// asks nothing. Everything declared here is shown to clients and to whoever installs the plugin.
pub struct Tool {
    declaration: Declaration,
    run: Run,
}

/// Takes the arguments in JSON.
type Run = Box<dyn Fn(&Context, &str) -> Result<Output>>;

struct Declaration {
    name: String,
    title: Option<String>,
    description: String,
    input_schema: Schema,
    output_schema: Schema,
    traits: types::Traits,
    annotations: types::Annotations,
    icons: Vec<types::Icon>,
}

/// A schema is derived only when the tools are listed: a call needs none.
enum Schema {
    Derived(fn() -> Option<Value>),
    Written(String),
}

impl Schema {
    fn text(&self) -> Option<String> {
        match self {
            Schema::Derived(derive) => derive().map(|schema| schema.to_string()),
            Schema::Written(text) => Some(text.clone()),
        }
    }
}

/// The arguments of a tool that takes none.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NoArguments {}

// By hand, so that clients do not read the description of this type.
impl JsonSchema for NoArguments {
    fn schema_name() -> Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> schemars::Schema {
        json_schema!({ "type": "object", "properties": {} })
    }
}

/// Declares a tool: its name, what it does, and the function that does it.
///
/// The function's arguments give the input schema, its result the output schema.
pub fn tool<A, O, F>(name: impl Into<String>, description: impl Into<String>, run: F) -> Tool
where
    A: DeserializeOwned + JsonSchema,
    O: IntoOutput,
    F: Fn(&Context, A) -> Result<O> + 'static,
{
    Tool {
        declaration: Declaration {
            name: name.into(),
            title: None,
            description: description.into(),
            input_schema: Schema::Derived(|| Some(schema::input::<A>())),
            output_schema: Schema::Derived(O::output_schema),
            traits: types::Traits {
                execution: Execution::Auto,
                recovery: Recovery::Fail,
                cancellation: DEFAULT_CANCELLATION.into(),
                cleanup_on_cancel: false,
                cancel_grace_ms: None,
                questions: Vec::new(),
                ttl_ms: None,
                poll_interval_ms: None,
                when_left: WhenLeft::Cancel,
            },
            annotations: types::Annotations {
                read_only: None,
                destructive: None,
                idempotent: None,
                open_world: None,
            },
            icons: Vec::new(),
        },
        run: Box::new(move |context, arguments| {
            let arguments = serde_json::from_str(arguments).map_err(Error::invalid_arguments)?;
            run(context, arguments)?.into_output()
        }),
    }
}

/// How it runs.
impl Tool {
    /// Always answered within the call: for what ends in well under a second.
    pub fn inline(mut self) -> Tool {
        self.declaration.traits.execution = Execution::Inline;
        self
    }

    /// Always a task. A client that takes none is refused, or follows it: see
    /// [`detach_when_left`](Self::detach_when_left).
    pub fn task(mut self) -> Tool {
        self.declaration.traits.execution = Execution::Task;
        self
    }

    /// Answered within the call if it ends soon enough, else a task. This is the default.
    pub fn auto(mut self) -> Tool {
        self.declaration.traits.execution = Execution::Auto;
        self
    }

    /// What happens to a run that a crash, a deployment or parking interrupted.
    pub fn recovery(mut self, recovery: Recovery) -> Tool {
        self.declaration.traits.recovery = recovery;
        self
    }

    /// What a cancel means for this tool, in words a person can act on.
    pub fn cancellation(mut self, words: impl Into<String>) -> Tool {
        self.declaration.traits.cancellation = words.into();
        self
    }

    /// Runs the tool once more after a cancel, even if it was parked, so that it can clean up.
    pub fn cleanup_on_cancel(mut self) -> Tool {
        self.declaration.traits.cleanup_on_cancel = true;
        self
    }

    /// How long after a cancel the tool may go on before it is stopped by force.
    pub fn cancel_grace(mut self, grace: Duration) -> Tool {
        self.declaration.traits.cancel_grace_ms =
            Some(u32::try_from(grace.as_millis()).unwrap_or(u32::MAX));
        self
    }

    /// Lets a call go on as a task when a client that takes no tasks leaves it, instead of stopping
    /// the tool: the call's first progress message names the task, which `longshore task` reads. With
    /// [`task`](Self::task), such a client follows the task from its beginning, where otherwise it is
    /// refused. Not of a tool that is [`inline`](Self::inline).
    pub fn detach_when_left(mut self) -> Tool {
        self.declaration.traits.when_left = WhenLeft::Detach;
        self
    }

    /// How long a task lives from its creation.
    pub fn ttl(mut self, ttl: Duration) -> Tool {
        self.declaration.traits.ttl_ms = Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// How often a client should look.
    pub fn poll_interval(mut self, interval: Duration) -> Tool {
        self.declaration.traits.poll_interval_ms =
            Some(u32::try_from(interval.as_millis()).unwrap_or(u32::MAX));
        self
    }
}

/// What it asks. Every key the tool may ask under is declared, with what the answer decides.
impl Tool {
    /// A question that changes what the tool does inside its sandbox.
    pub fn asks(self, key: impl Into<String>, decides: impl Into<String>) -> Tool {
        self.asking(key.into(), decides.into(), false, false)
    }

    /// A question whose yes allows an effect outside the sandbox.
    pub fn asks_effect(self, key: impl Into<String>, decides: impl Into<String>) -> Tool {
        self.asking(key.into(), decides.into(), true, false)
    }

    /// A question asked within the call, before there is a task: a call that is declined then
    /// leaves no task behind.
    pub fn asks_first(self, key: impl Into<String>, decides: impl Into<String>) -> Tool {
        self.asking(key.into(), decides.into(), false, true)
    }

    fn asking(mut self, key: String, decides: String, effect: bool, first: bool) -> Tool {
        self.declaration.traits.questions.push(types::Question {
            key,
            decides,
            allows_effect: effect,
            before_task: first,
        });
        self
    }
}

/// How it is shown.
impl Tool {
    pub fn title(mut self, title: impl Into<String>) -> Tool {
        self.declaration.title = Some(title.into());
        self
    }

    /// Changes nothing outside.
    pub fn read_only(mut self) -> Tool {
        self.declaration.annotations.read_only = Some(true);
        self
    }

    /// Whether it may overwrite or delete something.
    pub fn destructive(mut self, is_destructive: bool) -> Tool {
        self.declaration.annotations.destructive = Some(is_destructive);
        self
    }

    /// Doing it twice is the same as doing it once.
    pub fn idempotent(mut self) -> Tool {
        self.declaration.annotations.idempotent = Some(true);
        self
    }

    /// Whether it deals with things beyond a known set.
    pub fn open_world(mut self, is_open: bool) -> Tool {
        self.declaration.annotations.open_world = Some(is_open);
        self
    }

    /// An icon by its URL (`https:` or `data:`).
    pub fn icon(mut self, src: impl Into<String>, mime_type: Option<&str>) -> Tool {
        self.declaration.icons.push(types::Icon {
            src: src.into(),
            mime_type: mime_type.map(String::from),
            sizes: Vec::new(),
        });
        self
    }

    /// A schema written by hand in place of the derived one; clients get this very text.
    pub fn input_schema(mut self, schema: impl Into<String>) -> Tool {
        self.declaration.input_schema = Schema::Written(schema.into());
        self
    }

    /// A schema written by hand in place of the derived one; clients get this very text.
    pub fn output_schema(mut self, schema: impl Into<String>) -> Tool {
        self.declaration.output_schema = Schema::Written(schema.into());
        self
    }
}

/// What the host and tests read.
impl Tool {
    pub fn name(&self) -> &str {
        &self.declaration.name
    }

    /// Runs the tool on arguments in JSON, which the host has checked against the schema.
    pub fn call(&self, context: &Context, arguments: &str) -> Result<Output> {
        (self.run)(context, arguments)
    }

    /// The tool as `tools.list-tools` tells it.
    pub fn declaration(&self) -> types::Tool {
        let it = &self.declaration;
        types::Tool {
            name: it.name.clone(),
            title: it.title.clone(),
            description: it.description.clone(),
            input_schema: it.input_schema.text().unwrap_or_else(|| "{}".into()),
            output_schema: it.output_schema.text(),
            traits: it.traits.clone(),
            annotations: it.annotations,
            icons: it.icons.clone(),
        }
    }
}
