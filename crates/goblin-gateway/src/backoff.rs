//! How long to wait before the next attempt to connect.

use std::time::Duration;

const FIRST_MS: u64 = 100;
const LARGEST_MS: u64 = 5_000;

/// Steps of 100 ms doubling to 5 s. Chance spreads the waits within each step, so that hosts that lost their controller
/// together do not come back together.
#[derive(Debug, Default)]
pub struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// The next wait; `chance` is uniformly random.
    pub fn next(&mut self, chance: u32) -> Duration {
        let step = FIRST_MS.saturating_mul(1 << self.attempts.min(16)).min(LARGEST_MS);
        self.attempts = self.attempts.saturating_add(1);
        // From half the step to the whole of it.
        let spread = (u64::from(chance) * (step / 2)) >> 32;
        Duration::from_millis(step / 2 + spread)
    }

    /// Authentication succeeded: begin again with the first step.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_the_cap_and_are_spread_within_each_step() {
        let steps = |chance| {
            let mut backoff = Backoff::default();
            (0..8)
                .map(|_| backoff.next(chance).as_millis() as u64)
                .collect::<Vec<_>>()
        };
        assert_eq!(steps(0), [50, 100, 200, 400, 800, 1600, 2500, 2500]);
        let highest = steps(u32::MAX);
        assert!(
            highest
                .iter()
                .zip([100, 200, 400, 800, 1600, 3200, 5000, 5000])
                .all(|(wait, step)| *wait < step && *wait >= step - 1)
        );
        let mut backoff = Backoff::default();
        (0..100).for_each(|_| _ = backoff.next(u32::MAX));
        backoff.reset();
        assert!(backoff.next(u32::MAX) <= Duration::from_millis(100));
    }
}
