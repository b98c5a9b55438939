//! How often each of a set of numbers is in use, where new numbers are the largest as a rule.
//!
//! A sorted queue of numbers with their counts: the common case, a number that is taken and given back as the newest one,
//! touches its end and allocates nothing. A number that falls out of use in the middle stays until it is at an end, or
//! until half of the queue is such.

use std::collections::VecDeque;

/// Up to so many entries, those out of use are not cleared away.
const CLEARED_MIN: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Counts<K> {
    /// Ascending.
    entries: VecDeque<(K, usize)>,
    /// Entries with the count zero. None of them is at an end.
    unused: usize,
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            unused: 0,
        }
    }
}

impl<K: Ord + Copy> Counts<K> {
    /// Adds one to the count of `key`.
    pub(super) fn add(&mut self, key: K) {
        if self.entries.back().is_none_or(|(last, _)| *last < key) {
            self.entries.push_back((key, 1));
            return;
        }
        let index = self.place_of(key);
        match self.entries.get_mut(index) {
            Some((known, count)) if *known == key => {
                self.unused -= usize::from(*count == 0);
                *count += 1;
            }
            _ => self.entries.insert(index, (key, 1)),
        }
    }

    /// Takes one from the count of `key`.
    pub(super) fn release(&mut self, key: K) {
        let index = self.place_of(key);
        let count = match self.entries.get_mut(index) {
            Some((known, count)) if *known == key && *count > 0 => count,
            _ => {
                debug_assert!(false, "what is released was added");
                return;
            }
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        self.unused += 1;
        while self.entries.back().is_some_and(|(_, count)| *count == 0) {
            self.entries.pop_back();
            self.unused -= 1;
        }
        while self.entries.front().is_some_and(|(_, count)| *count == 0) {
            self.entries.pop_front();
            self.unused -= 1;
        }
        if self.entries.len() > CLEARED_MIN && self.unused > self.entries.len() / 2 {
            self.entries.retain(|(_, count)| *count > 0);
            self.unused = 0;
        }
    }

    /// The numbers in use, ascending.
    pub(super) fn keys(&self) -> impl Iterator<Item = K> {
        let used = self.entries.iter().filter(|(_, count)| *count > 0);
        used.map(|(key, _)| *key)
    }

    fn place_of(&self, key: K) -> usize {
        match self.entries.back() {
            // Most often it is the newest.
            Some((last, _)) if *last == key => self.entries.len() - 1,
            _ => self.entries.partition_point(|(known, _)| *known < key),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Goal: the numbers in use are those of a map of counts. Method: random additions and releases, mostly at the end.
    #[test]
    fn counts_agree_with_a_map() {
        for seed in 0..50_u64 {
            let mut state = seed;
            let mut below = |bound: usize| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) as usize % bound
            };
            let (mut counts, mut model) = (Counts::default(), BTreeMap::<u64, usize>::new());
            let (mut held, mut newest) = (Vec::new(), 0);
            let held_max = 1 + below(400);
            for _ in 0..2000 {
                if held.len() < held_max && below(2) == 0 || held.is_empty() {
                    newest += below(2) as u64;
                    let key = match held.len() {
                        0 => newest,
                        len if below(8) == 0 => held[below(len)],
                        _ => newest,
                    };
                    counts.add(key);
                    *model.entry(key).or_default() += 1;
                    held.push(key);
                } else {
                    let key = held.swap_remove(below(held.len()));
                    counts.release(key);
                    let left = model.get_mut(&key).expect("it is held");
                    *left -= 1;
                    if *left == 0 {
                        model.remove(&key);
                    }
                }
                let keys: Vec<_> = counts.keys().collect();
                assert!(keys.iter().eq(model.keys()), "seed {seed}");
                assert!(counts.entries.len() <= CLEARED_MIN + 2 * model.len() + 1);
            }
        }
    }
}
