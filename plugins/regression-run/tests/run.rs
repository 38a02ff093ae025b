//! The whole run against a scripted host under test.

use std::ops::ControlFlow;
use std::path::Path;

use longshore_plugin::testing::Host;
use longshore_plugin::{Error, Result};
use regression_run::Answer;
use regression_run::arguments::Arguments;
use regression_run::case::Case;
use regression_run::report::Report;
use regression_run::run::{Reply, Sender, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Answers by the last number in the path: `/200` with status 200; `/slow` and `/gone` not at all.
/// Ends requests in reverse order within what it sends at once.
#[derive(Default)]
struct Scripted {
    sent: Vec<String>,
    /// The most requests that were under way at once, for each call.
    widths: Vec<usize>,
}

impl Sender for Scripted {
    fn send(
        &mut self,
        base_url: &str,
        cases: &[&Case],
        concurrency: usize,
        ended: &mut dyn FnMut(usize, Reply) -> ControlFlow<()>,
    ) {
        assert_eq!(base_url, "http://h");
        self.widths.push(cases.len().min(concurrency));
        let mut begun = 0;
        while begun < cases.len() {
            let wave = begun..cases.len().min(begun + concurrency);
            begun = wave.end;
            let mut stop = false;
            for index in wave.rev() {
                let path = &cases[index].request.path;
                self.sent.push(path.clone());
                stop |= ended(index, reply(path)).is_break();
            }
            if stop {
                return;
            }
        }
    }
}

fn reply(path: &str) -> Reply {
    match path.rsplit('/').next().unwrap() {
        "slow" => Reply::TimedOut,
        "gone" => Reply::Failed("connection refused".to_owned()),
        status => Reply::Answered(Answer {
            status: status.parse().unwrap(),
            headers: vec![],
            body: b"{\"ok\": true}".to_vec(),
            duration_ms: 1,
        }),
    }
}

/// A directory of cases by path and request path; all expect 200.
fn cases(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, request) in files {
        let text = format!("request.path = '{request}'\nexpect.status = 200\n");
        write(root.path(), path, &text);
    }
    root
}

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

fn arguments(more: Value) -> Arguments {
    let mut arguments = json!({ "base_url": "http://h" });
    for (key, value) in more.as_object().unwrap() {
        arguments[key] = value.clone();
    }
    serde_json::from_value(arguments).unwrap()
}

fn run_all(host: &Host, root: &TempDir, sender: &mut Scripted) -> Result<Report> {
    run(&host.context(), &arguments(json!({})), root.path(), sender)
}

fn paths(report: &Report) -> Vec<&str> {
    let failing = report.failing.iter();
    failing.map(|failing| failing.path.as_str()).collect()
}

#[test]
fn all_cases_run_and_each_failing_one_is_told() {
    let root = cases(&[
        ("a.toml", "/200"),
        ("b/fails.toml", "/500"),
        ("b/gone.toml", "/gone"),
        ("c.toml", "/slow"),
    ]);
    let host = Host::new();
    let report = run_all(&host, &root, &mut Scripted::default()).unwrap();
    assert_eq!(
        (report.total, report.passing, report.failing_count),
        (4, 1, 3)
    );
    assert!(!report.passed);
    assert_eq!(paths(&report), ["b/fails.toml", "b/gone.toml", "c.toml"]);
    let reasons: Vec<&str> = report.failing.iter().map(|it| it.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "status is 500 instead of 200",
            "no answer: connection refused",
            "no whole answer within 10000 ms"
        ]
    );
    assert_eq!(
        report.failing[0].curl.as_deref(),
        Some("curl -sSi --globoff --path-as-is --max-time 10.000 http://h/500")
    );
    assert_eq!(
        report.failing[0].actual.as_deref(),
        Some("status: 500\nbody: {\"ok\": true}")
    );
}

#[test]
fn a_broken_file_fails_with_its_line_and_stops_nothing() {
    let root = cases(&[("a.toml", "/200"), ("c.toml", "/200")]);
    write(
        root.path(),
        "b.toml",
        "request.path = '/200'\n\nexpect.stat = 1\n",
    );
    write(root.path(), "d.toml", &"#".repeat(300 * 1024));
    let mut sender = Scripted::default();
    let report = run_all(&Host::new(), &root, &mut sender).unwrap();
    assert_eq!(paths(&report), ["b.toml", "d.toml"]);
    assert!(
        report.failing[0]
            .reason
            .starts_with("not a case: line 3: unknown field `stat`")
    );
    assert_eq!(report.failing[0].curl, None);
    assert!(report.failing[1].reason.contains("307200 bytes"));
    assert_eq!(sender.sent.len(), 2);
}

#[test]
fn progress_and_a_checkpoint_follow_every_case() {
    let root = cases(&[("a.toml", "/200"), ("b.toml", "/500"), ("c.toml", "/200")]);
    let host = Host::new();
    run_all(&host, &root, &mut Scripted::default()).unwrap();
    let told: Vec<String> = host.progress().into_iter().map(|it| it.message).collect();
    assert_eq!(
        told,
        [
            "0/3, 0 failing",
            "1/3, 0 failing",
            "2/3, 1 failing",
            "3/3, 1 failing"
        ]
    );
    assert_eq!(host.progress()[3].done, Some(3.0));
    assert_eq!(host.checkpoints::<Value>().len(), 3);
}

#[test]
fn a_serial_case_runs_alone_and_in_its_place() {
    let root = cases(&[
        ("a.toml", "/a/200"),
        ("b.toml", "/b/200"),
        ("d.toml", "/d/200"),
    ]);
    let serial = "serial = true\nrequest.path = '/c/200'\nexpect.status = 200\n";
    write(root.path(), "c.toml", serial);
    let mut sender = Scripted::default();
    run_all(&Host::new(), &root, &mut sender).unwrap();
    assert_eq!(sender.sent, ["/b/200", "/a/200", "/c/200", "/d/200"]);
    assert_eq!(sender.widths, [2, 1, 1]);
}

#[test]
fn concurrency_and_filter_are_obeyed() {
    let root = cases(&[
        ("x/a.toml", "/200"),
        ("x/b.toml", "/200"),
        ("y/c.toml", "/200"),
    ]);
    let mut sender = Scripted::default();
    let arguments = arguments(json!({ "filter": "x/*", "concurrency": 1 }));
    let report = run(&Host::new().context(), &arguments, root.path(), &mut sender).unwrap();
    assert_eq!(report.total, 2);
    assert_eq!(sender.widths, [1]);
}

#[test]
fn no_case_at_all_is_no_success() {
    let root = cases(&[("a.toml", "/200")]);
    let arguments = arguments(json!({ "filter": "zzz" }));
    let result = run(
        &Host::new().context(),
        &arguments,
        root.path(),
        &mut Scripted::default(),
    );
    assert_eq!(
        result,
        Err(Error::invalid_arguments("filter \"zzz\" selects no case"))
    );
}

#[test]
fn a_cancel_stops_after_the_requests_under_way() {
    let files: Vec<(String, &str)> = (0..10).map(|i| (format!("{i}.toml"), "/500")).collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, to)| (path.as_str(), *to))
        .collect();
    let root = cases(&files);
    let host = Host::new().cancelling_at(2);
    let mut sender = Scripted::default();
    let error = run_all(&host, &root, &mut sender).unwrap_err();
    assert_eq!(
        error,
        Error::cancelled(
            "stopped after 4 of 10 cases, 4 failing; 6 did not run; \
             failing: 3.toml, 2.toml, 1.toml, 0.toml"
        )
    );
    assert_eq!(sender.sent.len(), 4);
}

#[test]
fn a_later_run_goes_on_with_what_is_left() {
    let root = cases(&[("a.toml", "/200"), ("b.toml", "/500"), ("c.toml", "/200")]);
    let serial = "serial = true\nrequest.path = '/d/500'\nexpect.status = 200\n";
    write(root.path(), "d.toml", serial);
    let host = Host::new().cancelling_at(3);
    run_all(&host, &root, &mut Scripted::default()).unwrap_err();

    std::fs::remove_file(root.path().join("a.toml")).unwrap();
    let host = host.next_run();
    let mut sender = Scripted::default();
    let report = run_all(&host, &root, &mut sender).unwrap();
    assert_eq!(sender.sent, ["/d/500"]);
    assert_eq!((report.total, report.failing_count), (3, 2));
    assert_eq!(paths(&report), ["b.toml", "d.toml"]);
}

#[test]
fn a_wrong_base_url_is_an_argument_to_mend() {
    let root = cases(&[("a.toml", "/200")]);
    let arguments = arguments(json!({ "base_url": "h" }));
    let result = run(
        &Host::new().context(),
        &arguments,
        root.path(),
        &mut Scripted::default(),
    );
    assert!(
        matches!(result, Err(Error::InvalidArguments(_))),
        "{result:?}"
    );
}
