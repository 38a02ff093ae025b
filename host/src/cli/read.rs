//! `longshore read`: what a resource holds, as any MCP client reads it.

use std::path::PathBuf;

use clap::Args;

use super::client::Request;
use super::exit::{Exit, Failure};
use super::follow::Manner;
use super::sink::Sink;
use super::{HostArgs, render, rounds};

const EXAMPLES: &str = "\
Examples:
  longshore read report://2026/summary
  longshore read report://2026/chart --out chart.png

`longshore list` shows what there is. To a file or a pipe it is written byte for byte.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReadArgs {
    /// The resource's URI, or one that a template makes
    uri: String,
    /// Write its texts and data here, byte for byte, instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Answer questions without asking: yes, the default, or the first choice
    #[arg(long, short)]
    yes: bool,
    /// Print JSON, data as Base64
    #[arg(long, conflicts_with = "out")]
    json: bool,
    #[command(flatten)]
    host: HostArgs,
}

pub async fn run(args: ReadArgs) -> Result<Exit, Failure> {
    let client = args.host.client()?;
    let manner = Manner {
        yes: args.yes,
        json: args.json,
    };
    let read = rounds::answer(&client, &Request::read(&args.uri), manner).await?;
    if args.json {
        render::json(&read);
        return Ok(Exit::Done);
    }
    let mut sink = Sink::open(args.out)?;
    for contents in read["contents"].as_array().into_iter().flatten() {
        sink.write_contents(contents)?;
    }
    sink.finish()?;
    Ok(Exit::Done)
}
