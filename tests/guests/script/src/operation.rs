//! What a script can say.

use std::time::Instant;

use longshore_plugin::http::{Batch, Request};
use longshore_plugin::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// Tells which run this is, and of what.
    Attempt,
    Say {
        text: String,
    },
    /// Tells the text so many times over, in one line.
    Repeat {
        text: String,
        times: usize,
    },
    Progress {
        message: String,
        done: Option<u64>,
        total: Option<u64>,
    },
    /// Sleeps in one piece, deaf to a cancel.
    Sleep {
        ms: u64,
    },
    /// Waits, and stops when cancelled.
    Wait {
        ms: u64,
    },
    /// Waits, but only in the first run.
    WaitOnce {
        ms: u64,
    },
    /// Computes for ever.
    Spin,
    Checkpoint {
        state: String,
    },
    /// Tells what an earlier run saved.
    Saved,
    /// Records a step; tells its value, which holds the attempt that recorded it.
    Step {
        name: String,
    },
    /// Records a step whose effect is a POST that names the step and the attempt; tells the attempt
    /// that recorded it.
    StepPost {
        name: String,
        url: String,
    },
    Confirm {
        key: String,
        message: String,
    },
    /// Asks under all keys at once, for a name each.
    AskAll {
        keys: Vec<String>,
    },
    /// Tells what the client can be asked.
    Abilities,
    /// Sends a person to a page; tells the answer.
    Visit {
        key: String,
    },
    /// Has the client's model write something; tells it.
    Sample {
        key: String,
    },
    /// Tells the client's directories.
    Roots {
        key: String,
    },
    Reference {
        reference: String,
        url: Option<String>,
    },
    Print {
        text: String,
    },
    /// Ends with a failure of the tool's own.
    Fail {
        text: String,
    },
    /// Says that the arguments are wrong, though they fit the schema.
    Refuse {
        text: String,
    },
    /// Ends with a JSON-RPC error.
    Rpc {
        code: i32,
        message: String,
    },
    /// Adds to a number in the plugin's state; tells the sum.
    Count {
        key: String,
        add: u64,
    },
    /// Keeps a value of so many bytes in the plugin's state.
    Keep {
        key: String,
        bytes: usize,
    },
    /// Removes a value of the plugin's state.
    Forget {
        key: String,
    },
    /// Tells the keys of the plugin's state.
    Keys {
        prefix: String,
    },
    /// Tells a configuration value.
    Configuration {
        name: String,
    },
    /// Appends so many bytes to a file; tells how that went.
    Append {
        path: String,
        bytes: usize,
    },
    /// Sets a file's length; tells how that went.
    Resize {
        path: String,
        bytes: u64,
    },
    /// Renames a file; tells how that went.
    Rename {
        path: String,
        to: String,
    },
    /// Deletes a file.
    Delete {
        path: String,
    },
    /// Tells how long a file is.
    Length {
        path: String,
    },
    /// Tells the names in a directory.
    List {
        path: String,
    },
    /// Makes a directory; tells how that went.
    MakeDirectory {
        path: String,
    },
    Trap,
    /// Traps, but only in the first run.
    TrapOnce,
    /// Fetches all URLs, some at once; tells each status and the size of its body.
    Fetch {
        urls: Vec<String>,
        concurrency: usize,
        timeout_ms: u64,
        #[serde(default)]
        body: String,
    },
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

impl Operation {
    /// Carries the operation out; what it tells are lines of the result.
    pub fn carry_out(self, ctx: &Context) -> Result<Vec<String>> {
        let line = match self {
            Operation::Attempt => format!("attempt {}, task {:?}", ctx.attempt(), ctx.task_id()),
            Operation::Say { text } => text,
            Operation::Repeat { text, times } => text.repeat(times),
            Operation::Progress {
                message,
                done,
                total,
            } => {
                report(ctx, &message, done, total);
                return Ok(Vec::new());
            }
            Operation::Sleep { ms } => {
                std::thread::sleep(Duration::from_millis(ms));
                return Ok(Vec::new());
            }
            Operation::Wait { ms } => return wait(ctx, Duration::from_millis(ms)),
            Operation::WaitOnce { ms } if ctx.attempt() == 1 => {
                return wait(ctx, Duration::from_millis(ms));
            }
            Operation::WaitOnce { .. } => return Ok(Vec::new()),
            Operation::Spin => loop {
                std::hint::black_box(ms_of_nothing());
            },
            Operation::Checkpoint { state } => {
                ctx.checkpoint(&state)?;
                return Ok(Vec::new());
            }
            Operation::Saved => format!("saved {:?}", ctx.saved_state::<String>()?),
            Operation::Step { name } => {
                let attempt: u32 = ctx.step(&name, || Ok(ctx.attempt()))?;
                format!("step {name} of attempt {attempt}")
            }
            Operation::StepPost { name, url } => {
                let attempt = ctx.step(&name, || post_step(ctx, &name, &url))?;
                format!("step {name} of attempt {attempt}")
            }
            Operation::Confirm { key, message } => {
                format!("{key}: {}", ctx.confirm(&key, message)?)
            }
            Operation::AskAll { keys } => return ask_all(ctx, &keys),
            Operation::Abilities => abilities(ctx),
            Operation::Visit { key } => {
                let answer = ctx.ask_url(&key, "Log in", "https://login.example/")?;
                format!("{key}: {answer:?}")
            }
            Operation::Sample { key } => {
                let sampling = Sampling::new("A haiku", 100);
                format!("{key}: {}", ctx.sample(&key, sampling)?.text())
            }
            Operation::Roots { key } => {
                let uris = ctx.roots(&key)?.into_iter().map(|root| root.uri);
                format!("{key}: {}", uris.collect::<Vec<_>>().join(" "))
            }
            Operation::Reference { reference, url } => {
                ctx.external_reference(reference, url.as_deref());
                return Ok(Vec::new());
            }
            Operation::Print { text } => {
                println!("{text}");
                return Ok(Vec::new());
            }
            Operation::Fail { text } => fail!("{text}"),
            Operation::Refuse { text } => return Err(Error::invalid_arguments(text)),
            Operation::Rpc { code, message } => return Err(Error::rpc(code, message)),
            Operation::Count { key, add } => {
                let sum = ctx
                    .state()
                    .update(&key, |sum: Option<u64>| Ok(sum.unwrap_or(0) + add))?;
                format!("{key} is {sum}")
            }
            Operation::Keep { key, bytes } => match ctx.state().set_bytes(&key, &vec![b'x'; bytes])
            {
                Ok(()) => format!("kept {key}"),
                Err(error) => format!("{error}"),
            },
            Operation::Forget { key } => {
                ctx.state().delete(&key)?;
                format!("forgot {key}")
            }
            Operation::Keys { prefix } => ctx.state().keys(&prefix)?.join(" "),
            Operation::Configuration { name } => {
                format!("{name}: {:?}", ctx.configuration(&name))
            }
            Operation::Append { path, bytes } => append(&path, bytes),
            Operation::Resize { path, bytes } => {
                let opened = std::fs::OpenOptions::new().write(true).open(&path);
                match opened.and_then(|file| file.set_len(bytes)) {
                    Ok(()) => format!("{path}: {bytes} long"),
                    Err(error) => format!("{path}: {error}"),
                }
            }
            Operation::Rename { path, to } => match std::fs::rename(&path, &to) {
                Ok(()) => format!("{path} is {to}"),
                Err(error) => format!("{path}: {error}"),
            },
            Operation::Delete { path } => match std::fs::remove_file(&path) {
                Ok(()) => format!("deleted {path}"),
                Err(error) => format!("{path}: {error}"),
            },
            Operation::Length { path } => match std::fs::metadata(&path) {
                Ok(found) => format!("{path}: {} long", found.len()),
                Err(error) => format!("{path}: {error}"),
            },
            Operation::List { path } => match list(&path) {
                Ok(names) => format!("{path}: {}", names.join(" ")),
                Err(error) => format!("{path}: {error}"),
            },
            Operation::MakeDirectory { path } => match std::fs::create_dir(&path) {
                Ok(()) => format!("made {path}"),
                Err(error) => format!("{path}: {error}"),
            },
            Operation::Trap => panic!("as the script says"),
            Operation::TrapOnce if ctx.attempt() == 1 => panic!("as the script says, once"),
            Operation::TrapOnce => return Ok(Vec::new()),
            Operation::Fetch {
                urls,
                concurrency,
                timeout_ms,
                body,
            } => {
                return Ok(fetch(
                    &urls,
                    concurrency,
                    Duration::from_millis(timeout_ms),
                    &body,
                ));
            }
        };
        Ok(vec![line])
    }
}

fn append(path: &str, bytes: usize) -> String {
    use std::io::Write;

    let opened = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    let written = opened.and_then(|mut file| file.write_all(&vec![b'x'; bytes]));
    match written {
        Ok(()) => format!("{path}: written"),
        Err(error) => format!("{path}: {error}"),
    }
}

fn list(path: &str) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn ms_of_nothing() -> u64 {
    0
}

fn report(ctx: &Context, message: &str, done: Option<u64>, total: Option<u64>) {
    match (done, total) {
        (Some(done), Some(total)) => ctx.progress_of(done, total, message),
        _ => ctx.progress(message),
    }
}

fn wait(ctx: &Context, time: Duration) -> Result<Vec<String>> {
    let end = Instant::now() + time;
    loop {
        ctx.stop_if_cancelled()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Vec::new());
        }
        std::thread::sleep(left.min(Duration::from_millis(10)));
    }
}

fn post_step(ctx: &Context, name: &str, url: &str) -> Result<u32> {
    let effect = format!(
        "{} {name} {}",
        ctx.task_id().unwrap_or_default(),
        ctx.attempt()
    );
    Request::post(url).body(effect).send()?;
    Ok(ctx.attempt())
}

fn abilities(ctx: &Context) -> String {
    let all = [
        ("form", ctx.can_ask()),
        ("url", ctx.can_show_url()),
        ("sampling", ctx.can_sample()),
        ("roots", ctx.can_list_roots()),
    ];
    let names = all.into_iter().filter(|(_, can)| *can);
    names.map(|(name, _)| name).collect::<Vec<_>>().join(" ")
}

fn ask_all(ctx: &Context, keys: &[String]) -> Result<Vec<String>> {
    let requests = keys
        .iter()
        .map(|key| InputRequest::form::<Name>(key, format!("{key}?")));
    let answers = ctx.ask_all(requests)?;
    let mut lines = Vec::new();
    for key in keys {
        lines.push(match answers.form::<Name>(key)? {
            Response::Accept(Name { name }) => format!("{key}: {name}"),
            Response::Decline => format!("{key}: declined"),
            Response::Dismiss => format!("{key}: dismissed"),
        });
    }
    Ok(lines)
}

fn fetch(urls: &[String], concurrency: usize, timeout: Duration, body: &str) -> Vec<String> {
    let mut batch = Batch::new(concurrency);
    for url in urls {
        let request = match body {
            "" => Request::get(url),
            body => Request::post(url).body(body),
        };
        batch.push(url, request.timeout(timeout));
    }
    let mut lines: Vec<String> = batch
        .map(|(url, result)| match result {
            Ok(response) => format!("{url}: {}, {} bytes", response.status, response.body.len()),
            Err(error) => format!("{url}: {error}"),
        })
        .collect();
    lines.sort();
    lines
}
