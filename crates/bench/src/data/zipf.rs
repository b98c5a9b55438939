//! Ranks under a Zipf distribution by rejection-inversion (Hörmann, Derflinger: "Rejection-inversion to generate
//! variates from monotone discrete distributions", 1996): no table, constant time, any exponent above 0.
//!
//! Rank k has the weight `h(k) = k^-s`. `H` is an integral of `h`; a uniform number between `H(1.5) - 1` and
//! `H(count + 0.5)` is inverted to x and rounded to k, which is accepted when the number lies in the part of the area
//! between k - 0.5 and k + 0.5 that belongs to the bar of height `h(k)`. Fewer than one draw in ten is refused.
//!
//! Each thread has a generator of its own: nothing is shared.

use super::random::Random;

/// Draws ranks `0 .. count`, the most frequent first.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    count: f64,
    exponent: f64,
    low: f64,
    high: f64,
    /// Numbers this little below their rank are accepted without a look at the area.
    shortcut: f64,
}

impl Zipf {
    /// Ranks below `count`, at least 1, with an exponent above 0.
    pub(crate) fn new(count: u64, exponent: f64) -> Self {
        let count = count.max(1) as f64;
        let mut zipf = Self {
            count,
            exponent,
            low: 0.0,
            high: 0.0,
            shortcut: 0.0,
        };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// The next rank.
    pub(crate) fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.high + random.fraction() * (self.low - self.high);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.count);
            if rank - x <= self.shortcut || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// `(x^(1-s) - 1) / (1-s)`, and its limit, the logarithm, at s = 1: written so that it is exact near there.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.exponent) * log;
        log * if t.abs() > 1e-8 {
            t.exp_m1() / t
        } else {
            1.0 + t / 2.0
        }
    }

    fn inverse(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        let log = area
            * if t.abs() > 1e-8 {
                t.ln_1p() / t
            } else {
                1.0 - t / 2.0
            };
        log.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: frequencies are those of the distribution. Method: 400,000 draws against the exact shares.
    #[test]
    fn ranks_come_as_often_as_their_weights_say() {
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let count = 1000;
            let zipf = Zipf::new(count, exponent);
            let mut random = Random::new(7);
            let draws = 400_000;
            let mut seen = vec![0_u32; count as usize];
            for _ in 0..draws {
                seen[zipf.sample(&mut random) as usize] += 1;
            }
            let total: f64 = (1..=count).map(|k| (k as f64).powf(-exponent)).sum();
            for rank in [0, 1, 2, 10, 100] {
                let share = ((rank + 1) as f64).powf(-exponent) / total;
                let expected = share * f64::from(draws);
                let found = f64::from(seen[rank as usize]);
                // Five standard deviations.
                assert!(
                    (found - expected).abs() < 5.0 * expected.sqrt(),
                    "{exponent} {rank}: {found} {expected}"
                );
            }
            assert!(seen[999] > 0 || exponent > 1.0);
        }
    }

    #[test]
    fn one_rank_is_always_drawn() {
        let mut random = Random::new(1);
        let zipf = Zipf::new(1, 0.99);
        assert!((0..1000).all(|_| zipf.sample(&mut random) == 0));
        let zipf = Zipf::new(2, 3.0);
        assert!((0..1000).all(|_| zipf.sample(&mut random) < 2));
    }
}
