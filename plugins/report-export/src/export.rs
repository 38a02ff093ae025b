//! Runs an export from its arguments to the files of its report.
//!
//! Owns the order of things: what is checked before anything is read, when the state is saved,
//! what a cancel leaves. Reading, grouping and rendering are done elsewhere.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Take};
use std::time::{Duration, Instant};

use longshore_plugin::{Context, Error, Response, Result, Structured};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::aggregate::{self, Columns, Groups, MeasuredColumn};
use crate::arguments::{Arguments, NotNumbers, UnevenRows};
use crate::columns::Header;
use crate::csv::{Position, RecordReader};
use crate::directories::Directories;
use crate::report::{Report, ValueColumn};
use crate::result::{Exported, megabytes};
use crate::snapshot::{InputIdentity, Snapshot, SnapshotError};

/// When the state is saved, which is also when a cancel is seen.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How often the clock is looked at.
    pub look_bytes: u64,
    /// Work between two checkpoints.
    pub time: Duration,
    /// Input between two checkpoints, however fast it is read.
    pub bytes: u64,
}

impl Pace {
    /// Often enough that a cancel takes well under a second, seldom enough that durable writes are
    /// a small part of the work.
    pub const DEFAULT: Pace = Pace {
        look_bytes: 256 * 1024,
        time: Duration::from_millis(250),
        bytes: 32 * 1024 * 1024,
    };
    /// Saving many groups takes longer; it must stay a tenth of the time at most.
    const WORK_FOR_SAVING: u32 = 10;
}

/// The answer to the question about uneven rows.
#[derive(Deserialize, JsonSchema)]
pub struct UnevenRowsForm {
    /// What to do with all rows that have a wrong number of fields
    rows: UnevenRows,
}

/// Carries out one call.
pub fn export(
    context: &Context,
    arguments: &Arguments,
    directories: &Directories,
    pace: Pace,
) -> Result<Structured<Exported>> {
    arguments.check()?;
    let mut export = Export::open(context, arguments, directories, pace)?;
    context.external_reference(format!("report-export:{}", arguments.output), None);
    match export.run() {
        Err(error) if error.is_stopped() => Err(export.leave_partial()),
        done => done,
    }
}

struct Export<'a> {
    context: &'a Context,
    arguments: &'a Arguments,
    directories: &'a Directories,
    pace: Pace,
    columns: Columns,
    group_columns: Vec<String>,
    /// Fields of the header, and of every row that is not uneven.
    fields: usize,
    snapshot: Snapshot,
}

type Reader = RecordReader<Take<File>>;

impl<'a> Export<'a> {
    /// Finds the columns and the place to start from: the checkpoint of an earlier run, the
    /// partial file of a cancelled call, or the first row.
    fn open(
        context: &'a Context,
        arguments: &'a Arguments,
        directories: &'a Directories,
        pace: Pace,
    ) -> Result<Self> {
        let (_, input) = directories.open_input(&arguments.file)?;
        let mut reader = reader_at(directories, arguments, &input, Position::START)?;
        let Some(record) = reader.next()? else {
            return Err(Error::invalid_arguments(format!(
                "{:?} is empty: its first line must name the columns",
                arguments.file
            )));
        };
        let header = Header::new(record.fields());
        let columns = find_columns(&header, arguments)?;
        directories.check_writable(&arguments.output)?;
        let fresh = Snapshot {
            fingerprint: arguments.fingerprint(),
            position: reader.position(),
            rows_read: 0,
            rows_skipped: 0,
            rows_fitted: 0,
            uneven_rows: arguments.uneven_rows,
            may_write: arguments.overwrite,
            is_publishing: false,
            continued_from_bytes: 0,
            groups: Groups::new(columns.measures.len()),
            input,
        };
        let mut export = Export {
            context,
            arguments,
            directories,
            pace,
            group_columns: arguments.group_by.clone(),
            fields: header.len(),
            columns,
            snapshot: fresh,
        };
        export.take_up()?;
        Ok(export)
    }

    fn take_up(&mut self) -> Result<()> {
        if let Some(saved) = self.context.saved_bytes() {
            self.snapshot = self.decode(&saved).map_err(|error| {
                Error::failed(format!(
                    "the export cannot go on from its checkpoint, because {error}: start it again"
                ))
            })?;
            return Ok(());
        }
        if !self.arguments.continue_partial {
            return Ok(());
        }
        let Some(saved) = self.directories.read_partial(&self.arguments.output)? else {
            return Ok(());
        };
        match self.decode(&saved) {
            Ok(partial) => {
                self.snapshot = Snapshot {
                    continued_from_bytes: partial.position.offset,
                    // What the earlier call was allowed says nothing about this one.
                    may_write: self.arguments.overwrite,
                    is_publishing: false,
                    ..partial
                };
            }
            Err(why) => self.context.progress(format!(
                "starting anew: the partial file is no use, because {why}"
            )),
        }
        Ok(())
    }

    fn decode(&self, saved: &[u8]) -> std::result::Result<Snapshot, SnapshotError> {
        let columns = (self.columns.group_by.len(), self.columns.measures.len());
        let fresh = &self.snapshot;
        Snapshot::decode(saved, &fresh.fingerprint, &fresh.input, columns)
    }

    fn run(&mut self) -> Result<Structured<Exported>> {
        // A run that died while it put the files in place left some of them: it is finished, and
        // its own files are no reason to ask.
        if !self.snapshot.is_publishing {
            self.ask_to_write()?;
            self.save()?;
            self.read_rows()?;
            self.directories
                .check_unchanged(&self.arguments.file, &self.snapshot.input)?;
            // Somebody else may have written there since.
            self.ask_to_write()?;
            self.snapshot.is_publishing = true;
            self.save()?;
        }
        self.publish()
    }

    /// Makes sure that no file is written over that nobody gave up.
    fn ask_to_write(&mut self) -> Result<()> {
        if self.snapshot.may_write {
            return Ok(());
        }
        let existing = self.directories.existing_outputs(&self.arguments.output);
        if existing.is_empty() {
            return Ok(());
        }
        let names = existing.join(", ");
        let question = format!("Write over the existing {names}?");
        match self.context.confirm("overwrite", question) {
            Ok(true) => {
                self.snapshot.may_write = true;
                Ok(())
            }
            Ok(false) => Err(Error::failed(format!(
                "nothing was written, because {names} would be written over: pass another `output`, or `overwrite: true`"
            ))),
            Err(Error::MissingCapability(_) | Error::Unsupported(_)) => {
                Err(Error::failed(format!(
                    "{names} exist and nobody can be asked: pass another `output`, or `overwrite: true`"
                )))
            }
            Err(error) => Err(error),
        }
    }

    fn read_rows(&mut self) -> Result<()> {
        let mut reader = self.reader()?;
        let mut last_save = Instant::now();
        let mut pause = self.pace.time;
        let mut saved_at = self.snapshot.position.offset;
        let mut look_at = saved_at + self.pace.look_bytes;
        loop {
            match self.take_row(&mut reader)? {
                Row::Taken => {}
                Row::Uneven { found } => {
                    self.ask_about_uneven_rows(found)?;
                    // The row is read again under the rule there is now.
                    reader = self.reader()?;
                    continue;
                }
                Row::End => break,
            }
            let position = reader.position();
            if position.offset < look_at {
                continue;
            }
            look_at = position.offset + self.pace.look_bytes;
            if last_save.elapsed() >= pause || position.offset - saved_at >= self.pace.bytes {
                let begin = Instant::now();
                self.snapshot.position = position;
                self.save()?;
                saved_at = position.offset;
                last_save = Instant::now();
                pause = self.pace.time.max(begin.elapsed() * Pace::WORK_FOR_SAVING);
            }
        }
        self.snapshot.position = reader.position();
        Ok(())
    }

    /// Reads one row and takes it into the groups.
    #[inline]
    fn take_row(&mut self, reader: &mut Reader) -> Result<Row> {
        let snapshot = &mut self.snapshot;
        let Some(record) = reader.next()? else {
            return Ok(Row::End);
        };
        if record.len() != self.fields {
            match snapshot.uneven_rows {
                Some(UnevenRows::Skip) => {
                    snapshot.rows_read += 1;
                    snapshot.rows_skipped += 1;
                    return Ok(Row::Taken);
                }
                Some(UnevenRows::Fit) => snapshot.rows_fitted += 1,
                Some(UnevenRows::Stop) => {
                    let found = record.len();
                    return Err(self.uneven_row_error(reader.record_start(), found));
                }
                None => {
                    let found = record.len();
                    snapshot.position = reader.record_start();
                    return Ok(Row::Uneven { found });
                }
            }
        }
        snapshot.rows_read += 1;
        let not_numbers = match self.arguments.not_numbers {
            NotNumbers::Stop => aggregate::NotNumbers::Stop,
            NotNumbers::Skip => aggregate::NotNumbers::Skip,
        };
        match snapshot.groups.add(&record, &self.columns, not_numbers) {
            Ok(()) => Ok(Row::Taken),
            Err(error) => {
                let line = reader.record_start().line;
                Err(Error::from(error).context(format!("line {line}")))
            }
        }
    }

    /// Asks once, at the first uneven row; the task may be unloaded while it waits.
    fn ask_about_uneven_rows(&mut self, found: usize) -> Result<()> {
        self.save()?;
        let Position { line, .. } = self.snapshot.position;
        let question = format!(
            "Line {line} of {} has {found} fields where the header has {}. What shall be done with such rows?",
            self.arguments.file, self.fields
        );
        let answer = self.context.ask::<UnevenRowsForm>("uneven_rows", question);
        let stop = || self.uneven_row_error(self.snapshot.position, found);
        self.snapshot.uneven_rows = match answer {
            Ok(Response::Accept(form)) if form.rows != UnevenRows::Stop => Some(form.rows),
            Ok(_) | Err(Error::MissingCapability(_) | Error::Unsupported(_)) => return Err(stop()),
            Err(error) => return Err(error),
        };
        Ok(())
    }

    fn uneven_row_error(&self, position: Position, found: usize) -> Error {
        Error::failed(format!(
            "line {} has {found} fields where the header has {}, and nothing was written: correct the file, or pass `uneven_rows` as \"skip\" (leave such rows out) or \"fit\" (pad or cut them)",
            position.line, self.fields
        ))
    }

    /// Saves the state durably; a cancel is seen here.
    fn save(&self) -> Result<()> {
        let snapshot = &self.snapshot;
        let (done, total) = (snapshot.position.offset, snapshot.input.bytes);
        self.context.progress_of(
            done,
            total,
            format!(
                "{} of {}, {} rows, {} groups",
                megabytes(done),
                megabytes(total),
                snapshot.rows_read,
                snapshot.groups.len()
            ),
        );
        self.context.checkpoint_bytes(&snapshot.encode())
    }

    /// After a cancel, which is only seen before the first file is put in place: keeps what was
    /// read, for the next call to go on from.
    fn leave_partial(&self) -> Error {
        let snapshot = &self.snapshot;
        if snapshot.rows_read == 0 {
            return Error::cancelled("Nothing was read or written.");
        }
        let read = format!(
            "Nothing of the report was written. {} of {} were read",
            megabytes(snapshot.position.offset),
            megabytes(snapshot.input.bytes)
        );
        let output = &self.arguments.output;
        match self.directories.write_partial(output, &snapshot.encode()) {
            Ok(path) => Error::cancelled(format!(
                "{read} and are kept in {path}: the same call goes on from there; delete that file to give it up."
            )),
            Err(error) => Error::cancelled(format!("{read} and are lost: {error}")),
        }
    }

    fn publish(&mut self) -> Result<Structured<Exported>> {
        let report = self.report();
        let task = self.context.task_id();
        let files = self.directories.publish(&report, task.as_deref())?;
        self.directories.remove_partial(&report.name)?;
        let exported = Exported {
            files,
            rows_read: report.rows_read,
            rows_skipped: report.rows_skipped,
            rows_fitted: report.rows_fitted,
            values_skipped: report.values_skipped,
            groups: report.groups.len() as u64,
            bytes_read: self.snapshot.input.bytes,
            continued_from_bytes: self.snapshot.continued_from_bytes,
        };
        let text = exported.describe(&report);
        Ok(Structured::with_text(exported, text))
    }

    /// The finished report; takes the groups out of the state.
    fn report(&mut self) -> Report {
        let none = Groups::new(self.columns.measures.len());
        let groups = std::mem::replace(&mut self.snapshot.groups, none);
        let value_columns = ValueColumn::all(self.arguments, groups.decimals());
        Report {
            name: self.arguments.output.clone(),
            file: self.arguments.file.clone(),
            group_columns: self.group_columns.clone(),
            charted: Report::charted(self.arguments, &value_columns),
            value_columns,
            top: usize::from(self.arguments.chart.top),
            rows_read: self.snapshot.rows_read,
            rows_skipped: self.snapshot.rows_skipped,
            rows_fitted: self.snapshot.rows_fitted,
            values_skipped: groups.values_skipped(),
            groups: groups.into_sorted(),
        }
    }

    fn reader(&self) -> Result<Reader> {
        let snapshot = &self.snapshot;
        reader_at(
            self.directories,
            self.arguments,
            &snapshot.input,
            snapshot.position,
        )
    }
}

enum Row {
    Taken,
    /// The state stands before a row with `found` fields that nobody decided about yet.
    Uneven {
        found: usize,
    },
    End,
}

fn reader_at(
    directories: &Directories,
    arguments: &Arguments,
    input: &InputIdentity,
    position: Position,
) -> Result<Reader> {
    let (mut file, _) = directories.open_input(&arguments.file)?;
    file.seek(SeekFrom::Start(position.offset))?;
    // What is appended meanwhile belongs to another file than the one we began with.
    let source = file.take(input.bytes.saturating_sub(position.offset));
    Ok(RecordReader::new(
        source,
        position,
        arguments.delimiter.byte(),
    ))
}

fn find_columns(header: &Header, arguments: &Arguments) -> Result<Columns> {
    let find = |name: &String, argument: &str| {
        header
            .find(name)
            .map_err(|error| Error::invalid_arguments(format!("`{argument}`: {error}")))
    };
    let group_by = arguments.group_by.iter().map(|name| find(name, "group_by"));
    let measures = arguments.measures.iter().map(|measure| {
        Ok(MeasuredColumn {
            index: find(&measure.column, "measures")?,
            name: measure.column.clone(),
        })
    });
    Ok(Columns {
        group_by: group_by.collect::<Result<_>>()?,
        measures: measures.collect::<Result<_>>()?,
    })
}

#[cfg(test)]
mod tests;
