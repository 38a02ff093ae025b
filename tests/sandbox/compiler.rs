//! The compiler's process beside its host: a signal to both is the host's alone, and the host's end is
//! its end.

use std::path::Path;
use std::process::Output;

use longshore_guests::PROBE;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::Child;

use super::loading::bomb;
use crate::harness::Setup;

/// A host that has something to compile before it serves, as the first of a process group.
fn start(setup: &Setup) -> (Child, Pid) {
    setup.keep_compiled_code_apart();
    let host = setup.serve_command().process_group(0).spawn().unwrap();
    let pid = i32::try_from(host.id().unwrap()).unwrap();
    (host, Pid::from_raw(pid).unwrap())
}

/// The compiler's process, once there is one.
pub async fn compiler(host: Pid) -> Pid {
    loop {
        if let Some(pid) = children(host).into_iter().find(|pid| compiles(*pid)) {
            return pid;
        }
        tokio::task::yield_now().await;
    }
}

fn children(host: Pid) -> Vec<Pid> {
    let threads = Path::new("/proc").join(host.to_string()).join("task");
    let mut children = Vec::new();
    for thread in std::fs::read_dir(threads).unwrap() {
        // A thread may end meanwhile.
        let listed = std::fs::read_to_string(thread.unwrap().path().join("children"));
        let listed = listed.unwrap_or_default();
        let pids = listed.split_whitespace().map(|pid| pid.parse().unwrap());
        children.extend(pids.map(|pid| Pid::from_raw(pid).unwrap()));
    }
    children
}

pub fn compiles(pid: Pid) -> bool {
    let command = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
    String::from_utf8_lossy(&command.unwrap_or_default()).contains("__compile")
}

#[tokio::test]
async fn a_signal_to_the_hosts_group_while_it_starts_is_not_a_components_fault() {
    let setup = Setup::new(&[("probe", &PROBE.directory())]);
    let (host, pid) = start(&setup);
    compiler(pid).await;
    kill_process_group(pid, Signal::INT).unwrap();
    let Output { status, stderr, .. } = host.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("stopped before it had started"), "{said}");
    assert!(!said.contains("failed"), "{said}");
}

#[tokio::test]
async fn the_compiler_does_not_outlive_a_host_that_is_killed() {
    let setup = Setup::new(&[]);
    std::fs::write(setup.path("plugins/bomb.wasm"), bomb(20_000)).unwrap();
    let (mut host, pid) = start(&setup);
    let compiler = compiler(pid).await;
    kill_process(pid, Signal::KILL).unwrap();
    host.wait().await.unwrap();
    // By itself it would go on for minutes.
    while compiles(compiler) {
        tokio::task::yield_now().await;
    }
}
