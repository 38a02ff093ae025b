//! How a command ends: the documented exit codes, and a failure with its words.

use std::process::ExitCode;

use super::text::plain_lines;
use super::wire::ClientError;
use crate::admin::AdminError;
use crate::config::ConfigError;

/// Words of a host's error that are shown.
const WORDS_MAX_CHARS: usize = 4_000;

/// The exit codes of `longshore --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failed,
    Usage,
    Refused,
    Cancelled,
    Interrupted,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::Cancelled => 4,
            Exit::Interrupted => 130,
        }
    }

    /// Ends the process here, wherever the command is.
    pub fn now(self) -> ! {
        std::process::exit(self.code().into())
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why a command did not do what it should, and the exit code that says so.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }

    pub fn refused(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Refused, message)
    }

    pub fn interrupted(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Interrupted, message)
    }

    fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure {
            exit,
            message: message.into(),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::usage(error.to_string())
    }
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Failure {
        let exit = match error {
            AdminError::Named | AdminError::OtherDirectory { .. } => Exit::Usage,
            AdminError::Plugin { .. }
            | AdminError::Exists(_)
            | AdminError::Elsewhere(_)
            | AdminError::NothingToReplace { .. }
            | AdminError::NothingToRemove { .. }
            | AdminError::Places(_)
            | AdminError::Copy { .. }
            | AdminError::Change { .. }
            | AdminError::Stopped => Exit::Failed,
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        let exit = match error {
            ClientError::BadUrl(_) => Exit::Usage,
            _ => Exit::Refused,
        };
        // The words may be the host's: its lines are not to look like ours.
        let words = plain_lines(&error.to_string(), WORDS_MAX_CHARS, "  ");
        Failure::new(exit, words)
    }
}
