//! Where contents go: in words to a person, byte for byte to a file or a pipe.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::exit::Failure;
use super::print::note;
use super::whole::{Readers, Whole};
use super::wire::ClientError;
use super::{print, render, text};

pub enum Sink {
    /// What could drive the terminal is taken out, and data is only named.
    Terminal { is_line_open: bool },
    /// Texts and data as they are, with nothing between them.
    Pipe(io::Stdout),
    /// The same; what was there stays until all is written.
    File {
        out: BufWriter<Whole>,
        path: PathBuf,
    },
}

impl Sink {
    /// To `out`, or else to standard output.
    pub fn open(out: Option<PathBuf>) -> Result<Sink, Failure> {
        let Some(path) = out else {
            return Ok(match io::stdout().is_terminal() {
                true => Sink::Terminal {
                    is_line_open: false,
                },
                false => Sink::Pipe(io::stdout()),
            });
        };
        match Whole::create(&path, Readers::Usual) {
            Ok(file) => Ok(Sink::File {
                out: BufWriter::new(file),
                path,
            }),
            Err(error) => Err(Failure::usage(format!(
                "can't write {}: {error}",
                path.display()
            ))),
        }
    }

    /// A block of a tool's result.
    pub fn write_block(&mut self, block: &Value) -> Result<(), Failure> {
        let Some(out) = self.raw() else {
            return self.show(&render::content(block), true);
        };
        match bytes_of(block)? {
            Some(bytes) => out.write_all(&bytes).map_err(unwritten),
            None => {
                let shown = render::content(block);
                note!("{} {shown}", text::yellow("not data, left out:"));
                Ok(())
            }
        }
    }

    /// What a resource holds, or a part of it: parts of one text follow on each other.
    pub fn write_contents(&mut self, contents: &Value) -> Result<(), Failure> {
        match (self.raw(), contents["text"].as_str()) {
            (None, Some(text)) => self.show(&text::plain(text), false),
            (None, None) => self.show(&render::resource(contents), true),
            (Some(out), _) => match contents_of(contents)? {
                Some(bytes) => out.write_all(&bytes).map_err(unwritten),
                None => Err(malformed("contents without text or data")),
            },
        }
    }

    pub fn finish(mut self) -> Result<(), Failure> {
        match self {
            // The shell's prompt begins a line.
            Sink::Terminal { is_line_open: true } => self.show("\n", false),
            Sink::Terminal { .. } => Ok(()),
            Sink::Pipe(mut out) => out.flush().map_err(unwritten),
            Sink::File { out, path } => {
                let file = out.into_inner().map_err(io::IntoInnerError::into_error);
                file.and_then(Whole::finish).map_err(|error| {
                    Failure::failed(format!("can't write {}: {error}", path.display()))
                })
            }
        }
    }

    /// None for a person.
    fn raw(&mut self) -> Option<&mut dyn Write> {
        match self {
            Sink::Terminal { .. } => None,
            Sink::Pipe(out) => Some(out),
            Sink::File { out, .. } => Some(out),
        }
    }

    /// Words for the terminal, by themselves on their lines or going on where the last ended.
    fn show(&mut self, words: &str, on_own_lines: bool) -> Result<(), Failure> {
        let Sink::Terminal { is_line_open } = self else {
            return Ok(());
        };
        let begin = if *is_line_open && on_own_lines {
            "\n"
        } else {
            ""
        };
        let end = if on_own_lines { "\n" } else { "" };
        if !words.is_empty() {
            *is_line_open = !on_own_lines && !words.ends_with('\n');
        }
        print::try_output(&format!("{begin}{words}{end}")).map_err(unwritten)
    }
}

/// What a block holds; None if it only names something.
fn bytes_of(block: &Value) -> Result<Option<Vec<u8>>, Failure> {
    match block["type"].as_str() {
        Some("text") => Ok(block["text"].as_str().map(|text| text.as_bytes().to_vec())),
        Some("image" | "audio") => block["data"].as_str().map(decode).transpose(),
        Some("resource") => contents_of(&block["resource"]),
        _ => Ok(None),
    }
}

fn contents_of(contents: &Value) -> Result<Option<Vec<u8>>, Failure> {
    match contents["text"].as_str() {
        Some(text) => Ok(Some(text.as_bytes().to_vec())),
        None => contents["blob"].as_str().map(decode).transpose(),
    }
}

fn decode(data: &str) -> Result<Vec<u8>, Failure> {
    let decoded = STANDARD.decode(data);
    decoded.map_err(|_| malformed("data that is not Base64"))
}

fn malformed(what: &str) -> Failure {
    ClientError::Malformed(what.to_owned()).into()
}

fn unwritten(error: io::Error) -> Failure {
    Failure::failed(format!("what was read can't be written: {error}"))
}
