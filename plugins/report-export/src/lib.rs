//! A plugin with one tool, `report-export`: groups and adds up a large CSV file into a CSV, a
//! Markdown page and an SVG chart, in bounded memory.
//!
//! `export` runs a call; `csv`, `aggregate`, `decimal`, `report` and `render` are pure.

use longshore_plugin::prelude::*;

mod aggregate;
mod arguments;
mod columns;
mod csv;
mod decimal;
mod directories;
mod export;
mod render;
mod report;
mod result;
mod snapshot;

use arguments::Arguments;
use directories::Directories;
use export::Pace;
use result::Exported;

fn report_export(context: &Context, arguments: Arguments) -> Result<Structured<Exported>> {
    export::export(context, &arguments, &Directories::granted(), Pace::DEFAULT)
}

longshore_plugin::export! {
    tool(
        "report-export",
        "Groups a large CSV file by columns, computes counts, sums, minima, maxima and means, and \
         writes a CSV, a Markdown summary and an SVG chart. Reads the granted directory `input`, \
         writes to the granted directory `output`.",
        report_export,
    )
    .title("Report export")
    .recovery(Recovery::Resume)
    .cancellation(
        "Stops within a second. Nothing of the report is written; what was read is kept in \
         `<output>.partial` in the output directory, and the same call goes on from there. \
         Delete that file to give it up. Once the report's files are being put in place they are \
         finished.",
    )
    .cleanup_on_cancel()
    .asks(
        "uneven_rows",
        "what happens to rows with more or fewer fields than the header: skip, fit or stop",
    )
    .asks_effect("overwrite", "whether files of an earlier report are written over")
    .destructive(true)
    .idempotent()
    .open_world(false),
}
