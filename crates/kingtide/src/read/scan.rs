//! What an iterator read: the range of keys that its moves went over, gaps and ends included.
//!
//! A jump (a seek) begins a range: from its target to the key that it found, or to the end of the iterator's bounds when
//! it found none. A step makes the range longer, up to the next key or to the end. The range is kept with its iterator
//! until the next jump, so that a step costs a copy of one key and no more.

use std::{cmp::Ordering, ops::Bound, sync::Arc};

use kingtide_base::KeyOrder;

use super::{
    iter::Bounds,
    read_set::{KeyRange, ReadSet},
};
use crate::{error::Result, family::Family};

/// How an iterator moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move<'a> {
    First,
    Last,
    Seek(&'a [u8]),
    SeekForPrev(&'a [u8]),
    Next,
    Prev,
}

/// One end of a range, in memory that is used again.
#[derive(Debug, Default)]
struct End {
    kind: EndKind,
    key: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EndKind {
    #[default]
    Unbounded,
    Included,
    Excluded,
}

impl End {
    fn set(&mut self, kind: EndKind, key: &[u8]) {
        self.kind = kind;
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    fn bound(&self) -> Bound<&[u8]> {
        match self.kind {
            EndKind::Unbounded => Bound::Unbounded,
            EndKind::Included => Bound::Included(&self.key),
            EndKind::Excluded => Bound::Excluded(&self.key),
        }
    }
}

/// The range that one iterator read since its last jump.
#[derive(Debug)]
pub(crate) struct Scan {
    family: Arc<Family>,
    bounds: Bounds,
    lower: End,
    upper: End,
    is_open: bool,
    /// The iterator is gone.
    is_free: bool,
    /// The iterator is at the lower end of the range, at the upper end.
    at_lower: bool,
    at_upper: bool,
}

impl Scan {
    pub(super) fn new(family: Arc<Family>, bounds: Bounds) -> Self {
        Self {
            family,
            bounds,
            lower: End::default(),
            upper: End::default(),
            is_open: false,
            is_free: false,
            at_lower: false,
            at_upper: false,
        }
    }

    pub(super) fn family(&self) -> &Arc<Family> {
        &self.family
    }

    /// The range; `None` when nothing was read.
    pub(super) fn range(&self) -> Option<KeyRange<'_>> {
        self.is_open.then(|| KeyRange {
            lower: self.lower.bound(),
            upper: self.upper.bound(),
        })
    }

    fn bytes(&self) -> usize {
        self.lower.key.len() + self.upper.key.len()
    }

    /// Begins a range with a jump that ended at `shown`.
    fn jump(&mut self, how: Move<'_>, shown: Option<&[u8]>) {
        let order = &self.family.order;
        self.is_open = match how {
            Move::Seek(target) => !self.bounds.ends_before(target, order),
            Move::SeekForPrev(target) => !self.bounds.starts_after(target, order),
            Move::First | Move::Last | Move::Next | Move::Prev => true,
        };
        if !self.is_open {
            return;
        }
        let is_forward = matches!(how, Move::First | Move::Seek(_) | Move::Next);
        match how {
            Move::Seek(target) if !self.bounds.starts_after(target, order) => {
                self.lower.set(EndKind::Included, target);
            }
            Move::SeekForPrev(target) if !self.bounds.ends_before(target, order) => {
                self.upper.set(EndKind::Included, target);
            }
            _ if is_forward => self.reach_lower_bound(),
            _ => self.reach_upper_bound(),
        }
        (self.at_lower, self.at_upper) = (!is_forward, is_forward);
        match (shown, is_forward) {
            (Some(key), true) => self.upper.set(EndKind::Included, key),
            (Some(key), false) => self.lower.set(EndKind::Included, key),
            (None, true) => self.reach_upper_bound(),
            (None, false) => self.reach_lower_bound(),
        }
    }

    fn reach_lower_bound(&mut self) {
        match self.bounds.lower() {
            Some(lower) => self.lower.set(EndKind::Included, lower),
            None => self.lower.set(EndKind::Unbounded, &[]),
        }
    }

    fn reach_upper_bound(&mut self) {
        match self.bounds.upper() {
            Some(upper) => self.upper.set(EndKind::Excluded, upper),
            None => self.upper.set(EndKind::Unbounded, &[]),
        }
    }

    /// Makes the range longer by a step that ended at `shown`.
    fn step(&mut self, is_forward: bool, shown: Option<&[u8]>) {
        match (shown, is_forward) {
            (Some(key), true) => {
                if !self.at_upper {
                    let (end, order) = (self.upper.bound(), &self.family.order);
                    self.at_upper = is_at_end(key, end, Ordering::Less, order);
                }
                if self.at_upper {
                    self.upper.set(EndKind::Included, key);
                }
                self.at_lower = false;
            }
            (Some(key), false) => {
                if !self.at_lower {
                    let (end, order) = (self.lower.bound(), &self.family.order);
                    self.at_lower = is_at_end(key, end, Ordering::Greater, order);
                }
                if self.at_lower {
                    self.lower.set(EndKind::Included, key);
                }
                self.at_upper = false;
            }
            (None, true) => self.reach_upper_bound(),
            (None, false) => self.reach_lower_bound(),
        }
    }
}

/// True when `key`, which lies within the iterator's bounds, is at the end of the range or beyond it.
fn is_at_end(key: &[u8], end: Bound<&[u8]>, inside: Ordering, order: &KeyOrder) -> bool {
    match end {
        Bound::Included(end) | Bound::Excluded(end) => order.compare(key, end) != inside,
        Bound::Unbounded => false,
    }
}

impl ReadSet {
    /// A place for what an iterator over `bounds` of `family` is going to read.
    ///
    /// # Errors
    /// `MemoryLimit`.
    pub(super) fn open_scan(&mut self, family: &Arc<Family>, bounds: Bounds) -> Result<usize> {
        self.charge(size_of::<Scan>())?;
        let scan = Scan::new(Arc::clone(family), bounds);
        match self
            .scans
            .iter_mut()
            .enumerate()
            .find(|(_, scan)| scan.is_free)
        {
            Some((index, free)) => {
                *free = scan;
                Ok(index)
            }
            None => {
                self.scans.push(scan);
                Ok(self.scans.len() - 1)
            }
        }
    }

    /// Notes a move of the iterator of scan `index` that ended at `shown`, or nowhere.
    ///
    /// # Errors
    /// `MemoryLimit`.
    pub(super) fn note_move(
        &mut self,
        index: usize,
        how: Move<'_>,
        shown: Option<&[u8]>,
    ) -> Result<()> {
        let Some(scan) = self.scans.get_mut(index) else {
            debug_assert!(false, "a tracker names a scan that it opened");
            return Ok(());
        };
        let mut before = scan.bytes();
        if scan.is_open && matches!(how, Move::Next | Move::Prev) {
            scan.step(how == Move::Next, shown);
        } else {
            if scan.is_open {
                self.charge(0)?;
                self.keep_range(index);
                before = 0;
            }
            self.scans[index].jump(how, shown);
        }
        let now = self.scans[index].bytes();
        self.recount(before, now);
        Ok(())
    }

    /// The iterator of scan `index` is gone.
    pub(super) fn close_scan(&mut self, index: usize) {
        if index < self.scans.len() {
            self.keep_range(index);
            let scan = &mut self.scans[index];
            (scan.is_open, scan.is_free) = (false, true);
        }
    }

    /// Takes over what scan `index` read so far.
    fn keep_range(&mut self, index: usize) {
        let scans = std::mem::take(&mut self.scans);
        if let Some(range) = scans[index].range() {
            self.keep(scans[index].family(), range);
        }
        self.scans = scans;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
