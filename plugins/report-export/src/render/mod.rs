//! Writes a report in its three formats, the same bytes for the same report.

pub mod csv;
pub mod markdown;
pub mod svg;

#[cfg(test)]
mod tests;
