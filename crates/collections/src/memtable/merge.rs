//! Which sources to merge, and the exchange.
//!
//! Only neighbours in the list of sources are merged, so that the list stays sorted by age. Sizes decide as in tiered
//! compaction: a window of at most [`WINDOW_SOURCES_MAX`] neighbours is merged when it holds at least
//! [`GROWTH_WANTED`] times the entries of its largest source, so an entry is moved a logarithmic number of times. Of such
//! windows the one with the smallest largest source goes first. When there are more than [`SOURCES_WANTED`] sources all
//! the same, less growth is accepted.

use std::{ops::Range, sync::Arc};

use kingtide_base::SeqNo;

use crate::sorted_run::{RunSource, SortedRun};

use super::{Memtable, sources::Source};

/// The most sources of one merge.
const WINDOW_SOURCES_MAX: usize = 16;
/// A merged run is at least so many times larger than the largest of its sources, as a rule.
const GROWTH_WANTED: usize = 4;
/// The number of sources that merges aim for.
const SOURCES_WANTED: usize = 12;

impl Memtable {
    /// Merges some sources into one if that is worth it, while others read and write; answers whether it did. To be called
    /// in the background until it answers false.
    ///
    /// `snapshots` are the sequence numbers that readers may use, ascending, the newest visible one last: versions that
    /// none of them sees are left out of the merged run (see [`SortedRun::merge`]).
    pub fn merge_runs(&self, snapshots: &[SeqNo]) -> bool {
        let Some(_merging) = self.merging.try_lock() else {
            return false;
        };
        let sources = self.sources.snapshot();
        // The last source may be an empty list that is about to be filled; it is not frozen.
        let sizes: Vec<Option<usize>> = sources
            .iter()
            .map(|source| source.is_frozen().then(|| source.len()))
            .collect();
        let Some(window) = choose_window(&sizes) else {
            return false;
        };
        let inputs: Vec<RunSource<'_>> = sources[window.clone()]
            .iter()
            .map(|source| match source {
                Source::Run(run) => RunSource::Run(run),
                Source::List(list) => RunSource::List(list),
            })
            .collect();
        let merged = SortedRun::merge(&inputs, &self.arena, &self.order, snapshots);
        let _writer = self.writer.lock();
        // Sources are only appended but by merges, and this is the only merge: the window is where it was.
        self.sources
            .replace(window.start, window.len(), Source::Run(Arc::new(merged)));
        true
    }
}

/// The sources to merge, of the given sizes (`None`: not to be merged), oldest first.
fn choose_window(sizes: &[Option<usize>]) -> Option<Range<usize>> {
    if let Some(window) = cheapest_window(sizes, GROWTH_WANTED) {
        return Some(window);
    }
    if sizes.len() <= SOURCES_WANTED {
        return None;
    }
    (1..GROWTH_WANTED)
        .rev()
        .find_map(|growth| cheapest_window(sizes, growth))
}

/// The window of 2 or more sources whose largest source is the smallest (of these the longest window), among the windows
/// that grow by `growth`.
fn cheapest_window(sizes: &[Option<usize>], growth: usize) -> Option<Range<usize>> {
    let mut best: Option<(usize, Range<usize>)> = None;
    for start in 0..sizes.len() {
        let mut sum = 0;
        let mut largest = 0;
        let window = sizes[start..].iter().take(WINDOW_SOURCES_MAX);
        for (index, size) in window.map_while(|size| *size).enumerate() {
            sum += size;
            largest = largest.max(size);
            if index == 0 || sum < growth * largest {
                continue;
            }
            let count = index + 1;
            let is_better = best.as_ref().is_none_or(|(other_largest, other)| {
                largest < *other_largest || (largest == *other_largest && count > other.len())
            });
            if is_better {
                best = Some((largest, start..start + count));
            }
        }
    }
    best.map(|(_, window)| window)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(sizes: &[usize]) -> Option<Range<usize>> {
        choose_window(&sizes.iter().copied().map(Some).collect::<Vec<_>>())
    }

    #[test]
    fn few_or_uneven_sources_are_left_alone() {
        assert_eq!(window(&[]), None);
        assert_eq!(window(&[100]), None);
        assert_eq!(window(&[100, 100, 100]), None);
        assert_eq!(window(&[1000, 100, 100, 10]), None);
    }

    #[test]
    fn neighbours_of_one_size_are_merged_the_smallest_first() {
        assert_eq!(window(&[100, 100, 100, 100]), Some(0..4));
        assert_eq!(
            window(&[400, 400, 400, 400, 100, 100, 90, 100, 100]),
            Some(4..9)
        );
        assert_eq!(window(&[100; 40]), Some(0..16));
    }

    #[test]
    fn sources_that_still_change_are_a_border() {
        let sizes = [Some(10), Some(10), None, Some(10), Some(10), Some(10)];
        assert_eq!(choose_window(&sizes), None);
        let sizes = [Some(10), None, Some(10), Some(10), Some(10), Some(10)];
        assert_eq!(choose_window(&sizes), Some(2..6));
    }

    /// Goal: the number of sources stays small and entries are moved rarely, whatever the commits' sizes. Method: play a
    /// load of 20,000 commits with awkward sizes.
    #[test]
    fn merging_keeps_few_sources_and_moves_little() {
        for pattern in [
            &[32_usize][..],
            &[32, 4096],
            &[4096, 33, 33],
            &[1, 10, 100, 1000],
        ] {
            let mut sizes: Vec<Option<usize>> = Vec::new();
            let (mut added, mut moved, mut most) = (0, 0, 0);
            for commit in 0..20_000 {
                let size = pattern[commit % pattern.len()];
                added += size;
                sizes.push(Some(size));
                while let Some(window) = choose_window(&sizes) {
                    let sum: usize = sizes[window.clone()].iter().flatten().sum();
                    moved += sum;
                    sizes.splice(window, [Some(sum)]);
                }
                most = most.max(sizes.len());
            }
            assert!(most <= SOURCES_WANTED, "{pattern:?}: {most} sources");
            assert!(moved <= 16 * added, "{pattern:?}: {moved} of {added}");
        }
    }
}
