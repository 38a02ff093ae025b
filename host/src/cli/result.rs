//! `longshore task result`: a task's result whole, with the parts that one message does not hold.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::client::Client;
use super::exit::{Exit, Failure};
use super::wire::{ClientError, TaskStatus};
use super::{HostArgs, follow, render, text};

/// What the URI of a part begins with.
const PART: &str = "longshore://result/";

#[derive(Args)]
pub struct ResultArgs {
    /// The task's id
    id: String,
    /// Write it here, byte for byte, instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
}

/// Where a result goes.
enum Sink {
    /// What could drive the terminal is taken out.
    Terminal,
    Raw(Box<dyn Write>),
}

pub async fn run(args: ResultArgs) -> Result<Exit, Failure> {
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
    let is_cut = blocks.iter().any(|block| part_uri(block).is_some());
    for block in blocks.into_iter().skip(usize::from(is_cut)) {
        match part_uri(block) {
            Some(uri) => sink.write(&read_part(&client, uri).await?)?,
            None => {
                let words = match block["text"].as_str() {
                    Some(text) => text.to_owned(),
                    None => render::content(block),
                };
                sink.write(format!("{words}\n").as_bytes())?;
            }
        }
    }
    sink.finish()?;
    Ok(follow::result_exit(result))
}

fn part_uri(block: &Value) -> Option<&str> {
    let is_link = block["type"] == "resource_link";
    let uri = block["uri"].as_str().filter(|_| is_link)?;
    uri.starts_with(PART).then_some(uri)
}

async fn read_part(client: &Client, uri: &str) -> Result<Vec<u8>, Failure> {
    let contents = client.read(uri).await?;
    let part = &contents["contents"][0];
    let bytes = match (part["text"].as_str(), part["blob"].as_str()) {
        (Some(text), _) => Some(text.as_bytes().to_vec()),
        (None, Some(blob)) => STANDARD.decode(blob).ok(),
        (None, None) => None,
    };
    let malformed = || ClientError::Malformed("resources/read without contents".to_owned());
    Ok(bytes.ok_or_else(malformed)?)
}

impl Sink {
    fn open(out: Option<PathBuf>) -> Result<Sink, Failure> {
        match out {
            Some(path) => match File::create(&path) {
                Ok(file) => Ok(Sink::Raw(Box::new(io::BufWriter::new(file)))),
                Err(error) => Err(Failure::usage(format!(
                    "can't write {}: {error}",
                    path.display()
                ))),
            },
            None if io::stdout().is_terminal() => Ok(Sink::Terminal),
            None => Ok(Sink::Raw(Box::new(io::stdout()))),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Sink::Terminal => {
                let shown = text::plain(&String::from_utf8_lossy(bytes));
                io::stdout().write_all(shown.as_bytes())
            }
            Sink::Raw(out) => out.write_all(bytes),
        }
        .map_err(unwritten)
    }

    fn finish(self) -> Result<(), Failure> {
        match self {
            Sink::Terminal => io::stdout().flush(),
            Sink::Raw(mut out) => out.flush(),
        }
        .map_err(unwritten)
    }
}

fn unwritten(error: io::Error) -> Failure {
    Failure::failed(format!("the result can't be written: {error}"))
}
