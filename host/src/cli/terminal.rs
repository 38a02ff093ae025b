//! What the command line tells the system of its terminal, its pipes and its files.

/// Forgets what was typed before a question was on the screen: a key meant for the shell must not
/// answer it.
pub fn forget_typed_ahead() {
    // SAFETY: takes a descriptor and a constant; where it is no terminal it changes nothing.
    unsafe { libc::tcflush(libc::STDIN_FILENO, libc::TCIFLUSH) };
}

/// Ends the process quietly when whoever reads its output has gone (`| head`), as the shell's own
/// commands do. Not for a host, which must outlive a closed connection.
pub fn end_with_a_closed_pipe() {
    // SAFETY: restores the default action of one signal, which nothing of this process handles.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// The same for what has met the closed pipe already.
pub fn end_of_a_closed_pipe() {
    end_with_a_closed_pipe();
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(libc::SIGPIPE) };
}

/// Has a write fail that would make a file larger than this process may, as one to a full disk does. By
/// default it ends the process without a word.
pub fn outlive_the_largest_file() {
    // SAFETY: ignores one signal, which nothing of this process handles.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// While it lives, the terminal does not show what is typed, and no `^C`: it would break the line that
/// a progress bar is drawn over, which then stays behind.
pub struct NoEcho {
    before: Settings,
}

impl NoEcho {
    /// None where there is no terminal, or where it is another process's to change.
    pub fn begin() -> Option<NoEcho> {
        let before = Settings::now()?;
        let mut quiet = before.0;
        quiet.c_lflag &= !libc::ECHO;
        Settings(quiet).restore();
        Some(NoEcho { before })
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        self.before.restore();
    }
}

/// How the terminal is set.
pub struct Settings(libc::termios);

impl Settings {
    /// None where there is no terminal, or where it is another process's to change.
    pub fn now() -> Option<Settings> {
        if !is_in_foreground() {
            return None;
        }
        let mut settings = std::mem::MaybeUninit::uninit();
        // SAFETY: fills the settings in where it returns 0, and only then are they read.
        unsafe {
            match libc::tcgetattr(libc::STDIN_FILENO, settings.as_mut_ptr()) {
                0 => Some(Settings(settings.assume_init())),
                _ => None,
            }
        }
    }

    pub fn restore(&self) {
        // A process in the background would be stopped for touching the terminal.
        if is_in_foreground() {
            // SAFETY: reads settings that came from `tcgetattr`.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &self.0) };
        }
    }
}

fn is_in_foreground() -> bool {
    // SAFETY: both only ask; without a terminal the first fails with -1, which no group has.
    unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) == libc::getpgrp() }
}
