//! Shows how far a call or a task is: a bar for a person, lines for a log.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::print::note;
use super::terminal::NoEcho;
use super::text;
use super::wire::Progress;

const TICK: Duration = Duration::from_millis(100);
/// Lines of a log come at most this often.
const LINE_EVERY: Duration = Duration::from_secs(2);
/// Positions of the bar, whatever the tool counts in.
const POSITIONS: u64 = 1_000;

/// Progress on standard error.
pub struct Display {
    bar: ProgressBar,
    /// Without a terminal: the line shown last, and when.
    last: Option<(String, Instant)>,
    is_bar: bool,
    _no_echo: Option<NoEcho>,
}

impl Display {
    pub fn start(title: &str) -> Display {
        let bar = ProgressBar::new_spinner();
        let is_bar = !bar.is_hidden();
        bar.set_style(counting_style());
        bar.set_message(text::plain_line(title, 80));
        if is_bar {
            bar.enable_steady_tick(TICK);
        }
        Display {
            bar,
            last: None,
            is_bar,
            _no_echo: is_bar.then(NoEcho::begin).flatten(),
        }
    }

    pub fn show(&mut self, progress: &Progress) {
        let message = progress.message.as_deref().unwrap_or_default();
        let message = text::plain_line(message, 200);
        if !self.is_bar {
            self.show_line(&message);
            return;
        }
        if let (Some(done), Some(total)) = (progress.done, progress.total)
            && total > 0.0
        {
            let share = (done / total).clamp(0.0, 1.0);
            // A share of a thousand is a small whole number. Each of these may draw, so the bar
            // appears where it stands, and not at its beginning first.
            self.bar.set_position((share * POSITIONS as f64) as u64);
            if self.bar.length().is_none() {
                self.bar.set_style(bar_style());
                self.bar.set_length(POSITIONS);
            }
        }
        if !message.is_empty() {
            self.bar.set_message(message);
        }
    }

    /// Clears the line for a prompt or a report; the next `show` brings it back.
    pub fn hide(&self) {
        if !self.is_bar {
            return;
        }
        self.bar.disable_steady_tick();
        self.bar
            .set_draw_target(indicatif::ProgressDrawTarget::hidden());
        let _ = dialoguer::console::Term::stderr().clear_line();
    }

    pub fn unhide(&self) {
        if self.is_bar {
            self.bar
                .set_draw_target(indicatif::ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(TICK);
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn show_line(&mut self, message: &str) {
        let is_due = match &self.last {
            Some((last, at)) => last != message && at.elapsed() >= LINE_EVERY,
            None => true,
        };
        if is_due && !message.is_empty() {
            note!("{message}");
            self.last = Some((message.to_owned(), Instant::now()));
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.finish();
    }
}

fn counting_style() -> ProgressStyle {
    style("{spinner:.cyan} {wide_msg} {elapsed:.dim}")
}

fn bar_style() -> ProgressStyle {
    style("{spinner:.cyan} {bar:30.cyan/dim} {percent:>3}%  {wide_msg} {elapsed:.dim}")
        .progress_chars("━━╌")
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
