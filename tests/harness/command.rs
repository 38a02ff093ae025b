//! The binary's commands, run to their end without a terminal.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// Longer than any command of a test takes, so that one that hangs fails its own test.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// `longshore` with these arguments, nothing on its standard input and no settings of the machine.
pub fn longshore(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    command
        .args(arguments)
        .env_remove("LONGSHORE_URL")
        .env_remove("LONGSHORE_TOKEN")
        .env_remove("LONGSHORE_SDK")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Runs a command to its end.
pub async fn run(mut command: Command) -> Ended {
    let output = tokio::time::timeout(PATIENCE, command.output())
        .await
        .expect("the command ends in time")
        .expect("the command starts");
    Ended {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ended {
    /// What went to standard error, with `directory` shown as `DIR` and without the log's lines,
    /// which begin with a time.
    pub fn message(&self, directory: &Path) -> String {
        let shown = self.stderr.replace(&directory.display().to_string(), "DIR");
        let lines = shown.lines().filter(|line| !line.starts_with("20"));
        lines.collect::<Vec<_>>().join("\n")
    }
}
