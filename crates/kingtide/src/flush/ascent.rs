//! Where the tables of an ascending load end, so that none of them is ever merged.
//!
//! ```text
//!   keys       ------------------------------------------------>
//!   tables     [          ]  [  ] [    ]                           of flushes before
//!   memtable                s    s       mmmmmmmmm   mmm  mmmmmm   stragglers, then what goes on behind all tables
//!   younger                                       yyy   yy    yyyyyy
//!   tables end              ^    ^       ^           ^    ^
//! ```
//!
//! Several threads that share one ascending load do not commit in the order of their keys: when a memtable is sealed, each may
//! still have one commit to come, which lies before keys that others have committed. Such *stragglers* are in the next
//! memtable. So a table ends where younger memtables have keys that belong between its own, and the flush of these puts each
//! of them between two tables that are there.
//!
//! All of this is a guess of what pays: wherever tables end, they hold the same entries.

use std::sync::Arc;

use kingtide_base::{Cursor, KeyOrder, StorageResult};
use kingtide_collections::{Memtable, MergeCursor};

use crate::{family::Family, output::cuts::Late, version::Version};

/// With more pieces than this, it is not stragglers that lie between other keys: so many threads hardly share a load.
const PIECES_MAX: usize = 16;

/// The keys before which tables of `memtable` end, ascending, as far as the tables of `version` say. `None` unless most of it lies
/// behind all of these: then it is no ascending load.
///
/// # Errors
/// `Corruption`, as for any walk over a memtable.
pub(super) fn ends(
    order: &KeyOrder,
    memtable: &Arc<Memtable>,
    version: &Version,
) -> StorageResult<Option<Vec<Vec<u8>>>> {
    let largest = version.tables().map(|(_, table)| &*table.largest);
    let Some(largest) = largest.max_by(|left, right| order.compare(left, right)) else {
        return Ok(Some(Vec::new()));
    };
    let mut cursor = MergeCursor::new(order.clone(), memtable.cursors());
    cursor.seek_last()?;
    let behind = memtable.entries_between(largest, cursor.key());
    if behind * 2 < memtable.entries() {
        return Ok(None);
    }
    cursor.seek_first()?;
    let mut ends = first_keys_behind(order, cursor.key(), version);
    cursor.seek(largest)?;
    skip(order, &mut cursor, largest)?;
    if cursor.is_valid() {
        ends.push(cursor.key().to_vec());
    }
    Ok(Some(ends))
}

/// The first keys of the tables that begin behind `key`, ascending; none when there are too many.
fn first_keys_behind(order: &KeyOrder, key: &[u8], version: &Version) -> Vec<Vec<u8>> {
    let first_keys = version.tables().map(|(_, table)| &*table.smallest);
    let behind = first_keys.filter(|first| order.compare(first, key).is_gt());
    let mut behind: Vec<&[u8]> = behind.take(PIECES_MAX + 1).collect();
    if behind.len() > PIECES_MAX {
        return Vec::new();
    }
    behind.sort_by(|left, right| order.compare(left, right));
    behind.into_iter().map(<[u8]>::to_vec).collect()
}

/// The stragglers of a memtable of an ascending load.
pub(super) struct Stragglers {
    family: Arc<Family>,
    memtable: Arc<Memtable>,
    parts: usize,
}

impl Stragglers {
    /// Of `memtable`, which is written in so many parts.
    pub(super) fn of(family: &Arc<Family>, memtable: &Arc<Memtable>, parts: usize) -> Self {
        Self {
            family: Arc::clone(family),
            memtable: Arc::clone(memtable),
            parts,
        }
    }

    /// The keys of the memtable directly behind those of younger ones that lie between its own. None when there are too many.
    fn holes(&self) -> StorageResult<Vec<Vec<u8>>> {
        let order = &self.family.order;
        let current = self.family.load_full();
        let all = std::iter::once(&current.active).chain(&current.sealed);
        let younger = all.take_while(|memory| !Arc::ptr_eq(&memory.table, &self.memtable));
        let younger = younger.flat_map(|memory| memory.table.cursors()).collect();
        let mut younger = MergeCursor::new(order.clone(), younger);
        drop(current);
        let mut cursor = MergeCursor::new(order.clone(), self.memtable.cursors());
        cursor.seek_last()?;
        let last = cursor.key().to_vec();
        cursor.seek_first()?;
        younger.seek(cursor.key())?;
        let mut holes = Vec::new();
        while younger.is_valid() && order.compare(younger.key(), &last).is_lt() {
            if holes.len() == PIECES_MAX {
                return Ok(Vec::new());
            }
            cursor.seek(younger.key())?;
            holes.push(cursor.key().to_vec());
            younger.seek(cursor.key())?;
            skip(order, &mut younger, cursor.key())?;
        }
        Ok(holes)
    }
}

impl Late for Stragglers {
    /// Half of a part: stragglers take a while to come, and lie among the last keys.
    fn after(&self) -> usize {
        self.memtable.entries() / self.parts / 2
    }

    fn ends(&self) -> Vec<Vec<u8>> {
        // Whoever walks over what cannot be read says so.
        self.holes().unwrap_or_default()
    }
}

/// Goes on until it is not at `key` any more.
fn skip(order: &KeyOrder, cursor: &mut impl Cursor, key: &[u8]) -> StorageResult<()> {
    while cursor.is_valid() && order.is_same(cursor.key(), key) {
        cursor.next()?;
    }
    Ok(())
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
