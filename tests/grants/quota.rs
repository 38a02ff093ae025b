//! Directories with a quota.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;

use super::run;
use crate::harness::Setup;
use crate::tasks::scripts;

fn with_quota(quota_bytes: u64) -> Setup {
    let setup = scripts();
    let [out, other] = ["out", "other"].map(|name| {
        std::fs::create_dir(setup.path(name)).unwrap();
        setup.path(name).display().to_string()
    });
    setup.configure(&format!(
        "[plugin.script.grants.directories]\n\
         out = {{ path = \"{out}\", access = \"write\", quota_bytes = {quota_bytes} }}\n\
         other = {{ path = \"{other}\", access = \"write\" }}"
    ))
}

/// What the files and the directories take, as the quota counts: a block each at least.
fn taken_bytes(setup: &Setup) -> u64 {
    fn below(folder: &Path) -> u64 {
        let entries = std::fs::read_dir(folder).unwrap();
        let each = entries.map(|entry| {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let inside = if found.is_dir() { below(&path) } else { 0 };
            (found.blocks() * 512).max(4_096) + inside
        });
        each.sum()
    }
    // Its first block was there before.
    let own = std::fs::metadata(setup.path("out")).unwrap().blocks() * 512;
    below(&setup.path("out")) + own.saturating_sub(4_096)
}

#[tokio::test]
async fn a_directory_at_its_quota_is_a_full_disk_until_room_is_made() {
    const QUOTA: u64 = 256 << 10;
    let setup = with_quota(QUOTA);
    let host = setup.start().await;
    let append = |path: &str, bytes: u64| json!({"do": "append", "path": path, "bytes": bytes});
    let told = run(
        &host.client(),
        json!([
            append("/out/a", 128 << 10),
            append("/out/b", 256 << 10),
            append("/out/c", 64 << 10),
            {"do": "delete", "path": "/out/a"},
            {"do": "delete", "path": "/out/b"},
            append("/out/d", 128 << 10),
        ]),
    )
    .await;
    insta::assert_snapshot!(told, @r"
    /out/a: written
    /out/b: I/O error (os error 29)
    /out/c: No space left on device (os error 51)
    deleted /out/a
    deleted /out/b
    /out/d: written
    ");
    assert!(taken_bytes(&setup) <= QUOTA, "{}", taken_bytes(&setup));
}

#[tokio::test]
async fn a_file_appended_to_bit_by_bit_stays_within_the_quota() {
    const QUOTA: u64 = 64 << 10;
    let setup = with_quota(QUOTA);
    let host = setup.start().await;
    let bits: Vec<_> = (0..200)
        .map(|_| json!({"do": "append", "path": "/out/a", "bytes": 1_000}))
        .collect();
    let told = run(&host.client(), json!(bits)).await;
    let written = told
        .lines()
        .filter(|line| line.ends_with("written"))
        .count();
    // Nearly all of the room is used, although every small write is charged for whole blocks.
    assert!((45..=66).contains(&written), "{written}: {told}");
    assert!(taken_bytes(&setup) <= QUOTA, "{}", taken_bytes(&setup));
}

#[tokio::test]
async fn many_small_files_count_as_blocks() {
    const QUOTA: u64 = 64 << 10;
    let setup = with_quota(QUOTA);
    let host = setup.start().await;
    let files: Vec<_> = (0..50)
        .map(|number| json!({"do": "append", "path": format!("/out/{number}"), "bytes": 0}))
        .collect();
    let told = run(&host.client(), json!(files)).await;
    let made = std::fs::read_dir(setup.path("out")).unwrap().count();
    assert!((8..=16).contains(&made), "{made}: {told}");
}

#[tokio::test]
async fn nothing_comes_into_a_directory_around_its_quota() {
    const QUOTA: u64 = 64 << 10;
    let setup = with_quota(QUOTA);
    std::fs::write(setup.path("other/large"), vec![1; 1 << 20]).unwrap();
    let host = setup.start().await;
    let told = run(
        &host.client(),
        json!([
            {"do": "append", "path": "/out/a", "bytes": 10},
            {"do": "resize", "path": "/out/a", "bytes": 1 << 30},
            {"do": "resize", "path": "/out/a", "bytes": 5_000},
            {"do": "resize", "path": "/out/a", "bytes": 0},
            {"do": "rename", "path": "/other/large", "to": "/out/large"},
            {"do": "rename", "path": "/out/a", "to": "/out/b"},
        ]),
    )
    .await;
    insta::assert_snapshot!(told, @r"
    /out/a: written
    /out/a: No space left on device (os error 51)
    /out/a: 5000 long
    /out/a: 0 long
    /other/large: Cross-device link (os error 75)
    /out/a is /out/b
    ");
    assert!(taken_bytes(&setup) <= QUOTA, "{}", taken_bytes(&setup));
}

/// A directory keeps the blocks of all names that it once had.
#[tokio::test]
async fn files_led_through_directories_do_not_swell_them_past_the_quota() {
    const QUOTA: u64 = 256 << 10;
    const FILES: usize = 36;
    const DIRECTORIES: usize = 16;
    let setup = with_quota(QUOTA);
    let host = setup.start().await;
    let name = |number: usize| format!("{number:03}-{}", "n".repeat(240));
    let place = |directory: usize, file: usize| format!("/out/{directory}/{}", name(file));
    let mut script: Vec<_> = (0..DIRECTORIES)
        .map(|number| json!({"do": "make_directory", "path": format!("/out/{number}")}))
        .collect();
    let made = |file| json!({"do": "append", "path": place(0, file), "bytes": 0});
    script.extend((0..FILES).map(made));
    for directory in 1..DIRECTORIES {
        script.extend((0..FILES).map(|file| {
            let (from, to) = (place(directory - 1, file), place(directory, file));
            json!({"do": "rename", "path": from, "to": to})
        }));
    }
    let told = run(&host.client(), json!(script)).await;
    assert_eq!(told.matches(": written").count(), FILES, "{told}");
    assert!(taken_bytes(&setup) <= QUOTA, "{}", taken_bytes(&setup));
}

#[tokio::test]
async fn a_name_needs_room_too() {
    let setup = with_quota(64 << 10);
    let host = setup.start().await;
    let rename = json!({"do": "rename", "path": "/out/a", "to": "/out/b"});
    let told = run(
        &host.client(),
        json!([
            {"do": "append", "path": "/out/a", "bytes": 128 << 10},
            rename,
            {"do": "resize", "path": "/out/a", "bytes": 0},
            rename,
        ]),
    )
    .await;
    insta::assert_snapshot!(told, @r"
    /out/a: I/O error (os error 29)
    /out/a: No space left on device (os error 51)
    /out/a: 0 long
    /out/a is /out/b
    ");
}
