//! A random order of `0 .. count` without a table: a Feistel network over the smallest even number of bits that holds
//! `count`, walked until it lands inside (Black, Rogaway: "Ciphers with arbitrary finite domains", 2002).
//!
//! Every index is hit exactly once, and four rounds of a keyed mixer leave no order that a storage engine could use.

use super::random::mix;

const ROUNDS: usize = 4;

/// A bijection of `0 .. count` onto itself that its seed determines.
#[derive(Clone, Debug)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    round_keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0 .. count` that `seed` names.
    #[must_use]
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Self {
            count,
            half_bits: bits.div_ceil(2).max(1),
            round_keys: std::array::from_fn(|round| mix(seed.wrapping_add(round as u64))),
        }
    }

    /// Where `index` goes. An index at or beyond `count` answers itself.
    #[must_use]
    pub fn apply(&self, index: u64) -> u64 {
        if index >= self.count {
            return index;
        }
        // The network permutes at most 4 * count numbers, so the walk is four steps long on average, and it ends:
        // a cycle that starts inside returns inside.
        let mut number = index;
        loop {
            number = self.shuffle(number);
            if number < self.count {
                return number;
            }
        }
    }

    fn shuffle(&self, number: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let mut left = number >> self.half_bits;
        let mut right = number & mask;
        for round_key in self.round_keys {
            let turn = mix(right ^ round_key) & mask;
            (left, right) = (right, left ^ turn);
        }
        (left << self.half_bits) | right
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
