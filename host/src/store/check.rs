//! Compares what the store's records say with each other and with the files. It only reads, and
//! repairs nothing: what a crash may leave is deleted at the next start, everything else is a problem
//! for an operator. (The database itself tidies its own file whenever it is opened; where the disk has
//! no room for that, a copy is checked.)

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::bodies::{Bodies, file_name};
use super::codec::{self, decode_task};
use super::error::{BodyError, Damage};
use super::keys::{self, Family, Slot, SlotName};
use super::logs::Logs;
use super::offline::Offline;
use super::quota::read_count;
use super::records::Records;
use super::state;
use super::{OpenError, StoreError};
use crate::task::{Ending, Phase, Task, TaskKey};

/// Problems told one by one; more are only counted.
const TOLD_MAX: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub tasks: u64,
    pub records: u64,
    /// Bodies and logs that are files.
    pub files: u64,
    /// Files that no record names. A crash leaves them, and the next start deletes them.
    pub leftover_files: u64,
    /// Everything that is wrong, by kind.
    pub problems: BTreeMap<Problem, u64>,
    /// The first problems in words.
    pub told: Vec<String>,
}

/// What can be wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// A task's record can't be read.
    DamagedTask,
    /// A record of a task that does not exist.
    Orphan,
    /// A record names a file that is not there.
    MissingFile,
    /// A record names a file that does not hold what was written.
    ChangedFile,
    /// A task lacks something it must have.
    MissingRecord,
    /// An index says what its task does not, or the other way round.
    WrongIndex,
    /// A key this version does not write.
    UnknownKey,
    /// The database has forgotten commits that were acknowledged.
    LostCommits,
}

impl Problem {
    pub fn as_str(self) -> &'static str {
        match self {
            Problem::DamagedTask => "damaged_task",
            Problem::Orphan => "orphan",
            Problem::MissingFile => "missing_file",
            Problem::ChangedFile => "changed_file",
            Problem::MissingRecord => "missing_record",
            Problem::WrongIndex => "wrong_index",
            Problem::UnknownKey => "unknown_key",
            Problem::LostCommits => "lost_commits",
        }
    }
}

impl Report {
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    fn tell(&mut self, problem: Problem, words: impl FnOnce() -> String) {
        *self.problems.entry(problem).or_default() += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(words());
        }
    }
}

/// Checks the store in `directory`, which no host may have open.
pub fn check(directory: &Path) -> Result<Report, OpenError> {
    let offline = Offline::open_to_read(directory)?;
    let outcome = check_all(&offline);
    outcome.map_err(|error| offline.unreadable(error))
}

fn check_all(offline: &Offline) -> Result<Report, StoreError> {
    let mut report = check_records(&offline.records)?;
    check_bodies(&offline.records, &offline.bodies, &mut report)?;
    check_logs(&offline.records, &offline.logs, &mut report)?;
    if let lost @ 1.. = offline.lost_commits {
        report.tell(Problem::LostCommits, || {
            format!("the database has lost its last {lost} commits: its file is damaged")
        });
    }
    Ok(report)
}

/// Checks the records among themselves.
pub(super) fn check_records(records: &Records) -> Result<Report, StoreError> {
    let mut report = Report::default();
    for entry in records.scan(b"") {
        let (name, value) = entry?;
        report.records += 1;
        match keys::read(&name) {
            // Nothing depends on a round: it goes with time.
            Some((Family::Store | Family::Round, _)) => {}
            Some((Family::State, _)) if state::is_value(&value) => {}
            Some((Family::Task, Some(key))) => {
                report.tasks += 1;
                match decode_task(key.clone(), &value) {
                    Ok(task) => check_task(records, &task, &mut report)?,
                    Err(error) => report.tell(Problem::DamagedTask, || {
                        format!("task {}: its record can't be read: {error}", shown(&key))
                    }),
                }
            }
            Some((family, Some(key))) => {
                let Some(record) = records.get(&keys::task(&key))? else {
                    report.tell(Problem::Orphan, || {
                        let family = family.as_str();
                        format!("task {}: {family} of a task that is not there", shown(&key))
                    });
                    continue;
                };
                // A damaged task is told of where its record is met.
                let task = decode_task(key, &record).ok();
                if family == Family::Index
                    && let Some(task) = task
                    && !keys::index(&task).iter().any(|index| index[..] == name[..])
                {
                    report.tell(Problem::WrongIndex, || {
                        format!("task {}: an index has it where it is not", shown(&task.key))
                    });
                }
            }
            _ => report.tell(Problem::UnknownKey, || {
                format!(
                    "a key that is not ours: {:?}",
                    String::from_utf8_lossy(&name)
                )
            }),
        }
    }
    Ok(report)
}

/// Whether a task has all it must have.
fn check_task(records: &Records, task: &Task, report: &mut Report) -> Result<(), StoreError> {
    for index in keys::index(task) {
        if !records.contains(&index)? {
            report.tell(Problem::WrongIndex, || {
                format!("task {}: an index does not have it", shown(&task.key))
            });
        }
    }
    let mut needed = vec![Slot::Arguments];
    for (key, input) in &task.inputs {
        needed.push(Slot::Question(key.clone()));
        needed.extend(input.answered.then(|| Slot::Answer(key.clone())));
    }
    if task.phase == Phase::Ended(Ending::Completed) {
        needed.push(Slot::Result);
    }
    for slot in needed {
        if !records.contains(&keys::body(&task.key, &slot))? {
            report.tell(Problem::MissingRecord, || {
                format!("task {}: it has no {}", shown(&task.key), slot.words())
            });
        }
    }
    Ok(())
}

fn check_bodies(records: &Records, bodies: &Bodies, report: &mut Report) -> Result<(), StoreError> {
    let mut parts = PartSums::default();
    for family in keys::BODIES {
        for entry in records.scan(family) {
            let (name, value) = entry?;
            let Some((_, Some(key))) = keys::read(&name) else {
                continue;
            };
            let body = bodies.read(&key, &value);
            if let Some(SlotName::Slot(Slot::Part(number))) = SlotName::read(&name, &key) {
                parts.add(&key, number, body.as_deref().ok());
            }
            let damage = match body {
                Ok(_) => continue,
                Err(BodyError::Damaged(damage)) => damage,
                Err(BodyError::File(error)) => return Err(error.into()),
            };
            let problem = match damage {
                Damage::Missing => Problem::MissingFile,
                Damage::Length { .. } | Damage::Content | Damage::Reference => Problem::ChangedFile,
            };
            report.tell(problem, || {
                let slot = SlotName::read(&name, &key);
                let slot = slot.map_or("body", |slot| slot.kind());
                format!("task {}: its {slot}: {damage}", shown(&key))
            });
        }
    }
    parts.compare(report);
    for key in bodies.tasks()? {
        let mut named = BTreeSet::new();
        for prefix in keys::bodies(&key) {
            for entry in records.scan(&prefix) {
                named.extend(file_name(&entry?.1).map(str::to_owned));
            }
        }
        for file in std::fs::read_dir(bodies.folder(&key))? {
            let name = file?.file_name();
            report.files += 1;
            let is_named = name.to_str().is_some_and(|name| named.contains(name));
            report.leftover_files += u64::from(!is_named);
        }
    }
    Ok(())
}

/// What the parts of results hold, by task, beside what their heads say they do.
#[derive(Default)]
struct PartSums(BTreeMap<TaskKey, PartSum>);

#[derive(Default)]
struct PartSum {
    head: Option<u64>,
    bytes: u64,
    /// What can't be read is told of where it is met, and can't be compared.
    has_unreadable: bool,
}

impl PartSums {
    fn add(&mut self, key: &TaskKey, number: u32, body: Option<&[u8]>) {
        let sum = self.0.entry(key.clone()).or_default();
        if number == 0 {
            sum.head = body.map(read_count);
            sum.has_unreadable |= body.is_none();
            return;
        }
        match body.map(|bytes| codec::decode_part(bytes.to_vec())) {
            Some(Ok(part)) => sum.bytes += part.size_bytes() as u64,
            _ => sum.has_unreadable = true,
        }
    }

    fn compare(self, report: &mut Report) {
        for (key, sum) in self.0 {
            if !sum.has_unreadable && sum.head != Some(sum.bytes) {
                report.tell(Problem::MissingRecord, || {
                    let (found, due) = (sum.bytes, sum.head.unwrap_or_default());
                    format!(
                        "task {}: the parts of its result have {found} bytes, and {due} were written",
                        shown(&key)
                    )
                });
            }
        }
    }
}

fn check_logs(records: &Records, logs: &Logs, report: &mut Report) -> Result<(), StoreError> {
    for key in logs.tasks()? {
        report.files += 1;
        let has_task = records.contains(&keys::task(&key))?;
        report.leftover_files += u64::from(!has_task);
    }
    Ok(())
}

fn shown(key: &TaskKey) -> String {
    format!("{} of {}", key.id, key.tenant)
}
