//! `longshore store`: looks after a data directory while no host uses it.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::exit::{Exit, Failure};
use super::place::DataArgs;
use super::print::{note, say};
use super::whole::{Readers, Whole};
use super::{print, render, stop, terminal, text};
use crate::store::{self, Damaged, Exported, OpenError, Report, TransferError};
use crate::task::TenantId;

const EXAMPLES: &str = "\
Examples:
  longshore store check
  longshore store compact --data-dir /var/lib/longshore
  longshore store export tasks.jsonl
  longshore store import tasks.jsonl --data-dir /srv/longshore
  longshore store state
  longshore store forget-state report-export --tenant acme

The host must not run: it has the data directory to itself. An export holds arguments, answers,
results and plugins' state of all tenants; keep it as safe as the data directory.";

const CHECK_NOTES: &str = "\
It repairs nothing. Files that a crash has left are counted and are no problem: the next start
deletes them. Exit code 1 says that something is wrong. On a full disk the records are read from a
copy in the directory for temporary files (TMPDIR), which goes with the command.";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum StoreCommand {
    /// Compare records, indexes and files
    #[command(after_help = CHECK_NOTES)]
    Check(PlaceArgs),
    /// Write the records anew without what updates left behind, which gives disk space back
    Compact(PlaceArgs),
    /// Write all tasks, and what plugins keep, as lines of JSON
    Export(ExportArgs),
    /// Make a store of exported tasks, in a data directory that has none
    Import(ImportArgs),
    /// Show how much plugins keep in their key-value state
    State(PlaceArgs),
    /// Remove a plugin's key-value state
    ForgetState(ForgetStateArgs),
}

#[derive(Args)]
pub struct PlaceArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct ExportArgs {
    /// The file to write, or `-` for standard output
    file: PathBuf,
    /// Leave out tasks that can't be read whole, and say which
    #[arg(long)]
    leave_out_damaged: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args)]
pub struct ImportArgs {
    /// The file to read, or `-` for standard input
    file: PathBuf,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Args)]
pub struct ForgetStateArgs {
    /// The plugin's name, also of one that was removed
    plugin: String,
    /// Only of this tenant
    #[arg(long, value_name = "NAME", value_parser = TenantId::parse)]
    tenant: Option<TenantId>,
    #[command(flatten)]
    place: PlaceArgs,
}

impl StoreCommand {
    /// Whether it writes to standard output while it has the store open: it closes that before it
    /// ends with whoever reads.
    pub fn writes_while_open(&self) -> bool {
        matches!(self, StoreCommand::Export(args) if is_standard(&args.file))
    }
}

pub async fn run(command: StoreCommand) -> Result<Exit, Failure> {
    match command {
        StoreCommand::Check(args) => unless_stopped(move || check(&args)).await,
        StoreCommand::Compact(args) => unless_stopped(move || compact(&args)).await,
        StoreCommand::Export(args) => export(args).await,
        StoreCommand::Import(args) => unless_stopped(move || import(&args)).await,
        StoreCommand::State(args) => unless_stopped(move || state(&args)).await,
        StoreCommand::ForgetState(args) => unless_stopped(move || forget_state(&args)).await,
    }
}

/// Does `work`, or else leaves no copy of the records behind.
async fn unless_stopped<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = stop::unless_stopped(async {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => Ok(done),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    });
    match done.await {
        Ok(done) => done,
        Err(stopped) => {
            store::discard_copies();
            Err(stopped)
        }
    }
}

impl PlaceArgs {
    fn directory(&self) -> Result<PathBuf, Failure> {
        Ok(self.data.config()?.data_dir.join("store"))
    }
}

fn check(args: &PlaceArgs) -> Result<Exit, Failure> {
    let report = store::check(&args.directory()?).map_err(unopened)?;
    match args.json {
        true => render::json(&to_json(&report)),
        false => print_report(&report),
    }
    Ok(match report.is_sound() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

fn to_json(report: &Report) -> Value {
    let problems: Map<String, Value> = report
        .problems
        .iter()
        .map(|(problem, count)| (problem.as_str().to_owned(), json!(count)))
        .collect();
    json!({
        "sound": report.is_sound(),
        "tasks": report.tasks,
        "records": report.records,
        "files": report.files,
        "leftoverFiles": report.leftover_files,
        "problems": problems,
        "told": report.told,
    })
}

fn print_report(report: &Report) {
    say!(
        "{} tasks, {} records, {} files",
        report.tasks,
        report.records,
        report.files
    );
    if report.leftover_files > 0 {
        say!(
            "{} files that a crash left; the next start deletes them",
            report.leftover_files
        );
    }
    for line in &report.told {
        say!("{} {}", text::red("wrong"), text::plain_line(line, 400));
    }
    let total: u64 = report.problems.values().sum();
    match total {
        0 => say!("{}", text::green("sound")),
        _ => say!(
            "{}: restore a backup, or move what is left with `longshore store export \
             --leave-out-damaged` and `longshore store import`",
            text::red(&format!("{total} problems"))
        ),
    }
}

fn compact(args: &PlaceArgs) -> Result<Exit, Failure> {
    let done = store::compact(&args.directory()?).map_err(unopened)?;
    match args.json {
        true => render::json(&json!({
            "records": done.records,
            "bytesBefore": done.bytes_before,
            "bytesAfter": done.bytes_after,
        })),
        false => say!(
            "{} records; {} before, {} now",
            done.records,
            text::size(done.bytes_before),
            text::size(done.bytes_after)
        ),
    }
    Ok(Exit::Done)
}

async fn export(args: ExportArgs) -> Result<Exit, Failure> {
    let directory = args.place.directory()?;
    let damaged = match args.leave_out_damaged {
        true => Damaged::LeaveOut,
        false => Damaged::Refuse,
    };
    let exported = match is_standard(&args.file) {
        true => {
            let exported = match io::stdout().is_terminal() {
                true => export_to(print::JsonLines::to(io::stdout()), directory, damaged).await?,
                false => export_to(io::stdout(), directory, damaged).await?,
            };
            match &exported {
                Err(TransferError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                    terminal::end_of_a_closed_pipe();
                }
                _ => terminal::end_with_a_closed_pipe(),
            }
            exported
        }
        false => {
            let unwritable = |error: io::Error| in_file(&args.file, &error);
            // As private as the data directory it comes from.
            let file = Whole::create(&args.file, Readers::Owner).map_err(unwritable)?;
            let out = file.writer().map_err(unwritable)?;
            let exported = export_to(out, directory, damaged).await?;
            if exported.is_ok() {
                file.finish().map_err(unwritable)?;
            }
            exported
        }
    };
    let exported = exported.map_err(|error| Failure::failed(chain(&error)))?;
    match args.place.json && !is_standard(&args.file) {
        true => render::json(&export_json(&exported)),
        false => print_exported(&exported),
    }
    Ok(Exit::Done)
}

async fn export_to(
    out: impl Write + Send + 'static,
    directory: PathBuf,
    damaged: Damaged,
) -> Result<Result<Exported, TransferError>, Failure> {
    let mut out = BufWriter::new(out);
    unless_stopped(move || Ok(store::export(&directory, &mut out, damaged))).await
}

fn export_json(exported: &Exported) -> Value {
    let left_out = exported.left_out.iter().map(|(key, what)| {
        json!({"tenant": key.tenant.as_str(), "taskId": key.id.as_str(), "what": what})
    });
    json!({"tasks": exported.tasks, "leftOut": left_out.collect::<Vec<_>>()})
}

fn print_exported(exported: &Exported) {
    for (key, what) in &exported.left_out {
        let line = format!("task {} of {}: {what}", key.id, key.tenant);
        note!("{} {}", text::red("left out"), text::plain_line(&line, 400));
    }
    note!("{} {} tasks", text::green("exported"), exported.tasks);
}

fn import(args: &ImportArgs) -> Result<Exit, Failure> {
    let directory = args.place.directory()?;
    let tasks = match is_standard(&args.file) {
        true => store::import(&directory, io::stdin().lock()),
        false => {
            let file = File::open(&args.file).map_err(|error| in_file(&args.file, &error))?;
            store::import(&directory, BufReader::new(file))
        }
    };
    let tasks = tasks.map_err(|error| Failure::failed(chain(&error)))?;
    match args.place.json {
        true => render::json(&json!({ "tasks": tasks })),
        false => note!("{} {tasks} tasks", text::green("imported")),
    }
    Ok(Exit::Done)
}

fn state(args: &PlaceArgs) -> Result<Exit, Failure> {
    let usages = store::state_usages(&args.directory()?).map_err(unopened)?;
    if args.json {
        let rows: Vec<Value> = usages
            .iter()
            .map(|(owner, usage)| {
                json!({
                    "tenant": owner.tenant.as_str(),
                    "plugin": owner.plugin,
                    "keys": usage.keys,
                    "bytes": usage.bytes,
                })
            })
            .collect();
        render::json(&json!({ "state": rows }));
        return Ok(Exit::Done);
    }
    if usages.is_empty() {
        say!("no plugin keeps anything");
    }
    for (owner, usage) in &usages {
        say!(
            "{} of {}: {} keys, {}",
            text::plain_line(&owner.plugin, 64),
            owner.tenant,
            usage.keys,
            text::size(usage.bytes)
        );
    }
    Ok(Exit::Done)
}

fn forget_state(args: &ForgetStateArgs) -> Result<Exit, Failure> {
    let directory = args.place.directory()?;
    let keys = store::forget_state(&directory, &args.plugin, args.tenant.as_ref());
    let keys = keys.map_err(unopened)?;
    match args.place.json {
        true => render::json(&json!({ "keys": keys })),
        false => say!("{} {keys} keys", text::green("removed")),
    }
    Ok(Exit::Done)
}

fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

fn in_file(file: &Path, error: &io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", file.display()))
}

/// A store that can't be opened is the operator's to change.
fn unopened(error: OpenError) -> Failure {
    Failure::usage(chain(&error))
}

/// An error with its causes, for an operator.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !words.ends_with(&more) {
            words.push_str(": ");
            words.push_str(&more);
        }
        cause = error.source();
    }
    words
}
