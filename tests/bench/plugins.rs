//! (k) From `longshore plugin add` to a running host serving the plugin, its code compiled or cached,
//! and from the start of a host with 50 plugins to its first answer.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, ensure};
use tokio::process::Command;

use crate::host::Place;
use crate::table::{Samples, Table};
use crate::{Effort, message};

const PLUGINS: usize = 50;
const STARTS: usize = 7;

pub async fn measure(effort: Effort, table: &mut Table) -> anyhow::Result<()> {
    let small = longshore_guests::RELAY.component();
    // Compiling the large one takes seconds of every core.
    let large = foreign("javascript").await?;
    for (component, rounds) in [(small, effort.rounds.min(5)), (large, 3)] {
        add(&component, rounds, table).await?;
    }
    start(table).await
}

/// The component of a plugin that other people's tools make.
async fn foreign(name: &str) -> anyhow::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut build = Command::new(root.join("tests/foreign/build"));
    let built = build.arg(name).output().await?;
    let said = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "{name} can't be made:\n{said}");
    Ok(root.join(format!("target/foreign/plugins/{name}/relay.wasm")))
}

async fn add(component: &Path, rounds: usize, table: &mut Table) -> anyhow::Result<()> {
    let wasm = std::fs::read(component)?;
    let mut cold = Samples::default();
    let mut cached = Samples::default();
    for round in 0..rounds {
        // Another name beside the script's own plugin, and code that nobody compiled before.
        let place = Place::new()?.with_own_code()?;
        let _host = place.start().await?;
        let file = place.data().join(format!("added-{round}.wasm"));
        std::fs::write(&file, salted(&wasm, round as u8))?;
        for samples in [&mut cold, &mut cached] {
            let started = Instant::now();
            plugin(
                &place,
                &["add", file.to_str().context("a path")?, "--name", "added"],
            )
            .await?;
            samples.0.push(started.elapsed().as_secs_f64() * 1e3);
            plugin(&place, &["remove", "added"]).await?;
        }
    }
    let size = size(wasm.len());
    let what = format!("add a plugin of {size} to a running host, compiled");
    table.row('k', &what, "ms", &cold);
    table.row('k', "the same, its code cached", "ms", &cached);
    Ok(())
}

fn size(bytes: usize) -> String {
    match bytes {
        0..1_000_000 => format!("{:.0} KB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

async fn plugin(place: &Place, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    command.arg("plugin").args(arguments);
    command.arg("--config").arg(place.config());
    command.arg("--data-dir").arg(place.data());
    command.arg("--plugins").arg(place.plugins());
    let done = command.output().await?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{arguments:?}: {said}");
    Ok(())
}

async fn start(table: &mut Table) -> anyhow::Result<()> {
    let place = Place::new()?;
    let wasm = std::fs::read(longshore_guests::SCRIPT.component())?;
    for index in 0..PLUGINS {
        let file = place.plugins().join(format!("plugin-{index}.wasm"));
        std::fs::write(file, salted(&wasm, index as u8))?;
    }
    let mut times = Samples::default();
    // The first start compiles what no run before it has.
    for round in 0..=STARTS {
        let started = Instant::now();
        let host = place.start().await?;
        let mut connection = host.connect().await?;
        connection.exchange(&message::list()).await?;
        if round > 0 {
            times.0.push(started.elapsed().as_secs_f64() * 1e3);
        }
        host.kill().await?;
    }
    let what = format!("start with {PLUGINS} cached plugins to the first answer");
    table.row('k', &what, "ms", &times);
    Ok(())
}

/// The same component with other bytes in a section that means nothing.
fn salted(wasm: &[u8], salt: u8) -> Vec<u8> {
    let mut salted = wasm.to_vec();
    salted.extend([0, 6, 4, b's', b'a', b'l', b't', salt]);
    salted
}
