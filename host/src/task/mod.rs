//! What a task is, and the one function that changes it ([`apply`]). Pure: no I/O, no async, no
//! serialisation; it imports nothing but the clock.

mod id;
mod input;
mod large;
mod lifecycle;
mod record;
#[cfg(test)]
mod tests;
mod trace;

pub use id::{Digest, IdError, InputKey, TaskId, TaskKey, TenantId};
pub use input::{Abilities, Answer, Ask, InputRequest};
pub use large::{LargeResult, OWN_SCHEME, PartBody, PartUri, ResultPart, is_own_uri};
pub use lifecycle::{Event, Rejected, STEPS_MAX, apply};
pub use record::{
    Attempt, CallResult, CancelRequest, Ending, ExternalReference, Input, Interrupted,
    Interruption, Phase, Policy, Progress, Recovery, RpcError, Status, Task, ToolRef,
};
pub use trace::{Trace, TraceParent};
