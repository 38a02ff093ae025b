//! Tasks over the deaths of their host: killed at random moments (I1, I2, I3, I7), stopped as a
//! deployment stops it, one after the other until a task is given up, and with files that were
//! changed meanwhile.

mod damage;
mod deployment;
mod fleet;
mod ledger;
mod recovery;

use std::sync::Arc;
use std::time::Duration;

use crate::harness::{Random, Setup};
use crate::plugins::report_export::sales;
use fleet::Fleet;

/// How often the host dies; with `LONGSHORE_LONG=1` more often.
const KILLS: u32 = 20;
const KILLS_LONG: u32 = 100;

/// The longest life of a host between two deaths.
const LIFE_MAX_MS: u64 = 600;

/// Large enough that reading it takes longer than a short life.
const EXPORTED_BYTES: u64 = 24 << 20;

/// From the last death to the last task's end.
const FINISH_TIMEOUT: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_host_that_is_killed_at_random_moments() {
    let kills = match std::env::var_os("LONGSHORE_LONG") {
        Some(_) => KILLS_LONG,
        None => KILLS,
    };
    let mut random = Random::seeded();
    let fleet = Fleet::new().await;
    let setup = setup(&fleet);
    let mut host = setup.start().await;
    fleet.export_undisturbed(&setup, &host.client()).await;
    fleet.serve(host.client());
    let workers = fleet.begin(&mut random);
    for _ in 0..kills {
        // The one place where time itself is what is tested.
        tokio::time::sleep(Duration::from_millis(random.below(LIFE_MAX_MS))).await;
        fleet.pause();
        host.kill().await;
        host = setup.start().await;
        fleet.check_all(&host.client()).await;
        fleet.serve(host.client());
    }
    fleet.close();
    let finished = tokio::time::timeout(FINISH_TIMEOUT, workers.join_all()).await;
    assert!(
        finished.is_ok(),
        "never ended: {:#?}",
        fleet.unfinished().await
    );

    assert!(host.terminate().await.success());
    let host = setup.start().await;
    fleet.check_all(&host.client()).await;
    fleet.check_effects(kills).await;
    fleet.check_exports(&setup).await;
    println!("{kills} kills: {}", fleet.summary().await);
}

fn setup(fleet: &Arc<Fleet>) -> Setup {
    let guests = [
        longshore_guests::SCRIPT,
        longshore_guests::RELEASE_GATE,
        longshore_guests::REPORT_EXPORT,
    ];
    let plugins = guests.map(|guest| (guest.name, guest.directory()));
    let plugins: Vec<_> = plugins
        .iter()
        .map(|(name, it)| (*name, it.as_path()))
        .collect();
    let setup = Setup::new(&plugins);
    let (input, output) = (setup.path("input"), setup.path("output"));
    for directory in [&input, &output] {
        std::fs::create_dir(directory).unwrap();
    }
    let mut content = Vec::new();
    sales::write_file(EXPORTED_BYTES, &mut content).unwrap();
    std::fs::write(input.join("sales.csv"), content).unwrap();
    let http = fleet.target().authority();
    setup.configure(&format!(
        "[limits]\ncall_grace_ms = 0\npark_after_ms = 50\nsave_interval_ms = 50\n\
         [plugin.script.grants]\nhttp = [{http:?}]\n\
         [plugin.release-gate.grants]\nhttp = [{http:?}]\n\
         [plugin.report-export.grants.directories]\n\
         input = {{ path = {input:?}, access = \"read\" }}\n\
         output = {{ path = {output:?}, access = \"write\" }}"
    ))
}
