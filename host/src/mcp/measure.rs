//! The numbers of a call's progress: always increasing, whatever the tool reports. The same in every
//! revision.

/// Turns what a tool reports into what its client is told (basic/patterns/progress).
#[derive(Default)]
pub struct Measure {
    last: Option<f64>,
    /// Whether the tool has ever said how much is done.
    is_measured: bool,
}

impl Measure {
    /// The next `progress`, larger than the last, and the `total` if it means anything.
    pub fn next(&mut self, done: Option<f64>, total: Option<f64>) -> (f64, Option<f64>) {
        let value = self.advance(done.filter(|done| done.is_finite()));
        (value, total.filter(|_| self.is_measured))
    }

    fn advance(&mut self, done: Option<f64>) -> f64 {
        // So small that the next real value is larger, and large enough to be told apart.
        const STEP: f64 = 1e-12;
        self.is_measured |= done.is_some();
        let value = match (self.last, done) {
            (None, Some(done)) => done,
            (Some(last), Some(done)) if done > last => done,
            (Some(last), _) if self.is_measured => last + last.abs().max(1.0) * STEP,
            (Some(last), _) => last + 1.0,
            (None, None) => 0.0,
        };
        self.last = Some(value);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_always_increases() {
        let mut measure = Measure::default();
        let told: Vec<_> = [
            None,
            Some(0.0),
            Some(0.0),
            Some(1.0),
            Some(0.5),
            None,
            Some(f64::NAN),
            Some(2.0),
            Some(3e15),
            Some(3e15),
        ]
        .map(|done| measure.next(done, None).0)
        .into();
        assert!(told.is_sorted_by(|a, b| a < b), "{told:?}");
        assert_eq!(
            (told[3], told[7], told[8]),
            (1.0, 2.0, 3e15),
            "the tool's own measure is told as it is"
        );
    }
}
