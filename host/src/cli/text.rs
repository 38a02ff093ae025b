//! Words on a terminal: colours, sizes, and tool output made harmless.

use std::path::Path;
use std::time::Duration;

use dialoguer::console::{Style, style};

use crate::plain::drives_display;

/// Of what others call something.
const NAME_MAX_CHARS: usize = 128;

pub fn red(text: &str) -> String {
    style(text).red().bold().for_stderr().to_string()
}

pub fn green(text: &str) -> String {
    style(text).green().for_stderr().to_string()
}

pub fn yellow(text: &str) -> String {
    style(text).yellow().for_stderr().to_string()
}

pub fn dim(text: &str) -> String {
    style(text).dim().for_stderr().to_string()
}

pub fn bold(text: &str) -> String {
    style(text).bold().for_stderr().to_string()
}

/// For what goes to standard output, whose colours are decided apart.
pub fn out() -> Style {
    Style::new().for_stdout()
}

/// Text of a tool without what could drive a terminal (escape sequences, backspaces, direction
/// marks): a tool must not be able to paint over a question.
pub fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| matches!(c, '\n' | '\t') || !drives_display(*c))
        .collect()
}

/// The same on one line, cut at `chars_max`.
pub fn plain_line(text: &str, chars_max: usize) -> String {
    let line = plain(text).replace(['\n', '\t'], " ");
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// What others call something: a key, an id, a field. It is one line and no longer than a name is.
pub fn name(text: &str) -> String {
    plain_line(text, NAME_MAX_CHARS)
}

/// The same with its lines kept, all but the first behind `indent`.
pub fn plain_lines(text: &str, chars_max: usize, indent: &str) -> String {
    let text = plain(text);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let text = lines.join(&format!("\n{indent}"));
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// `1.4 MiB`
pub fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// A path, from here where it lies below.
pub fn path(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let below = path.strip_prefix(&here).ok();
    let below = below.filter(|below| !below.as_os_str().is_empty());
    plain(&below.unwrap_or(path).display().to_string())
}

/// How long something took: `0.3 s`, `12 s`, `4 min 5 s`
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        ..10.0 => format!("{seconds:.1} s"),
        _ => span(Duration::from_secs(duration.as_secs())),
    }
}

/// How long something may take, exactly: `250 ms`, `30 s`, `1 h 30 min`, `7 days`
pub fn span(duration: Duration) -> String {
    words(duration).join(" ")
}

/// How long ago something was, about: `12 s`, `3 h`, `7 days`
pub fn age(duration: Duration) -> String {
    words(Duration::from_secs(duration.as_secs())).remove(0)
}

/// A number for each unit, the largest first; at least one.
fn words(duration: Duration) -> Vec<String> {
    const UNITS: [(&str, u128); 5] = [
        ("days", 86_400_000),
        ("h", 3_600_000),
        ("min", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ];
    let mut left_ms = duration.as_millis();
    let mut words = Vec::new();
    for (unit, unit_ms) in UNITS {
        let count = left_ms / unit_ms;
        left_ms %= unit_ms;
        match (count, unit) {
            (0, _) => {}
            (1, "days") => words.push("1 day".to_owned()),
            _ => words.push(format!("{count} {unit}")),
        }
    }
    if words.is_empty() {
        words.push("0 s".to_owned());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_output_can_not_drive_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\u{8}\r\nc\u{202e}"), "a[2Jb\nc");
        assert_eq!(plain_line("one\ntwo three", 7), "one two…");
        assert_eq!(plain_lines("one\ntwo\n", 20, "> "), "one\n> two");
    }

    #[test]
    fn a_span_is_in_the_units_people_use() {
        let table = [
            (0, "0 s"),
            (250, "250 ms"),
            (1_000, "1 s"),
            (90_000, "1 min 30 s"),
            (86_400_000, "1 day"),
            (7 * 86_400_000 + 3_600_000, "7 days 1 h"),
        ];
        for (ms, expected) in table {
            assert_eq!(span(Duration::from_millis(ms)), expected);
        }
        assert_eq!(age(Duration::from_millis(7_384_900)), "2 h");
        assert_eq!(age(Duration::from_millis(900)), "0 s");
    }
}
