//! Groups rows and keeps count, sum, minimum and maximum of their measures, exactly.
//!
//! Owns the memory the tool may use: a new group is paid for, at the size its worst state has in a
//! checkpoint, before it is made. Must not read files or format results.

use std::collections::HashMap;

use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use crate::csv::Record;
use crate::decimal::{self, DecimalError};

/// The most groups of one report.
pub const GROUPS_MAX: usize = 50_000;
/// What all groups together may take in a checkpoint, which is limited to 4 MiB as a whole.
pub const GROUPS_MAX_BYTES: usize = 3 * 1024 * 1024 + 512 * 1024;
/// How much of a value an error shows.
const EXCERPT_MAX_CHARS: usize = 40;

/// Which columns make the groups and which are measured.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Indexes in a record.
    pub group_by: Vec<usize>,
    pub measures: Vec<MeasuredColumn>,
}

/// A column that holds numbers.
#[derive(Clone, Debug)]
pub struct MeasuredColumn {
    /// Index in a record.
    pub index: usize,
    /// As the arguments name it.
    pub name: String,
}

/// What to do with a measured value that is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotNumbers {
    Stop,
    Skip,
}

/// Why a row cannot be taken in. Each text says what to change.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum AggregateError {
    #[error(
        "the value {value:?} of column {column:?} {reason}: correct it, or pass `not_numbers: \"skip\"` to leave such values out"
    )]
    Value {
        column: String,
        value: String,
        reason: DecimalError,
    },
    #[error(
        "there are more than {GROUPS_MAX} groups: group by fewer columns, or by columns with fewer different values"
    )]
    TooManyGroups,
    #[error(
        "{groups} groups need all of the {GROUPS_MAX_BYTES} bytes that partial results may take: group by fewer or shorter columns, or ask for fewer measures"
    )]
    GroupsTooLarge { groups: usize },
    #[error(
        "the sum of column {column:?} passes 1.7e20 in one group: measure it in a larger unit, or group by more columns"
    )]
    SumTooLarge { column: String },
}

/// Why saved groups are not taken up again.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("the saved groups are damaged")]
pub struct DamagedGroups;

/// One measure of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Values that are numbers; empty fields are not counted.
    pub count: u64,
    /// In units of 10^-18, like `min` and `max`, which are 0 while `count` is.
    pub sum: i128,
    pub min: i128,
    pub max: i128,
}

/// What a cell may take in a checkpoint: a row count that fits 42 bits, and three `i128`.
const CELL_MAX_BYTES: usize = 6 + 3 * 19;
/// What a group may take besides its key and cells: the key's length, its rows and its cells' number.
const GROUP_MAX_BYTES: usize = 3 + 6 + 1;

impl Cell {
    /// False if the sum does not fit.
    #[must_use]
    fn add(&mut self, units: i128) -> bool {
        let Some(sum) = self.sum.checked_add(units) else {
            return false;
        };
        self.sum = sum;
        if self.count == 0 {
            (self.min, self.max) = (units, units);
        } else {
            self.min = self.min.min(units);
            self.max = self.max.max(units);
        }
        self.count += 1;
        true
    }

    /// Both cells taken together, unless the sum does not fit.
    pub fn merged(&self, other: &Cell) -> Option<Cell> {
        match (self.count, other.count) {
            (_, 0) => Some(*self),
            (0, _) => Some(*other),
            _ => Some(Cell {
                count: self.count + other.count,
                sum: self.sum.checked_add(other.sum)?,
                min: self.min.min(other.min),
                max: self.max.max(other.max),
            }),
        }
    }
}

/// All groups so far.
#[derive(Debug, Deserialize)]
#[serde(try_from = "SavedGroups")]
pub struct Groups {
    measures: usize,
    /// A key is each field behind its length: equal keys are equal rows of fields.
    index: HashMap<Box<[u8]>, u32>,
    rows: Vec<u64>,
    /// `measures` cells for each group, in the order of `rows`.
    cells: Vec<Cell>,
    /// The most digits after the point that a value of each measure had.
    decimals: Vec<u8>,
    /// Values left out because they are no numbers.
    values_skipped: u64,
    paid_bytes: usize,
    key: Vec<u8>,
}

/// A group of the finished report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The fields of the group's columns, in their order.
    pub fields: Vec<Vec<u8>>,
    pub rows: u64,
    pub cells: Vec<Cell>,
}

impl Groups {
    pub fn new(measures: usize) -> Self {
        Groups {
            measures,
            index: HashMap::new(),
            rows: Vec::new(),
            cells: Vec::new(),
            decimals: vec![0; measures],
            values_skipped: 0,
            paid_bytes: 0,
            key: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn decimals(&self) -> &[u8] {
        &self.decimals
    }

    pub fn values_skipped(&self) -> u64 {
        self.values_skipped
    }

    /// Whether these groups, read from a saved form, belong to a report of that many columns.
    pub fn fits(&self, group_by: usize, measures: usize) -> bool {
        self.measures == measures
            && self
                .index
                .keys()
                .all(|key| fields_of(key).len() == group_by)
    }

    fn cells_of(&self, group: u32) -> &[Cell] {
        let first = group as usize * self.measures;
        &self.cells[first..first + self.measures]
    }

    /// Takes one row in.
    pub fn add(
        &mut self,
        record: &Record<'_>,
        columns: &Columns,
        not_numbers: NotNumbers,
    ) -> Result<(), AggregateError> {
        self.key.clear();
        for &column in &columns.group_by {
            let field = record.field(column);
            self.key.extend((field.len() as u32).to_le_bytes());
            self.key.extend_from_slice(field);
        }
        let group = match self.index.get(self.key.as_slice()) {
            Some(&group) => group as usize,
            None => self.make_group()?,
        };
        self.rows[group] += 1;
        let first_cell = group * self.measures;
        for (measure, column) in columns.measures.iter().enumerate() {
            let value = record.field(column.index);
            match decimal::parse(value) {
                Ok(number) => {
                    self.decimals[measure] = self.decimals[measure].max(number.decimals);
                    if !self.cells[first_cell + measure].add(number.units) {
                        return Err(AggregateError::SumTooLarge {
                            column: column.name.clone(),
                        });
                    }
                }
                Err(_) if value.trim_ascii().is_empty() => {}
                Err(_) if not_numbers == NotNumbers::Skip => self.values_skipped += 1,
                Err(reason) => {
                    return Err(AggregateError::Value {
                        column: column.name.clone(),
                        value: excerpt(value),
                        reason,
                    });
                }
            }
        }
        Ok(())
    }

    /// Makes the group of `self.key`, if it can be paid for.
    #[cold]
    fn make_group(&mut self) -> Result<usize, AggregateError> {
        let group = self.rows.len();
        if group == GROUPS_MAX {
            return Err(AggregateError::TooManyGroups);
        }
        let bytes = self.key.len() + GROUP_MAX_BYTES + self.measures * CELL_MAX_BYTES;
        if self.paid_bytes + bytes > GROUPS_MAX_BYTES {
            return Err(AggregateError::GroupsTooLarge { groups: group });
        }
        self.paid_bytes += bytes;
        self.index.insert(self.key.as_slice().into(), group as u32);
        self.rows.push(0);
        self.cells
            .resize(self.cells.len() + self.measures, Cell::default());
        Ok(group)
    }

    /// The groups in the byte order of their fields, column by column.
    pub fn into_sorted(self) -> Vec<Group> {
        let mut groups: Vec<Group> = self
            .index
            .iter()
            .map(|(key, &group)| Group {
                fields: fields_of(key),
                rows: self.rows[group as usize],
                cells: self.cells_of(group).to_vec(),
            })
            .collect();
        groups.sort_unstable_by(|left, right| left.fields.cmp(&right.fields));
        groups
    }
}

/// The fields of a key. A damaged key gives fewer or others, which [`Groups::fits`] tells.
fn fields_of(mut key: &[u8]) -> Vec<Vec<u8>> {
    let mut fields = Vec::new();
    while let Some((length, rest)) = key.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((field, rest)) = rest.split_at_checked(length) else {
            break;
        };
        fields.push(field.to_vec());
        key = rest;
    }
    fields
}

fn excerpt(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    match text.char_indices().nth(EXCERPT_MAX_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into_owned(),
    }
}

/// The saved form, as it is written: borrowed, since the groups may be most of the memory.
#[derive(Serialize)]
#[serde(rename = "SavedGroups")]
struct SavingGroups<'a> {
    decimals: &'a [u8],
    values_skipped: u64,
    groups: Entries<'a>,
}

struct Entries<'a>(&'a Groups);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.index.iter().map(|(key, &group)| {
            let rows = self.0.rows[group as usize];
            (key, rows, self.0.cells_of(group))
        }))
    }
}

impl Serialize for Groups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SavingGroups {
            decimals: &self.decimals,
            values_skipped: self.values_skipped,
            groups: Entries(self),
        }
        .serialize(serializer)
    }
}

/// The saved form, as it is read.
#[derive(Deserialize)]
struct SavedGroups {
    decimals: Vec<u8>,
    values_skipped: u64,
    groups: Vec<(Vec<u8>, u64, Vec<Cell>)>,
}

impl TryFrom<SavedGroups> for Groups {
    type Error = DamagedGroups;

    fn try_from(saved: SavedGroups) -> Result<Self, DamagedGroups> {
        let mut groups = Groups::new(saved.decimals.len());
        groups.values_skipped = saved.values_skipped;
        if saved
            .decimals
            .iter()
            .any(|&decimals| decimals > decimal::DECIMALS_MAX)
        {
            return Err(DamagedGroups);
        }
        groups.decimals = saved.decimals;
        for (key, rows, cells) in saved.groups {
            groups.key = key;
            if cells.len() != groups.measures || groups.index.contains_key(groups.key.as_slice()) {
                return Err(DamagedGroups);
            }
            let group = groups.make_group().map_err(|_| DamagedGroups)?;
            groups.rows[group] = rows;
            let first_cell = group * groups.measures;
            groups.cells[first_cell..].copy_from_slice(&cells);
        }
        Ok(groups)
    }
}

#[cfg(test)]
mod tests;
