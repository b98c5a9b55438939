//! Many cursors walked as one: a loser tree.
//!
//! Sources are numbered; an earlier source is the newer one. The order of the merged entries is: keys ascending, sequence
//! numbers descending, sources ascending. Backwards it is exactly the reverse.
//!
//! The tree (Knuth, The Art of Computer Programming 3, 5.4.1) has a leaf for each source; each inner node holds the source
//! that lost the comparison there, and the winner of all is kept apart. When the winner moves, only the losers on its way
//! to the root are compared: log2(sources) comparisons. In byte order the first 8 bytes of each source's key are kept as a
//! number, which settles most comparisons.
//!
//! Invariant, forwards: the current entry is the winner's, every other source stands on its first entry after the current
//! one. Backwards: on its last entry before. A change of direction moves every other source across the current entry; as
//! sources may have grown in between, they are moved until they are on the right side. Then the tree is built anew.
//!
//! When one source is left, moves go to it alone.

use std::cmp::Ordering;

use kingtide_base::{
    Batch, Cursor, EntryHead, EntryKind, KeyOrder, SeqNo, StorageResult, ValueRef,
};

use crate::sorted_run::head_of;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// See the module's documentation.
pub struct MergeCursor<C> {
    order: KeyOrder,
    sources: Vec<C>,
    /// For each source, the head of the key it is on, or `None` when it is at its end.
    heads: Vec<Option<u64>>,
    /// Inner nodes, from 1 on; node n has the children 2n and 2n+1, and the leaf of source s is node s + sources.len().
    losers: Vec<usize>,
    /// Winners of the nodes while the tree is built.
    winners: Vec<usize>,
    winner: usize,
    /// Sources that are not at their end.
    live_count: usize,
    direction: Direction,
    /// False after an error, until the next seek.
    is_sound: bool,
}

impl<C: Cursor> MergeCursor<C> {
    /// A cursor over all entries of `sources`, which are sorted by `order`; an earlier source is newer than a later one.
    #[must_use]
    pub fn new(order: KeyOrder, sources: Vec<C>) -> Self {
        let count = sources.len();
        Self {
            order,
            sources,
            heads: vec![None; count],
            losers: vec![0; count],
            winners: (0..2 * count)
                .map(|node| node.saturating_sub(count))
                .collect(),
            winner: 0,
            live_count: 0,
            direction: Direction::Forward,
            is_sound: false,
        }
    }

    /// Moves every source with `place` and finds the first one in `direction`.
    fn seek_all(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(&mut C) -> StorageResult<()>,
    ) -> StorageResult<()> {
        self.is_sound = false;
        for source in &mut self.sources {
            place(source)?;
        }
        self.direction = direction;
        self.rebuild();
        self.is_sound = true;
        Ok(())
    }

    /// Looks at every source anew and plays the whole tournament.
    fn rebuild(&mut self) {
        self.live_count = 0;
        for index in 0..self.sources.len() {
            self.refresh(index);
            self.live_count += usize::from(self.heads[index].is_some());
        }
        let count = self.sources.len();
        // From the leaves up, which do not change.
        for node in (1..count).rev() {
            let (left, right) = (self.winners[2 * node], self.winners[2 * node + 1]);
            let (winner, loser) = if self.beats(left, right) {
                (left, right)
            } else {
                (right, left)
            };
            self.winners[node] = winner;
            self.losers[node] = loser;
        }
        self.winner = if count > 1 { self.winners[1] } else { 0 };
    }

    /// Notes on which key source `index` is.
    #[inline]
    fn refresh(&mut self, index: usize) {
        let source = &self.sources[index];
        self.heads[index] = source.is_valid().then(|| {
            // Alone, it is compared with nothing.
            if self.order.is_bytewise() && self.sources.len() > 1 {
                head_of(source.key(), 0)
            } else {
                0
            }
        });
    }

    /// True when source `left` comes before source `right` in the direction of the walk. Sources at their end come last.
    #[inline]
    fn beats(&self, left: usize, right: usize) -> bool {
        let (Some(left_head), Some(right_head)) = (self.heads[left], self.heads[right]) else {
            return self.heads[left].is_some();
        };
        let ordering = left_head
            .cmp(&right_head)
            .then_with(|| self.compare(left, right));
        match self.direction {
            Direction::Forward => ordering.is_lt(),
            Direction::Backward => ordering.is_gt(),
        }
    }

    /// Compares the entries that two sources are on.
    fn compare(&self, left: usize, right: usize) -> Ordering {
        let (left_source, right_source) = (&self.sources[left], &self.sources[right]);
        self.order
            .compare(left_source.key(), right_source.key())
            .then_with(|| right_source.sequence().cmp(&left_source.sequence()))
            .then_with(|| left.cmp(&right))
    }

    /// After the winner was moved in the direction of the walk: finds the new winner.
    #[inline]
    fn settle(&mut self) {
        let moved = self.winner;
        self.refresh(moved);
        if self.heads[moved].is_none() {
            self.live_count -= 1;
        } else if self.live_count == 1 {
            // The others are at their ends: the tree cannot have changed.
            return;
        }
        let mut winner = moved;
        let mut node = (moved + self.sources.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            if self.beats(loser, winner) {
                self.losers[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.winner = winner;
    }

    /// Moves one entry in `direction`.
    fn advance(&mut self, direction: Direction) -> StorageResult<()> {
        if !self.is_valid() {
            return Ok(());
        }
        self.is_sound = false;
        if self.direction != direction {
            self.turn(direction)?;
        }
        let winner = &mut self.sources[self.winner];
        match direction {
            Direction::Forward => winner.next()?,
            Direction::Backward => winner.prev()?,
        }
        self.settle();
        self.is_sound = true;
        Ok(())
    }

    /// The source that comes next after the winner: the best of those that lost against it. `None` when there is no other
    /// source that is not at its end.
    fn runner_up(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        let mut node = (self.winner + self.sources.len()) / 2;
        while node > 0 {
            let loser = self.losers[node];
            if best.is_none_or(|best| self.beats(loser, best)) {
                best = Some(loser);
            }
            node /= 2;
        }
        best.filter(|best| self.heads[*best].is_some())
    }

    /// Changes the direction of the walk; the current entry stays.
    fn turn(&mut self, direction: Direction) -> StorageResult<()> {
        let current = self.winner;
        for index in 0..self.sources.len() {
            if index == current {
                continue;
            }
            let source = &mut self.sources[index];
            if source.is_valid() {
                step(source, direction)?;
            } else {
                match direction {
                    Direction::Forward => source.seek_first()?,
                    Direction::Backward => source.seek_last()?,
                }
            }
            let on_wrong_side = match direction {
                Direction::Forward => Ordering::Less,
                Direction::Backward => Ordering::Greater,
            };
            while self.sources[index].is_valid() && self.compare(index, current) == on_wrong_side {
                step(&mut self.sources[index], direction)?;
            }
        }
        self.direction = direction;
        self.rebuild();
        debug_assert_eq!(self.winner, current);
        Ok(())
    }
}

fn step(source: &mut impl Cursor, direction: Direction) -> StorageResult<()> {
    match direction {
        Direction::Forward => source.next(),
        Direction::Backward => source.prev(),
    }
}

impl<C: Cursor> Cursor for MergeCursor<C> {
    fn seek_first(&mut self) -> StorageResult<()> {
        self.seek_all(Direction::Forward, Cursor::seek_first)
    }

    fn seek_last(&mut self) -> StorageResult<()> {
        self.seek_all(Direction::Backward, Cursor::seek_last)
    }

    fn seek(&mut self, key: &[u8]) -> StorageResult<()> {
        self.seek_all(Direction::Forward, |source| source.seek(key))
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> StorageResult<()> {
        self.seek_all(Direction::Backward, |source| source.seek_for_prev(key))
    }

    #[inline]
    fn next(&mut self) -> StorageResult<()> {
        self.advance(Direction::Forward)
    }

    #[inline]
    fn prev(&mut self) -> StorageResult<()> {
        self.advance(Direction::Backward)
    }

    #[inline]
    fn is_valid(&self) -> bool {
        self.is_sound && self.live_count > 0
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.sources
            .get(self.winner)
            .map_or(&[], |source| source.key())
    }

    #[inline]
    fn sequence(&self) -> SeqNo {
        self.sources
            .get(self.winner)
            .map_or(SeqNo::ZERO, |source| source.sequence())
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        self.sources
            .get(self.winner)
            .map_or(EntryKind::Delete, |source| source.kind())
    }

    #[inline]
    fn expires_at(&self) -> i64 {
        self.sources
            .get(self.winner)
            .map_or(0, |source| source.expires_at())
    }

    #[inline]
    fn head(&self) -> EntryHead<'_> {
        match self.sources.get(self.winner) {
            Some(source) => source.head(),
            None => EntryHead {
                key: &[],
                sequence: SeqNo::ZERO,
                kind: EntryKind::Delete,
                expires_at: 0,
            },
        }
    }

    #[inline]
    fn value(&mut self) -> StorageResult<ValueRef<'_>> {
        match self.sources.get_mut(self.winner) {
            Some(source) => source.value(),
            None => Ok(ValueRef::Inline(&[])),
        }
    }

    fn packed_value(&self) -> Option<&[u8]> {
        self.sources.get(self.winner)?.packed_value()
    }

    /// Lends what the winner has before the key of the source that comes next.
    fn lend(&mut self, until: Option<&[u8]>, batch: &mut Batch) -> bool {
        if !self.is_valid() || self.direction != Direction::Forward {
            return false;
        }
        let next = match self.live_count {
            1 => None,
            _ => self.runner_up(),
        };
        let winner = self.winner;
        let is_lent = match next {
            None => self.sources[winner].lend(until, batch),
            Some(next) => {
                let Ok([winner, next]) = self.sources.get_disjoint_mut([winner, next]) else {
                    return false;
                };
                let is_before = |until| self.order.compare(until, next.key()).is_lt();
                let until = until.filter(|until| is_before(*until));
                winner.lend(Some(until.unwrap_or(next.key())), batch)
            }
        };
        if is_lent {
            // Before the key of the source that comes next it remains the winner.
            self.refresh(winner);
        }
        is_lent
    }

    fn lend_values(&mut self, batch: &mut Batch) -> StorageResult<()> {
        let Some(winner) = self.sources.get_mut(self.winner) else {
            return Ok(());
        };
        let outcome = winner.lend_values(batch);
        self.is_sound &= outcome.is_ok();
        outcome
    }
}

#[cfg(test)]
mod tests;
