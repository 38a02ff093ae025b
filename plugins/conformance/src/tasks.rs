//! Tools that run as tasks.

use std::time::Duration;

use longshore_plugin::prelude::*;

use crate::asking::{Name, greeting};
use crate::waiting::wait;

/// Nobody waits longer for a computation of nothing.
const SECONDS_MAX: f64 = 3600.0;

#[derive(Deserialize, JsonSchema)]
pub struct Compute {
    /// How long to compute.
    #[schemars(range(min = 0, max = 3600))]
    seconds: f64,
    /// What the result is called.
    #[serde(default)]
    label: String,
}

pub fn slow_compute(ctx: &Context, args: Compute) -> Result<String> {
    let total = Duration::from_secs_f64(args.seconds.clamp(0.0, SECONDS_MAX));
    let mut done: Duration = ctx.saved_state()?.unwrap_or_default();
    while done < total {
        let part = (total - done).min(Duration::from_secs(1));
        wait(ctx, part)?;
        done += part;
        let message = format!(
            "{:.1} of {:.1} seconds",
            done.as_secs_f64(),
            total.as_secs_f64()
        );
        ctx.progress_of(milliseconds(done), milliseconds(total), message);
        ctx.checkpoint(&done)?;
    }
    Ok(format!(
        "{}: computed for {} seconds",
        args.label, args.seconds
    ))
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub fn failing(ctx: &Context, _: NoArguments) -> Result<String> {
    wait(ctx, Duration::from_secs(1))?;
    fail!("The job failed, as it always does.")
}

pub fn protocol_error(_: &Context, _: NoArguments) -> Result<String> {
    Err(Error::rpc(-32603, "the job broke off, as it always does"))
}

#[derive(Deserialize, JsonSchema)]
pub struct Delete {
    /// The file to delete. No file is touched.
    filename: String,
}

pub fn confirm_delete(ctx: &Context, args: Delete) -> Result<String> {
    let Delete { filename } = args;
    match ctx.confirm("confirm", format!("Delete {filename}?"))? {
        true => Ok(format!("{filename} was deleted.")),
        false => Ok(format!("{filename} was kept.")),
    }
}

#[derive(Deserialize, JsonSchema)]
struct Signed {
    name: String,
    confirm: bool,
}

pub fn two_at_once(ctx: &Context, _: NoArguments) -> Result<String> {
    let answers = ctx.ask_all([
        InputRequest::form::<Signed>("first", "The first name?"),
        InputRequest::form::<Signed>("second", "The second name?"),
    ])?;
    let mut names = Vec::new();
    for key in ["first", "second"] {
        match answers.form::<Signed>(key)? {
            Response::Accept(Signed {
                name,
                confirm: true,
            }) => names.push(name),
            _ => names.push("nobody".into()),
        }
    }
    Ok(format!("The names are {}.", names.join(" and ")))
}

pub fn ask_first(ctx: &Context, _: NoArguments) -> Result<String> {
    Ok(greeting(
        ctx.ask::<Name>("user_name", "What is your name?")?,
    ))
}
