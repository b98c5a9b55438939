//! What was written after a number: the questions that the validation of a commit asks of tables and cursors.

use std::ops::Bound;

use kingtide_base::{Cursor, KeyOrder, RangeTombstone, SeqNo, StorageResult};
use kingtide_table::CursorUse;

use super::{get::newest_in_tables, read_set::KeyRange};
use crate::{error::Result, family::Family, files::Files, version::Version};

/// Answers what the tables of a version hold that is newer than a number.
pub(crate) trait NewerInTables {
    /// The newest version of `key`, given with its hash, when it is newer than `since`. An older one, or none, otherwise.
    ///
    /// # Errors
    /// When reading fails.
    fn newest(
        &self,
        family: &Family,
        version: &Version,
        key: (&[u8], Option<u64>),
        since: SeqNo,
    ) -> Result<Option<SeqNo>>;

    /// A key in one of `ranges`, which are ascending and apart, that has a version newer than `since`.
    ///
    /// # Errors
    /// When reading fails.
    fn in_ranges(
        &self,
        family: &Family,
        version: &Version,
        ranges: &[KeyRange<'_>],
        since: SeqNo,
    ) -> Result<Option<Vec<u8>>>;
}

impl NewerInTables for Files {
    fn newest(
        &self,
        family: &Family,
        version: &Version,
        key: (&[u8], Option<u64>),
        since: SeqNo,
    ) -> Result<Option<SeqNo>> {
        newest_in_tables((family, self), version, key, since)
    }

    fn in_ranges(
        &self,
        family: &Family,
        version: &Version,
        ranges: &[KeyRange<'_>],
        since: SeqNo,
    ) -> Result<Option<Vec<u8>>> {
        let order = &family.order;
        for (_, meta) in version.tables() {
            let overlaps = |range: &KeyRange<'_>| {
                !range.starts_behind(&meta.largest, order)
                    && !range.ends_before(&meta.smallest, order)
            };
            if meta.sequence_max <= since || !ranges.iter().any(overlaps) {
                continue;
            }
            let table = self.tables.get(meta, order)?;
            let mut cursor = table.cursor(&self.blocks, CursorUse::Read);
            if let Some(key) = newer_in_ranges(&mut cursor, order, ranges, since)? {
                return Ok(Some(key));
            }
            if let Some(key) = deleted_in_ranges(table.ranges().tombstones(), ranges, since, order)
            {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}

/// The beginning of one of `tombstones` that is newer than `since` and shares keys with one of `ranges`, which are
/// ascending and apart.
pub(crate) fn deleted_in_ranges<'a>(
    mut tombstones: impl Iterator<Item = RangeTombstone<'a>>,
    ranges: &[KeyRange<'_>],
    since: SeqNo,
    order: &KeyOrder,
) -> Option<Vec<u8>> {
    let found = tombstones.find(|tombstone| {
        tombstone.sequence > since && meets((tombstone.start, tombstone.end), ranges, order)
    });
    found.map(|tombstone| tombstone.start.to_vec())
}

/// True when a range delete from `start` to `end` (empty: no end) shares keys with one of `ranges`, which are ascending and
/// apart.
pub(crate) fn meets(
    (start, end): (&[u8], &[u8]),
    ranges: &[KeyRange<'_>],
    order: &KeyOrder,
) -> bool {
    let index = ranges.partition_point(|range| range.ends_before(start, order));
    let next = ranges.get(index);
    next.is_some_and(|range| end.is_empty() || !range.starts_at_or_behind(end, order))
}

/// The first key of `cursor` in one of `ranges`, which are ascending and apart, that has a version newer than `since`.
///
/// # Errors
/// When storage fails.
pub(crate) fn newer_in_ranges(
    cursor: &mut dyn Cursor,
    order: &KeyOrder,
    ranges: &[KeyRange<'_>],
    since: SeqNo,
) -> StorageResult<Option<Vec<u8>>> {
    for (index, range) in ranges.iter().enumerate() {
        // Behind the range before, the cursor may be within this one already, or beyond it.
        let is_before = index == 0 || range.starts_behind(cursor.key(), order);
        if is_before {
            match range.lower {
                Bound::Unbounded => cursor.seek_first()?,
                Bound::Included(lower) | Bound::Excluded(lower) => cursor.seek(lower)?,
            }
        }
        while cursor.is_valid() && !range.ends_before(cursor.key(), order) {
            if cursor.sequence() > since && !range.starts_behind(cursor.key(), order) {
                return Ok(Some(cursor.key().to_vec()));
            }
            cursor.next()?;
        }
        if !cursor.is_valid() {
            break;
        }
    }
    Ok(None)
}

/// Tables that answer keys as a function does, and hold nothing in ranges: for tests.
#[cfg(test)]
pub(crate) struct Answering<F>(pub(crate) F);

#[cfg(test)]
impl<F> NewerInTables for Answering<F>
where
    F: Fn(&Family, &Version, (&[u8], Option<u64>), SeqNo) -> Result<Option<SeqNo>>,
{
    fn newest(
        &self,
        family: &Family,
        version: &Version,
        key: (&[u8], Option<u64>),
        since: SeqNo,
    ) -> Result<Option<SeqNo>> {
        (self.0)(family, version, key, since)
    }

    fn in_ranges(
        &self,
        _: &Family,
        _: &Version,
        _: &[KeyRange<'_>],
        _: SeqNo,
    ) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
}
