//! The store as lines of JSON, for backups, for moving to another machine and for the way from one
//! format to the next: the old version exports, the new one imports.
//!
//! ```text
//! {"longshore_store":1}
//! {"task":{"tenant":…,"id":…,"record":{…}}}
//! {"body":{"slot":"arguments","text":…}}            of the task before it; "base64" if it is no text
//! {"log":{"text":…}}
//! {"state":{"tenant":…,"plugin":…,"key":…,"text":…}}
//! {"end":{"tasks":1}}
//! ```
//!
//! What calls without a task left between two rounds, and their marks, are not in it: they go within
//! minutes, and the states that name them open only with the key of the host that sealed them.

use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::bodies::{Bodies, Body, INLINE_BYTES_MAX};
use super::codec::{self, FORMAT, VERSION};
use super::core::explain;
use super::disk::{self, sync_directory};
use super::draft::RECORD_BYTES_MAX;
use super::error::BodyError;
use super::keys::{self, Family, SlotName};
use super::logs::Logs;
use super::offline::{CACHE_BYTES, Offline, delete_folder, unusable};
use super::records::{Records, Writes};
use super::state::{self, StateOwner};
use super::{StoreError, TransferError};
use crate::task::{TaskId, TaskKey, TenantId};

/// A line holds one body at most, whose own limit is far below this, bytes.
const LINE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// How much one commit of an import takes, bytes.
const COMMIT_BYTES: usize = 4 * 1024 * 1024;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    LongshoreStore(u8),
    Task(TaskLine),
    Body(BodyLine),
    Log(Content),
    State(StateLine),
    End { tasks: u64 },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskLine {
    tenant: String,
    id: String,
    record: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
struct BodyLine {
    slot: String,
    #[serde(flatten)]
    content: Content,
}

/// A value of a plugin's state.
#[derive(Serialize, Deserialize)]
struct StateLine {
    tenant: String,
    plugin: String,
    key: String,
    #[serde(flatten)]
    content: Content,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Content {
    Text(String),
    Base64(String),
}

impl Content {
    fn new(bytes: Vec<u8>) -> Content {
        match String::from_utf8(bytes) {
            Ok(text) => Content::Text(text),
            Err(error) => Content::Base64(STANDARD.encode(error.as_bytes())),
        }
    }

    fn bytes(self) -> Result<Vec<u8>, String> {
        match self {
            Content::Text(text) => Ok(text.into_bytes()),
            Content::Base64(text) => STANDARD.decode(text).map_err(|error| error.to_string()),
        }
    }
}

/// What an export does with tasks that can't be read whole, and with a store that has lost some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damaged {
    Refuse,
    LeaveOut,
}

/// What an export came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub tasks: u64,
    /// Damaged tasks, and what is wrong with each.
    pub left_out: Vec<(TaskKey, String)>,
}

/// Writes the store in `directory`, which no host may have open, to `out`.
pub fn export(
    directory: &Path,
    out: &mut impl Write,
    damaged: Damaged,
) -> Result<Exported, TransferError> {
    let offline = Offline::open_to_read(directory)?;
    if damaged == Damaged::Refuse {
        offline.refuse_loss()?;
    }
    write_line(out, &Line::LongshoreStore(VERSION))?;
    let mut exported = Exported::default();
    for entry in offline.records.scan(keys::TASK) {
        let (name, value) = entry.map_err(StoreError::from)?;
        let Some((Family::Task, Some(key))) = keys::read(&name) else {
            continue;
        };
        if damaged == Damaged::LeaveOut
            && let Some(what) = find_damage(&offline, &key, &value)?
        {
            exported.left_out.push((key, what));
            continue;
        }
        write_line(out, &Line::Task(task_line(&key, &value)?))?;
        write_bodies(&offline, &key, out)?;
        let log = offline.logs.read(&key).map_err(StoreError::from)?;
        if !log.is_empty() {
            write_line(out, &Line::Log(Content::new(log)))?;
        }
        exported.tasks += 1;
    }
    write_state(&offline, out)?;
    let tasks = exported.tasks;
    write_line(out, &Line::End { tasks })?;
    out.flush().map_err(TransferError::Write)?;
    Ok(exported)
}

/// What is wrong with a task, looked for before the first of its lines is written.
fn find_damage(
    offline: &Offline,
    key: &TaskKey,
    value: &[u8],
) -> Result<Option<String>, TransferError> {
    let read = task_line(key, value).and_then(|_| write_bodies(offline, key, &mut io::sink()));
    match read {
        Ok(()) => Ok(None),
        Err(TransferError::Damaged { what, .. }) => Ok(Some(what)),
        Err(error) => Err(error),
    }
}

fn task_line(key: &TaskKey, value: &[u8]) -> Result<TaskLine, TransferError> {
    // Decoded to be sure that what is exported can be imported.
    codec::decode_task(key.clone(), value)
        .map_err(|error| damaged(key, format!("its record: {error}")))?;
    let json = codec::decode_text(value[1..].to_vec())
        .map_err(|error| damaged(key, format!("its record: {error}")))?;
    let record = RawValue::from_string(json).map_err(|error| damaged(key, error.to_string()))?;
    Ok(TaskLine {
        tenant: key.tenant.to_string(),
        id: key.id.to_string(),
        record,
    })
}

fn damaged(key: &TaskKey, what: String) -> TransferError {
    TransferError::Damaged {
        task: key.id.to_string(),
        what,
    }
}

fn write_bodies(
    offline: &Offline,
    key: &TaskKey,
    out: &mut impl Write,
) -> Result<(), TransferError> {
    for prefix in keys::bodies(key) {
        for entry in offline.records.scan(&prefix) {
            let (name, value) = entry.map_err(StoreError::from)?;
            let Some(slot) = SlotName::read(&name, key) else {
                let what = "it has a record this version does not write";
                return Err(damaged(key, what.to_owned()));
            };
            let bytes = match offline.bodies.read(key, &value) {
                Ok(bytes) => bytes,
                Err(BodyError::Damaged(damage)) => {
                    return Err(damaged(key, format!("its {}: {damage}", slot.kind())));
                }
                Err(BodyError::File(error)) => return Err(StoreError::from(error).into()),
            };
            let content = Content::new(bytes);
            let slot = slot.to_string();
            write_line(out, &Line::Body(BodyLine { slot, content }))?;
        }
    }
    Ok(())
}

fn write_state(offline: &Offline, out: &mut impl Write) -> Result<(), TransferError> {
    for entry in offline.records.scan(keys::STATE) {
        let (name, value) = entry.map_err(StoreError::from)?;
        let Some((owner, key)) = keys::read_state(&name) else {
            continue;
        };
        let line = StateLine {
            tenant: owner.tenant.to_string(),
            plugin: owner.plugin,
            key,
            content: Content::new(state::plain(value.to_vec())),
        };
        write_line(out, &Line::State(line))?;
    }
    Ok(())
}

fn write_line(out: &mut impl Write, line: &Line) -> Result<(), TransferError> {
    serde_json::to_writer(&mut *out, line).map_err(|error| TransferError::Write(error.into()))?;
    out.write_all(b"\n").map_err(TransferError::Write)
}

/// Makes a store of exported lines in `directory`, where there is none yet or an empty one; returns
/// how many tasks it has. It is there whole or not at all.
pub fn import(directory: &Path, input: impl BufRead) -> Result<u64, TransferError> {
    let unusable = |source| TransferError::from(unusable(directory, source));
    fs::create_dir_all(directory).map_err(unusable)?;
    let lock = disk::lock(directory)?;
    refuse_tasks(directory)?;
    let (place, copy) = (
        directory.join("records"),
        directory.join(super::compact::COPY),
    );
    // The records come last, so what an import left that was cut short is swept like after a crash.
    delete_folder(&copy).map_err(unusable)?;
    let outcome = Import::open(directory, &copy).and_then(|import| import.run(input));
    let tasks = outcome.inspect_err(|_| {
        let _ = delete_folder(&copy);
    })?;
    delete_folder(&place).map_err(unusable)?;
    fs::rename(&copy, &place).map_err(unusable)?;
    sync_directory(directory).map_err(unusable)?;
    drop(lock);
    Ok(tasks)
}

fn refuse_tasks(directory: &Path) -> Result<(), TransferError> {
    let place = directory.join("records");
    if !place.is_dir() {
        return Ok(());
    }
    let records = Records::open(&place, CACHE_BYTES).map_err(|error| explain(directory, error))?;
    let mut found = records.scan(keys::TASK).chain(records.scan(keys::STATE));
    match found.next() {
        None => Ok(()),
        Some(_) => Err(TransferError::NotEmpty(directory.display().to_string())),
    }
}

struct Import {
    records: Records,
    bodies: Bodies,
    logs: Logs,
    writes: Writes,
    weight: usize,
    tasks: u64,
    /// The task whose bodies come.
    current: Option<TaskKey>,
}

impl Import {
    fn open(directory: &Path, copy: &Path) -> Result<Import, TransferError> {
        let unusable = |source| TransferError::from(unusable(directory, source));
        Ok(Import {
            records: Records::open(copy, CACHE_BYTES).map_err(|error| explain(copy, error))?,
            bodies: Bodies::open(directory.join("bodies")).map_err(unusable)?,
            logs: Logs::open(directory.join("logs")).map_err(unusable)?,
            writes: Writes::from([(keys::SCHEMA.to_vec(), Some(vec![FORMAT]))]),
            weight: 0,
            tasks: 0,
            current: None,
        })
    }

    fn run(mut self, mut input: impl BufRead) -> Result<u64, TransferError> {
        let mut number = 0;
        let mut line = Vec::new();
        let mut is_complete = false;
        loop {
            line.clear();
            let read = (&mut input)
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line);
            if read.map_err(TransferError::Read)? == 0 {
                break;
            }
            number += 1;
            let at_line = |what: String| TransferError::Line { number, what };
            let parsed =
                serde_json::from_slice(&line).map_err(|error| at_line(error.to_string()))?;
            match (number, parsed) {
                (1, Line::LongshoreStore(found)) if found <= VERSION => {}
                (1, Line::LongshoreStore(found)) => {
                    return Err(TransferError::Newer {
                        found,
                        supported: VERSION,
                    });
                }
                (1, _) => return Err(at_line("it does not begin an export".to_owned())),
                (_, Line::End { tasks }) if tasks == self.tasks => is_complete = true,
                (_, line) => self.take(line).map_err(|error| match error {
                    Refused::Line(what) => at_line(what),
                    Refused::Store(error) => error.into(),
                })?,
            }
            if self.weight >= COMMIT_BYTES {
                self.commit()?;
            }
        }
        if !is_complete {
            return Err(TransferError::Incomplete);
        }
        self.commit()?;
        Ok(self.tasks)
    }

    fn take(&mut self, line: Line) -> Result<(), Refused> {
        match line {
            Line::Task(line) => self.take_task(line),
            Line::Body(line) => {
                let key = self.current()?;
                let slot: SlotName = line.slot.parse().map_err(Refused::Line)?;
                let bytes = line.content.bytes().map_err(Refused::Line)?;
                let body = match bytes.len() <= INLINE_BYTES_MAX {
                    true => Body::Inline(bytes),
                    false => self.bodies.write(&key, &bytes).map_err(StoreError::from)?,
                };
                self.weight += body.weight();
                self.writes.insert(slot.key(&key), Some(body.into_value()));
                Ok(())
            }
            Line::Log(content) => {
                let key = self.current()?;
                let bytes = content.bytes().map_err(Refused::Line)?;
                let there = || Ok::<_, StoreError>(true);
                Ok(self.logs.append(&key, &bytes, there)?)
            }
            Line::State(line) => self.take_state(line),
            Line::LongshoreStore(_) | Line::End { .. } => {
                Err(Refused::Line("it has no place here".to_owned()))
            }
        }
    }

    fn take_task(&mut self, line: TaskLine) -> Result<(), Refused> {
        let key = TaskKey {
            tenant: TenantId::parse(&line.tenant).map_err(|e| Refused::Line(e.to_string()))?,
            id: TaskId::parse(&line.id).map_err(|e| Refused::Line(e.to_string()))?,
        };
        let mut record = vec![VERSION];
        record.extend_from_slice(line.record.get().as_bytes());
        if record.len() > RECORD_BYTES_MAX {
            return Err(Refused::Line("the record is too large".to_owned()));
        }
        let task = codec::decode_task(key.clone(), &record)
            .map_err(|error| Refused::Line(format!("the record: {error}")))?;
        self.weight += record.len();
        let names = keys::index(&task)
            .into_iter()
            .map(|name| (name, Some(Vec::new())));
        self.writes.extend(names);
        self.writes.insert(keys::task(&key), Some(record));
        self.tasks += 1;
        self.current = Some(key);
        Ok(())
    }

    fn take_state(&mut self, line: StateLine) -> Result<(), Refused> {
        let owner = StateOwner {
            tenant: TenantId::parse(&line.tenant).map_err(|e| Refused::Line(e.to_string()))?,
            plugin: line.plugin,
        };
        let value = state::record(&line.content.bytes().map_err(Refused::Line)?);
        let name = keys::state(&owner, &line.key);
        let is_ours = keys::read_state(&name).is_some_and(|read| read == (owner, line.key));
        if !is_ours || !state::is_value(&value) {
            return Err(Refused::Line(
                "it is no value of a plugin's state".to_owned(),
            ));
        }
        self.weight += value.len();
        self.writes.insert(name, Some(value));
        Ok(())
    }

    fn current(&self) -> Result<TaskKey, Refused> {
        let current = self.current.clone();
        current.ok_or_else(|| Refused::Line("it belongs to no task".to_owned()))
    }

    fn commit(&mut self) -> Result<(), TransferError> {
        self.weight = 0;
        let writes = std::mem::take(&mut self.writes);
        self.records.commit(writes).map_err(StoreError::from)?;
        Ok(())
    }
}

/// Why a line is not taken: it is wrong, or the store can't take it.
enum Refused {
    Line(String),
    Store(StoreError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Refused {
        Refused::Store(error)
    }
}

/// An output that can't be written is told as such, whichever layer noticed.
impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Store(error.into())
    }
}
