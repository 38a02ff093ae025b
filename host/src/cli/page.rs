//! The look of a page: headings, labels, prose and tables in columns. It keeps to the terminal's width
//! where there is a terminal; a script finds each thing on a line of its own.

use std::fmt::Write;

use dialoguer::console::{Style, Term, measure_text_width};

use super::print;
use super::text::{self, plain};

const LABEL_WIDTH: usize = 12;
/// Longer lines of prose are hard to read.
const PROSE_WIDTH_MAX: usize = 88;
/// A line of prose in a table, or beside a label, is no narrower than this: it rather goes below.
const PROSE_WIDTH_MIN: usize = 28;
/// Spaces between columns.
const GAP: usize = 2;
/// What stands for a terminal of unknown width.
const USUAL_WIDTH: usize = 100;

/// Words for standard output.
pub struct Page {
    text: String,
    /// None where nothing is broken into lines.
    width: Option<usize>,
}

pub fn title() -> Style {
    text::out().bold()
}

pub fn faint() -> Style {
    text::out().dim()
}

pub fn accent() -> Style {
    text::out().cyan()
}

impl Page {
    pub fn of_terminal() -> Page {
        let terminal = Term::stdout();
        let size = terminal.size_checked();
        let width = size.map_or(USUAL_WIDTH, |(_, columns)| usize::from(columns));
        Page::of_width(terminal.is_term().then_some(width))
    }

    pub fn of_width(width: Option<usize>) -> Page {
        Page {
            text: String::new(),
            width,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub fn print(&self) {
        print::output(&self.text);
    }

    #[cfg(test)]
    pub fn into_text(self) -> String {
        self.text
    }

    /// An empty line, but not at the top.
    pub fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    pub fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    pub fn heading(&mut self, word: &str) {
        self.line(&text::out().dim().bold().apply_to(word).to_string());
    }

    /// A heading and what it is about.
    pub fn heading_of(&mut self, word: &str, name: &str) {
        let word = text::out().dim().bold().apply_to(word);
        self.line(&format!("{word} {name}"));
    }

    pub fn entry(&mut self, label: &str, value: &str) {
        let label = faint().apply_to(format!("{label:<LABEL_WIDTH$}"));
        self.line(&format!("  {label}{value}"));
    }

    /// An entry of words that are broken into lines.
    pub fn prose_entry(&mut self, label: &str, text: &str) {
        let width = self.prose_width(LABEL_WIDTH + 2);
        for (index, part) in wrapped(&plain(text), width).iter().enumerate() {
            self.entry(if index == 0 { label } else { "" }, part);
        }
    }

    pub fn prose(&mut self, indent: usize, text: &str) {
        for part in wrapped(&plain(text), self.prose_width(indent)) {
            self.line(&format!("{:indent$}{part}", ""));
        }
    }

    /// How something is written: words that have colours and nothing else to drive a terminal. What
    /// one line does not hold stands further in.
    pub fn synopsis(&mut self, text: &str) {
        for (index, part) in wrapped(text, self.prose_width(4)).iter().enumerate() {
            let indent = if index == 0 { 2 } else { 4 };
            self.line(&format!("{:indent$}{part}", ""));
        }
    }

    /// Rows in columns as wide as their widest cell, the first row being their titles. The last column
    /// is words that are broken into lines where the terminal is narrow, or stand below.
    pub fn table<const N: usize>(&mut self, rows: &[[String; N]]) {
        let widths = widths(rows);
        for (index, row) in rows.iter().enumerate() {
            match index {
                0 => {
                    let row = row
                        .each_ref()
                        .map(|title| faint().apply_to(title).to_string());
                    self.row("  ", &row, &widths);
                }
                _ => self.row("  ", row, &widths),
            }
        }
    }

    /// An entry whose value is a table without titles.
    pub fn table_entry<const N: usize>(&mut self, label: &str, rows: &[[String; N]]) {
        let widths = widths(rows);
        for (index, row) in rows.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let label = faint().apply_to(format!("{label:<LABEL_WIDTH$}"));
            self.row(&format!("  {label}"), row, &widths);
        }
    }

    fn row<const N: usize>(&mut self, start: &str, row: &[String; N], widths: &[usize; N]) {
        let (last, others) = row.split_last().expect("a table has columns");
        let indent = measure_text_width(start) + columns_before_last(widths);
        let below = measure_text_width(start) + GAP * 2;
        let room = self
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(indent));
        let is_beside = room >= PROSE_WIDTH_MIN || room >= measure_text_width(last);
        let (hang, width) = match is_beside {
            true => (indent, room),
            false => (below, self.prose_width(below)),
        };
        let mut parts = wrapped(last, width).into_iter();
        let mut head = format!("{start}{}", cells(others, &widths[..N - 1]));
        if is_beside {
            let padding = indent.saturating_sub(measure_text_width(&head));
            // Writing to a String can't fail.
            let _ = write!(head, "{:padding$}{}", "", parts.next().unwrap_or_default());
        }
        self.line(&head);
        for part in parts.filter(|part| !part.is_empty()) {
            self.line(&format!("{:hang$}{part}", ""));
        }
    }

    fn prose_width(&self, indent: usize) -> usize {
        self.width.map_or(usize::MAX, |width| {
            let room = width.saturating_sub(indent);
            room.clamp(PROSE_WIDTH_MIN, PROSE_WIDTH_MAX)
        })
    }
}

/// Breaks text at spaces; paragraphs stay apart.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in text.trim().lines() {
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

fn widths<const N: usize>(rows: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| measure_text_width(&row[column]));
        cells.max().unwrap_or(0)
    })
}

fn columns_before_last(widths: &[usize]) -> usize {
    let before = widths.iter().rev().skip(1);
    before
        .filter(|width| **width > 0)
        .map(|width| width + GAP)
        .sum()
}

fn cells(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths).filter(|(_, width)| **width > 0) {
        let padding = width.saturating_sub(measure_text_width(cell)) + GAP;
        // Writing to a String can't fail.
        let _ = write!(line, "{cell}{:padding$}", "");
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    #[test]
    fn long_text_is_broken_at_spaces() {
        assert_eq!(
            wrapped("one two three\nfour", 8),
            ["one two", "three", "four"]
        );
    }

    #[test]
    fn a_table_breaks_its_last_column_or_puts_it_below_where_there_is_no_room() {
        let rows = [
            ["name", "what"],
            ["a", "some words that are more than one line holds"],
            ["another", "few words"],
        ]
        .map(|row| row.map(str::to_owned));
        let shown = |width: Option<usize>| {
            dialoguer::console::set_colors_enabled(false);
            let mut page = Page::of_width(width);
            page.table(&rows);
            page.into_text()
        };
        assert_snapshot!(shown(Some(40)), @r"
        name     what
        a        some words that are more than
                 one line holds
        another  few words
        ");
        assert_snapshot!(shown(Some(36)), @r"
        name     what
        a
            some words that are more than
            one line holds
        another  few words
        ");
    }

    #[test]
    fn without_a_terminal_no_line_is_broken() {
        let words = "word ".repeat(100);
        let row = ["one", &words].map(str::to_owned);
        let mut page = Page::of_width(None);
        page.table(&[["name", "what"].map(str::to_owned), row.clone()]);
        page.table_entry("label", &[row]);
        page.prose(0, &words);
        page.prose_entry("label", &words);
        page.synopsis(&words);
        let text = page.into_text();
        let whole = text.lines().filter(|line| line.ends_with(words.trim_end()));
        assert_eq!((whole.count(), text.lines().count()), (5, 6), "{text}");
    }
}
