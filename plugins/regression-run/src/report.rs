//! The result: what a program reads and what a person reads.

use longshore_plugin::{IntoOutput, Output, Result, Structured};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::journal::{Failing, Journal};

/// Of the text for people, bytes; the structured result has everything.
const TEXT_MAX_BYTES: usize = 64 * 1024;

/// What a regression run found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Whether every case passed.
    pub passed: bool,
    /// Cases selected, all of which ran.
    pub total: usize,
    pub passing: usize,
    pub failing_count: usize,
    /// Time the runs took together, ms, without the time between them.
    pub duration_ms: u64,
    /// Every failing case, by path.
    pub failing: Vec<Failing>,
}

impl Report {
    pub fn new(journal: &Journal) -> Report {
        let mut failing = journal.failing().to_vec();
        failing.sort_by(|left, right| left.path.cmp(&right.path));
        Report {
            passed: failing.is_empty(),
            total: journal.done(),
            passing: journal.done() - failing.len(),
            failing_count: failing.len(),
            duration_ms: journal.elapsed_ms,
            failing,
        }
    }

    pub fn text(&self) -> String {
        let mut text = format!(
            "{} of {} cases pass, {} fail ({}.{:03} s)",
            self.passing,
            self.total,
            self.failing_count,
            self.duration_ms / 1000,
            self.duration_ms % 1000
        );
        for (index, failing) in self.failing.iter().enumerate() {
            let entry = entry(index + 1, failing);
            if text.len() + entry.len() > TEXT_MAX_BYTES {
                text.push_str(&format!(
                    "\n\n… and {} more failing; the structured result lists them all",
                    self.failing.len() - index
                ));
                break;
            }
            text.push_str(&entry);
        }
        text
    }
}

impl IntoOutput for Report {
    fn output_schema() -> Option<Value> {
        Structured::<Report>::output_schema()
    }

    /// Never an error: the tool did what it was asked to, whatever it found.
    fn into_output(self) -> Result<Output> {
        let text = self.text();
        Structured::with_text(self, text).into_output()
    }
}

/// `37/120, 2 failing`
pub fn progress(journal: &Journal, total: usize) -> String {
    let failing = journal.failing().len();
    format!("{}/{total}, {failing} failing", journal.done())
}

/// What a cancel leaves: how far the run came and what failed until then.
pub fn stopped(journal: &Journal, total: usize) -> String {
    const NAMED_MAX: usize = 20;
    let failing = journal.failing();
    let mut text = format!(
        "stopped after {} of {total} cases, {} failing; {} did not run",
        journal.done(),
        failing.len(),
        total - journal.done()
    );
    let named: Vec<&str> = failing
        .iter()
        .take(NAMED_MAX)
        .map(|failing| failing.path.as_str())
        .collect();
    if !named.is_empty() {
        text.push_str(&format!("; failing: {}", named.join(", ")));
    }
    if failing.len() > NAMED_MAX {
        text.push_str(&format!(" and {} more", failing.len() - NAMED_MAX));
    }
    text
}

fn entry(number: usize, failing: &Failing) -> String {
    let mut entry = format!("\n\n{number}. {}", failing.path);
    if let Some(name) = &failing.name {
        entry.push_str(&format!(" ({name})"));
    }
    entry.push_str(&format!("\n   {}", indent(&failing.reason)));
    let parts = [("expected", &failing.expected), ("actual", &failing.actual)];
    for (title, part) in parts {
        if let Some(part) = part {
            entry.push_str(&format!(
                "\n   {title}:\n      {}",
                part.replace('\n', "\n      ")
            ));
        }
    }
    if let Some(curl) = &failing.curl {
        // Not indented: a body of several lines must stay what it is when it is copied.
        entry.push_str(&format!("\n   again:\n{curl}"));
    }
    entry
}

fn indent(text: &str) -> String {
    text.replace('\n', "\n   ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Failure;

    fn journal() -> Journal {
        let mut journal = Journal::default();
        journal.pass("b.toml");
        let failure = Failure {
            reason: "status is 500 instead of 200".to_owned(),
            expected: "status: 200".to_owned(),
            actual: "status: 500\nbody: boom".to_owned(),
        };
        let curl = Some("curl http://h/".to_owned());
        journal.fail(Failing::new("c.toml", None, failure.clone(), None));
        journal.fail(Failing::new(
            "a.toml",
            Some("first".to_owned()),
            failure,
            curl,
        ));
        journal.elapsed_ms = 1_234;
        journal
    }

    #[test]
    fn a_report_lists_what_fails_by_path() {
        let report = Report::new(&journal());
        assert!(!report.passed);
        assert_eq!(
            (report.total, report.passing, report.failing_count),
            (3, 1, 2)
        );
        assert_eq!(
            report.text(),
            "1 of 3 cases pass, 2 fail (1.234 s)\n\n\
             1. a.toml (first)\n   status is 500 instead of 200\n   expected:\n      status: 200\n   \
             actual:\n      status: 500\n      body: boom\n   again:\ncurl http://h/\n\n\
             2. c.toml\n   status is 500 instead of 200\n   expected:\n      status: 200\n   \
             actual:\n      status: 500\n      body: boom"
        );
    }

    #[test]
    fn a_report_without_failures_has_passed() {
        let mut journal = Journal::default();
        journal.pass("a.toml");
        let report = Report::new(&journal);
        assert!(report.passed);
        assert_eq!(report.text(), "1 of 1 cases pass, 0 fail (0.000 s)");
    }

    #[test]
    fn progress_and_a_stop_say_how_far_it_came() {
        assert_eq!(progress(&journal(), 120), "3/120, 2 failing");
        assert_eq!(
            stopped(&journal(), 120),
            "stopped after 3 of 120 cases, 2 failing; 117 did not run; failing: c.toml, a.toml"
        );
    }

    #[test]
    fn a_long_text_refers_to_the_structured_result() {
        let mut journal = Journal::default();
        for index in 0..500 {
            let failure = Failure {
                reason: "r".repeat(300),
                expected: String::new(),
                actual: String::new(),
            };
            journal.fail(Failing::new(&format!("{index}.toml"), None, failure, None));
        }
        let text = Report::new(&journal).text();
        assert!(text.len() < TEXT_MAX_BYTES + 100);
        assert!(text.contains("more failing; the structured"), "{text}");
    }
}
