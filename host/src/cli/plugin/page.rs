//! The look of a plugin's page: labels, prose and tables in columns.

use std::fmt::Write;

use dialoguer::console::{Style, measure_text_width};

use crate::cli::text::{self, plain};

const LABEL_WIDTH: usize = 12;
/// Lines of prose are broken here.
const TEXT_WIDTH: usize = 88;

pub fn title() -> Style {
    text::out().bold()
}

pub fn faint() -> Style {
    text::out().dim()
}

pub fn accent() -> Style {
    text::out().cyan()
}

pub fn heading(word: &str) -> String {
    text::out().dim().bold().apply_to(word).to_string()
}

pub fn line(page: &mut String, text: &str) {
    page.push_str(text.trim_end());
    page.push('\n');
}

pub fn entry(page: &mut String, label: &str, value: &str) {
    let label = faint().apply_to(format!("{label:<LABEL_WIDTH$}"));
    line(page, &format!("  {label}{value}"));
}

pub fn prose_entry(page: &mut String, label: &str, text: &str) {
    for (index, part) in wrapped(text, TEXT_WIDTH - LABEL_WIDTH).iter().enumerate() {
        entry(page, if index == 0 { label } else { "" }, part);
    }
}

pub fn prose(page: &mut String, indent: usize, text: &str) {
    for part in wrapped(text, TEXT_WIDTH) {
        line(page, &format!("{:indent$}{part}", ""));
    }
}

/// Breaks text at spaces; paragraphs stay apart.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in plain(text).trim().lines() {
        let mut current = String::new();
        for word in paragraph.split_whitespace() {
            let needed = measure_text_width(&current) + 1 + measure_text_width(word);
            if !current.is_empty() && needed > width {
                lines.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        lines.push(current);
    }
    lines
}

/// Rows in columns as wide as their widest cell.
pub fn write_table<const N: usize>(page: &mut String, rows: &[[String; N]]) {
    let widths = widths(rows);
    for (index, row) in rows.iter().enumerate() {
        let row = cells(row, &widths);
        match index {
            0 => line(page, &format!("  {}", faint().apply_to(row.trim_end()))),
            _ => line(page, &format!("  {row}")),
        }
    }
}

pub fn widths<const N: usize>(rows: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| measure_text_width(&row[column]));
        cells.max().unwrap_or(0)
    })
}

pub fn cells<const N: usize>(row: &[String; N], widths: &[usize; N]) -> String {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths).filter(|(_, width)| **width > 0) {
        let padding = width.saturating_sub(measure_text_width(cell)) + 2;
        // Writing to a String can't fail.
        let _ = write!(line, "{cell}{:padding$}", "");
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_broken_at_spaces() {
        assert_eq!(
            wrapped("one two three\nfour", 8),
            ["one two", "three", "four"]
        );
    }
}
