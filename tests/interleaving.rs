//! Clients of every kind on one host, each going away at moments that a seed decides. Nothing of them
//! may be left: no session, stream, run, place, instance, task or file.

mod turn;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longshore_guests as guests;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::harness::{Host, Random, Setup};
use turn::{ACTS, Act, KINDS, Kind, Turn};

const CLIENTS: u64 = 50;

/// How often each comes and goes; with `LONGSHORE_LONG=1` more often.
const TURNS: u64 = 4;
const TURNS_LONG: u64 = 60;

/// The latest moment at which an impatient client goes away.
const LEAVES_AFTER_MAX_MS: u64 = 400;

/// A patient client's; nothing takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at what is left.
const LOOK: Duration = Duration::from_millis(50);

/// Long enough for a patient client, short enough to be waited for: what nobody knows the id of goes
/// with its time.
const TASK_TTL_MS: u64 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_clients_of_all_kinds_that_come_and_go_leave_nothing_behind() {
    let setup = Arc::new(setup());
    let host = setup.start().await;
    while !setup.path("data/serving.json").exists() {
        // It says what it serves a moment after it serves.
        sleep(LOOK).await;
    }
    let (files, sockets) = (files(&setup), sockets(&host));
    let before = setup.counts().await;
    let mut random = Random::seeded();
    let count = match std::env::var_os("LONGSHORE_LONG") {
        Some(_) => TURNS_LONG,
        None => TURNS,
    };
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let kind = KINDS[usize::try_from(number).unwrap() % KINDS.len()];
        let turns: Vec<_> = (0..count)
            .map(|turn| choose(&mut random, kind, &setup, &host, number * count + turn))
            .collect();
        clients.spawn(async move {
            for (turn, patience) in turns {
                // Dropping the turn in its middle is how its client goes away.
                let _ = timeout(patience, turn.take(kind)).await;
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("a client was served wrongly");
    }
    until_same("counts", || setup.counts(), before).await;
    until_same("files", async || self::files(&setup), files).await;
    until_same("sockets", async || self::sockets(&host), sockets).await;
    every_kind_is_served(&setup, &host).await;
    assert!(host.terminate().await.success());
}

fn setup() -> Setup {
    Setup::new(&[("script", &guests::SCRIPT.directory())]).configure(&format!(
        "[limits]\ntask_ttl_default_ms = {TASK_TTL_MS}\nsweep_interval_ms = 100\n\
         round_hold_ms = 5000\n\
         legacy_session_idle_ms = 5000\nlegacy_reconnect_ms = 200"
    ))
}

fn choose(
    random: &mut Random,
    kind: Kind,
    setup: &Arc<Setup>,
    host: &Host,
    number: u64,
) -> (Turn, Duration) {
    let count = ACTS.len() as u64;
    let act = ACTS[usize::try_from(random.below(count)).unwrap()];
    let ends = !matches!(act, Act::Wait | Act::Listen);
    let patience = match ends && random.one_in(3) {
        true => PATIENCE,
        false => Duration::from_millis(random.below(LEAVES_AFTER_MAX_MS)),
    };
    let turn = Turn {
        url: host.url().to_owned(),
        setup: setup.clone(),
        act,
        holds: random.one_in(2),
        mark: format!("{kind:?} {number}"),
    };
    (turn, patience)
}

/// Afterwards each kind finds the host as it was.
async fn every_kind_is_served(setup: &Arc<Setup>, host: &Host) {
    for kind in KINDS {
        for act in [Act::Call, Act::Ask, Act::Cancel] {
            let turn = Turn {
                url: host.url().to_owned(),
                setup: setup.clone(),
                act,
                holds: false,
                mark: format!("{kind:?} afterwards"),
            };
            let served = timeout(PATIENCE, turn.take(kind)).await;
            assert!(served.is_ok(), "{kind:?} is not served: {act:?}");
        }
    }
}

/// Waits until what is looked at is as it was before; if that never happens, tells what is left.
async fn until_same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> T,
    before: T,
) {
    let mut last = None;
    let waited = timeout(PATIENCE, async {
        loop {
            let now = look().await;
            if now == before {
                break;
            }
            last = Some(now);
            sleep(LOOK).await;
        }
    });
    let is_same = waited.await.is_ok();
    assert!(is_same, "{what} are left: {last:#?}\nbefore: {before:#?}");
}

/// The files of the data directory, but for the database's own and the code that all tests share.
fn files(setup: &Setup) -> BTreeSet<String> {
    fn add(directory: &Path, found: &mut BTreeSet<String>) {
        // What is being deleted may be gone by now.
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.file_name() != "db" => add(&path, found),
                _ => {
                    found.insert(path.display().to_string());
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    add(&setup.path("data"), &mut found);
    found
}

/// The host's open sockets.
fn sockets(host: &Host) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", host.pid())).unwrap();
    open.flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .filter(|target| target.to_string_lossy().starts_with("socket:"))
        .count()
}
