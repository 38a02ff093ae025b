//! A finished report: sorted groups, and how each of its columns is computed and written.
//!
//! Must not know about files or formats; `render` writes it.

use std::cmp::Reverse;

use crate::aggregate::{Cell, Group};
use crate::arguments::{Arguments, Function};
use crate::decimal;

/// What every renderer needs.
pub struct Report {
    /// The base name of its files.
    pub name: String,
    /// The input, as the arguments name it.
    pub file: String,
    pub group_columns: Vec<String>,
    pub value_columns: Vec<ValueColumn>,
    /// Index into `value_columns`.
    pub charted: usize,
    /// How many groups the chart shows.
    pub top: usize,
    /// Sorted by their fields.
    pub groups: Vec<Group>,
    pub rows_read: u64,
    pub rows_skipped: u64,
    pub rows_fitted: u64,
    pub values_skipped: u64,
}

/// A column of numbers in the report.
pub struct ValueColumn {
    pub name: String,
    source: Source,
}

enum Source {
    Rows,
    Measure {
        /// Index of the cell in a group.
        measure: usize,
        function: Function,
        /// Digits after the point.
        decimals: u8,
    },
}

impl ValueColumn {
    /// The columns that `arguments` ask for; `decimals` has one entry for each measure.
    pub fn all(arguments: &Arguments, decimals: &[u8]) -> Vec<ValueColumn> {
        let measures = arguments.measures.iter().zip(decimals).enumerate();
        let sources = measures.flat_map(|(measure, (asked, &decimals))| {
            let functions = asked.functions.iter();
            functions.map(move |&function| Source::Measure {
                measure,
                function,
                decimals,
            })
        });
        std::iter::once(Source::Rows)
            .chain(sources)
            .zip(arguments.value_names())
            .map(|(source, name)| ValueColumn { name, source })
            .collect()
    }

    /// The value of a group as text; empty where there were no values.
    pub fn text(&self, group: &Group) -> String {
        let Source::Measure {
            measure,
            function,
            decimals,
        } = self.source
        else {
            return group.rows.to_string();
        };
        let cell = &group.cells[measure];
        match function {
            Function::Count => cell.count.to_string(),
            _ if cell.count == 0 => String::new(),
            Function::Sum => decimal::format(cell.sum, decimals),
            Function::Min => decimal::format(cell.min, decimals),
            Function::Max => decimal::format(cell.max, decimals),
            Function::Mean => decimal::format_mean(cell.sum, cell.count, decimals),
        }
    }

    /// The value of a group as a number to compare and draw; none where there were no values.
    pub fn number(&self, group: &Group) -> Option<i128> {
        let Source::Measure {
            measure, function, ..
        } = self.source
        else {
            return Some(i128::from(group.rows));
        };
        let cell: &Cell = &group.cells[measure];
        match function {
            Function::Count => Some(i128::from(cell.count)),
            _ if cell.count == 0 => None,
            Function::Sum => Some(cell.sum),
            Function::Min => Some(cell.min),
            Function::Max => Some(cell.max),
            Function::Mean => Some(cell.sum / i128::from(cell.count)),
        }
    }
}

impl Report {
    /// The column the chart shows: the one asked for, else the first measure, else the rows.
    pub fn charted(arguments: &Arguments, columns: &[ValueColumn]) -> usize {
        let asked = arguments.chart.measure.as_ref();
        asked
            .and_then(|name| columns.iter().position(|column| column.name == *name))
            .unwrap_or_else(|| usize::from(columns.len() > 1))
    }

    /// The groups with the largest charted values, largest first; ties stay in the report's order.
    pub fn largest(&self) -> Vec<&Group> {
        let column = &self.value_columns[self.charted];
        let mut ranked: Vec<(i128, &Group)> = self
            .groups
            .iter()
            .filter_map(|group| Some((column.number(group)?, group)))
            .collect();
        ranked.sort_by_key(|&(number, _)| Reverse(number));
        ranked.truncate(self.top);
        ranked.into_iter().map(|(_, group)| group).collect()
    }

    /// All groups as one, unless a sum does not fit.
    pub fn total(&self) -> Option<Group> {
        let mut groups = self.groups.iter();
        let mut total = groups.next()?.clone();
        total.fields.clear();
        for group in groups {
            total.rows += group.rows;
            for (all, cell) in total.cells.iter_mut().zip(&group.cells) {
                *all = all.merged(cell)?;
            }
        }
        Some(total)
    }
}

/// A group's name for people, in one line; bytes that are not UTF-8 as U+FFFD.
pub fn label(group: &Group) -> String {
    let fields = group.fields.iter().map(|field| match field.is_empty() {
        true => "(empty)".into(),
        false => String::from_utf8_lossy(field),
    });
    let label = fields.collect::<Vec<_>>().join(" / ");
    label.replace(char::is_control, " ")
}
