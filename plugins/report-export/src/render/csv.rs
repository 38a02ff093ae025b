//! The report as CSV: commas, LF, quotes where RFC 4180 needs them, fields as they were read.

use std::io::{Result, Write};

use crate::report::Report;

pub fn write(report: &Report, out: &mut impl Write) -> Result<()> {
    let values = report.value_columns.iter().map(|column| &column.name);
    for (index, name) in report.group_columns.iter().chain(values).enumerate() {
        write_field(out, index, name.as_bytes())?;
    }
    out.write_all(b"\n")?;
    for group in &report.groups {
        for (index, field) in group.fields.iter().enumerate() {
            write_field(out, index, field)?;
        }
        for (index, column) in report.value_columns.iter().enumerate() {
            let index = group.fields.len() + index;
            write_field(out, index, column.text(group).as_bytes())?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn write_field(out: &mut impl Write, index: usize, field: &[u8]) -> Result<()> {
    if index > 0 {
        out.write_all(b",")?;
    }
    if !field.iter().any(|byte| b",\"\r\n".contains(byte)) {
        return out.write_all(field);
    }
    out.write_all(b"\"")?;
    for (index, part) in field.split(|&byte| byte == b'"').enumerate() {
        if index > 0 {
            out.write_all(b"\"\"")?;
        }
        out.write_all(part)?;
    }
    out.write_all(b"\"")
}
