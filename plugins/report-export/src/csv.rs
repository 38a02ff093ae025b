//! Reads CSV records from a stream, one at a time, in bounded memory.
//!
//! Owns the byte offset and line of every record boundary, which a checkpoint saves: a reader that
//! starts at a boundary yields what the first reader would have gone on to yield. Must not know
//! what the fields mean, and must not ask anything.
//!
//! Quoting is RFC 4180 as `csv-core` reads it: `""` inside quotes is one quote, a record ends at
//! LF, CR or CRLF, empty lines are no records. Lines without a quote, which are nearly all of them
//! in a large file, are split in place without `csv-core` and without copying; both ways give the
//! same fields.

use std::io::Read;

use csv_core::{ReadRecordResult, ReaderBuilder};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The most bytes of one record, quotes included. A quote that is never closed would otherwise
/// read the rest of the file into memory.
pub const RECORD_MAX_BYTES: usize = 1024 * 1024;
/// The most fields of one record.
pub const FIELDS_MAX: usize = 4096;
/// Large enough that the host call behind a read is a small part of the work on it.
const BUFFER_BYTES: usize = 256 * 1024;
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A place between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// The line at that offset, from 1.
    pub line: u64,
}

impl Position {
    pub const START: Position = Position { offset: 0, line: 1 };
}

/// Why a record cannot be read. Each text says what to change.
#[derive(Debug, Error)]
pub enum CsvError {
    #[error("the input file could not be read at byte {offset}")]
    Read {
        offset: u64,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "the record that starts on line {line} is longer than {RECORD_MAX_BYTES} bytes: look for a quote there that is not closed, or check `delimiter`"
    )]
    RecordTooLong { line: u64 },
    #[error(
        "the record that starts on line {line} has more than {FIELDS_MAX} fields: check `delimiter`, or split the file by columns"
    )]
    TooManyFields { line: u64 },
    #[error(
        "the record that starts on line {line} opens a quote that the file never closes: close it, or double it (\"\") if it is part of the text"
    )]
    UnclosedQuote { line: u64 },
    #[error("the input file is UTF-16: convert it first, for example `iconv -f UTF-16 -t UTF-8`")]
    Utf16,
}

/// One record, borrowed from the reader until the next is read.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    bytes: &'a [u8],
    ends: &'a [usize],
    /// Bytes between the end of a field and the start of the next: 1 where a line was split in place.
    gap: usize,
}

impl<'a> Record<'a> {
    /// The number of fields, at least 1.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Field `index`, unquoted. A field the record does not have reads as empty.
    #[inline]
    pub fn field(&self, index: usize) -> &'a [u8] {
        let Some(&end) = self.ends.get(index) else {
            return b"";
        };
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1] + self.gap,
        };
        &self.bytes[start..end]
    }

    pub fn fields(self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.len()).map(move |index| self.field(index))
    }
}

/// A reader of records.
pub struct RecordReader<R> {
    source: R,
    core: csv_core::Reader,
    delimiter: u8,
    buffer: Box<[u8]>,
    /// The part of `buffer` not consumed yet.
    start: usize,
    end: usize,
    /// The file offset of `buffer[start]`.
    offset: u64,
    /// Where the last record read begins.
    record_start: Position,
    /// The fields of a record that `csv-core` read, without quotes and delimiters.
    unquoted: Vec<u8>,
    ends: Vec<usize>,
}

impl<R: Read> RecordReader<R> {
    /// Reads from `source`, which stands at `position`.
    pub fn new(source: R, position: Position, delimiter: u8) -> Self {
        let mut core = ReaderBuilder::new().delimiter(delimiter).build();
        // csv-core drops a byte order mark at its first read. Only the start of the file has one,
        // and a reader may start in the middle: an empty line makes that first read harmless.
        core.read_record(b"\n", &mut [0], &mut [0]);
        core.set_line(position.line);
        RecordReader {
            source,
            core,
            delimiter,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            offset: position.offset,
            record_start: position,
            unquoted: vec![0; 1024],
            ends: vec![0; 64],
        }
    }

    /// The boundary after the last record read.
    pub fn position(&self) -> Position {
        Position {
            offset: self.offset,
            line: self.core.line(),
        }
    }

    /// Where the last record read begins.
    pub fn record_start(&self) -> Position {
        self.record_start
    }

    /// The next record, or none at the end of the file.
    pub fn next(&mut self) -> Result<Option<Record<'_>>, CsvError> {
        if self.offset == 0 && self.end == 0 {
            self.skip_byte_order_mark()?;
        }
        if !self.skip_line_ends()? {
            return Ok(None);
        }
        self.record_start = self.position();
        if let Some(length) = self.split_in_place()? {
            let line = &self.buffer[self.start..self.start + length];
            self.start += length;
            self.offset += length as u64;
            return Ok(Some(Record {
                bytes: line,
                ends: &self.ends,
                gap: 1,
            }));
        }
        self.read_with_quotes()
    }

    /// Drops the UTF-8 mark at the start of the file; the offset counts it.
    fn skip_byte_order_mark(&mut self) -> Result<(), CsvError> {
        while self.end < BOM.len() {
            let before = self.end;
            self.fill()?;
            if self.end == before {
                break;
            }
        }
        let begin = &self.buffer[..self.end];
        if begin.starts_with(BOM) {
            self.consume(BOM.len());
        } else if begin.starts_with(b"\xff\xfe") || begin.starts_with(b"\xfe\xff") {
            return Err(CsvError::Utf16);
        }
        Ok(())
    }

    /// Skips empty lines and the LF of a CRLF, so that a record's start and line are exact.
    /// False at the end of the file.
    fn skip_line_ends(&mut self) -> Result<bool, CsvError> {
        loop {
            while self.start < self.end {
                match self.buffer[self.start] {
                    b'\n' => self.core.set_line(self.core.line() + 1),
                    b'\r' => {}
                    _ => return Ok(true),
                }
                self.consume(1);
            }
            self.fill()?;
            if self.start == self.end {
                return Ok(false);
            }
        }
    }

    /// Finds the fields of a line that has no quote and lies in the buffer as a whole.
    /// Its length without the line end, or none for `read_with_quotes` to take over.
    fn split_in_place(&mut self) -> Result<Option<usize>, CsvError> {
        self.ends.clear();
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start..self.end];
            let stop = scan_line(unread, &mut searched, self.delimiter, &mut self.ends);
            if self.ends.len() >= FIELDS_MAX {
                return Err(CsvError::TooManyFields {
                    line: self.record_start.line,
                });
            }
            match stop {
                Stop::LineEnd => break,
                Stop::Quote => return Ok(None),
                Stop::OutOfInput if self.start == 0 && self.end == self.buffer.len() => {
                    return Ok(None);
                }
                Stop::OutOfInput => {
                    let before = unread.len();
                    self.fill()?;
                    if self.end - self.start == before {
                        break;
                    }
                }
            }
        }
        self.ends.push(searched);
        Ok(Some(searched))
    }

    /// Reads a record that has quotes, or does not fit the buffer, through `csv-core`.
    fn read_with_quotes(&mut self) -> Result<Option<Record<'_>>, CsvError> {
        let line = self.record_start.line;
        let (mut written, mut fields) = (0, 0);
        self.ends.resize(self.ends.capacity().max(64), 0);
        loop {
            if self.start == self.end {
                self.fill()?;
            }
            let at_end = self.start == self.end;
            // Past the end, a line end closes the last record, unless it falls inside quotes.
            let input: &[u8] = match at_end {
                true => b"\n",
                false => &self.buffer[self.start..self.end],
            };
            let (result, read, wrote, ended) = self.core.read_record(
                input,
                &mut self.unquoted[written..],
                &mut self.ends[fields..],
            );
            written += wrote;
            fields += ended;
            if !at_end {
                self.consume(read);
            }
            if self.offset - self.record_start.offset > RECORD_MAX_BYTES as u64 {
                return Err(CsvError::RecordTooLong { line });
            }
            match result {
                ReadRecordResult::Record => break,
                ReadRecordResult::InputEmpty if at_end => {
                    return Err(CsvError::UnclosedQuote { line });
                }
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => {
                    let larger = (self.unquoted.len() * 2).min(RECORD_MAX_BYTES + 1);
                    if larger == self.unquoted.len() {
                        return Err(CsvError::RecordTooLong { line });
                    }
                    self.unquoted.resize(larger, 0);
                }
                ReadRecordResult::OutputEndsFull => {
                    if self.ends.len() > FIELDS_MAX {
                        return Err(CsvError::TooManyFields { line });
                    }
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                // Only an empty input ends the stream, and none is ever passed.
                ReadRecordResult::End => return Ok(None),
            }
        }
        if fields > FIELDS_MAX {
            return Err(CsvError::TooManyFields { line });
        }
        self.ends.truncate(fields);
        Ok(Some(Record {
            bytes: &self.unquoted[..written],
            ends: &self.ends,
            gap: 0,
        }))
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Reads once more behind what is left, which moves to the front. Reads nothing at the end of
    /// the file or when the buffer is full.
    fn fill(&mut self) -> Result<(), CsvError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    return Ok(());
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(CsvError::Read {
                        offset: self.offset + (self.end - self.start) as u64,
                        source,
                    });
                }
            }
        }
    }
}

enum Stop {
    LineEnd,
    Quote,
    OutOfInput,
}

const EACH: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Marks the high bit of each byte of `word` that is zero, and of no other byte.
#[inline(always)]
fn zero_bytes(word: u64) -> u64 {
    !(((word & !HIGH) + !HIGH) | word | !HIGH)
}

/// Looks at `input` from `at` on for delimiters, whose places go to `ends`, until a line end, a
/// quote or the end of the input; `at` is left there. Eight bytes at a time: the sandbox checks
/// for preemption once a loop turn, so the turns are what costs.
#[inline]
fn scan_line(input: &[u8], at: &mut usize, delimiter: u8, ends: &mut Vec<usize>) -> Stop {
    let spread = u64::from(delimiter) * EACH;
    let mut chunk_at = *at;
    let mut chunks = input[chunk_at..].chunks_exact(8);
    for chunk in chunks.by_ref() {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks_exact gives eight bytes"));
        let delimiters = zero_bytes(word ^ spread);
        let stops = zero_bytes(word ^ (u64::from(b'\n') * EACH))
            | zero_bytes(word ^ (u64::from(b'\r') * EACH))
            | zero_bytes(word ^ (u64::from(b'"') * EACH));
        let mut marks = delimiters | stops;
        while marks != 0 {
            let place = chunk_at + (marks.trailing_zeros() / 8) as usize;
            let mark = marks & marks.wrapping_neg();
            if stops & mark != 0 {
                *at = place;
                return stop_of(input[place]);
            }
            ends.push(place);
            marks &= marks - 1;
        }
        chunk_at += 8;
        if ends.len() >= FIELDS_MAX {
            *at = chunk_at;
            return Stop::OutOfInput;
        }
    }
    for (index, &byte) in chunks.remainder().iter().enumerate() {
        match byte {
            b'\n' | b'\r' | b'"' => {
                *at = chunk_at + index;
                return stop_of(byte);
            }
            _ if byte == delimiter => ends.push(chunk_at + index),
            _ => {}
        }
    }
    *at = input.len();
    Stop::OutOfInput
}

fn stop_of(byte: u8) -> Stop {
    match byte {
        b'"' => Stop::Quote,
        _ => Stop::LineEnd,
    }
}

#[cfg(test)]
mod tests;
