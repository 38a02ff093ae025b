//! `longshore task result`: a task's result whole, with the parts that one message does not hold.

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::exit::{Exit, Failure};
use super::sink::Sink;
use super::stop::unless_stopped;
use super::wire::TaskStatus;
use super::{HostArgs, follow};
use crate::task::PartUri;

#[derive(Args)]
pub struct ResultArgs {
    /// The task's id
    id: String,
    /// Write its texts and data here, byte for byte, instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
}

pub async fn run(args: ResultArgs) -> Result<Exit, Failure> {
    // Its parts may take long.
    unless_stopped(write(args)).await
}

async fn write(args: ResultArgs) -> Result<Exit, Failure> {
    let client = args.host.client()?;
    let state = client.task(&args.id).await?;
    let result = match (state.status, &state.result) {
        (TaskStatus::Completed, Some(result)) => result,
        (status, _) => {
            let status = status.as_str();
            return Err(Failure::failed(format!(
                "the task has no result; it is {status}"
            )));
        }
    };
    let mut sink = Sink::open(args.out)?;
    let blocks = result["content"].as_array();
    let blocks: Vec<&Value> = blocks.into_iter().flatten().collect();
    // What says that there are parts is not part of the result.
    let is_cut = blocks
        .iter()
        .any(|block| part_uri(block, &state.task_id).is_some());
    for block in blocks.into_iter().skip(usize::from(is_cut)) {
        match part_uri(block, &state.task_id) {
            Some(uri) => sink.write_contents(&client.read(uri).await?["contents"][0])?,
            None => sink.write_block(block)?,
        }
    }
    sink.finish()?;
    Ok(follow::result_exit(result))
}

/// The URI of a part of the task's own result: a link to anything else is a part of it itself.
fn part_uri<'a>(block: &'a Value, task: &str) -> Option<&'a str> {
    let is_link = block["type"] == "resource_link";
    let uri = block["uri"].as_str().filter(|_| is_link)?;
    let part = PartUri::parse(uri)?;
    (part.task.as_str() == task).then_some(uri)
}
