//! How fast a run may speak to its client: a burst, and then so many messages a second. A run has
//! one; nothing waits for it, what comes too fast is dropped (I6).

use std::time::{Duration, Instant};

/// Messages at once.
const BURST: u32 = 100;

/// Time after which one more is allowed.
const REFILL: Duration = Duration::from_millis(100);

/// A run's pace.
pub(super) struct Pace {
    left: u32,
    counted_from: Instant,
    is_told: bool,
}

/// What may become of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Speak,
    /// The first that is dropped, which is worth a note.
    DropAndSay,
    Drop,
}

impl Pace {
    pub fn new(now: Instant) -> Pace {
        Pace {
            left: BURST,
            counted_from: now,
            is_told: false,
        }
    }

    pub fn next(&mut self, now: Instant) -> Turn {
        let waited = now.saturating_duration_since(self.counted_from);
        let earned = u32::try_from(waited.as_millis() / REFILL.as_millis()).unwrap_or(u32::MAX);
        self.counted_from += REFILL.saturating_mul(earned);
        self.left = self.left.saturating_add(earned).min(BURST);
        if self.left > 0 {
            self.left -= 1;
            Turn::Speak
        } else if std::mem::replace(&mut self.is_told, true) {
            Turn::Drop
        } else {
            Turn::DropAndSay
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_heard_and_then_a_message_at_a_time() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for _ in 0..BURST {
            assert_eq!(pace.next(start), Turn::Speak);
        }
        assert_eq!(pace.next(start), Turn::DropAndSay);
        assert_eq!(pace.next(start), Turn::Drop);
        let later = start + REFILL * 3 + REFILL / 2;
        let turns: Vec<_> = (0..4).map(|_| pace.next(later)).collect();
        assert_eq!(turns[..3], [Turn::Speak, Turn::Speak, Turn::Speak]);
        assert_eq!(turns[3], Turn::Drop, "it is said once");
    }

    #[test]
    fn a_long_silence_earns_one_burst_and_no_more() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let later = start + Duration::from_secs(3_600);
        let heard = (0..2 * BURST).filter(|_| pace.next(later) == Turn::Speak);
        assert_eq!(heard.count(), BURST as usize);
    }
}
