//! A small deterministic source of numbers: `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number
//! generators", 2014). Not for secrets.

/// A bijection of 64-bit numbers that leaves no visible pattern.
#[must_use]
pub(crate) const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sequence of numbers that its seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        let number = mix(self.state);
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        number
    }

    /// A number of at least 0 and below 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product is uniform but for a bias of bound / 2^64, which no benchmark can see.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}
