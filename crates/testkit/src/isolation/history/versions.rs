//! The versions of every key in a window, and the moments at which a key had a certain value.

use super::{
    own::Own,
    record::{Ending, Key, Number, Window},
};
use crate::violation::{Checked, ensure};

/// A set of sequence numbers: disjoint ranges, both ends included, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments(Vec<(u64, u64)>);

impl Moments {
    /// All numbers from `first` to `last`.
    #[must_use]
    pub fn between(first: u64, last: u64) -> Self {
        Self(if first <= last {
            vec![(first, last)]
        } else {
            Vec::new()
        })
    }

    /// The largest, if there is one.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.0.last().map(|range| range.1)
    }

    /// The smallest, if there is one.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        self.0.first().map(|range| range.0)
    }

    /// Leaves out what is larger than `last`.
    pub fn cut(&mut self, last: u64) {
        self.0.retain(|range| range.0 <= last);
        if let Some(range) = self.0.last_mut() {
            range.1 = range.1.min(last);
        }
    }
}

/// One key over time: commits that wrote it, in order. The first one is the state at the window's beginning.
#[derive(Clone, Debug, Default)]
struct History {
    sequences: Vec<u64>,
    numbers: Vec<Option<Number>>,
}

/// All keys over time.
#[derive(Clone, Debug)]
pub struct Versions {
    keys: Vec<History>,
    /// The last sequence number of the window.
    last: u64,
    /// For each commit its first stamp and the smallest sequence number of it and all that were begun later; by stamp.
    begun: Vec<(u64, u64)>,
}

impl Versions {
    /// Orders the commits of `window`.
    ///
    /// # Errors
    /// When two commits have one sequence number, when one is not larger than what was acknowledged before it began, or
    /// when they do not add up to the state at the end.
    pub fn of(window: &Window) -> Checked<Self> {
        let mut commits: Vec<(u64, usize)> = Vec::new();
        for (index, record) in window.log.records.iter().enumerate() {
            if let Ending::Committed(sequence @ 1..) = record.ending {
                commits.push((sequence, index));
            }
        }
        commits.sort_unstable();
        let mut versions = Self {
            keys: first_versions(window),
            last: commits
                .last()
                .map_or(window.sequence_before, |commit| commit.0),
            begun: Vec::with_capacity(commits.len()),
        };
        let mut before = window.sequence_before;
        let mut own = Own::default();
        for (sequence, index) in commits {
            let record = &window.log.records[index];
            ensure(sequence > before, || {
                format!("sequence number {sequence} was given twice, the second time to {record:?}")
            })?;
            ensure(sequence > record.end.floor, || {
                let floor = record.end.floor;
                format!(
                    "commit {sequence} is ordered before {floor}, which was acknowledged before it: {record:?}"
                )
            })?;
            before = sequence;
            versions.begun.push((record.end.from, sequence));
            own.clear();
            for operation in window.log.operations_of(record) {
                own.apply(operation);
            }
            for (key, number) in own.writes() {
                versions.keys[usize::from(*key)].put(sequence, *number);
            }
        }
        versions.index_begins();
        versions.check_end(window)?;
        Ok(versions)
    }

    fn index_begins(&mut self) {
        self.begun.sort_unstable();
        let mut smallest = u64::MAX;
        for (_, sequence) in self.begun.iter_mut().rev() {
            smallest = smallest.min(*sequence);
            *sequence = smallest;
        }
    }

    fn check_end(&self, window: &Window) -> Checked {
        for (key, (history, after)) in self.keys.iter().zip(&window.after).enumerate() {
            let last = history.numbers.last().copied().flatten();
            ensure(last == *after, || {
                format!("key {key} holds {after:?} in the end, and the commits leave {last:?}")
            })?;
        }
        Ok(())
    }

    /// The largest sequence number that a view can have that was taken before `stamp`: every later one belongs to a
    /// commit that began after it, or comes after such a commit.
    #[must_use]
    pub fn ceiling(&self, stamp: u64) -> u64 {
        let place = self.begun.partition_point(|(begun, _)| *begun <= stamp);
        self.begun
            .get(place)
            .map_or(self.last, |(_, sequence)| sequence - 1)
    }

    /// Leaves in `moments` those at which `key` holds `number`.
    pub fn keep_where(&self, key: Key, number: Option<Number>, moments: &mut Moments) {
        let history = &self.keys[usize::from(key)];
        if let [(first, last)] = moments.0[..] {
            // Nearly always: one range, in which the key does not change.
            let place = history.at(first);
            if history.end(place) > last {
                if history.numbers[place] != number {
                    moments.0.clear();
                }
                return;
            }
        }
        let mut kept: Vec<(u64, u64)> = Vec::new();
        for (first, last) in &moments.0 {
            let mut place = history.at(*first);
            while place < history.sequences.len() && history.sequences[place] <= *last {
                if history.numbers[place] == number {
                    let from = history.sequences[place].max(*first);
                    kept.push((from, (history.end(place) - 1).min(*last)));
                }
                place += 1;
            }
        }
        moments.0 = kept;
    }

    /// What `key` holds at `sequence`.
    #[must_use]
    pub fn number_at(&self, key: Key, sequence: u64) -> Option<Number> {
        let history = &self.keys[usize::from(key)];
        history.numbers[history.at(sequence)]
    }

    /// The newest commit up to `sequence` that wrote `key`; the window's beginning if none did.
    #[must_use]
    pub fn written_at(&self, key: Key, sequence: u64) -> u64 {
        let history = &self.keys[usize::from(key)];
        history.sequences[history.at(sequence)]
    }

    /// The versions of `key` around `sequence`, for reports.
    #[must_use]
    pub fn around(&self, key: Key, sequence: u64) -> Vec<(u64, Option<Number>)> {
        let history = &self.keys[usize::from(key)];
        let place = history.at(sequence);
        let some = place.saturating_sub(3)..(place + 4).min(history.sequences.len());
        some.map(|place| (history.sequences[place], history.numbers[place]))
            .collect()
    }
}

fn first_versions(window: &Window) -> Vec<History> {
    let first = |number: &Option<Number>| History {
        sequences: vec![window.sequence_before],
        numbers: vec![*number],
    };
    window.before.iter().map(first).collect()
}

impl History {
    fn put(&mut self, sequence: u64, number: Option<Number>) {
        self.sequences.push(sequence);
        self.numbers.push(number);
    }

    /// The place of the version that `sequence` sees. Nothing is asked about before the window.
    fn at(&self, sequence: u64) -> usize {
        self.sequences
            .partition_point(|other| *other <= sequence)
            .saturating_sub(1)
    }

    /// The sequence number at which the version at `place` ends.
    fn end(&self, place: usize) -> u64 {
        self.sequences.get(place + 1).copied().unwrap_or(u64::MAX)
    }
}
