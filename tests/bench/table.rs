//! Collects what was measured into one table, and sums samples up.

use std::fmt;
use std::time::Duration;

/// Samples of one figure in the unit of its row.
#[derive(Clone, Debug, Default)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    pub fn millis(times: impl IntoIterator<Item = Duration>) -> Samples {
        Samples(times.into_iter().map(|t| t.as_secs_f64() * 1e3).collect())
    }

    pub fn micros(times: impl IntoIterator<Item = Duration>) -> Samples {
        Samples(times.into_iter().map(|t| t.as_secs_f64() * 1e6).collect())
    }

    /// The value that a part `q` of the samples does not exceed; NaN without samples.
    pub fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let index = (q * last as f64).round() as usize;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Each of these over the one of the other measured in the same round.
    pub fn over(&self, other: &Samples) -> Samples {
        Samples(self.0.iter().zip(&other.0).map(|(a, b)| a / b).collect())
    }
}

/// What a ratio should be.
#[derive(Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Target::AtLeast(least) => value >= least,
            Target::AtMost(most) => value <= most,
        }
    }
}

#[derive(Default)]
pub struct Table(Vec<[String; 5]>);

impl Table {
    /// A figure with its unit.
    pub fn row(&mut self, part: char, what: &str, unit: &str, samples: &Samples) {
        let unit = format!(" {unit}");
        self.push(part, what, &unit, samples, String::new());
    }

    /// A ratio with what it should be.
    pub fn ratio(&mut self, part: char, what: &str, samples: &Samples, target: Target) {
        let word = if target.is_met(samples.median()) {
            "met"
        } else {
            "MISSED"
        };
        let target = match target {
            Target::AtLeast(least) => format!("≥ {least} {word}"),
            Target::AtMost(most) => format!("≤ {most} {word}"),
        };
        self.push(part, what, " ×", samples, target);
    }

    fn push(&mut self, part: char, what: &str, unit: &str, samples: &Samples, target: String) {
        let median = format!("{}{unit}", figure(samples.median()));
        let spread = match samples.0.len() {
            0 | 1 => String::new(),
            _ => format!(
                "{} – {}",
                figure(samples.quantile(0.0)),
                figure(samples.quantile(1.0))
            ),
        };
        let row = [part.to_string(), what.to_owned(), median, spread, target];
        eprintln!("  {}", row[1..].join("  "));
        self.0.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["", "what", "median", "spread", "target"].map(str::to_owned);
        let rows: Vec<&[String; 5]> = std::iter::once(&head).chain(&self.0).collect();
        let mut widths = [0; 5];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row.iter()) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut last_part = "";
        for row in rows {
            if row[0] != last_part {
                writeln!(f, "{}", "─".repeat(widths.iter().sum::<usize>() + 8))?;
                last_part = &row[0];
            }
            let [w0, w1, w2, w3, _] = widths;
            let [part, what, median, spread, target] = row;
            writeln!(
                f,
                "{part:<w0$}  {what:<w1$}  {median:>w2$}  {spread:>w3$}  {target}"
            )?;
        }
        Ok(())
    }
}

/// Three digits that count, without an exponent.
fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
