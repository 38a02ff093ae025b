//! The command line against a host that means harm: it neither drives the terminal, nor keeps the
//! process from being stopped, nor takes its memory.

mod server;
mod terminal;

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::harness::{Ended, longshore, run};
use server::{FORGED, HostileHost, endless_pages};
use terminal::Terminal;

/// Less than what a host is given to answer: whoever is stopped only by that is not stopped by us.
const SOON: Duration = Duration::from_secs(20);

const BETWEEN_KEYS: Duration = Duration::from_millis(100);

fn command(url: &str, arguments: &[&str]) -> Command {
    let mut command = longshore(arguments);
    command.env("LONGSHORE_URL", url);
    command
}

/// What must not come out of a command, with what stands before it.
fn harmful(text: &str) -> Option<String> {
    let drives = |c: char| match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2066}'..='\u{206f}' => true,
        _ => c.is_control(),
    };
    let forged = || text.find(&format!("\n{FORGED}"));
    let at = text.find(drives).or_else(forged)?;
    let before: String = text[..at].chars().rev().take(60).collect();
    let before: String = before.chars().rev().collect();
    let from: String = text[at..].chars().take(12).collect();
    Some(format!("{before:?} then {from:?}"))
}

#[tokio::test]
async fn nothing_that_a_host_sends_drives_the_terminal() {
    let host = HostileHost::start().await;
    let commands: &[&[&str]] = &[
        &["list"],
        &["list", "--json"],
        &["task", "list"],
        &["task", "list", "--json"],
        &["task", "get", "working"],
        &["task", "get", "working", "--json"],
        &["task", "get", "input_required"],
        &["task", "get", "failed"],
        &["task", "get", "completed"],
        &["task", "get", "no such state"],
        &["task", "log", "working"],
        &["task", "log", "working", "--json"],
        &["task", "watch", "input_required"],
        &["task", "watch", "failed"],
        &["task", "watch", "failed", "--json"],
        &["task", "watch", "cancelled"],
        &["task", "watch", "completed"],
        &["task", "cancel", "working"],
        &["task", "answer", "input_required", "no=1"],
        &["task", "answer", "input_required", "--decline", "no"],
        &["task", "answer", "input_required"],
        &["task", "answer", "input_required", "--yes"],
        &["task", "answer", "update-silent", "yes=perhaps"],
        &["task", "result", "working"],
        &["call", "content"],
        &["call", "content", "--json"],
        &["call", "content", "--detach"],
        &["call", "structured"],
        &["call", "structured", "--json"],
        &["call", "rounds"],
        &["call", "rounds", "--yes"],
        &["call", "refused"],
        &["call", "failed"],
        &["call", "cancelled"],
        &["call", "completed"],
        &["call", "completed", "--json"],
        &["call", "completed", "--detach"],
        &["call", "completed", "--detach", "--json"],
        &["call", "input_required"],
        &["call", "input_required", "--yes"],
        &["call", "needs"],
        &["call", "needs", "c=1"],
        &["call", "needs", "b=1"],
        &["call", "no such tool"],
        &["read", "u", "--json"],
        &["prompt", "p"],
        &["prompt", "p", "--json"],
    ];
    let mut wrong = Vec::new();
    for arguments in commands {
        let Ended { stdout, stderr, .. } = run(command(host.url(), arguments)).await;
        for (stream, text) in [("stdout", &stdout), ("stderr", &stderr)] {
            if let Some(found) = harmful(text) {
                wrong.push(format!("{arguments:?} {stream}: {found}"));
            }
        }
        // What is not data for a script is something to read.
        assert!(!(stdout + &stderr).is_empty(), "{arguments:?} said nothing");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn json_stays_the_same_when_it_is_made_harmless() {
    let host = HostileHost::start().await;
    let ended = run(command(host.url(), &["call", "structured", "--json"])).await;
    let told: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let (key, value) = told["structuredContent"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    for text in [key, value.as_str().unwrap()] {
        assert!(
            text.contains("\u{1b}[2J\u{1b}[31m\u{9b}31mX\u{202e}Y\u{7f}\r"),
            "{text:?}"
        );
    }
}

#[tokio::test]
async fn an_id_that_is_none_is_not_put_into_a_command_to_paste() {
    let host = HostileHost::start().await;
    for arguments in [&["call", "input_required"][..], &["task", "watch", "$(id)"]] {
        let ended = run(command(host.url(), arguments)).await;
        assert!(!ended.stderr.contains("longshore task"), "{}", ended.stderr);
    }
}

fn interrupt(child: &Child) {
    let pid = i32::try_from(child.id().expect("it runs")).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
}

/// Presses Ctrl-C until the command ends: one that is pressed after a prompt is shown, and before it
/// reads its keys, is nobody's here, since the terminal is not the command's own.
async fn ended_by_keys(terminal: &mut Terminal, child: &mut Child) -> i32 {
    let pressing = async {
        loop {
            terminal.type_keys("\u{3}");
            if let Ok(ended) = tokio::time::timeout(BETWEEN_KEYS, child.wait()).await {
                break ended.unwrap().code().unwrap_or(-1);
            }
        }
    };
    let ended = tokio::time::timeout(SOON, pressing).await;
    ended.expect("it ends")
}

/// Starts a command, interrupts it once the host was asked for `method`, and returns its exit code
/// and what it said.
async fn interrupted_at(host: &HostileHost, arguments: &[&str], method: &str) -> (i32, String) {
    let child = command(host.url(), arguments).spawn().unwrap();
    host.until_asked(method).await;
    interrupt(&child);
    let ended = tokio::time::timeout(SOON, child.wait_with_output()).await;
    let ended = ended.unwrap_or_else(|_| panic!("{arguments:?} goes on at {method}"));
    let ended = ended.unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    (ended.status.code().unwrap_or(-1), said)
}

#[tokio::test]
async fn an_interrupt_ends_a_command_whatever_it_waits_for() {
    let table: &[(&[&str], &str)] = &[
        (&["call", "silent"], "tools/call"),
        (&["call", "listen-silent"], "subscriptions/listen"),
        (&["task", "watch", "listen-silent"], "subscriptions/listen"),
        (&["task", "watch", "silent"], "tasks/get"),
        (&["task", "watch", "endless"], "subscriptions/listen"),
        (&["call", "update-silent", "--yes"], "tasks/update"),
    ];
    for (arguments, method) in table {
        let host = HostileHost::start().await;
        let (code, said) = interrupted_at(&host, arguments, method).await;
        assert_eq!(code, 130, "{arguments:?} at {method}: {said}");
    }
}

#[tokio::test]
async fn an_interrupt_is_seen_while_a_host_is_asked_to_cancel() {
    for task in ["working", "cancel-silent"] {
        let host = HostileHost::start().await;
        let mut terminal = Terminal::open();
        let mut command = command(host.url(), &["task", "watch", task]);
        let mut child = terminal.give_to(&mut command).spawn().unwrap();
        host.until_asked("subscriptions/listen").await;
        interrupt(&child);
        let shown = terminal.until_shown("Cancel the task").await;
        assert!(!shown.contains("PWNED\u{7}"), "{shown:?}");
        // Two down, and return.
        terminal.type_keys("\u{1b}[B\u{1b}[B\r");
        host.until_asked("tasks/cancel").await;
        if task == "working" {
            terminal.until_shown("asked the task to stop").await;
        }
        // Asked again what to do, or, where the host says nothing, gone.
        interrupt(&child);
        if task == "working" {
            let again = |all: &str| all.matches("The task is still running").count() > 1;
            terminal.until(again).await;
            assert_eq!(ended_by_keys(&mut terminal, &mut child).await, 130);
        } else {
            let ended = tokio::time::timeout(SOON, child.wait()).await;
            assert_eq!(ended.expect("it ends").unwrap().code(), Some(130));
        }
    }
}

#[tokio::test]
async fn what_is_asked_at_the_terminal_does_not_drive_it() {
    let host = HostileHost::start().await;
    let mut terminal = Terminal::open();
    let mut command = command(host.url(), &["task", "answer", "input_required"]);
    let mut child = terminal.give_to(&mut command).spawn().unwrap();
    // The first choice, the default, and then the question whether to send it.
    terminal.until_shown("❯").await;
    terminal.type_keys("\r");
    terminal.until_shown("def").await;
    terminal.type_keys("\r");
    let shown = terminal.until_shown("Send this?").await;
    assert_eq!(ended_by_keys(&mut terminal, &mut child).await, 130);
    for harm in [
        "\u{1b}]0;",
        "\u{1b}[2J\u{1b}[31m",
        "\u{9b}",
        "\u{202e}",
        "\u{7f}",
        "\u{61c}",
    ] {
        assert!(!shown.contains(harm), "{harm:?} in {shown:?}");
    }
}

#[tokio::test]
async fn a_list_without_an_end_is_given_up_before_it_fills_the_memory() {
    let (url, pages) = endless_pages().await;
    let ended = run(command(&url, &["list"])).await;
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("MiB of memory"), "{}", ended.stderr);
    assert!(*pages.borrow() < 100, "{} pages", *pages.borrow());
}

#[tokio::test]
async fn an_answer_that_would_grow_in_memory_is_not_read() {
    let host = HostileHost::start().await;
    let ended = run(command(host.url(), &["call", "many-nodes"])).await;
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("MiB of memory"), "{}", ended.stderr);
}
