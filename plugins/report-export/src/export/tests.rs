//! Whole exports against the SDK's double of the host, in temporary directories.

use std::fs;

use longshore_plugin::testing::Host;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

#[path = "../../fixtures/sales.rs"]
mod sales;

/// A checkpoint every few kilobytes, and none by the clock.
const BRISK: Pace = Pace {
    look_bytes: 1024,
    time: Duration::from_secs(3600),
    bytes: 4096,
};

struct Desk {
    /// Removed with the desk.
    _root: TempDir,
    directories: Directories,
}

impl Desk {
    fn with(file: &str, content: impl AsRef<[u8]>) -> Desk {
        let root = TempDir::new().unwrap();
        let directories = Directories {
            input: root.path().join("input"),
            output: root.path().join("output"),
        };
        fs::create_dir_all(&directories.input).unwrap();
        fs::create_dir_all(&directories.output).unwrap();
        fs::write(directories.input.join(file), content).unwrap();
        Desk {
            _root: root,
            directories,
        }
    }

    fn of_sales(bytes: u64) -> (Desk, u64) {
        let mut content = Vec::new();
        let rows = sales::write_file(bytes, &mut content).unwrap();
        (Desk::with("sales.csv", content), rows)
    }

    fn export(&self, host: &Host, arguments: &Value) -> Result<Structured<Exported>> {
        let arguments =
            serde_json::from_value(arguments.clone()).map_err(Error::invalid_arguments)?;
        export(&host.context(), &arguments, &self.directories, BRISK)
    }

    fn output(&self, file: &str) -> String {
        let bytes = fs::read(self.directories.output.join(file)).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Every file in the output directory, with its content.
    fn outputs(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(&self.directories.output)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read(entry.path()).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    fn output_names(&self) -> Vec<String> {
        self.outputs().into_iter().map(|(name, _)| name).collect()
    }

    fn clear_outputs(&self) {
        fs::remove_dir_all(&self.directories.output).unwrap();
        fs::create_dir(&self.directories.output).unwrap();
    }
}

fn by_region() -> Value {
    json!({
        "file": "sales.csv",
        "group_by": ["region"],
        "measures": [{ "column": "amount" }],
        "output": "by-region"
    })
}

fn rich() -> Value {
    json!({
        "file": "sales.csv",
        "group_by": ["product", "region"],
        "measures": [
            { "column": "amount", "functions": ["count", "sum", "min", "max", "mean"] },
            { "column": "quantity", "functions": ["mean"] }
        ],
        "output": "rich",
        "chart": { "measure": "amount_mean", "top": 7 }
    })
}

const REPORT_FILES: [&str; 3] = ["rich.csv", "rich.md", "rich.svg"];

#[test]
fn a_report_has_the_exact_sums_and_says_what_it_wrote() {
    let (desk, rows) = Desk::of_sales(100_000);
    let host = Host::new();
    let done = desk.export(&host, &by_region()).unwrap();
    assert_eq!(desk.output("by-region.csv"), sales::amounts_by_region(rows));
    assert_eq!((done.value.rows_read, done.value.groups), (rows, 5));
    let paths: Vec<&str> = done
        .value
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(
        paths,
        [
            "/output/by-region.csv",
            "/output/by-region.md",
            "/output/by-region.svg"
        ]
    );
    for file in &done.value.files {
        let name = file.path.rsplit('/').next().unwrap();
        assert_eq!(desk.output(name).len() as u64, file.bytes);
    }
    assert_eq!(desk.output_names().len(), 3, "no temporary file is left");
    assert_eq!(host.reference().unwrap().0, "report-export:by-region");
    let last = host.progress().pop().unwrap();
    assert_eq!(last.done, last.total);
    assert!(host.asked().is_empty());
}

#[test]
fn a_run_interrupted_anywhere_goes_on_to_the_same_bytes() {
    let (desk, _) = Desk::of_sales(40_000);
    let host = Host::new();
    desk.export(&host, &rich()).unwrap();
    let whole = desk.outputs();
    let places = host.progress().len() as u32;
    assert!(places > 8, "{places} checkpoints");

    for place in 1..=places {
        desk.clear_outputs();
        let host = Host::new().cancelling_at(place);
        desk.export(&host, &rich()).unwrap_err();
        // A crash, not a cancel: the partial file is not what this test is about.
        desk.clear_outputs();
        desk.export(&host.next_run(), &rich()).unwrap();
        assert_eq!(desk.outputs(), whole, "interrupted at {place}");
    }
}

#[test]
fn a_cancelled_export_is_gone_on_with_by_the_next_call() {
    let (desk, _) = Desk::of_sales(40_000);
    desk.export(&Host::new(), &rich()).unwrap();
    let whole = desk.outputs();

    desk.clear_outputs();
    let error = desk
        .export(&Host::new().cancelling_at(5), &rich())
        .unwrap_err();
    assert!(
        matches!(&error, Error::Cancelled(text) if text.contains("/output/rich.partial")),
        "{error}"
    );
    assert_eq!(desk.output_names(), ["rich.partial"]);

    let host = Host::new();
    let done = desk.export(&host, &rich()).unwrap();
    assert!(done.value.continued_from_bytes > 10_000);
    assert_eq!(
        host.progress()[0].done,
        Some(done.value.continued_from_bytes as f64)
    );
    assert_eq!(desk.outputs(), whole, "and the partial file is gone");
}

#[test]
fn a_partial_file_of_another_call_or_a_changed_input_is_not_used() {
    let (desk, _) = Desk::of_sales(40_000);
    desk.export(&Host::new(), &rich()).unwrap();
    let whole = desk.outputs();
    desk.clear_outputs();

    let mut other = rich();
    other["group_by"] = json!(["region", "product"]);
    desk.export(&Host::new().cancelling_at(5), &other)
        .unwrap_err();
    let done = desk.export(&Host::new(), &rich()).unwrap();
    assert_eq!(done.value.continued_from_bytes, 0);
    assert_eq!(desk.outputs(), whole);

    desk.clear_outputs();
    desk.export(&Host::new().cancelling_at(5), &rich())
        .unwrap_err();
    let mut content = fs::read(desk.directories.input.join("sales.csv")).unwrap();
    content.extend_from_slice(b"9,north,product-001,1,1,more\n");
    fs::write(desk.directories.input.join("sales.csv"), content).unwrap();
    let done = desk.export(&Host::new(), &rich()).unwrap();
    assert_eq!(done.value.continued_from_bytes, 0);

    desk.clear_outputs();
    desk.export(&Host::new().cancelling_at(5), &rich())
        .unwrap_err();
    let mut anew = rich();
    anew["continue_partial"] = json!(false);
    assert_eq!(
        desk.export(&Host::new(), &anew)
            .unwrap()
            .value
            .continued_from_bytes,
        0
    );
}

#[test]
fn a_checkpoint_of_a_changed_input_ends_the_task_with_words() {
    let (desk, _) = Desk::of_sales(40_000);
    let host = Host::new().cancelling_at(5);
    desk.export(&host, &rich()).unwrap_err();
    fs::write(desk.directories.input.join("sales.csv"), sales::HEADER).unwrap();
    let error = desk.export(&host.next_run(), &rich()).unwrap_err();
    assert!(
        error.to_string().contains("the input file changed since"),
        "{error}"
    );
}

const UNEVEN: &str = "k,n\na,1\nb\na,2,surplus\nb,\na,3\n";

fn uneven() -> Value {
    json!({ "file": "u.csv", "group_by": ["k"], "measures": [{ "column": "n" }], "output": "u" })
}

#[test]
fn uneven_rows_are_asked_about_once_and_treated_as_answered() {
    for (answer, expected, skipped, fitted) in [
        ("skip", "k,rows,n_sum\na,2,4\nb,1,\n", 2, 0),
        ("fit", "k,rows,n_sum\na,3,6\nb,2,\n", 0, 2),
    ] {
        let desk = Desk::with("u.csv", UNEVEN);
        let host = Host::new().answering("uneven_rows", json!({ "rows": answer }));
        let done = desk.export(&host, &uneven()).unwrap();
        assert_eq!(host.asked(), ["uneven_rows"]);
        let question = host.message("uneven_rows").unwrap();
        assert!(
            question.contains("Line 3 of u.csv has 1 fields where the header has 2"),
            "{question}"
        );
        assert_eq!(desk.output("u.csv"), expected);
        assert_eq!(
            (done.value.rows_skipped, done.value.rows_fitted),
            (skipped, fitted)
        );
        assert_eq!(done.value.rows_read, 5);

        let mut said = uneven();
        said["uneven_rows"] = json!(answer);
        let desk = Desk::with("u.csv", UNEVEN);
        desk.export(&Host::new(), &said).unwrap();
        assert_eq!(desk.output("u.csv"), expected);
    }
}

#[test]
fn uneven_rows_stop_the_export_when_nobody_wants_them() {
    let refusals = [
        Host::new().answering("uneven_rows", json!({ "rows": "stop" })),
        Host::new().declining("uneven_rows"),
        Host::new().dismissing("uneven_rows"),
        Host::new().without_answers(),
    ];
    for host in refusals {
        let desk = Desk::with("u.csv", UNEVEN);
        let error = desk.export(&host, &uneven()).unwrap_err().to_string();
        assert!(
            error.contains("line 3 has 1 fields") && error.contains("`uneven_rows`"),
            "{error}"
        );
        assert!(desk.outputs().is_empty());
    }
}

#[test]
fn a_run_that_waited_for_the_answer_does_not_count_a_row_twice() {
    let desk = Desk::with("u.csv", UNEVEN);
    // The second place is the checkpoint before the question, the third the question itself.
    for place in [2, 3] {
        let host = Host::new()
            .cancelling_at(place)
            .answering("uneven_rows", json!({ "rows": "fit" }));
        desk.export(&host, &uneven()).unwrap_err();
        desk.clear_outputs();
        desk.export(&host.next_run(), &uneven()).unwrap();
        assert_eq!(desk.output("u.csv"), "k,rows,n_sum\na,3,6\nb,2,\n");
        desk.clear_outputs();
    }
}

#[test]
fn existing_files_are_written_over_only_when_somebody_says_so() {
    let desk = Desk::with("u.csv", "k,n\na,1\n");
    fs::write(desk.directories.output.join("u.md"), "precious").unwrap();
    for host in [
        Host::new().declining("overwrite"),
        Host::new().without_answers(),
    ] {
        let error = desk.export(&host, &uneven()).unwrap_err().to_string();
        assert!(
            error.contains("/output/u.md") && error.contains("`overwrite: true`"),
            "{error}"
        );
        assert_eq!(desk.output("u.md"), "precious");
        assert_eq!(desk.output_names(), ["u.md"]);
    }
    let host = Host::new().answering("overwrite", json!({ "confirm": true }));
    desk.export(&host, &uneven()).unwrap();
    assert_eq!(
        host.message("overwrite").unwrap(),
        "Write over the existing /output/u.md?"
    );
    let mut said = uneven();
    said["overwrite"] = json!(true);
    desk.export(&Host::new(), &said).unwrap();
    assert_eq!(desk.output_names(), ["u.csv", "u.md", "u.svg"]);
}

#[test]
fn a_run_that_died_between_its_files_does_not_ask_about_them() {
    let desk = Desk::with("u.csv", "k,n\na,1\n");
    let host = Host::new();
    desk.export(&host, &uneven()).unwrap();
    let whole = desk.outputs();
    fs::remove_file(desk.directories.output.join("u.svg")).unwrap();
    // The double still holds the last checkpoint, and has no answer to any question.
    desk.export(&host.next_run(), &uneven()).unwrap();
    assert_eq!(desk.outputs(), whole);
}

#[test]
fn wrong_arguments_say_what_there_is() {
    let desk = Desk::with("u.csv", "k,n,n\na,1,2\n");
    for (change, expected) in [
        (json!({ "file": "v.csv" }), "there are: u.csv"),
        (json!({ "file": "../u.csv" }), "inside the input directory"),
        (
            json!({ "file": "/etc/passwd" }),
            "inside the input directory",
        ),
        (json!({ "output": "../x" }), "plain name"),
        (json!({ "output": ".x" }), "plain name"),
        (
            json!({ "group_by": ["K"] }),
            r##"its columns are: "k", "n#1", "n#2""##,
        ),
        (
            json!({ "measures": [{ "column": "n" }] }),
            "2 columns are named",
        ),
        (
            json!({ "measures": [{ "column": "n#1" }, { "column": "n#1" }] }),
            "twice",
        ),
        (
            json!({ "chart": { "measure": "n_max" } }),
            "choose one of rows, n#2_sum",
        ),
        (json!({ "group": [] }), "unknown field"),
    ] {
        let mut arguments = json!({
            "file": "u.csv", "group_by": ["k"], "measures": [{ "column": "n#2" }], "output": "u"
        });
        arguments
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let error = desk.export(&Host::new(), &arguments).unwrap_err();
        assert!(
            matches!(&error, Error::InvalidArguments(text) if text.contains(expected)),
            "{change}: {error}"
        );
        assert!(desk.outputs().is_empty());
    }
}

#[test]
fn bad_values_and_bad_files_name_their_line() {
    for (content, expected) in [
        (
            "k,n\na,1\nb,one\n",
            r#"line 3: the value "one" of column "n" is not a number"#,
        ),
        ("k,n\na,1\n\"b,2\n", "line 3 opens a quote"),
        ("", "is empty"),
        ("\u{feff}", "is empty"),
    ] {
        let desk = Desk::with("u.csv", content);
        let error = desk
            .export(&Host::new(), &uneven())
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{content:?}: {error}");
        assert!(desk.outputs().is_empty());
    }
}

#[test]
fn a_nasty_file_is_exported_as_it_reads() {
    let content =
        "\u{feff}k;n;\"say \"\"k\"\"\"\r\n\"a;\r\nb\";1,5;x\r\n\r\n\"a;\r\nb\";;x\r\n;2;|\r\n";
    let desk = Desk::with("u.csv", content);
    let arguments = json!({
        "file": "u.csv",
        "delimiter": ";",
        "group_by": ["k", "say \"k\""],
        "measures": [{ "column": "n", "functions": ["count", "max"] }],
        "not_numbers": "skip",
        "output": "u"
    });
    let done = desk.export(&Host::new(), &arguments).unwrap();
    assert_eq!(done.value.values_skipped, 1, "1,5 is no number");
    assert_eq!(
        desk.output("u.csv"),
        "k,\"say \"\"k\"\"\",rows,n_count,n_max\n,|,1,1,2\n\"a;\r\nb\",x,2,0,\n"
    );
}

#[test]
fn an_output_directory_that_cannot_be_written_to_is_found_out_before_the_rows_are_read() {
    let desk = Desk::with("u.csv", "k,n\na,no number\n");
    fs::remove_dir(&desk.directories.output).unwrap();
    let error = desk
        .export(&Host::new(), &uneven())
        .unwrap_err()
        .to_string();
    assert!(error.contains("granted the directory `output`"), "{error}");
}

#[test]
fn a_header_alone_gives_an_empty_report() {
    let desk = Desk::with("u.csv", "k,n");
    let done = desk.export(&Host::new(), &uneven()).unwrap();
    assert_eq!((done.value.rows_read, done.value.groups), (0, 0));
    assert_eq!(desk.output("u.csv"), "k,rows,n_sum\n");
    assert!(desk.output("u.svg").contains("there are no values to show"));
}

#[test]
fn the_declared_tool_is_the_one_that_runs() {
    let tools = crate::tools();
    assert_eq!(tools[0].name(), "report-export");
    // There is no /input outside the sandbox, and that is said.
    let arguments = json!({ "file": "no-such-file.csv", "group_by": ["k"], "output": "u" });
    let error = Host::new()
        .call(&tools, "report-export", arguments)
        .unwrap_err();
    assert!(error.to_string().contains("input"), "{error}");
}

#[test]
fn all_report_files_are_complete_text() {
    let (desk, _) = Desk::of_sales(20_000);
    desk.export(&Host::new(), &rich()).unwrap();
    for file in REPORT_FILES {
        assert!(desk.output(file).ends_with('\n'), "{file}");
    }
    assert!(desk.output("rich.svg").trim_end().ends_with("</svg>"));
}
