//! How many keys a memtable holds, and how many entries of a range.

use super::{Memtable, sources::Source};
use crate::{
    arena::EntryOffset, hash_index::HashIndex, skip_list::SkipList, sorted_run::SortedRun,
};

impl Memtable {
    /// Different keys inserted so far; `None` when the order has no hashes. Exact when nothing is inserted meanwhile.
    #[must_use]
    pub fn distinct_keys(&self) -> Option<usize> {
        self.index.as_ref().map(HashIndex::used_keys)
    }

    /// Entries whose keys lie between `first` and `last`, both included, all versions counted. Searches runs, and walks
    /// the part of each skip list, which are short, that lies in the range.
    #[must_use]
    pub fn entries_between(&self, first: &[u8], last: &[u8]) -> usize {
        if self.order.compare(first, last).is_gt() {
            return 0;
        }
        self.complete_sources();
        let mut entries = 0;
        self.sources.for_each(|source| {
            entries += match source {
                Source::Run(run) => self.run_entries_between(run, first, last),
                Source::List(list) => self.list_entries_between(list, first, last),
            };
        });
        entries
    }

    /// About `count` keys of each source, evenly spread, with the entries from each on to the next: how the entries lie
    /// among the keys. In no order. Walks skip lists.
    #[must_use]
    pub fn samples(&self, count: usize) -> Vec<(Vec<u8>, usize)> {
        self.complete_sources();
        let mut samples = Vec::new();
        self.sources.for_each(|source| {
            let entries = source.len();
            let step = entries.div_ceil(count.max(1)).max(1);
            let mut add = |index: usize, offset: EntryOffset| {
                let key = self.arena.key(offset).to_vec();
                samples.push((key, step.min(entries - index)));
            };
            match source {
                Source::Run(run) => {
                    for index in (0..entries).step_by(step) {
                        add(index, run.offset(index));
                    }
                }
                Source::List(list) => {
                    // What is inserted meanwhile is not looked at.
                    let offsets = list.offsets().take(entries).enumerate().step_by(step);
                    offsets.for_each(|(index, offset)| add(index, offset));
                }
            }
        });
        samples
    }

    fn run_entries_between(&self, run: &SortedRun, first: &[u8], last: &[u8]) -> usize {
        let start = run.lower_bound(first, &self.arena, &self.order);
        let end = run.upper_bound(last, &self.arena, &self.order);
        end.saturating_sub(start)
    }

    fn list_entries_between(&self, list: &SkipList, first: &[u8], last: &[u8]) -> usize {
        let mut entries = 0;
        let mut node = list.seek(first, &self.arena, &self.order);
        while node != 0 {
            let (key, _) = self.arena.key_and_sequence(list.offset(node));
            if self.order.compare(key, last).is_gt() {
                break;
            }
            entries += 1;
            node = list.next(node);
        }
        entries
    }
}
