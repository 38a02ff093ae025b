//! What the host costs, as ratios measured in one run: every figure stands beside one of the same
//! machine, the same client and the same minute. Nothing here asserts a time.
//!
//! `cargo bench` measures everything, `cargo bench -- a c` two parts, `--long` takes more rounds.

mod answer;
mod bare;
mod calls;
mod cancel;
mod commits;
mod disk;
mod fleet;
mod host;
mod machine;
mod memory;
mod message;
mod neighbours;
mod peer;
mod plugins;
mod reads;
mod recovery;
mod sandbox;
mod streams;
mod table;
mod tenants;
mod wire;

use std::time::Instant;

use table::Table;

/// How much is measured.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Rounds of everything that is measured in turns.
    pub rounds: usize,
    /// Stored tasks of the largest restart.
    pub stored_tasks_max: usize,
}

const QUICK: Effort = Effort {
    rounds: 9,
    stored_tasks_max: 10_000,
};

const LONG: Effort = Effort {
    rounds: 25,
    stored_tasks_max: 100_000,
};

const PARTS: &str = "abcdefghijklm";

const USAGE: &str = "\
usage: cargo bench -- [--long] [PART…]
  a  tasks/get against a bare handler        e  memory: idle, running task, parked task
  b  durable tools/call against the store    f  calls a second, hostile neighbours, tenants
  c  inline call against tools/list          g  resume after SIGKILL, restart with many tasks
  d  from a cancel to `cancelled`            h  bytes on disk of a task's life
  i  from an answer to the tool's next word  j  calls and reads against an rmcp server
  k  plugins: adding, starting with 50        l  the sandbox against the same function without it
  m  5,000 open streams, sessions";

fn main() -> anyhow::Result<()> {
    let mut effort = QUICK;
    let mut parts = String::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            bare::FLAG => return bare::serve(arguments.next()),
            peer::FLAG => return peer::serve(),
            "--long" => effort = LONG,
            // Cargo says so to every benchmark.
            "--bench" => {}
            part if part.len() == 1 && PARTS.contains(part) => parts.push_str(part),
            _ => anyhow::bail!("`{argument}` is no part\n{USAGE}"),
        }
    }
    if parts.is_empty() {
        parts = PARTS.to_owned();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(measure(&parts, effort))
}

async fn measure(parts: &str, effort: Effort) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut table = Table::default();
    for part in parts.chars() {
        eprintln!("measuring {part} …");
        match part {
            'a' => reads::measure(effort, &mut table).await?,
            'b' => commits::measure(effort, &mut table).await?,
            'c' => calls::measure(effort, &mut table).await?,
            'd' => cancel::measure(effort, &mut table).await?,
            'e' => memory::measure(&mut table).await?,
            'f' => {
                neighbours::measure(effort, &mut table).await?;
                tenants::measure(effort, &mut table).await?;
            }
            'g' => recovery::measure(effort, &mut table).await?,
            'h' => disk::measure(&mut table).await?,
            'i' => answer::measure(effort, &mut table).await?,
            'j' => peer::measure(effort, &mut table).await?,
            'k' => plugins::measure(effort, &mut table).await?,
            'l' => sandbox::measure(effort, &mut table).await?,
            _ => streams::measure(&mut table).await?,
        }
    }
    println!("{}", machine::describe()?);
    println!("{table}");
    println!(
        "median, and from the least to the greatest of all rounds; took {:.0} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
