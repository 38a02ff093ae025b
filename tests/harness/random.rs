//! Randomness that a seed repeats.

/// Set to repeat a run's choices, as far as the machine's timing allows.
const SEED_VARIABLE: &str = "LONGSHORE_SEED";

/// A small generator with a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    /// The seed of the environment, or a new one; either way it is said.
    pub fn seeded() -> Random {
        let seed = match std::env::var(SEED_VARIABLE) {
            Ok(seed) => seed.parse().expect("the seed is a number"),
            Err(_) => u64::from(std::process::id()),
        };
        println!("{SEED_VARIABLE}={seed}");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}
