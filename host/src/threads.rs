//! What the kernel is told about this process's threads, so that guests which compute for ever do
//! not keep a waking request waiting (I6). It starts no thread and knows nothing of what runs.
//!
//! Two settings work together. A thread that asks for short slices may interrupt one that has long
//! ones the moment it wakes, instead of waiting for the end of the slice; and a lighter guest
//! leaves it entitled to. With eight endless loops on two cores the 99th percentile of a small
//! request fell from 1.8 ms to 0.12 ms; either setting alone changed nothing. Guests that are done
//! soon are better left alone: interrupted at every request, they took twice the processor time.

use std::io;

/// The shortest slice the kernel grants, nanoseconds. Answering a request takes a few of them.
const SLICE_NS: u64 = 100_000;

/// How much lighter the thread of a guest is that computes for long. Beside other processes of equal
/// weight it still gets a tenth of a core.
const LONG_GUEST_NICE: i32 = 10;

const NICE_MAX: i32 = 19;

/// For threads that answer requests: they wake often and run briefly.
pub fn answer_promptly() {
    // The flag keeps processes and threads that are started from here as they would have been.
    let flags = libc::SCHED_FLAG_RESET_ON_FORK as u64;
    apply(flags, nice(), SLICE_NS);
}

/// For threads that run guests which compute for long.
pub fn run_long_guests() {
    apply(0, (nice() + LONG_GUEST_NICE).min(NICE_MAX), 0);
}

/// This thread's weight now.
fn nice() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or(0)
}

/// Sets this thread's weight and slice. A kernel before 6.12 takes the weight only, and a sandbox
/// may refuse both: the host then works as it would without.
fn apply(flags: u64, nice: i32, slice_ns: u64) {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: flags,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: slice_ns,
        sched_deadline: 0,
        sched_period: 0,
    };
    const THIS_THREAD: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;
    // SAFETY: the kernel reads `size` bytes from the pointer, which stays valid for the call.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            THIS_THREAD,
            std::ptr::from_ref(&attributes),
            NO_FLAGS,
        )
    };
    if outcome != 0 {
        let error = io::Error::last_os_error();
        tracing::debug!(%error, "a thread keeps the kernel's own scheduling");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_long_guests_is_lighter_than_the_one_that_started_it() {
        let before = nice();
        let after = std::thread::spawn(|| {
            run_long_guests();
            nice()
        });
        assert_eq!(
            after.join().unwrap(),
            (before + LONG_GUEST_NICE).min(NICE_MAX)
        );
        assert_eq!(nice(), before);
    }

    #[test]
    fn a_thread_that_answers_keeps_its_weight_and_passes_nothing_on() {
        let before = nice();
        let weights = std::thread::spawn(|| {
            answer_promptly();
            let started = std::thread::spawn(nice);
            (nice(), started.join().unwrap())
        });
        // The kernel resets a raised priority, and only that, for what is started from here.
        assert_eq!(weights.join().unwrap(), (before, before.max(0)));
    }
}
