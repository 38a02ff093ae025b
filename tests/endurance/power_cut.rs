//! I1 against a power cut: the data directory lies on an ext4 that is stopped without writing its
//! log, while clients create, answer and cancel.

use super::load::{self, Memory};
use super::mount::Mounted;
use super::{checked, data_dir, is_long, script_host};

const CUTS: usize = 5;
const LONG_CUTS: usize = 20;
const CLIENTS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_acknowledged_survives_a_power_cut() {
    let setup = script_host().configure(
        "[limits]\nfree_disk_min_bytes = 16777216\ntasks_unfinished_max = 100000\n\
         park_after_ms = 0",
    );
    let disk = match Mounted::ext4(&setup.path("disk.img"), &data_dir(&setup), 512) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: no ext4 can be mounted here: {why}"),
    };
    let cuts = if is_long() { LONG_CUTS } else { CUTS };
    let memory = Memory::new();
    for cut in 0..cuts {
        let host = setup.start().await;
        load::check(&host.client(), &memory.facts()).await;
        memory.set_over(false);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| tokio::spawn(load::use_until_it_fails(host.client(), memory.clone())))
            .collect();
        // Not always at the same moment: the number of acknowledgements before it differs.
        let before = memory.facts().len();
        memory.until(before + 20 + 37 * cut % 101).await;
        if let Err(why) = disk.cut_power() {
            memory.set_over(true);
            return println!("skipped: {why}");
        }
        memory.set_over(true);
        for client in clients {
            client.await.unwrap();
        }
        host.kill().await;
        disk.boot().unwrap();
        checked(&setup);
    }
    let host = setup.start().await;
    let facts = memory.facts();
    load::check(&host.client(), &facts).await;
    println!(
        "{cuts} power cuts, {} acknowledgements, none lost",
        facts.len()
    );
    host.kill().await;
}
