//! The two granted directories: what is read in one, what is written to the other and how.
//!
//! Owns every path of the plugin. Nothing is ever seen half written under its final name.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use longshore_plugin::{Error, Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::render;
use crate::report::Report;
use crate::snapshot::InputIdentity;

/// The formats of a report, by their extension.
const EXTENSIONS: [&str; 3] = ["csv", "md", "svg"];
/// How many files an error lists.
const LISTED_MAX: usize = 20;
/// A partial file is a snapshot, so it is smaller than this; a larger file is something else.
const PARTIAL_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Where the guest finds its directories.
#[derive(Clone, Debug)]
pub struct Directories {
    pub input: PathBuf,
    pub output: PathBuf,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OutputFile {
    /// The path as the tool sees it, under `/output`.
    pub path: String,
    pub bytes: u64,
}

impl Directories {
    /// The directories that `plugin.toml` asks for.
    pub fn granted() -> Directories {
        Directories {
            input: "/input".into(),
            output: "/output".into(),
        }
    }

    /// Opens an input file and tells what identifies it.
    pub fn open_input(&self, name: &str) -> Result<(File, InputIdentity)> {
        let opened = File::open(self.input.join(name)).and_then(|file| {
            let identity = identity_of(&file)?;
            Ok((file, identity))
        });
        opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::invalid_arguments(format!(
                "there is no file {name:?} in the input directory; {}",
                self.listed_inputs()
            )),
            ErrorKind::IsADirectory => Error::invalid_arguments(format!(
                "{name:?} is a directory: name a file in it"
            )),
            _ => Error::failed(format!(
                "{name:?} cannot be opened: {error}; see that the plugin is granted the directory `input`"
            )),
        })
    }

    /// Refuses to report about a file that was written to while it was read.
    pub fn check_unchanged(&self, name: &str, identity: &InputIdentity) -> Result<()> {
        let (_, now) = self.open_input(name)?;
        if now != *identity {
            return Err(Error::failed(format!(
                "{name:?} changed while it was read, and nothing was written: export it again once nobody writes to it"
            )));
        }
        Ok(())
    }

    fn listed_inputs(&self) -> String {
        let Ok(entries) = fs::read_dir(&self.input) else {
            return "see that the plugin is granted the directory `input`".to_owned();
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .take(1000)
            .collect();
        names.sort_unstable();
        let more = names.len().saturating_sub(LISTED_MAX);
        names.truncate(LISTED_MAX);
        match (names.is_empty(), more) {
            (true, _) => "it is empty".to_owned(),
            (false, 0) => format!("there are: {}", names.join(", ")),
            (false, more) => format!("there are: {} and {more} more", names.join(", ")),
        }
    }

    /// Finds out that nothing can be written before minutes of reading are spent on it.
    pub fn check_writable(&self, output: &str) -> Result<()> {
        let probe = self.output.join(format!(".{output}.probe.tmp"));
        File::create(&probe)
            .and_then(|_| fs::remove_file(&probe))
            .map_err(|error| self.unwritten(output, &error))
    }

    /// The report's files that are there already, by their paths for people.
    pub fn existing_outputs(&self, name: &str) -> Vec<String> {
        EXTENSIONS
            .iter()
            .map(|extension| format!("{name}.{extension}"))
            .filter(|file| self.output.join(file).exists())
            .map(|file| shown(&file))
            .collect()
    }

    /// Writes the three files of a report, each under a temporary name first.
    ///
    /// All are complete on disk before the first gets its final name, so that the time in which
    /// old and new files lie side by side is as short as three renames.
    pub fn publish(&self, report: &Report, task: Option<&str>) -> Result<Vec<OutputFile>> {
        // Two calls with one output name must not write into one temporary file, and a run that
        // starts again must find its own.
        let task: String = task
            .unwrap_or("inline")
            .chars()
            .map(|it| if it.is_ascii_alphanumeric() { it } else { '-' })
            .collect();
        let temporary = |extension: &str| format!(".{}.{extension}.{task}.tmp", report.name);
        let mut files = Vec::new();
        for extension in EXTENSIONS {
            let bytes = self
                .write(&temporary(extension), |out| match extension {
                    "csv" => render::csv::write(report, out),
                    "md" => render::markdown::write(report, out),
                    _ => render::svg::write(report, out),
                })
                .map_err(|error| self.unwritten(&format!("{}.{extension}", report.name), &error))?;
            let path = shown(&format!("{}.{extension}", report.name));
            files.push(OutputFile { path, bytes });
        }
        for extension in EXTENSIONS {
            let file = format!("{}.{extension}", report.name);
            self.rename(&temporary(extension), &file)
                .map_err(|error| self.unwritten(&file, &error))?;
        }
        Ok(files)
    }

    /// What a cancelled call left, if it left something.
    pub fn read_partial(&self, output: &str) -> Result<Option<Vec<u8>>> {
        let path = self.output.join(partial(output));
        match fs::metadata(&path) {
            Ok(metadata) if metadata.len() <= PARTIAL_MAX_BYTES => Ok(Some(fs::read(&path)?)),
            // Too large to be ours; it is told as damaged.
            Ok(_) => Ok(Some(Vec::new())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unwritten(&partial(output), &error)),
        }
    }

    /// Keeps a snapshot for a later call. Returns its path for people.
    pub fn write_partial(&self, output: &str, snapshot: &[u8]) -> Result<String> {
        let (file, temporary) = (partial(output), format!(".{}.tmp", partial(output)));
        self.write(&temporary, |out| out.write_all(snapshot))
            .and_then(|_| self.rename(&temporary, &file))
            .map_err(|error| self.unwritten(&file, &error))?;
        Ok(shown(&file))
    }

    pub fn remove_partial(&self, output: &str) -> Result<()> {
        match fs::remove_file(self.output.join(partial(output))) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.unwritten(&partial(output), &error))
            }
            _ => Ok(()),
        }
    }

    fn write(
        &self,
        file: &str,
        content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<u64> {
        let mut out = BufWriter::with_capacity(64 * 1024, File::create(self.output.join(file))?);
        content(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.output.join(from), self.output.join(to))
    }

    fn unwritten(&self, file: &str, error: &io::Error) -> Error {
        Error::failed(format!(
            "{} cannot be written: {error}; see that the plugin is granted the directory `output` for writing and that there is space",
            shown(file)
        ))
    }
}

fn identity_of(file: &File) -> io::Result<InputIdentity> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    let modified = metadata.modified().ok();
    Ok(InputIdentity {
        bytes: metadata.len(),
        modified_ns: modified
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
            .and_then(|time| u64::try_from(time.as_nanos()).ok()),
    })
}

fn partial(output: &str) -> String {
    format!("{output}.partial")
}

/// A file of the output directory as the tool sees it, wherever that directory really is.
fn shown(file: &str) -> String {
    format!("/output/{file}")
}
