//! Which value files to empty, and when to merge tables only to learn which values are dead.
//!
//! A value is *listed* while a table points to it. Of the listed values some are *hidden*: a newer entry of their key
//! lies in another table, and the next merge that meets both drops the older one. Nobody knows how many these are, but
//! not more than [`hidden_bytes_max`]. What is listed and not hidden is live for certain.
//!
//! The promise is about the sum: what is live is at least the share `live_ratio_min` of the bytes of the records of all
//! value files, both counted with the tables that point to them. So a pass over the tables is always in proportion to
//! what it frees. Work begins a fifth of the way before that bound, so that what tables, a pass that is running and
//! its copies take has room, and goes on until a little more is gained, so that each pass is worth reading the
//! tables. Files with the smallest listed share go first: they cost the least and give the most (the greedy choice
//! of a log-structured store: Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File
//! System", 1992). Judging the sum and not each file lets files grow nearly empty by themselves: at a bound of one
//! half, uniform overwrites copy about half a byte for each byte written, where a bound for each file would copy
//! one.
//!
//! What this does not do: it knows nothing of values that have expired or that only a snapshot keeps before a merge
//! drops them; these count as live.

use std::{cmp::Ordering, collections::BTreeSet};

use kingtide_base::{FileId, KeyOrder};

use crate::shape::Span;

/// How far from the bound to 1 work begins and ends.
const BEGINS_AT: f64 = 0.2;
const ENDS_AT: f64 = 0.3;
/// Hidden values of this share of the files are looked for before others are copied.
const HIDDEN_SHARE: f64 = 0.05;
/// Of small sets of values this many flushes may be garbage: less cannot be collected while writers go on.
const FLUSHES_MAX: u64 = 4;

/// One value file, as far as the choice cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueFileShape {
    /// Names the file.
    pub file: FileId,
    /// Bytes of all its records. What every file takes besides them is not counted: no copy would free it, so a file with one
    /// short record would be copied again and again.
    pub bytes: u64,
    /// Bytes of records in it that tables point to; those of several families count for each.
    pub listed_bytes: u64,
}

/// The value files that the tables of one family point to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueShape {
    /// The files.
    pub files: Vec<ValueFileShape>,
    /// Bytes of the tables themselves, which a pass has to read and write.
    pub table_bytes: u64,
    /// The most bytes of listed records that may be hidden, see [`hidden_bytes_max`].
    pub hidden_bytes: u64,
    /// The files that are being emptied already.
    pub emptying: BTreeSet<FileId>,
}

/// When value files are to be emptied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueBounds {
    /// The share of what the files take that is live at least, 0 to 1; 0 switches everything off.
    pub live_ratio_min: f64,
    /// Less garbage is not worth a pass, in bytes.
    pub garbage_bytes_min: u64,
    /// What a flush adds, in bytes.
    pub flush_bytes: u64,
}

/// What value files take, with the tables that point to them, and what they may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueRoom {
    /// Bytes that they take, those included that will be copied before the first file is empty.
    pub taken: u64,
    /// Bytes that they may take.
    pub most: u64,
}

/// What to do about the value files of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueWork {
    /// Merge the family's tables to the bottom, to learn which values are hidden.
    pub uncover: bool,
    /// The files whose values are to be copied to new ones whenever a table that points to them is written.
    pub empty: BTreeSet<FileId>,
}

impl ValueWork {
    /// True when there is nothing to do.
    #[must_use]
    pub fn is_none(&self) -> bool {
        !self.uncover && self.empty.is_empty()
    }
}

/// What a pass over all tables of a family found that uncovered its hidden values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastPass {
    /// Bytes of records that were alive for certain when it had ended.
    pub live_bytes: u64,
    /// The share of [`ValueShape::hidden_bytes`] that was hidden indeed: nothing where keys are only added.
    pub hidden_share: f64,
}

impl Default for LastPass {
    /// Before the first pass: all that may be hidden is taken to be.
    fn default() -> Self {
        Self {
            live_bytes: 0,
            hidden_share: 1.0,
        }
    }
}

impl ValueShape {
    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Bytes of records that tables point to.
    #[must_use]
    pub fn listed_bytes(&self) -> u64 {
        self.files.iter().map(ValueFileShape::listed).sum()
    }

    /// Bytes of listed records that are not hidden: what is alive for certain.
    #[must_use]
    pub fn certain_bytes(&self) -> u64 {
        self.listed_bytes().saturating_sub(self.hidden_bytes)
    }
}

impl ValueFileShape {
    /// What copying all of it would write.
    fn listed(&self) -> u64 {
        self.listed_bytes.min(self.bytes)
    }

    fn garbage(&self) -> u64 {
        self.bytes - self.listed()
    }

    fn compare_ratios(&self, other: &Self) -> Ordering {
        let left = u128::from(self.listed()) * u128::from(other.bytes);
        let right = u128::from(other.listed()) * u128::from(self.bytes);
        left.cmp(&right).then(self.file.cmp(&other.file))
    }
}

/// What to do so that the live share of the files comes back over the bound.
///
/// Files that are being emptied stay chosen until no table points to them: half an emptied file is only more garbage.
///
/// ```
/// use kingtide_base::FileId;
/// use kingtide_policy::{ValueBounds, ValueFileShape, ValueShape, pick_value_work};
///
/// let file = |id, listed_bytes| ValueFileShape { file: FileId(id), bytes: 1 << 20, listed_bytes };
/// let shape = ValueShape { files: vec![file(1, 1 << 20), file(2, 1 << 19)], ..ValueShape::default() };
/// let half = ValueBounds { live_ratio_min: 0.5, garbage_bytes_min: 1, flush_bytes: 0 };
/// assert!(pick_value_work(&shape, half).is_none());
/// let most = ValueBounds { live_ratio_min: 0.9, garbage_bytes_min: 1, flush_bytes: 0 };
/// assert_eq!(pick_value_work(&shape, most).empty, [FileId(2)].into());
/// ```
#[must_use]
pub fn pick_value_work(shape: &ValueShape, bounds: ValueBounds) -> ValueWork {
    let live_ratio_min = bounds.live_ratio_min;
    let mut work = ValueWork::default();
    if live_ratio_min <= 0.0 || live_ratio_min.is_nan() {
        return work;
    }
    let is_there = |file: &FileId| shape.files.iter().any(|shape| shape.file == *file);
    work.empty = shape.emptying.iter().copied().filter(is_there).collect();
    let way = (1.0 - live_ratio_min).max(0.0);
    let (bytes, listed) = (shape.bytes(), shape.listed_bytes());
    let live = shape.certain_bytes();
    let is_healthy = |live: u64| {
        let bound = (live_ratio_min + way * BEGINS_AT) * (shape.table_bytes + bytes) as f64;
        (shape.table_bytes + live) as f64 >= bound
    };
    if bytes - live < bounds.garbage_bytes_min || is_healthy(live) {
        return work;
    }
    if !is_healthy(listed) {
        choose_files(shape, live_ratio_min + way * ENDS_AT, &mut work.empty);
    }
    let is_much_hidden = shape.hidden_bytes as f64 >= HIDDEN_SHARE * bytes as f64;
    work.uncover = is_much_hidden || work.empty.is_empty();
    work
}

/// What the value files take and may take, by what the last pass over all tables found.
///
/// The bound of [`ValueBounds::live_ratio_min`], but a few flushes at least. Writers are to be held back as what is taken
/// comes near it.
#[must_use]
pub fn value_room(shape: &ValueShape, bounds: ValueBounds, last: LastPass) -> ValueRoom {
    let is_emptied = |file: &&ValueFileShape| shape.emptying.contains(&file.file);
    let emptied = shape.files.iter().filter(is_emptied);
    let copies: u64 = emptied.map(ValueFileShape::listed).sum();
    let hidden = (shape.hidden_bytes as f64 * last.hidden_share) as u64;
    let live = last
        .live_bytes
        .max(shape.listed_bytes().saturating_sub(hidden));
    let live = shape.table_bytes.saturating_add(live);
    let by_ratio = (live as f64 / bounds.live_ratio_min) as u64;
    let by_flushes = live.saturating_add(bounds.flush_bytes.saturating_mul(FLUSHES_MAX));
    ValueRoom {
        taken: shape.table_bytes + shape.bytes() + copies,
        most: by_ratio.max(by_flushes),
    }
}

/// Adds the emptiest files to `chosen` until the listed share of what will be left is `goal`.
fn choose_files(shape: &ValueShape, goal: f64, chosen: &mut BTreeSet<FileId>) {
    let listed = shape.table_bytes + shape.listed_bytes();
    let mut bytes = shape.table_bytes + shape.bytes();
    let mut files: Vec<&ValueFileShape> = shape.files.iter().collect();
    // Those that are being emptied first: what they give back is on its way.
    files.sort_by(|left, right| {
        let (first, second) = (chosen.contains(&left.file), chosen.contains(&right.file));
        second.cmp(&first).then(left.compare_ratios(right))
    });
    for file in files {
        let is_full = file.listed() as f64 >= goal * file.bytes as f64;
        if listed as f64 >= goal * bytes as f64 || (is_full && !chosen.contains(&file.file)) {
            return;
        }
        bytes -= file.garbage();
        chosen.insert(file.file);
    }
}

/// One table, as far as hidden values go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueTable<'a> {
    /// The smallest key.
    pub smallest: &'a [u8],
    /// The largest key.
    pub largest: &'a [u8],
    /// Entries, all versions and tombstones counted.
    pub entries: u64,
    /// True when it holds range deletes.
    pub has_range_deletes: bool,
    /// Records of value files that it points to.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What is in memory and newer than all tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewerDeletes {
    /// Tombstones.
    pub tombstones: u64,
    /// True when there are range deletes too.
    pub has_range_deletes: bool,
}

/// The most bytes of records that `runs` list although a newer entry hides them.
///
/// `runs` are the sorted runs of the family, the newest first; the tables of each are disjoint and in key order. Each
/// hidden value has a next newer entry of its key, and that one hides no other: so there are not more than the entries of
/// tables that lie over others, and none in tables that nothing newer overlaps. A range delete may hide all that it
/// overlaps. Entries are turned into bytes by the longest average record of a table, so that with values of very different
/// lengths the answer is an estimate.
#[must_use]
pub fn hidden_bytes_max(
    runs: &[Vec<ValueTable<'_>>],
    newer: NewerDeletes,
    order: &KeyOrder,
) -> u64 {
    let is_deleted_above = newer.tombstones > 0 || newer.has_range_deletes;
    let (mut covered, mut in_ranges, mut longest) = (0_u64, 0_u64, 0.0_f64);
    let mut hiding = newer.tombstones;
    for (index, run) in runs.iter().enumerate() {
        let (above, below) = (&runs[..index], &runs[index + 1..]);
        for table in run {
            if overlaps_values(below, table, order) {
                hiding = hiding.saturating_add(table.entries);
            }
            let mut over = above.iter().flat_map(|run| overlapping(run, table, order));
            if table.bytes == 0 || (!is_deleted_above && over.next().is_none()) {
                continue;
            }
            covered = covered.saturating_add(table.bytes);
            longest = longest.max(table.bytes as f64 / table.records.max(1) as f64);
            let mut over = above.iter().flat_map(|run| overlapping(run, table, order));
            if newer.has_range_deletes || over.any(|table| table.has_range_deletes) {
                in_ranges = in_ranges.saturating_add(table.bytes);
            }
        }
    }
    let by_entries = (hiding as f64 * longest).ceil();
    if by_entries >= covered as f64 {
        return covered;
    }
    covered.min((by_entries as u64).saturating_add(in_ranges))
}

fn overlaps_values(runs: &[Vec<ValueTable<'_>>], table: &ValueTable<'_>, order: &KeyOrder) -> bool {
    runs.iter()
        .any(|run| overlapping(run, table, order).any(|older| older.bytes > 0))
}

/// The tables of `run` that share keys with `table`.
fn overlapping<'r, 'a>(
    run: &'r [ValueTable<'a>],
    table: &ValueTable<'_>,
    order: &KeyOrder,
) -> impl Iterator<Item = &'r ValueTable<'a>> {
    let span = Span {
        smallest: table.smallest,
        largest: table.largest,
    };
    let start = run.partition_point(|other| order.compare(other.largest, span.smallest).is_lt());
    let rest = &run[start..];
    let end = rest.partition_point(|other| order.compare(other.smallest, span.largest).is_le());
    rest[..end].iter()
}

#[cfg(test)]
mod tests;
