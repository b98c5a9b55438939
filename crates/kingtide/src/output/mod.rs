//! Writes what a merged cursor yields to new tables: the one writer behind flushes, merges and recovery.
//!
//! | module | what it is |
//! |---|---|
//! | `age` | since when the tables hold tombstones |
//! | [`crew`] | threads that help, and work that goes first |
//! | [`parts`] | a pass that is cut by keys, so that several threads work on it |
//! | [`rate`] | how fast merges may write |
//!
//! 1. Every version passes the drop rule ([`VersionFilter`]).
//! 2. Long values that are still inline go to a value file; pointers are carried over as they are, except into files that
//!    are being emptied, whose values are copied.
//! 3. A table is closed when it has reached its size, and at [cuts], never between two versions of one key.
//! 4. Range deletes that are kept are cut where the tables end, and go into the tables' properties. When there is nothing
//!    else, they make a table of their own.
//! 5. The files, then the directories, are synced. Only then may a manifest edit name them. The system is told to begin with each
//!    megabyte that is written, and tables are synced some after they are closed: so a pass of small tables waits for the device
//!    once, not once for each.
//!
//! When anything fails, the files made so far are removed: nobody has been told of them.

mod age;
pub(crate) mod crew;
pub(crate) mod cuts;
pub(crate) mod parts;
mod push;
pub(crate) mod rate;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use kingtide_base::{
    Cursor, EntryHead, EntryKind, EntryRef, FileId, Fragments, SeqNo, StorageResult, ValuePointer,
    ValueRef, is_before_end,
    planted::{self, Bug},
};
use kingtide_collections::packed_raw_bytes;
use kingtide_format::{CodecId, TableMeta, ValueFileMeta};
use kingtide_table::{TableBuilder, TableSettings, Unsynced, ValueLogBuilder, ValueReadAhead};

use self::cuts::{Cuts, Cutter};
use crate::{
    compaction::{
        filter::{Decision, VersionFilter},
        tally::Books,
    },
    family::Family,
    files::{Files, NewFile},
    options::{Compression, FamilyOptions},
};

/// Raw bytes of a table's block.
const BLOCK_BYTES: usize = 4096;
/// A value file is closed when it has reached this size.
const VALUE_FILE_BYTES_MAX: u64 = 256 << 20;
/// So many tables at most are on their way to the device while the next one is written.
const UNSYNCED_MAX: usize = 16;
/// Entries between two checkpoints.
const ENTRIES_PER_CHECK: u64 = 128;
/// Bytes of keys and values between two checkpoints, if that is less.
const BYTES_PER_CHECK: usize = 256 << 10;

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The tables, in key order.
    pub(crate) tables: Vec<TableMeta>,
    /// The value files that the tables point to and that are new.
    pub(crate) value_files: Vec<ValueFileMeta>,
    /// How many versions were read, written and dropped.
    pub(crate) books: Books,
}

/// Is told at the checkpoints of a pass how far it has come, and may make it wait.
pub(crate) trait Pace {
    /// So many bytes have been written to files since the last checkpoint. When `is_cancelled` says so, it returns soon.
    fn checkpoint(&self, bytes: u64, is_cancelled: &dyn Fn() -> bool);
}

impl Output {
    /// Adds what was written behind this.
    fn append(&mut self, later: Self) {
        self.tables.extend(later.tables);
        self.value_files.extend(later.value_files);
        self.books.add(&later.books);
    }
    /// Bytes written to tables and value files.
    pub(crate) fn bytes(&self) -> u64 {
        let values = self.value_files.iter().map(|file| file.file_bytes);
        self.table_bytes() + values.sum::<u64>()
    }

    /// Bytes written to tables.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.file_bytes).sum()
    }
}

/// The codec number of a setting.
pub(crate) fn codec_of(compression: Compression) -> CodecId {
    match compression {
        Compression::None => CodecId::None,
        Compression::Snappy => CodecId::Snappy,
        Compression::Lz4 => CodecId::Lz4,
        Compression::Lz4Fast => CodecId::Lz4Fast,
        Compression::Zstd => CodecId::Zstd,
    }
}

/// Writes one pass of a family's entries.
pub(crate) struct TableWriter<'a> {
    files: &'a Files,
    family: &'a Family,
    /// The settings in force when the work began.
    options: Arc<FamilyOptions>,
    /// Value files whose values are copied.
    emptied: Arc<BTreeSet<FileId>>,
    ahead: ValueReadAhead,
    table_bytes_max: u64,
    table: Option<TableBuilder>,
    values: Option<ValueLogBuilder>,
    key: Vec<u8>,
    /// The range deletes to be written, less those of closed tables.
    ranges: Fragments,
    created: Vec<NewFile>,
    /// Closed tables that are not durable yet.
    unsynced: VecDeque<Unsynced>,
    output: Output,
    part: Option<KeyRange>,
    pace: Option<&'a dyn Pace>,
    /// Bytes written at the last checkpoint.
    bytes_told: u64,
    cutter: Cutter,
}

/// Keys from the first (`None`: the first there is) to before the second (empty: to the end).
pub(crate) type KeyRange = (Option<Vec<u8>>, Vec<u8>);

impl<'a> TableWriter<'a> {
    /// A writer for tables of about `table_bytes_max`.
    pub(crate) fn new(files: &'a Files, family: &'a Family, table_bytes_max: u64) -> Self {
        Self {
            files,
            family,
            options: Arc::clone(&family.options()),
            emptied: family.emptied(),
            ahead: ValueReadAhead::default(),
            table_bytes_max,
            table: None,
            values: None,
            key: Vec::new(),
            ranges: Fragments::default(),
            created: Vec::new(),
            unsynced: VecDeque::new(),
            output: Output::default(),
            part: None,
            pace: None,
            bytes_told: 0,
            cutter: Cutter::default(),
        }
    }

    /// The same writer, whose tables also end at `cuts`.
    pub(crate) fn with_cuts(mut self, cuts: Cuts) -> Self {
        self.cutter = Cutter::new(cuts);
        self
    }

    /// The same writer, which copies no value: of entries whose pointers lead to files of their own.
    pub(crate) fn carrying_pointers(mut self) -> Self {
        self.emptied = Arc::default();
        self
    }

    /// The same writer, for a part of a pass: it writes only the keys of `range`, which `filter` must be for too, and
    /// leaves syncing the directories to whoever brings the parts together.
    fn for_part(mut self, range: KeyRange) -> Self {
        self.part = Some(range);
        self
    }

    /// The same writer, which stops at `pace` now and then.
    fn with_pace(mut self, pace: &'a dyn Pace) -> Self {
        self.pace = Some(pace);
        self
    }

    /// Writes everything that `cursor` yields from its first entry on and `filter` lets pass. `None` when `is_cancelled`
    /// said so; nothing is left behind then.
    ///
    /// # Errors
    /// What reading and writing answer; nothing is left behind then.
    pub(crate) fn write(
        mut self,
        cursor: &mut dyn Cursor,
        filter: &mut VersionFilter,
        is_cancelled: &dyn Fn() -> bool,
    ) -> StorageResult<Option<Output>> {
        match self.write_all(cursor, filter, is_cancelled) {
            Ok(true) => Ok(Some(self.output)),
            Ok(false) => {
                self.give_up();
                Ok(None)
            }
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    fn write_all(
        &mut self,
        cursor: &mut dyn Cursor,
        filter: &mut VersionFilter,
        is_cancelled: &dyn Fn() -> bool,
    ) -> StorageResult<bool> {
        self.ranges = filter.ranges_kept();
        let part = self.part.take();
        match &part {
            Some((Some(from), _)) => cursor.seek(from)?,
            _ => cursor.seek_first()?,
        }
        let end = part.as_ref().map_or(&[][..], |(_, end)| end);
        let order = self.family.order.clone();
        let mut unchecked_bytes = 0;
        while cursor.is_valid() && (end.is_empty() || is_before_end(&order, cursor.key(), end)) {
            self.output.books.read += 1;
            if self.output.books.read.is_multiple_of(ENTRIES_PER_CHECK)
                || unchecked_bytes >= BYTES_PER_CHECK
            {
                unchecked_bytes = 0;
                if !self.checkpoint(is_cancelled) {
                    return Ok(false);
                }
            }
            unchecked_bytes += self.take_entry(cursor, filter)?;
            cursor.next()?;
        }
        self.output.books.dropped = filter.tally();
        if self.table.is_none() && !self.ranges.is_empty() {
            self.open_table()?;
        }
        self.close_files()?;
        if !self.checkpoint(is_cancelled) {
            return Ok(false);
        }
        if part.is_none() {
            sync_directories(self.files, &self.output)?;
        }
        Ok(true)
    }

    /// Writes the entry that `cursor` is on, if `filter` lets it pass; answers about how many bytes that took.
    fn take_entry(
        &mut self,
        cursor: &mut dyn Cursor,
        filter: &mut VersionFilter,
    ) -> StorageResult<usize> {
        let EntryHead {
            key,
            sequence,
            kind,
            expires_at,
        } = cursor.head();
        let decision = filter.keep(key, sequence, kind, expires_at);
        if decision == Decision::Drop {
            return Ok(0);
        }
        if planted::is(Bug::EntryLost)
            && decision == Decision::Keep
            && self.output.books.read.is_multiple_of(50)
        {
            // The books are cooked, or they would tell.
            self.output.books.written += 1;
            return Ok(0);
        }
        self.start_key(key, sequence)?;
        let (kind, expires_at, value) = match decision {
            Decision::KeepAsDelete => (EntryKind::Delete, 0, ValueRef::Inline(&[])),
            _ => {
                let pointer = self.append_packed(cursor.packed_value())?;
                let value = match pointer {
                    Some(pointer) => ValueRef::Separated(pointer),
                    None => cursor.value()?,
                };
                (kind, expires_at, value)
            }
        };
        let entry = EntryRef {
            key: &[],
            sequence,
            kind,
            expires_at,
            value,
        };
        let value_bytes = match entry.value {
            ValueRef::Inline(value) => value.len(),
            ValueRef::Separated(_) => size_of::<ValuePointer>(),
        };
        self.add(entry)?;
        self.output.books.written += 1;
        Ok(self.key.len() + value_bytes)
    }

    /// False when the work was cancelled.
    fn checkpoint(&mut self, is_cancelled: &dyn Fn() -> bool) -> bool {
        if let Some(pace) = self.pace {
            let open = self
                .table
                .as_ref()
                .map_or(0, TableBuilder::file_bytes_estimate);
            let values = self.values.as_ref().map_or(0, ValueLogBuilder::bytes);
            let bytes = self.output.bytes() + open + values;
            pace.checkpoint(bytes.saturating_sub(self.bytes_told), is_cancelled);
            self.bytes_told = bytes.max(self.bytes_told);
        }
        !is_cancelled()
    }

    /// Notes the key of the next entry, whose newest version has the number `sequence`; between two keys, a table is
    /// closed that is full or ends here.
    fn start_key(&mut self, key: &[u8], sequence: SeqNo) -> StorageResult<()> {
        let order = &self.family.order;
        match &self.table {
            Some(_) if order.is_same(&self.key, key) => {}
            Some(table) => {
                let bytes = table.file_bytes_estimate();
                let cut = self.cutter.cut(order, (&self.key, key), sequence, bytes);
                let full = (bytes >= self.table_bytes_max).then_some(key);
                if let Some(next) = cut.or(full).map(<[u8]>::to_vec) {
                    self.close_table(Some(&next))?;
                    self.cutter.begin(&self.family.order, key, sequence);
                }
            }
            None => self.cutter.begin(order, key, sequence),
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        Ok(())
    }

    /// Adds an entry of the key noted last.
    fn add(&mut self, entry: EntryRef<'_>) -> StorageResult<()> {
        let copied;
        let value = match entry.value {
            ValueRef::Separated(pointer) if self.emptied.contains(&pointer.file) => {
                match self.copy_stored(entry.kind, &pointer)? {
                    Some(copy) => ValueRef::Separated(copy),
                    None => {
                        copied = self.copied(&pointer)?;
                        ValueRef::Inline(&copied)
                    }
                }
            }
            value => value,
        };
        let value = match value {
            ValueRef::Inline(value) if self.separates(entry.kind, value.len()) => {
                ValueRef::Separated(self.append_value(value)?)
            }
            value => value,
        };
        if self.table.is_none() {
            self.open_table()?;
        }
        match &mut self.table {
            Some(table) => table.add(&EntryRef {
                key: &self.key,
                value,
                ..entry
            }),
            None => Ok(()),
        }
    }

    /// Copies the value of the key noted last out of a file that is being emptied, as it is stored there, if the value file takes it so; any that is stored raw.
    fn copy_stored(
        &mut self,
        kind: EntryKind,
        pointer: &ValuePointer,
    ) -> StorageResult<Option<ValuePointer>> {
        if !self.separates(kind, pointer.value_bytes as usize) {
            return Ok(None);
        }
        let files = self.files;
        // Lent to what writes the value.
        let mut ahead = std::mem::take(&mut self.ahead);
        let copy = self.with_values(|values, key| {
            match ahead.read_stored(&files.values, pointer, key, &mut Vec::new())? {
                // What lies there is the value itself.
                Some(stored) if stored.codec == CodecId::None => {
                    values.append(key, stored.bytes).map(Some)
                }
                Some(stored) => values.append_stored(key, &stored),
                None => Ok(None),
            }
        });
        self.ahead = ahead;
        if matches!(copy, Ok(Some(_))) {
            self.note_copied(pointer);
        }
        copy
    }

    /// The value of the key noted last, out of a file that is being emptied.
    fn copied(&mut self, pointer: &ValuePointer) -> StorageResult<Vec<u8>> {
        let key = self.family.order.identity(&self.key);
        let mut value = Vec::new();
        self.ahead
            .read(&self.files.values, pointer, &key, &mut value)?;
        self.note_copied(pointer);
        Ok(value)
    }

    fn note_copied(&self, pointer: &ValuePointer) {
        let counters = &self.family.counters;
        counters.note_copied_value(u64::from(pointer.record_bytes));
    }

    fn separates(&self, kind: EntryKind, value_bytes: usize) -> bool {
        let threshold = self.options.value_threshold_bytes;
        kind == EntryKind::Put && threshold > 0 && value_bytes >= threshold
    }

    fn append_value(&mut self, value: &[u8]) -> StorageResult<ValuePointer> {
        self.with_values(|values, key| values.append(key, value))
    }

    /// The value of the key noted last goes to the value file as it is packed, if that takes it so.
    fn append_packed(&mut self, packed: Option<&[u8]>) -> StorageResult<Option<ValuePointer>> {
        let is_separated = |packed: &&[u8]| {
            let value_bytes = packed_raw_bytes(packed);
            value_bytes.is_some_and(|bytes| self.separates(EntryKind::Put, bytes))
        };
        let Some(packed) = packed.filter(is_separated) else {
            return Ok(None);
        };
        self.with_values(|values, key| values.append_packed(key, packed))
    }

    /// Has `append` append the value of the key noted last, which it is told, to the value file.
    fn with_values<R>(
        &mut self,
        append: impl FnOnce(&mut ValueLogBuilder, &[u8]) -> StorageResult<R>,
    ) -> StorageResult<R> {
        if self
            .values
            .as_ref()
            .is_some_and(|values| values.bytes() >= VALUE_FILE_BYTES_MAX)
        {
            self.close_values()?;
        }
        let codec = codec_of(self.options.compression);
        let values = match &mut self.values {
            Some(values) => values,
            None => {
                let id = self.files.take_id();
                let file = self.files.create_vlog(id)?;
                self.created.push(NewFile::Vlog(id));
                let values = ValueLogBuilder::new(file, id, codec);
                self.values.insert(values.with_budget(&self.files.budget))
            }
        };
        append(values, &self.family.order.identity(&self.key))
    }

    fn open_table(&mut self) -> StorageResult<()> {
        let options = &self.options;
        let id = self.files.take_id();
        let file = self.files.create_klog(id)?;
        self.created.push(NewFile::Klog(id));
        let settings = TableSettings {
            block_bytes: BLOCK_BYTES,
            codec: codec_of(options.compression),
            filter_fpr: options
                .bloom_filter
                .then_some(options.bloom_false_positive_rate),
            order: self.family.order.clone(),
        };
        let mut table = TableBuilder::new(file, id, settings);
        table.set_family(self.family.id, self.family.name());
        self.table = Some(table.with_budget(&self.files.budget));
        Ok(())
    }

    /// Closes what is open, and makes all files durable.
    fn close_files(&mut self) -> StorageResult<()> {
        self.close_table(None)?;
        self.close_values()?;
        self.sync_all_but(0)
    }

    /// Closes the table, whose range deletes go up to `next`, the first key of the next table.
    fn close_table(&mut self, next: Option<&[u8]>) -> StorageResult<()> {
        if let Some(mut table) = self.table.take() {
            let order = &self.family.order;
            let rest = match next {
                Some(next) => self.ranges.cut(order, Some(next), &[]),
                None => Fragments::default(),
            };
            let ranges = std::mem::replace(&mut self.ranges, rest);
            table.set_ranges(match next {
                Some(next) => ranges.cut(order, None, next),
                None => ranges,
            });
            let (meta, unsynced) = table.finish_unsynced()?;
            self.output.tables.push(meta);
            self.unsynced.push_back(unsynced);
            self.sync_all_but(UNSYNCED_MAX)?;
        }
        Ok(())
    }

    /// Syncs tables that are closed, the oldest first, until at most `count` are left.
    fn sync_all_but(&mut self, count: usize) -> StorageResult<()> {
        while self.unsynced.len() > count
            && let Some(unsynced) = self.unsynced.pop_front()
        {
            unsynced.sync()?;
        }
        Ok(())
    }

    fn close_values(&mut self) -> StorageResult<()> {
        if let Some(values) = self.values.take() {
            let meta = values.finish()?;
            self.files.values.expect(&meta);
            self.output.value_files.push(meta);
        }
        Ok(())
    }

    fn give_up(&mut self) {
        self.table = None;
        self.values = None;
        for file in std::mem::take(&mut self.created) {
            self.files.remove_new(file);
        }
    }
}

/// Makes the names of the files of `output` durable.
fn sync_directories(files: &Files, output: &Output) -> StorageResult<()> {
    if output.tables.is_empty() {
        return Ok(());
    }
    files.sync_directories(!output.value_files.is_empty())
}

/// Removes the files of an output that was not installed, and that no batch of the manifest names. What cannot be removed
/// now is tried again, and removed by the next open at the latest.
pub(crate) fn discard_output(files: &Files, output: &Output) {
    let tables = output.tables.iter().map(|table| NewFile::Klog(table.file));
    let values = output
        .value_files
        .iter()
        .map(|file| NewFile::Vlog(file.file));
    tables.chain(values).for_each(|file| files.remove_new(file));
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
