//! `longshore status`: what the host that runs on a data directory has open and under way, asked over its
//! local socket. It shows counts; what a tenant's tasks are is the tenant's business.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::exit::{Exit, Failure};
use super::place::DataArgs;
use super::print::say;
use super::render;
use crate::app::{introduction, socket_path};
use crate::task::TenantId;

const EXAMPLES: &str = "\
Examples:
  longshore status
  longshore status --data-dir /srv/longshore --json";

/// A host that answers nothing for this long is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Much more than the counts take.
const ANSWER_MAX_BYTES: u64 = 1 << 20;

/// What is counted, in words.
const WORDS: &[(&str, &str)] = &[
    ("pid", "is the host's process"),
    (
        "localClients",
        "clients over pipes and the socket, this command among them",
    ),
    ("subscriptions", "streams of `subscriptions/listen`"),
    ("watchedTasks", "tasks that they watch"),
    ("watchedResources", "resources that they or sessions watch"),
    (
        "legacySessions",
        "sessions of the handshake revisions over HTTP",
    ),
    ("legacyStreams", "their open responses"),
    ("legacyCalls", "calls of the handshake revisions"),
    ("calls", "calls that are answered inline"),
    ("runs", "runs of tasks"),
    ("places", "places they take"),
    ("queuedTasks", "tasks that wait for a place"),
    ("heldInstances", "instances that wait for an answer"),
    ("instances", "instances in all"),
    ("unfinishedTasks", "tasks that have not ended"),
];

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(args: StatusArgs) -> Result<Exit, Failure> {
    let config = args.data.config()?;
    let socket = socket_path(&config);
    let counts = ask(&socket).await.map_err(|error| {
        Failure::refused(format!(
            "no host answers for {} ({error}); start one with `longshore serve`, or name its \
             directory with --data-dir",
            config.data_dir.display()
        ))
    })?;
    if args.json {
        render::json(&Value::Object(counts));
    } else {
        print(&counts);
    }
    Ok(Exit::Done)
}

async fn ask(socket: &Path) -> std::io::Result<Map<String, Value>> {
    let asking = async {
        let mut stream = UnixStream::connect(socket).await?;
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "longshore/status"});
        // Any tenant will do: the counts are of all.
        let opening = introduction(&TenantId::local());
        let lines = format!("{opening}{request}\n");
        stream.write_all(lines.as_bytes()).await?;
        let mut line = String::new();
        let mut answer = BufReader::new(stream.take(ANSWER_MAX_BYTES));
        answer.read_line(&mut line).await?;
        let mut answer: Value = serde_json::from_str(&line)?;
        match answer["result"].take() {
            Value::Object(mut result) => {
                result.retain(|_, value| value.is_u64());
                Ok(result)
            }
            // Another version's host.
            _ => Err(std::io::Error::other("it does not know the method")),
        }
    };
    timeout(ANSWER_TIMEOUT, asking).await?
}

fn print(counts: &Map<String, Value>) {
    for (name, words) in WORDS {
        if let Some(count) = counts.get(*name).and_then(Value::as_u64) {
            say!("{count:>7}  {words}");
        }
    }
}
