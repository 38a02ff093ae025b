//! `longshore task result`: a task's result whole, with the parts that one message does not hold.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::exit::{Exit, Failure};
use super::wire::{ClientError, TaskStatus};
use super::{HostArgs, follow, render, text};
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

/// Where a result goes.
enum Sink {
    /// One block a line or more, data in words; what could drive the terminal is taken out.
    Terminal,
    /// Texts and data as they are, with nothing between them.
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
    let is_cut = blocks
        .iter()
        .any(|block| part_uri(block, &state.task_id).is_some());
    for block in blocks.into_iter().skip(usize::from(is_cut)) {
        match part_uri(block, &state.task_id) {
            Some(uri) => sink.write_part(block, &client.read(uri).await?)?,
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

/// What a block holds; None if it only names something.
fn bytes_of(block: &Value) -> Result<Option<Vec<u8>>, Failure> {
    match block["type"].as_str() {
        Some("text") => Ok(block["text"].as_str().map(|text| text.as_bytes().to_vec())),
        Some("image" | "audio") => block["data"].as_str().map(decode).transpose(),
        Some("resource") => contents_of(&block["resource"]),
        _ => Ok(None),
    }
}

/// What a resource, or a part, holds.
fn contents_of(contents: &Value) -> Result<Option<Vec<u8>>, Failure> {
    match contents["text"].as_str() {
        Some(text) => Ok(Some(text.as_bytes().to_vec())),
        None => contents["blob"].as_str().map(decode).transpose(),
    }
}

fn decode(data: &str) -> Result<Vec<u8>, Failure> {
    let decoded = STANDARD.decode(data);
    decoded.map_err(|_| malformed("data that is not Base64"))
}

fn malformed(what: &str) -> Failure {
    ClientError::Malformed(what.to_owned()).into()
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

    fn write_block(&mut self, block: &Value) -> Result<(), Failure> {
        match self {
            Sink::Terminal => writeln!(io::stdout(), "{}", render::content(block)),
            Sink::Raw(out) => match bytes_of(block)? {
                Some(bytes) => out.write_all(&bytes),
                None => {
                    let shown = render::content(block);
                    eprintln!("{} {shown}", text::yellow("not data, left out:"));
                    Ok(())
                }
            },
        }
        .map_err(unwritten)
    }

    /// Parts of one text follow on each other; `read` is what was read at `link`.
    fn write_part(&mut self, link: &Value, read: &Value) -> Result<(), Failure> {
        let contents = &read["contents"][0];
        match self {
            Sink::Terminal => match contents["text"].as_str() {
                Some(text) => write!(io::stdout(), "{}", text::plain(text)),
                None => writeln!(io::stdout(), "{}", render::content(link)),
            },
            Sink::Raw(out) => match contents_of(contents)? {
                Some(bytes) => out.write_all(&bytes),
                None => return Err(malformed("resources/read without contents")),
            },
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
