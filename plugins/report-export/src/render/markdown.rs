//! The report as a page for people: what was read, then a table of the groups and their total.

use std::io::{Result, Write};

use crate::aggregate::Group;
use crate::report::Report;

/// Groups in the table; the rest is in the CSV.
const TABLE_ROWS_MAX: usize = 200;
/// Characters of a field in the table.
const FIELD_MAX_CHARS: usize = 120;

pub fn write(report: &Report, out: &mut impl Write) -> Result<()> {
    writeln!(out, "# {}\n", escaped(&report.name))?;
    writeln!(out, "![chart]({}.svg)\n", report.name)?;
    writeln!(out, "- Source: {}", escaped(&report.file))?;
    writeln!(out, "- Rows read: {}", report.rows_read)?;
    for (count, what) in [
        (
            report.rows_skipped,
            "Rows skipped for their number of fields",
        ),
        (report.rows_fitted, "Rows padded or cut to the header"),
        (
            report.values_skipped,
            "Values skipped because they are no numbers",
        ),
    ] {
        if count > 0 {
            writeln!(out, "- {what}: {count}")?;
        }
    }
    writeln!(out, "- Groups: {}\n", report.groups.len())?;
    write_table(report, out)?;
    if let Some(more) = report.groups.len().checked_sub(TABLE_ROWS_MAX + 1) {
        let more = more + 1;
        writeln!(out, "\n{more} more groups are in `{}.csv`.", report.name)?;
    }
    Ok(())
}

fn write_table(report: &Report, out: &mut impl Write) -> Result<()> {
    for name in &report.group_columns {
        write!(out, "| {} ", escaped(name))?;
    }
    for column in &report.value_columns {
        write!(out, "| {} ", escaped(&column.name))?;
    }
    writeln!(out, "|")?;
    let groups = report.group_columns.iter().map(|_| "| --- ");
    let values = report.value_columns.iter().map(|_| "| ---: ");
    writeln!(out, "{}|", groups.chain(values).collect::<String>())?;
    for group in report.groups.iter().take(TABLE_ROWS_MAX) {
        for field in &group.fields {
            write!(out, "| {} ", escaped(&String::from_utf8_lossy(field)))?;
        }
        write_values(report, group, out)?;
    }
    if let Some(total) = report.total() {
        write!(out, "| **all** ")?;
        write!(out, "{}", "|  ".repeat(report.group_columns.len() - 1))?;
        write_values(report, &total, out)?;
    }
    Ok(())
}

fn write_values(report: &Report, group: &Group, out: &mut impl Write) -> Result<()> {
    for column in &report.value_columns {
        write!(out, "| {} ", column.text(group))?;
    }
    writeln!(out, "|")
}

/// Text that stays itself inside a table cell: one line, no markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (index, character) in text.chars().enumerate() {
        if index == FIELD_MAX_CHARS {
            escaped.push('…');
            break;
        }
        match character {
            '\\' | '|' | '<' | '>' | '&' | '*' | '`' | '[' | ']' | '#' | '~' => {
                escaped.push('\\');
                escaped.push(character);
            }
            _ if character.is_control() => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}
