//! All orders in which the steps of some scripts can be taken, each with a number.
//!
//! An interleaving is a word with as many letters `t` as script `t` has steps. Words are numbered in alphabetical order,
//! so that a number alone brings one back, and any share of them can be taken without walking the others.

/// The interleavings of scripts of given lengths.
#[derive(Clone, Debug)]
pub struct Interleavings {
    lengths: Vec<u64>,
}

impl Interleavings {
    /// Of scripts with so many steps each. At most 33 steps in all, so that every number fits.
    ///
    /// # Panics
    /// With more steps.
    #[must_use]
    pub fn new(lengths: &[usize]) -> Self {
        let lengths: Vec<u64> = lengths.iter().map(|length| *length as u64).collect();
        assert!(lengths.iter().sum::<u64>() <= 33, "too many steps");
        Self { lengths }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        words(&self.lengths)
    }

    /// The one with that number: which script takes each step. Numbers beyond the last count from the first again.
    #[must_use]
    pub fn nth(&self, number: u64) -> Vec<usize> {
        let mut rest = number % self.count();
        let mut left = self.lengths.clone();
        let steps = left.iter().sum::<u64>();
        (0..steps)
            .map(|_| next_letter(&mut left, &mut rest))
            .collect()
    }
}

/// Takes the letter whose words include word `rest` of those that `left` can spell.
fn next_letter(left: &mut [u64], rest: &mut u64) -> usize {
    for letter in 0..left.len() {
        if left[letter] == 0 {
            continue;
        }
        left[letter] -= 1;
        let below = words(left);
        if *rest < below {
            return letter;
        }
        *rest -= below;
        left[letter] += 1;
    }
    unreachable!("the number is below the count of words")
}

/// The multinomial coefficient, as a product of binomials.
fn words(lengths: &[u64]) -> u64 {
    let mut total = 0;
    let mut product = 1;
    for length in lengths {
        total += length;
        product *= binomial(total, *length);
    }
    product
}

fn binomial(n: u64, k: u64) -> u64 {
    // Each division leaves no rest: after step i the value is the binomial of n - k + i over i.
    (1..=k).fold(1, |value, i| value * (n - k + i) / i)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_interleaving_has_one_number() {
        let all = Interleavings::new(&[3, 2, 2]);
        assert_eq!(all.count(), 210);
        let words: BTreeSet<Vec<usize>> = (0..210).map(|number| all.nth(number)).collect();
        assert_eq!(words.len(), 210);
        for word in words {
            let count = |letter| word.iter().filter(|step| **step == letter).count();
            assert_eq!([count(0), count(1), count(2)], [3, 2, 2]);
        }
        assert_eq!(Interleavings::new(&[4, 4, 4]).count(), 34_650);
    }
}
