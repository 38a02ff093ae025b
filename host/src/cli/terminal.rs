//! What the command line tells the system of its terminal and its pipes.

/// Forgets what was typed before a question was on the screen: a key meant for the shell must not
/// answer it.
pub fn forget_typed_ahead() {
    // SAFETY: takes a descriptor and a constant; where it is no terminal it changes nothing.
    unsafe { libc::tcflush(libc::STDIN_FILENO, libc::TCIFLUSH) };
}

/// Ends the process quietly when whoever reads its output has gone (`| head`), as the shell's own
/// commands do. Not for a host, which must outlive a closed connection.
pub fn end_with_a_closed_pipe() {
    // SAFETY: restores the default action of one signal, before any other thread runs.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
