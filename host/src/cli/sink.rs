//! Where contents go: in words to a person, byte for byte to a file or a pipe.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::exit::Failure;
use super::wire::ClientError;
use super::{render, text};

pub enum Sink {
    /// What could drive the terminal is taken out, and data is only named.
    Terminal { is_line_open: bool },
    /// Texts and data as they are, with nothing between them.
    Raw(Box<dyn Write>),
}

impl Sink {
    /// To `out`, or else to standard output.
    pub fn open(out: Option<PathBuf>) -> Result<Sink, Failure> {
        let Some(path) = out else {
            return Ok(match io::stdout().is_terminal() {
                true => Sink::Terminal {
                    is_line_open: false,
                },
                false => Sink::Raw(Box::new(io::stdout())),
            });
        };
        match File::create(&path) {
            Ok(file) => Ok(Sink::Raw(Box::new(io::BufWriter::new(file)))),
            Err(error) => Err(Failure::usage(format!(
                "can't write {}: {error}",
                path.display()
            ))),
        }
    }

    /// A block of a tool's result.
    pub fn write_block(&mut self, block: &Value) -> Result<(), Failure> {
        match self {
            Sink::Terminal { .. } => self.show(&render::content(block), true),
            Sink::Raw(out) => match bytes_of(block)? {
                Some(bytes) => out.write_all(&bytes).map_err(unwritten),
                None => {
                    let shown = render::content(block);
                    eprintln!("{} {shown}", text::yellow("not data, left out:"));
                    Ok(())
                }
            },
        }
    }

    /// What a resource holds, or a part of it: parts of one text follow on each other.
    pub fn write_contents(&mut self, contents: &Value) -> Result<(), Failure> {
        match (&mut *self, contents["text"].as_str()) {
            (Sink::Terminal { .. }, Some(text)) => self.show(&text::plain(text), false),
            (Sink::Terminal { .. }, None) => self.show(&render::resource(contents), true),
            (Sink::Raw(out), _) => match contents_of(contents)? {
                Some(bytes) => out.write_all(&bytes).map_err(unwritten),
                None => Err(malformed("contents without text or data")),
            },
        }
    }

    pub fn finish(mut self) -> Result<(), Failure> {
        match &mut self {
            // The shell's prompt begins a line.
            Sink::Terminal { is_line_open: true } => self.show("\n", false),
            Sink::Terminal { .. } => Ok(()),
            Sink::Raw(out) => out.flush().map_err(unwritten),
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
        write!(io::stdout(), "{begin}{words}{end}").map_err(unwritten)
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
