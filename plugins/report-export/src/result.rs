//! What a finished export tells its caller.

use schemars::JsonSchema;
use serde::Serialize;

use crate::directories::OutputFile;
use crate::report::{Report, label};

/// How many of the largest groups the text names.
const TEXT_GROUPS_MAX: usize = 5;

/// The structured result of `report-export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Exported {
    /// The files written: CSV, Markdown, SVG.
    pub files: Vec<OutputFile>,
    /// Records after the header, the skipped ones included.
    pub rows_read: u64,
    /// Rows left out because of their number of fields.
    pub rows_skipped: u64,
    /// Rows padded or cut to the number of fields of the header.
    pub rows_fitted: u64,
    /// Measured values left out because they are no numbers; empty fields are not counted.
    pub values_skipped: u64,
    /// Groups in the report.
    pub groups: u64,
    /// Size of the input.
    pub bytes_read: u64,
    /// Where the partial file of a cancelled call was taken up; 0 without one.
    pub continued_from_bytes: u64,
}

impl Exported {
    /// The result in words.
    pub fn describe(&self, report: &Report) -> String {
        let mut text = format!(
            "{} groups from {} rows of {} ({}).",
            self.groups,
            self.rows_read,
            report.file,
            megabytes(self.bytes_read)
        );
        for (count, what) in [
            (self.rows_skipped, "Rows skipped for their number of fields"),
            (self.rows_fitted, "Rows padded or cut to the header"),
            (self.values_skipped, "Values skipped that are no numbers"),
        ] {
            if count > 0 {
                text.push_str(&format!(" {what}: {count}."));
            }
        }
        if self.continued_from_bytes > 0 {
            let from = megabytes(self.continued_from_bytes);
            text.push_str(&format!(" Continued from {from} of a cancelled call."));
        }
        let column = &report.value_columns[report.charted];
        text.push_str(&format!("\n\nLargest by {}:\n", column.name));
        for group in report.largest().into_iter().take(TEXT_GROUPS_MAX) {
            let name: String = label(group).chars().take(80).collect();
            text.push_str(&format!("- {name}: {}\n", column.text(group)));
        }
        text.push_str("\nWritten:\n");
        for OutputFile { path, bytes } in &self.files {
            text.push_str(&format!("- {path} ({bytes} bytes)\n"));
        }
        text
    }
}

/// Millions of bytes, to one digit.
pub fn megabytes(bytes: u64) -> String {
    let tenths = bytes / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}
