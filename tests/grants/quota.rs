//! Directories with a quota.

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

/// What the files take, as the quota counts.
fn taken_bytes(setup: &Setup) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(setup.path("out")).unwrap();
    files
        .map(|file| file.unwrap().metadata().unwrap().blocks() * 512)
        .sum()
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
    /out/c: I/O error (os error 29)
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
