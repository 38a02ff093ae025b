//! Time as the host sees it. Everything that reads the time takes it from a [`Clock`], so that
//! tests can turn it by hand.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This moment plus `duration`, at most the end of time.
    pub fn plus(self, duration: Duration) -> Timestamp {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }

    /// How long it is from `earlier` to this moment; zero when `earlier` is later.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// RFC 3339 in UTC with milliseconds, the form MCP's `createdAt` takes.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Past year 9999 there is no RFC 3339; show the last moment that has one.
        const LAST: u64 = 253_402_300_799_999;
        let time = UNIX_EPOCH + Duration::from_millis(self.0.min(LAST));
        humantime::format_rfc3339_millis(time).fmt(f)
    }
}

/// A source of the present moment: the system's clock, or one turned by hand.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The system's wall clock.
    pub fn system() -> Clock {
        Clock(Source::System)
    }

    /// A clock that stands at `start` until [`Clock::advance`] turns it.
    pub fn manual(start: Timestamp) -> Clock {
        Clock(Source::Manual(Arc::new(AtomicU64::new(start.0))))
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                let since_epoch = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
            }
            Source::Manual(millis) => Timestamp(millis.load(Ordering::SeqCst)),
        }
    }

    /// Turns a manual clock forward; the system's clock goes its own way.
    pub fn advance(&self, duration: Duration) {
        if let Source::Manual(millis) = &self.0 {
            let step = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
            millis.fetch_add(step, Ordering::SeqCst);
        }
    }
}
