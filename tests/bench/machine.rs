//! The machine and what the kernel knows of a process.

use std::fs::{self, File};
use std::io::{Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

/// What one durable write of a small record writes, bytes.
const WRITE_BYTES: usize = 4096;

/// Processor, kernel and disk, in a line.
pub fn describe() -> anyhow::Result<String> {
    let processor = fs::read_to_string("/proc/cpuinfo")?;
    let model = field(&processor, "model name").unwrap_or("an unknown processor");
    let cores = std::thread::available_parallelism()?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split_whitespace().next().unwrap_or_default();
    let sync = crate::table::Samples::micros(syncs(200)?);
    Ok(format!(
        "{cores} × {model}, Linux {}, fdatasync p50 {:.0} µs (p99 {:.0}), load {load}",
        kernel.trim(),
        sync.median(),
        sync.quantile(0.99),
    ))
}

/// How long it takes to overwrite a little of a file and wait for the disk, `count` times. Nothing
/// is appended: a store that writes into space it has already needs no journal of the file system.
pub fn syncs(count: usize) -> anyhow::Result<Vec<Duration>> {
    let mut file: File = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR"))?;
    file.write_all(&vec![0; WRITE_BYTES * count])?;
    file.sync_all()?;
    file.rewind()?;
    let mut times = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        file.write_all(&[1; WRITE_BYTES])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    Ok(times)
}

/// Memory of a process that is in use, KiB.
pub fn resident_kib(pid: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let resident = field(&status, "VmRSS").and_then(|value| value.split(' ').next());
    Ok(resident.context("no VmRSS")?.parse()?)
}

/// Processor time a process has used.
pub fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Vec<u64> = ticks.map(str::parse).collect::<Result<_, _>>()?;
    let millis = ticks.iter().sum::<u64>() * 1000 / TICKS_PER_SECOND;
    Ok(Duration::from_millis(millis))
}

/// Space a directory takes on the disk, links not followed.
pub fn allocated_bytes(directory: &Path) -> anyhow::Result<u64> {
    const BLOCK_BYTES: u64 = 512;
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += metadata.blocks() * BLOCK_BYTES;
        if metadata.is_dir() {
            bytes += allocated_bytes(&entry.path())?;
        }
    }
    Ok(bytes)
}

/// A field of one of `/proc`'s files.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}
