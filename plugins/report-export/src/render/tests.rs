//! The three formats of one report with hostile names and values.

use crate::aggregate::{Cell, Group};
use crate::arguments::Arguments;
use crate::report::{Report, ValueColumn};

fn report() -> Report {
    let arguments: Arguments = serde_json::from_value(serde_json::json!({
        "file": "a|b.csv",
        "group_by": ["k"],
        "measures": [{ "column": "n", "functions": ["sum", "mean"] }],
        "output": "r"
    }))
    .unwrap();
    let group = |name: &[u8], rows, sum: i128| Group {
        fields: vec![name.to_vec()],
        rows,
        cells: vec![Cell {
            count: rows,
            sum: sum * 10i128.pow(16),
            min: 0,
            max: 0,
        }],
    };
    let value_columns = ValueColumn::all(&arguments, &[2]);
    Report {
        name: "r".into(),
        file: arguments.file.clone(),
        group_columns: vec!["k".into()],
        charted: Report::charted(&arguments, &value_columns),
        value_columns,
        top: 3,
        groups: vec![
            group(b"", 1, 50),
            group(b"<b> & \"q\" | *x*\n\x01", 3, -1000),
            group(b"bad \xff", 2, 999),
            group(b"last", 1, -2000),
        ],
        rows_read: 7,
        rows_skipped: 0,
        rows_fitted: 4,
        values_skipped: 0,
    }
}

fn rendered(write: impl FnOnce(&Report, &mut Vec<u8>) -> std::io::Result<()>) -> Vec<u8> {
    let mut out = Vec::new();
    write(&report(), &mut out).unwrap();
    out
}

#[test]
fn the_csv_keeps_fields_byte_for_byte() {
    let expected: &[u8] = b"k,rows,n_sum,n_mean\n,1,0.50,0.500000\n\"<b> & \"\"q\"\" | *x*\n\x01\",3,-10.00,-3.333333\nbad \xff,2,9.99,4.995000\nlast,1,-20.00,-20.000000\n";
    assert_eq!(rendered(super::csv::write), expected);
}

#[test]
fn the_page_shows_hostile_text_as_text() {
    let page = String::from_utf8(rendered(super::markdown::write)).unwrap();
    let expected = "# r

![chart](r.svg)

- Source: a\\|b.csv
- Rows read: 7
- Rows padded or cut to the header: 4
- Groups: 4

| k | rows | n_sum | n_mean |
| --- | ---: | ---: | ---: |
|  | 1 | 0.50 | 0.500000 |
| \\<b\\> \\& \"q\" \\| \\*x\\*   | 3 | -10.00 | -3.333333 |
| bad \u{fffd} | 2 | 9.99 | 4.995000 |
| last | 1 | -20.00 | -20.000000 |
| **all** | 7 | -19.51 | -2.787143 |
";
    assert_eq!(page, expected);
}

#[test]
fn the_chart_shows_the_largest_first_and_negative_bars_to_the_left() {
    let chart = String::from_utf8(rendered(super::svg::write)).unwrap();
    assert!(chart.contains("the 3 largest of 4 groups"));
    let order: Vec<usize> = [
        "bad \u{fffd}<title>",
        "(empty)<title>",
        "&lt;b&gt; &amp; &quot;q&quot;",
    ]
    .iter()
    .map(|label| {
        chart
            .find(label)
            .unwrap_or_else(|| panic!("{label} in {chart}"))
    })
    .collect();
    assert!(order.is_sorted());
    assert!(!chart.contains("last") && !chart.contains('\x01'));
    assert!(
        chart.contains("fill=\"#b35900\""),
        "a negative bar has its own colour"
    );
}

#[test]
fn the_same_report_gives_the_same_bytes() {
    assert_eq!(rendered(super::svg::write), rendered(super::svg::write));
}
