//! Which sources to merge, and the exchange.
//!
//! Only neighbours in the list of sources are merged, so that the list stays sorted by age. Sizes decide as in tiered
//! compaction: a window of at most [`WINDOW_SOURCES_MAX`] neighbours is merged when it holds at least
//! [`GROWTH_WANTED`] times the entries of its largest source, so an entry is moved a logarithmic number of times. Of such
//! windows the one with the smallest largest source goes first. When there are more than [`SOURCES_WANTED`] sources all
//! the same, less growth is accepted. When merging has fallen behind by [`BACKLOG_SOURCES`], one call merges many
//! windows, side by side, and exchanges the list once.

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
/// More sources than this are a backlog.
const BACKLOG_SOURCES: usize = 128;
/// The most windows of one call.
const WINDOWS_MAX: usize = 64;

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
        let windows = choose_windows(&sizes);
        if windows.is_empty() {
            return false;
        }
        let replacements: Vec<(Range<usize>, Source)> = windows
            .into_iter()
            .map(|window| {
                let merged = self.merge_sources(&sources[window.clone()], snapshots);
                (window, Source::Run(Arc::new(merged)))
            })
            .collect();
        let mut writer = self.writer.lock();
        // Sources are only appended but by merges, and this is the only merge: the windows are where they were.
        writer.source_bytes = self.sources.replace(replacements);
        self.account(&mut writer);
        true
    }

    fn merge_sources(&self, sources: &[Source], snapshots: &[SeqNo]) -> SortedRun {
        let inputs: Vec<RunSource<'_>> = sources
            .iter()
            .map(|source| match source {
                Source::Run(run) => RunSource::Run(run),
                Source::List(list) => RunSource::List(list),
            })
            .collect();
        SortedRun::merge(&inputs, &self.arena, &self.order, snapshots)
    }
}

/// The windows to merge now, ascending and apart. Sizes as for [`choose_window`].
fn choose_windows(sizes: &[Option<usize>]) -> Vec<Range<usize>> {
    let mut windows = Vec::new();
    let mut start = 0;
    while sizes.len() > BACKLOG_SOURCES && start < sizes.len() && windows.len() < WINDOWS_MAX {
        let end = sizes.len().min(start + WINDOW_SOURCES_MAX);
        match cheapest_window(&sizes[start..end], GROWTH_WANTED) {
            Some(window) => {
                windows.push(start + window.start..start + window.end);
                start += window.end;
            }
            None => start = end,
        }
    }
    if windows.is_empty() {
        windows.extend(choose_window(sizes));
    }
    windows
}

/// The one window to merge first, of sources of the given sizes (`None`: not to be merged), oldest first.
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

    #[test]
    fn a_backlog_is_merged_in_many_windows_at_once() {
        let mut sizes = vec![Some(32); 1000];
        sizes[500] = None;
        let windows = choose_windows(&sizes);
        assert!(windows.len() > 55 && windows.len() <= WINDOWS_MAX);
        assert!(windows.is_sorted_by(|left, right| left.end <= right.start));
        assert!(windows.iter().all(|window| !window.contains(&500)));
        // Where nothing grows well, one window is merged all the same.
        let shrinking: Vec<_> = (0..200)
            .map(|index| Some(1_usize << (60 - index / 4)))
            .collect();
        assert_eq!(choose_windows(&shrinking[..60]).len(), 1);
        let steep: Vec<_> = (0..60).rev().map(|bit| Some(1_usize << bit)).collect();
        assert_eq!(choose_windows(&steep), vec![Range { start: 58, end: 60 }]);
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
