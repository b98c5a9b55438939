//! A random order of `0 .. count` without a table: a keyed mixer that permutes the numbers of as many bits as hold `count`,
//! walked until it lands inside (Black, Rogaway: "Ciphers with arbitrary finite domains", 2002).
//!
//! Every index is hit exactly once, and four rounds of adding, multiplying and folding leave no order that a storage engine
//! could use. A step takes a few nanoseconds: keys are made beside the engine's own threads, on the same processors.

use super::random::mix;

const ROUNDS: usize = 4;

/// A bijection of `0 .. count` onto itself that its seed determines.
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    /// The numbers that the mixer permutes: `0 ..= mask`, fewer than twice as many as are asked for.
    mask: u64,
    fold_bits: u32,
    round_keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0 .. count` that `seed` names.
    #[must_use]
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(1);
        Self {
            count,
            mask: u64::MAX >> (u64::BITS - bits),
            fold_bits: bits.div_ceil(2),
            round_keys: std::array::from_fn(|round| mix(seed.wrapping_add(round as u64))),
        }
    }

    /// Where `index` goes. An index at or beyond `count` answers itself.
    #[must_use]
    pub fn apply(&self, index: u64) -> u64 {
        if index >= self.count {
            return index;
        }
        // At least half of the numbers are inside, so the walk is two steps long at most on average, and it ends: a cycle that
        // starts inside returns inside.
        let mut number = index;
        loop {
            number = self.shuffle(number);
            if number < self.count {
                return number;
            }
        }
    }

    /// Each step can be undone: adding, multiplying by an odd number, folding the upper half over the lower one.
    fn shuffle(&self, mut number: u64) -> u64 {
        for round_key in self.round_keys {
            number = number
                .wrapping_add(round_key >> 32)
                .wrapping_mul(round_key | 1)
                & self.mask;
            number ^= number >> self.fold_bits;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every index is hit exactly once. Method: all counts up to 300 and some around powers of two, marked off.
    #[test]
    fn permutation_is_a_bijection() {
        for count in (0..300).chain([1023, 1024, 1025, 4095, 4097, 65_537]) {
            let permutation = Permutation::new(count, count ^ 7);
            let mut seen = vec![false; count as usize];
            for index in 0..count {
                let image = permutation.apply(index) as usize;
                assert!(image < seen.len(), "{count} {index}");
                assert!(!seen[image], "{count} {index} hits {image} again");
                seen[image] = true;
            }
        }
    }

    #[test]
    fn permutation_depends_on_its_seed_and_is_not_the_identity() {
        let first = Permutation::new(10_000, 1);
        let second = Permutation::new(10_000, 2);
        let fixed = (0..10_000).filter(|i| first.apply(*i) == *i).count();
        let equal = (0..10_000)
            .filter(|i| first.apply(*i) == second.apply(*i))
            .count();
        assert!(fixed < 20, "{fixed} indices stay in place");
        assert!(equal < 20, "{equal} indices go to the same place");
        assert_eq!(first.apply(10_000), 10_000);
        assert!(Permutation::new(u64::MAX, 3).apply(5) < u64::MAX);
    }
}
