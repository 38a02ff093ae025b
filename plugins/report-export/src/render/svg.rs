//! The report's largest groups as a chart of horizontal bars, readable by itself.

use std::io::{Result, Write};

use crate::report::{Report, label};

const WIDTH: f64 = 800.0;
/// Room for the groups' names.
const LABELS: f64 = 230.0;
/// Room for the numbers on both sides of the bars.
const NUMBERS: f64 = 140.0;
const BAR: f64 = 18.0;
const STEP: f64 = 26.0;
const TOP: f64 = 56.0;
const LABEL_MAX_CHARS: usize = 30;

pub fn write(report: &Report, out: &mut impl Write) -> Result<()> {
    let column = &report.value_columns[report.charted];
    let groups = report.largest();
    let title = format!("{} by {}", column.name, report.group_columns.join(", "));
    let height = TOP + STEP * groups.len().max(1) as f64 + 16.0;
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" font-family="system-ui, sans-serif" font-size="13">"#
    )?;
    writeln!(out, "<title>{}</title>", escaped(&title))?;
    writeln!(
        out,
        r##"<rect width="100%" height="100%" fill="#ffffff"/>"##
    )?;
    writeln!(
        out,
        r##"<text x="16" y="28" font-size="16" font-weight="600" fill="#1b1f24">{}</text>"##,
        escaped(&shortened(&title, 80))
    )?;
    let shown = match (groups.len(), report.groups.len()) {
        (0, _) => "there are no values to show".to_owned(),
        (shown, all) if shown == all => format!("all {all} groups"),
        (shown, all) => format!("the {shown} largest of {all} groups"),
    };
    writeln!(
        out,
        r##"<text x="16" y="46" fill="#59636e">{shown}</text>"##
    )?;
    let numbers = groups.iter().filter_map(|group| column.number(group));
    let scale = Scale::of(numbers);
    for (index, group) in groups.iter().enumerate() {
        let value = column.number(group).unwrap_or(0);
        let y = TOP + STEP * index as f64;
        write_bar(out, &scale, y, &label(group), value, &column.text(group))?;
    }
    if !groups.is_empty() {
        let zero = scale.x(0);
        writeln!(
            out,
            r##"<line x1="{zero:.1}" y1="{TOP}" x2="{zero:.1}" y2="{:.1}" stroke="#818b98"/>"##,
            height - 16.0
        )?;
    }
    writeln!(out, "</svg>")
}

fn write_bar(
    out: &mut impl Write,
    scale: &Scale,
    y: f64,
    label: &str,
    value: i128,
    text: &str,
) -> Result<()> {
    let (zero, end) = (scale.x(0), scale.x(value));
    let baseline = y + 14.0;
    writeln!(
        out,
        r##"<text x="{:.1}" y="{baseline:.1}" text-anchor="end" fill="#1b1f24">{}<title>{}</title></text>"##,
        LABELS - 10.0,
        escaped(&shortened(label, LABEL_MAX_CHARS)),
        escaped(&shortened(label, 1000))
    )?;
    writeln!(
        out,
        r##"<rect x="{:.1}" y="{y:.1}" width="{:.1}" height="{BAR:.1}" rx="2" fill="{}"/>"##,
        zero.min(end),
        (zero - end).abs().max(1.0),
        if value < 0 { "#b35900" } else { "#2f6f9f" }
    )?;
    writeln!(
        out,
        r##"<text x="{:.1}" y="{baseline:.1}" fill="#1b1f24">{}</text>"##,
        zero.max(end) + 6.0,
        escaped(text)
    )
}

/// Values to horizontal places; zero is always inside.
struct Scale {
    low: f64,
    span: f64,
}

impl Scale {
    fn of(numbers: impl Iterator<Item = i128>) -> Scale {
        let (low, high) = numbers.fold((0, 0), |(low, high): (i128, i128), number| {
            (low.min(number), high.max(number))
        });
        let (low, high) = (low as f64, high as f64);
        Scale {
            low,
            // All values zero: any span will do.
            span: if high > low { high - low } else { 1.0 },
        }
    }

    fn x(&self, number: i128) -> f64 {
        LABELS + (number as f64 - self.low) / self.span * (WIDTH - LABELS - NUMBERS)
    }
}

fn shortened(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some(_) => text.chars().take(chars_max - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// Text for XML, which has no place for most control characters even escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ if character.is_control() => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}
