//! `report-export` on files of every kind, large ones above all.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::harness::Setup;
use crate::plugins::{answer, question, structured};

#[path = "../../plugins/report-export/fixtures/sales.rs"]
pub mod sales;

const LARGE_BYTES: u64 = 200 << 20;

/// What a run of the host over the large file may add to its memory: the instance's and the
/// compiled code's, never the file's.
const MEMORY_GROWTH_MAX_BYTES: u64 = 100 << 20;

const FORMATS: [&str; 3] = ["csv", "md", "svg"];

/// A host whose plugin reads `input` and writes to `output`.
fn setup(input: &Path) -> Setup {
    let guest = longshore_guests::REPORT_EXPORT;
    let setup = Setup::new(&[(guest.name, &guest.directory())]);
    let output = setup.path("output");
    std::fs::create_dir(&output).unwrap();
    setup.configure(&format!(
        "[limits]\ncall_grace_ms = 0\npark_after_ms = 0\nsave_interval_ms = 50\n\
         [plugin.report-export.grants.directories]\n\
         input = {{ path = {input:?}, access = \"read\" }}\n\
         output = {{ path = {output:?}, access = \"write\" }}"
    ))
}

/// A directory with one file.
fn input(content: &[u8]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("sales.csv"), content).unwrap();
    directory
}

/// A directory with a large `sales.csv`, written once, and its number of rows.
fn large_input() -> (&'static Path, u64) {
    static WRITTEN: OnceLock<(PathBuf, u64)> = OnceLock::new();
    let (directory, rows) = WRITTEN.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("large-input");
        std::fs::create_dir_all(&directory).unwrap();
        let file = std::fs::File::create(directory.join("sales.csv")).unwrap();
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let rows = sales::write_file(LARGE_BYTES, &mut file).unwrap();
        file.flush().unwrap();
        (directory, rows)
    });
    (directory, *rows)
}

fn by_region(output: &str) -> Value {
    json!({
        "file": "sales.csv",
        "group_by": ["region"],
        "measures": [{"column": "amount"}],
        "output": output,
    })
}

/// The report's files.
fn outputs(setup: &Setup, name: &str) -> Vec<String> {
    let read = |format| setup.path("output").join(format!("{name}.{format}"));
    FORMATS
        .map(|format| std::fs::read_to_string(read(format)).unwrap())
        .to_vec()
}

/// Everything in the output directory, sorted.
fn output_names(setup: &Setup) -> Vec<String> {
    let entries = std::fs::read_dir(setup.path("output")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_large_file_is_summed_exactly_in_bounded_memory_and_a_crash_changes_no_byte() {
    let (directory, rows) = large_input();
    let setup = setup(directory);
    let host = setup.start().await;
    let before = host.memory_peak_bytes();
    let id = host
        .client()
        .start("report-export", by_region("whole"))
        .await;
    let report = structured(&host.client(), &id).await;
    assert_eq!(report["rows_read"], rows);
    let whole = outputs(&setup, "whole");
    assert_eq!(whole[0], sales::amounts_by_region(rows));
    let growth = host.memory_peak_bytes() - before;
    assert!(growth < MEMORY_GROWTH_MAX_BYTES, "{growth} bytes");

    for file in output_names(&setup) {
        std::fs::remove_file(setup.path("output").join(file)).unwrap();
    }
    let id = host
        .client()
        .start("report-export", by_region("whole"))
        .await;
    let is_under_way = |task: &Value| {
        let done = task["_meta"]["longshore/progress"]["done"].as_f64();
        done.is_some_and(|bytes| bytes > LARGE_BYTES as f64 / 4.0)
    };
    host.client().until(&id, is_under_way).await;
    host.kill().await;
    assert!(output_names(&setup).is_empty(), "the crash came too late");
    let host = setup.start().await;
    let report = structured(&host.client(), &id).await;
    assert_eq!(report["rows_read"], rows);
    assert_eq!(outputs(&setup, "whole"), whole);
}

#[tokio::test]
async fn a_nasty_file_is_read_as_it_is_meant_with_one_question_about_its_uneven_rows() {
    // A byte order mark, CRLF, a quoted header, quotes and line breaks in fields, an empty line, a
    // short and a long row, no line break at the end.
    let content = "\u{feff}id,\"region\",amount\r\n1,\"a \"\"b\"\"\r\n,c\",1.5\r\n\r\n\
                   2,south\r\n3,\"a \"\"b\"\"\r\n,c\",2.25\r\n4,south,1,surplus\r\n5,south,-7";
    let directory = input(content.as_bytes());
    let setup = setup(directory.path());
    let host = setup.start().await;
    let client = host.client();
    for (rows, expected) in [
        (
            "skip",
            "region,rows,amount_sum\n\"a \"\"b\"\"\r\n,c\",2,3.75\nsouth,1,-7.00\n",
        ),
        (
            "fit",
            "region,rows,amount_sum\n\"a \"\"b\"\"\r\n,c\",2,3.75\nsouth,3,-6.00\n",
        ),
    ] {
        let id = client.start("report-export", by_region(rows)).await;
        let (key, message) = question(&client, &id).await;
        assert_eq!(key, "uneven_rows");
        assert!(
            message.contains("has 2 fields where the header has 3"),
            "{message}"
        );
        let choice = json!({"action": "accept", "content": {"rows": rows}});
        answer(&client, &id, &key, choice).await;
        let report = structured(&client, &id).await;
        assert_eq!(report["rows_read"], 5);
        assert_eq!(outputs(&setup, rows)[0], expected);
    }
}

#[tokio::test]
async fn a_refused_question_ends_the_export_and_writes_nothing() {
    let directory = input(b"region,amount\na,1\nb\n");
    let setup = setup(directory.path());
    let host = setup.start().await;
    let client = host.client();
    let id = client.start("report-export", by_region("x")).await;
    let (key, _) = question(&client, &id).await;
    answer(&client, &id, &key, json!({"action": "decline"})).await;
    let task = client.until_status(&id, "completed").await;
    assert_eq!(task["result"]["isError"], true, "{task:#}");
    let text = task["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("nothing was written"), "{text}");
    assert!(output_names(&setup).is_empty());
}

#[tokio::test]
async fn a_cancelled_export_leaves_what_it_read_and_the_next_call_goes_on_to_the_same_bytes() {
    // An uneven row near the end holds the export there.
    let mut content = Vec::new();
    sales::write_file(2 << 20, &mut content).unwrap();
    content.extend_from_slice(b"uneven\n0,north,product-000,1.00,1,last\n");
    let directory = input(&content);
    let setup = setup(directory.path());
    let host = setup.start().await;
    let client = host.client();
    let skip = json!({"action": "accept", "content": {"rows": "skip"}});

    let id = client.start("report-export", by_region("report-a")).await;
    question(&client, &id).await;
    answer(&client, &id, "uneven_rows", skip.clone()).await;
    client.until_status(&id, "completed").await;
    let whole = outputs(&setup, "report-a");

    let id = client.start("report-export", by_region("report-b")).await;
    question(&client, &id).await;
    client.cancel(&id).await;
    let task = client.until_status(&id, "cancelled").await;
    let message = task["statusMessage"].as_str().unwrap();
    assert!(
        message.contains("Nothing of the report was written"),
        "{message}"
    );
    assert!(
        message.contains("are kept in /output/report-b.partial"),
        "{message}"
    );
    let task = client.task(&id).await;
    let reference = &task["_meta"]["longshore/externalReference"]["reference"];
    assert_eq!(*reference, "report-export:report-b");
    assert_eq!(
        output_names(&setup),
        [
            "report-a.csv",
            "report-a.md",
            "report-a.svg",
            "report-b.partial"
        ]
    );

    let id = client.start("report-export", by_region("report-b")).await;
    question(&client, &id).await;
    answer(&client, &id, "uneven_rows", skip).await;
    let report = structured(&client, &id).await;
    let continued = report["continued_from_bytes"].as_u64().unwrap();
    assert!(continued > 2 << 20, "{continued}");
    let part = outputs(&setup, "report-b");
    assert_eq!(
        part.join("").replace("report-b", "report-a"),
        whole.join("")
    );
    assert!(!output_names(&setup).contains(&"report-b.partial".to_owned()));
}
