//! The level for a table of a load: as deep as it may lie.
//!
//! The load is newer than everything in tables, so no table with keys in its range may lie above it, nor on its level
//! below the first. Running merges may put tables anywhere between their smallest and their largest key, on any level;
//! what overlaps that lies on level 1, above them. Ranges of range deletes count: they are part of a table's range.

use std::sync::Arc;

use kingtide_base::{FileId, KeyOrder, limits::LEVELS_MAX};
use kingtide_format::TableMeta;

use crate::version::Version;

/// Level 1 is for what comes later: every table on it is one more for reads to look at.
const LEVELS_USED_MIN: usize = 2;

/// The level for a table with the keys `range` (both included). `busy` are the tables that running merges read;
/// `levels_min` is the deepest level that is used even when the tree is not that deep.
pub(super) fn level_for(
    version: &Version,
    busy: &[FileId],
    range: (&[u8], &[u8]),
    (order, levels_min): (&KeyOrder, usize),
) -> u8 {
    if hull(version, busy, order).is_some_and(|hull| overlaps(order, hull, range)) {
        return 1;
    }
    let bottom = version
        .depth()
        .max(levels_min.clamp(LEVELS_USED_MIN, LEVELS_MAX) as u8);
    let is_free = |level: u8| {
        let tables = version.level(level).map_or(&[][..], |level| level.tables());
        !tables
            .iter()
            .any(|table| overlaps(order, (&table.smallest, &table.largest), range))
    };
    let free = (1..=bottom).take_while(|level| is_free(*level)).last();
    free.unwrap_or(1)
}

/// From the smallest to the largest key of the busy tables.
fn hull<'v>(
    version: &'v Version,
    busy: &[FileId],
    order: &KeyOrder,
) -> Option<(&'v [u8], &'v [u8])> {
    let is_busy = |table: &&Arc<TableMeta>| busy.contains(&table.file);
    let tables = version.tables().map(|(_, table)| table).filter(is_busy);
    tables.fold(None, |hull, table| {
        let (smallest, largest) = hull.unwrap_or((&table.smallest[..], &table.largest[..]));
        Some((
            std::cmp::min_by(smallest, &table.smallest[..], |left, right| {
                order.compare(left, right)
            }),
            std::cmp::max_by(largest, &table.largest[..], |left, right| {
                order.compare(left, right)
            }),
        ))
    })
}

fn overlaps(order: &KeyOrder, left: (&[u8], &[u8]), right: (&[u8], &[u8])) -> bool {
    order.compare(left.0, right.1).is_le() && order.compare(right.0, left.1).is_le()
}
