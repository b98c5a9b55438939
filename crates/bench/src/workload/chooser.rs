//! Which key comes next.

use crate::{
    Pattern, Permutation, Step,
    data::{random::Random, zipf::Zipf},
};

/// Chooses indices for one thread of a step.
pub(super) struct Chooser {
    pattern: Pattern,
    keys: u64,
    order: Permutation,
    zipf: Option<Zipf>,
    random: Random,
}

impl Chooser {
    /// For thread `number` of `step` over `keys` keys. Steps of different `purpose` take random keys in different orders.
    pub(super) fn new(step: &Step, keys: u64, seed: u64, purpose: u64, number: u64) -> Self {
        let is_skewed = step.pattern == Pattern::Zipfian || is_ycsb(step);
        Self {
            pattern: if is_ycsb(step) {
                Pattern::Zipfian
            } else {
                step.pattern
            },
            keys,
            // Frequent keys are the same ones for every purpose, as the hot keys of a program are.
            order: Permutation::new(keys, if is_skewed { seed } else { seed ^ purpose }),
            zipf: is_skewed.then(|| Zipf::new(keys, step.zipfian_exponent)),
            random: Random::new(seed ^ purpose ^ ((number + 1) << 32)),
        }
    }

    /// The index for the operation at `position` of the step.
    pub(super) fn index(&mut self, position: u64) -> u64 {
        let place = position % self.keys;
        match (self.pattern, &self.zipf) {
            (Pattern::Sequential | Pattern::ByteReversed | Pattern::Timestamp, _) => place,
            (Pattern::Reverse, _) => self.keys - 1 - place,
            (Pattern::Random, _) => self.order.apply(place),
            (Pattern::Zipfian, Some(zipf)) => self.order.apply(zipf.sample(&mut self.random)),
            (Pattern::Uniform | Pattern::Zipfian, _) => self.random.below(self.keys),
        }
    }

    /// An index among the first `inserted`, the newest most often.
    pub(super) fn newest(&mut self, inserted: u64) -> u64 {
        let back = match &self.zipf {
            Some(zipf) => zipf.sample(&mut self.random),
            None => self.random.below(self.keys),
        };
        inserted.saturating_sub(1).saturating_sub(back)
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }
}

fn is_ycsb(step: &Step) -> bool {
    use crate::Workload::{YcsbA, YcsbB, YcsbC, YcsbD, YcsbE, YcsbF};
    matches!(step.workload, YcsbA | YcsbB | YcsbC | YcsbD | YcsbE | YcsbF)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;

    #[test]
    fn patterns_visit_every_key_once_or_draw_from_all() {
        for pattern in Pattern::ALL {
            let step = Step {
                pattern: *pattern,
                ..Step::new(Workload::Write, 1000)
            };
            let mut chooser = Chooser::new(&step, 1000, 1, 2, 3);
            let mut seen: Vec<u64> = (0..2000).map(|place| chooser.index(place)).collect();
            assert!(seen.iter().all(|index| *index < 1000));
            let second = seen.split_off(1000);
            if pattern.visits_every_key() {
                assert_eq!(seen, second, "{pattern:?}");
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..1000), "{pattern:?}");
            } else {
                assert_ne!(seen, second, "{pattern:?}");
            }
        }
    }

    #[test]
    fn the_newest_come_most_often() {
        let step = Step::new(Workload::YcsbD, 1000);
        let mut chooser = Chooser::new(&step, 1000, 1, 2, 3);
        let recent = (0..1000).filter(|_| chooser.newest(5000) >= 4990).count();
        assert!(recent > 300, "{recent}");
        assert_eq!(chooser.newest(0), 0);
    }
}
