//! The one way of words to standard output and standard error. Whatever a place forgot to make
//! harmless (`text::plain`), nothing passes here that drives the terminal but our own colours. JSON
//! passes as the same JSON. Data for a file or a pipe goes by `sink`.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{self, Write};

use dialoguer::console::{colors_enabled, colors_enabled_stderr};
use serde_json::Value;

use super::exit::Exit;
use crate::plain::{drives_display, harmless};

/// What [`text`](super::text) and [`page`](super::page) colour with: all that may follow an escape.
const OWN_COLOURS: [&str; 7] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[36m",
];

/// A line on standard output.
macro_rules! say {
    ($($words:tt)*) => { $crate::cli::print::output_line(format_args!($($words)*)) };
}

/// A line on standard error.
macro_rules! note {
    ($($words:tt)*) => { $crate::cli::print::note_line(format_args!($($words)*)) };
}

pub(super) use {note, say};

pub fn output_line(words: Arguments) {
    output(&format!("{words}\n"));
}

pub fn note_line(words: Arguments) {
    write_note(&format!("{words}\n"));
}

/// Words for standard output, as many lines as they are. What can't be written there ends the command:
/// half a report is none.
pub fn output(words: &str) {
    if let Err(error) = try_output(words) {
        note!("what was to be printed can't be written: {error}");
        Exit::Failed.now();
    }
}

/// The same for whoever has more to give up.
pub fn try_output(words: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(clean(words, colors_enabled()).as_bytes())?;
    out.flush()
}

/// The same for standard error, where there is nobody left to tell.
pub fn write_note(words: &str) {
    let words = clean(words, colors_enabled_stderr());
    let _ = io::stderr().write_all(words.as_bytes());
}

/// How long one of our own colours is.
fn own_colour(text: &str) -> Option<usize> {
    let own = OWN_COLOURS.iter().find(|own| text.starts_with(**own));
    own.map(|own| own.len())
}

fn clean(words: &str, has_colours: bool) -> Cow<'_, str> {
    harmless(words, |rest| own_colour(rest).filter(|_| has_colours))
}

/// A value as JSON on lines of its own, with everything escaped that could drive the terminal.
pub fn json(value: &Value) -> String {
    escaped(&format!("{value:#}")).into_owned()
}

/// JSON text as the same JSON. Outside of its strings it has nothing that needs it but line ends.
fn escaped(json: &str) -> Cow<'_, str> {
    let needs = |c: char| !matches!(c, '\n' | '\r' | '\t') && drives_display(c);
    if !json.contains(needs) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        match needs(c) {
            // All of them are of the basic plane, so that one escape holds each.
            true => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// Lines of JSON on their way to a terminal.
pub struct JsonLines<W: Write> {
    out: W,
    /// The line that has not ended.
    line: Vec<u8>,
}

impl<W: Write> JsonLines<W> {
    pub fn to(out: W) -> JsonLines<W> {
        JsonLines {
            out,
            line: Vec::new(),
        }
    }
}

impl<W: Write> Write for JsonLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if let Some(end) = self.line.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.line.split_off(end + 1);
            let lines = std::mem::replace(&mut self.line, rest);
            let lines = String::from_utf8_lossy(&lines);
            self.out.write_all(escaped(&lines).as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_we_colour_with_passes() {
        use dialoguer::console::Style;
        let base = Style::new().force_styling(true);
        let styles = [
            base.clone().red().bold(),
            base.clone().green(),
            base.clone().yellow(),
            base.clone().cyan(),
            base.clone().dim().bold(),
        ];
        for style in styles {
            let shown = style.apply_to("x").to_string();
            assert_eq!(clean(&shown, true), shown);
            assert!(!clean(&shown, false).contains('\u{1b}'));
        }
    }

    #[test]
    fn json_is_escaped_and_stays_the_same() {
        let value = json!({"a\u{9b}": "\u{1b}[2J\u{7f}\u{202e}\u{2028}é👩", "b": ["\n"]});
        let text = json(&value);
        assert!(
            !text.chars().any(|c| c != '\n' && drives_display(c)),
            "{text}"
        );
        assert!(text.contains("é👩"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn lines_are_escaped_wherever_they_are_cut() {
        let text = "{\"a\":\"\u{9b}é\u{202e}\"}\n{}\n";
        let mut lines = JsonLines::to(Vec::new());
        for byte in text.as_bytes().chunks(1) {
            lines.write_all(byte).unwrap();
        }
        let told = String::from_utf8(lines.out).unwrap();
        assert_eq!(told, "{\"a\":\"\\u009bé\\u202e\"}\n{}\n");
    }
}
