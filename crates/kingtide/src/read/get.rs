//! Point reads: memtables from the newest to the oldest, then tables from the top down; the first version at or below
//! the snapshot decides.
//!
//! A range delete hides it when its number is larger. The one that does so lies in the same place or in one that was
//! looked at before: places are ordered by age for every key, and the keys of a table are said to reach as far as its
//! range deletes, so these move down together with what they hide. At equal numbers, in one commit, the version counts.

use std::sync::Arc;

use kingtide_base::{
    EntryKind, KeyOrder, SeqNo, StorageError, ValuePointer,
    planted::{self, Bug},
};
use kingtide_collections::{EntryOffset, Memtable, MemtableEntry, unpack_value, unpacked_value};
use kingtide_table::{BlockValue, OpenTables, Table, TableValue, has_no_more_files};

use super::{iter::mvcc::is_expired, value::Value};
use crate::{
    error::{Error, Result},
    family::{Family, SuperVersion},
    files::Files,
    version::Version,
};

/// How many tables a read looks up before it looks into the first place: the processor is asked for the first cache line of
/// every probe to come, so that a read that looks in several places waits for memory about once.
const TABLES_AHEAD: usize = 8;

/// What a read sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPoint {
    /// Versions above it are not seen.
    pub(crate) sequence: SeqNo,
    /// Unix seconds by which expiry is judged; asked for only when something can expire.
    pub(crate) clock: Option<i64>,
}

/// Where a live value is.
pub(crate) enum Found<'a> {
    /// In a memtable.
    Memory(&'a Arc<Memtable>, MemtableEntry<'a>),
    /// In what a transaction has written.
    Own(&'a [u8]),
    /// In memory, packed.
    Packed(&'a [u8]),
    /// In a block of a table.
    Block(BlockValue),
    /// In the value log.
    Separated(ValuePointer),
}

impl super::value::ValueOwner for Memtable {
    fn bytes(&self, token: usize) -> &[u8] {
        let offset = u32::try_from(token).map(EntryOffset);
        offset
            .ok()
            .and_then(|offset| self.entry(offset))
            .map_or(&[], |entry| entry.value)
    }
}

impl Found<'_> {
    /// The value, read from the value log if that is where it is.
    ///
    /// # Errors
    /// When reading fails.
    pub(crate) fn into_value(self, files: &Files, place: (&[u8], &KeyOrder)) -> Result<Value> {
        match self {
            Self::Memory(memtable, entry) => {
                let memtable = Arc::<Memtable>::clone(memtable);
                Ok(Value::pinned(memtable, entry.offset.0 as usize))
            }
            Self::Block(block) => Ok(Value::in_block(block)),
            elsewhere => {
                let mut value = Vec::new();
                elsewhere.read_into(files, place, &mut value)?;
                Ok(Value::owned(value))
            }
        }
    }

    /// Puts the value into the place of what `target` holds, in its memory if that is enough.
    ///
    /// # Errors
    /// When reading fails; what `target` holds then means nothing.
    pub(crate) fn read_into(
        self,
        files: &Files,
        place: (&[u8], &KeyOrder),
        target: &mut Vec<u8>,
    ) -> Result<()> {
        let value = match &self {
            Self::Memory(_, entry) => entry.value,
            Self::Own(value) => value,
            Self::Block(value) => value,
            Self::Packed(packed) => {
                unpack_value(packed, target)?;
                return Ok(());
            }
            Self::Separated(pointer) => {
                return Ok(files.read_value_into(pointer, place, target)?);
            }
        };
        target.clear();
        target.extend_from_slice(value);
        Ok(())
    }

    /// What `look` makes of the value, where it lies.
    ///
    /// # Errors
    /// When reading fails; `look` was not called then.
    pub(crate) fn look<R>(
        self,
        files: &Files,
        (key, order): (&[u8], &KeyOrder),
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R> {
        match self {
            Self::Memory(_, entry) => Ok(look(entry.value)),
            Self::Own(value) => Ok(look(value)),
            Self::Block(value) => Ok(look(&value)),
            Self::Packed(packed) => Ok(look(&unpacked_value(packed)?)),
            Self::Separated(pointer) => {
                Ok(files.values.look(&pointer, &order.identity(key), look)?)
            }
        }
    }
}

/// The newest live version of `key` at `point`, in the memtables and tables of `current`. `now` answers the clock when
/// the point has none.
///
/// # Errors
/// When reading fails.
pub(crate) fn find<'a>(
    current: &'a SuperVersion,
    (family, files): (&Family, &Files),
    key: &[u8],
    point: ReadPoint,
    now: &dyn Fn() -> i64,
) -> Result<Option<Found<'a>>> {
    if current.is_empty() {
        return Ok(None);
    }
    let open = files.tables.open_tables();
    let place = (family, files, Some(&open));
    match find_among(current, place, key, point, now) {
        // What is seen open stays open: without it, idle tables can be closed to make room for the one that is wanted.
        Err(error) if is_out_of_files(&error) => {
            drop(open);
            find_among(current, (family, files, None), key, point, now)
        }
        found => found,
    }
}

fn is_out_of_files(error: &Error) -> bool {
    let source = std::error::Error::source(error);
    match source.and_then(|source| source.downcast_ref::<StorageError>()) {
        Some(StorageError::Io { source, .. }) => has_no_more_files(source),
        _ => false,
    }
}

/// [`find`], with the tables that are open already.
fn find_among<'a>(
    current: &'a SuperVersion,
    (family, files, open): (&Family, &Files, Option<&OpenTables>),
    key: &[u8],
    point: ReadPoint,
    now: &dyn Fn() -> i64,
) -> Result<Option<Found<'a>>> {
    let hash = family.order.hash(key);
    let is_live = |kind: EntryKind, expires_at: i64| match kind {
        EntryKind::Put | EntryKind::PutSpilled | EntryKind::PutPacked => {
            expires_at == 0 || !is_expired(expires_at, point.clock.unwrap_or_else(now))
        }
        _ => false,
    };
    if let Some(hash) = hash {
        for memory in current.memories().filter(|memory| !memory.table.is_empty()) {
            memory.table.prefetch(hash);
        }
    }
    let mut tables = current.version.all_tables_for_key(key);
    let mut ahead = [const { None }; TABLES_AHEAD];
    for (place, meta) in ahead.iter_mut().zip(&mut tables) {
        let table = open.and_then(|open| open.get(meta));
        if let (Some(table), Some(hash)) = (table, hash) {
            table.prefetch(hash);
        }
        *place = Some((meta, table));
    }
    let mut cover = SeqNo::ZERO;
    for memory in current.memories() {
        if planted::is(Bug::SealedNotRead) && !Arc::ptr_eq(memory, &current.active) {
            continue;
        }
        cover = cover.max(memory.table.range_cover(key, point.sequence));
        if let Some(entry) = memory.table.get(key, hash, point.sequence) {
            let live = entry.sequence >= cover && is_live(entry.kind, entry.expires_at);
            let found = found_in_memory(&memory.table, entry)?;
            return Ok(live.then_some(found));
        }
    }
    // Both by reference: they are long, and a point read is short.
    let ahead = ahead.iter().flatten().copied();
    for (meta, table) in ahead.chain(tables.by_ref().map(|meta| (meta, None))) {
        if meta.sequence_max < cover {
            // Whatever it holds of the key is hidden.
            continue;
        }
        let mut look = |table: &Table| {
            cover = cover.max(table.range_cover(key, point.sequence));
            table.get(key, hash, point.sequence, &files.blocks)
        };
        let entry = match table {
            Some(table) => look(table)?,
            None => files.tables.with(meta, &family.order, look)?,
        };
        if let Some(entry) = entry {
            check_kind(entry.kind)?;
            if entry.sequence < cover || !is_live(entry.kind, entry.expires_at) {
                return Ok(None);
            }
            return Ok(Some(match entry.value {
                TableValue::Inline(value) => Found::Block(value),
                TableValue::Separated(pointer) => Found::Separated(pointer),
            }));
        }
    }
    Ok(None)
}

/// The number of the newest version of `key`, given with its hash, or of the newest range delete over it, in the tables
/// of `version`; `None` when it is not newer than `newer_than` for sure, which most tables tell without being read.
///
/// # Errors
/// When reading fails.
pub(crate) fn newest_in_tables(
    (family, files): (&Family, &Files),
    version: &Version,
    (key, hash): (&[u8], Option<u64>),
    newer_than: SeqNo,
) -> Result<Option<SeqNo>> {
    for level in 1..=version.depth() {
        for meta in version.tables_for_key(level, key) {
            if meta.sequence_max <= newer_than {
                continue;
            }
            let mut cover = SeqNo::ZERO;
            let entry = files.tables.with(meta, &family.order, |table| {
                cover = table.range_cover(key, SeqNo::MAX);
                table.get(key, hash, SeqNo::MAX, &files.blocks)
            })?;
            let version = entry.map_or(SeqNo::ZERO, |entry| entry.sequence);
            let newest = version.max(cover);
            if newest > newer_than {
                return Ok(Some(newest));
            }
            if version > SeqNo::ZERO {
                // What lies below is older.
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// Where the value of an entry of `memtable` is.
fn found_in_memory<'a>(memtable: &'a Arc<Memtable>, entry: MemtableEntry<'a>) -> Result<Found<'a>> {
    match entry.kind {
        EntryKind::PutSpilled => pointer_in_memory(entry.value).map(Found::Separated),
        EntryKind::PutPacked => Ok(Found::Packed(entry.value)),
        kind => {
            check_kind(kind)?;
            Ok(Found::Memory(memtable, entry))
        }
    }
}

/// The pointer that is the value of a spilled put.
///
/// # Errors
/// Corruption.
pub(crate) fn pointer_in_memory(value: &[u8]) -> Result<ValuePointer> {
    ValuePointer::decode(value).ok_or_else(|| {
        StorageError::malformed("memory", 0, "a spilled put without its pointer").into()
    })
}

/// As [`check_kind`], for operations in the log, where range deletes, spilled and packed puts may stand too.
///
/// # Errors
/// Corruption.
pub(crate) fn check_logged_kind(kind: EntryKind) -> Result<()> {
    match kind {
        EntryKind::RangeDelete | EntryKind::PutSpilled | EntryKind::PutPacked => Ok(()),
        other => check_kind(other),
    }
}

/// Refuses entry kinds that only later versions write, and those that are never entries of a key.
///
/// # Errors
/// Corruption.
pub(crate) fn check_kind(kind: EntryKind) -> Result<()> {
    match kind {
        EntryKind::Put | EntryKind::Delete | EntryKind::SingleDelete => Ok(()),
        EntryKind::RangeDelete
        | EntryKind::Merge
        | EntryKind::PutSpilled
        | EntryKind::PutPacked => Err(StorageError::malformed(
            "database",
            0,
            format!("an entry of kind {kind:?}, which this version does not write"),
        )
        .into()),
    }
}
