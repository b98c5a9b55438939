//! Value files: values too long to be moved by every merge.
//!
//! A record carries the hash of its key, so that a pointer that leads to the wrong record is noticed even when the
//! record is intact. The bytes of the key must be the same when a value is appended and when it is read: where an order
//! calls different bytes equal, both sides pass the canonical form of the key (or both an empty key, when the order has
//! none).

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use kingtide_base::limits::VALUE_BYTES_MAX;
use kingtide_base::{FileId, StorageError, StorageResult, ValuePointer, checksum_mix, key_hash};
use kingtide_collections::{
    BlockCache, LONG_VALUE_BYTES, MemoryBudget, PACKED_FOR_GOOD_BYTES_MIN, packed_block,
};
use kingtide_env::sync::Mutex;
use kingtide_env::{Directory, File, OpenMode};
use kingtide_format::block::{BlockFault, BlockPlace, DataBlock};
use kingtide_format::klog::FOOTER_READ_BYTES;
use kingtide_format::vlog::{
    CHUNK_HEADS_BYTES_MAX, RECORD_HEADER_BYTES, RecordHeader, StoredValue, VLOG_FOOTER_BYTES,
    VLOG_HEADER_BYTES, VLOG_VERSION, VlogFooter, decode_vlog_header, encode_vlog_header,
    open_record, peek_record_bytes, stored_in_record, uses_dictionary,
};
use kingtide_format::{CodecId, ValueFileMeta};

use crate::habit::Habit;
use crate::handles::Handles;
use crate::long_value::{append_stored, is_stored_raw, read_long};
use crate::names::{damaged, vlog_name, vlog_path};
use crate::output::Output;
use crate::sections::{read_range, read_range_into, tail_error};
use crate::value_ahead::fill;
use crate::value_chunks::{checksum_of, is_chunked, place_of, read_chunks, read_whole};
use crate::value_dictionary::{KeptDictionary, ValuePacker};
use crate::value_pieces::{in_cached_piece, piece_of};
use crate::value_scratch::{KeptBuffers, ReadBuffers};

/// The longest record, in bytes: a value that does not compress, in chunks.
const RECORD_BYTES_MAX: u64 =
    (VALUE_BYTES_MAX + RECORD_HEADER_BYTES + CHUNK_HEADS_BYTES_MAX) as u64;

/// Writes one value file. Dropping it without [`ValueLogBuilder::finish`] leaves an incomplete file to be removed.
#[derive(Debug)]
pub struct ValueLogBuilder {
    output: Output,
    file_id: FileId,
    codec: CodecId,
    packer: ValuePacker,
    /// Those of dictionaries included.
    records: u64,
    /// The digest of the records so far.
    content: u64,
}

impl ValueLogBuilder {
    /// Begins the value file `file_id` in `file`, which must be new and empty.
    #[must_use]
    pub fn new(file: Arc<dyn File>, file_id: FileId, codec: CodecId) -> Self {
        let mut output = Output::new(file, vlog_path(file_id));
        output
            .buffer()
            .extend_from_slice(&encode_vlog_header(file_id));
        Self {
            output,
            file_id,
            codec,
            packer: ValuePacker::new(codec),
            records: 0,
            content: 0,
        }
    }

    /// Counts the memory that the builder takes in `budget`.
    #[must_use]
    pub fn with_budget(mut self, budget: &Arc<MemoryBudget>) -> Self {
        self.output.set_budget(budget);
        self
    }

    /// Appends `value`; where it will be. It can be read after [`ValueLogBuilder::flush`].
    ///
    /// # Errors
    /// When writing fails, and (`InvalidInput`) when the value is longer than any may be.
    pub fn append(&mut self, key: &[u8], value: &[u8]) -> StorageResult<ValuePointer> {
        if value.len() > VALUE_BYTES_MAX {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "value too long");
            return Err(StorageError::io(self.output.name(), "write", error));
        }
        let place = self.next_place();
        let target = self.output.buffer();
        let start = target.len();
        if self.packer.append_dictionary(target, value, place) {
            let sum = checksum_of(&target[start..]);
            self.count_record(sum);
        }
        if is_stored_raw(self.codec, value) {
            let stored = StoredValue {
                codec: CodecId::None,
                value_bytes: value.len(),
                bytes: value,
            };
            return self.append_as_it_is(key, &stored);
        }
        let place = self.next_place();
        let target = self.output.buffer();
        let start = target.len();
        let bytes = self.packer.append(target, key_hash(key), value, place);
        let record = (bytes, checksum_of(&target[start..]));
        self.end_record(place, record, value.len())
    }

    /// As [`ValueLogBuilder::append`] of the value that is [`packed`](kingtide_collections::pack_value), without compressing it once
    /// more; `None`, and nothing is appended, where the file is to hold something else of it.
    ///
    /// # Errors
    /// When writing fails.
    pub fn append_packed(
        &mut self,
        key: &[u8],
        packed: &[u8],
    ) -> StorageResult<Option<ValuePointer>> {
        let is_lz4 = matches!(self.codec, CodecId::Lz4 | CodecId::Lz4Fast);
        let is_kept =
            |value_bytes| (PACKED_FOR_GOOD_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value_bytes);
        match packed_block(packed) {
            Some((value_bytes, bytes)) if is_lz4 && is_kept(value_bytes) => {
                let codec = self.codec;
                let stored = StoredValue {
                    codec,
                    value_bytes,
                    bytes,
                };
                self.append_as_it_is(key, &stored).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// As [`ValueLogBuilder::append`] of the value that another file stores like this, without compressing it once more; `None`, and
    /// nothing is appended, where this file may store it otherwise.
    ///
    /// # Errors
    /// When writing fails.
    pub fn append_stored(
        &mut self,
        key: &[u8],
        stored: &StoredValue<'_>,
    ) -> StorageResult<Option<ValuePointer>> {
        match self.packer.would_store(stored) {
            true => self.append_as_it_is(key, stored).map(Some),
            false => Ok(None),
        }
    }

    fn append_as_it_is(
        &mut self,
        key: &[u8],
        stored: &StoredValue<'_>,
    ) -> StorageResult<ValuePointer> {
        let place = self.next_place();
        let record = append_stored(&mut self.output, key, stored, place)?;
        self.end_record(place, record, stored.value_bytes)
    }

    /// A record of so many bytes, with this checksum, was appended at `place`.
    fn end_record(
        &mut self,
        place: BlockPlace,
        (record_bytes, sum): (u32, u64),
        value_bytes: usize,
    ) -> StorageResult<ValuePointer> {
        self.count_record(sum);
        self.output.account(self.packer.memory_bytes());
        self.output.flush_if_full()?;
        Ok(ValuePointer {
            file: self.file_id,
            offset: place.offset,
            record_bytes,
            value_bytes: value_bytes as u32,
        })
    }

    fn next_place(&self) -> BlockPlace {
        BlockPlace {
            file: self.file_id,
            offset: self.output.position(),
        }
    }

    fn count_record(&mut self, sum: u64) {
        self.content = checksum_mix(self.content, sum);
        self.records += 1;
    }

    /// Bytes so far, what is not written yet included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.output.position()
    }

    /// Records so far: values, and a dictionary for them if there is one.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Hands everything so far to the file, so that it can be read; not yet durable.
    ///
    /// # Errors
    /// When writing fails.
    pub fn flush(&mut self) -> StorageResult<()> {
        self.output.flush()
    }

    /// Makes everything so far durable, without closing the file.
    ///
    /// # Errors
    /// When writing or syncing fails.
    pub fn sync(&mut self) -> StorageResult<()> {
        self.output.sync().map(|_| ())
    }

    /// Writes the footer and syncs the file. The caller syncs the directory.
    ///
    /// # Errors
    /// When writing or syncing fails; the file is then unusable.
    pub fn finish(mut self) -> StorageResult<ValueFileMeta> {
        let footer = VlogFooter {
            records: self.records,
            content: Some(self.content),
        };
        let (bytes, footer_checksum) = footer.encode(self.file_id, self.output.position());
        self.output.buffer().extend_from_slice(&bytes);
        Ok(ValueFileMeta {
            file: self.file_id,
            file_bytes: self.output.sync()?,
            footer_checksum,
            records: self.records,
        })
    }
}

/// The value files of a database, opened as they are read. Files in use may exceed the limit.
#[derive(Debug)]
pub struct ValueFiles {
    directory: Arc<dyn Directory>,
    files: Handles<ValueFile>,
    /// What is known of files, and what those must be that are opened.
    known: Mutex<HashMap<FileId, ValueFileMeta>>,
    /// What keeps pieces of files with short records.
    cache: Option<Arc<BlockCache<DataBlock>>>,
    buffers: KeptBuffers,
    habit: Habit,
}

#[derive(Debug)]
struct ValueFile {
    file: Arc<dyn File>,
    name: String,
    dictionary: KeptDictionary,
}

impl ValueFiles {
    /// Opens files in `directory` (`vlog`) and keeps up to `open_max` of them open; at least one.
    #[must_use]
    pub fn new(directory: Arc<dyn Directory>, open_max: usize) -> Self {
        Self {
            directory,
            files: Handles::new(open_max),
            known: Mutex::default(),
            cache: None,
            buffers: KeptBuffers::default(),
            habit: Habit::default(),
        }
    }

    /// Keeps pieces of files in `cache` from now on, so that short records that are read alone are not each read from a file.
    #[must_use]
    pub fn with_cache(mut self, cache: Arc<BlockCache<DataBlock>>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Tells what the finished file `meta.file` is: when it is opened from now on, another one in its place is refused,
    /// by its footer. Of a file that nothing was told of, its header is looked at alone.
    pub fn expect(&self, meta: &ValueFileMeta) {
        self.known.lock().insert(meta.file, *meta);
    }

    /// The value that `pointer` leads to and that was appended for `key`.
    ///
    /// # Errors
    /// When reading fails; `Corruption` when the record is damaged, belongs to another key or has another length than
    /// the pointer says.
    pub fn read(&self, pointer: &ValuePointer, key: &[u8]) -> StorageResult<Vec<u8>> {
        let mut value = Vec::new();
        self.read_into(pointer, key, &mut value)?;
        Ok(value)
    }

    /// As [`ValueFiles::read`], in place of what `value` holds, in its memory if that is enough.
    ///
    /// # Errors
    /// As [`ValueFiles::read`]; what `value` holds then means nothing.
    pub fn read_into(
        &self,
        pointer: &ValuePointer,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> StorageResult<()> {
        if self.is_read_cached(pointer, key, value) {
            return Ok(());
        }
        self.buffers.lend(pointer.value_bytes as usize, |buffers| {
            self.read_from_file(pointer, key, (&mut buffers.record, value))
        })
    }

    /// Reads the value into `value`, by way of `record`, whatever is in the cache.
    fn read_from_file(
        &self,
        pointer: &ValuePointer,
        key: &[u8],
        (record, value): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> StorageResult<()> {
        if (pointer.record_bytes as usize) < LONG_VALUE_BYTES {
            self.read_record(pointer, record)?;
            return self.open_value(record, pointer, key, value);
        }
        let value_file = self.open(pointer.file)?;
        let file = (&*value_file.file, value_file.name.as_str());
        record_range(pointer, file.1)?;
        if is_chunked(file, pointer)? {
            let mut judge = |header: &RecordHeader| belongs(header, pointer, key);
            return read_whole(file, pointer, &mut judge, value);
        }
        let header = read_long(file, pointer, (record, value))?;
        belongs(&header, pointer, key)
    }

    /// Reads the value into `value`, if its record is in a piece of its file that is in the cache or comes there. Any failure
    /// is false: whoever reads the record alone is told what is wrong.
    fn is_read_cached(&self, pointer: &ValuePointer, key: &[u8], value: &mut Vec<u8>) -> bool {
        let (Some(cache), Some((piece, range))) = (&self.cache, piece_of(pointer)) else {
            return false;
        };
        let read = |target: &mut [u8]| {
            let read = |value_file: &ValueFile| value_file.file.read_at(target, piece.start());
            self.with(pointer.file, read).ok()?.ok()
        };
        in_cached_piece(cache, &piece, read).is_some_and(|bytes| {
            let record = bytes.get(range);
            record.is_some_and(|record| self.open_value(record, pointer, key, value).is_ok())
        })
    }

    /// The value in chunks that `pointer` leads to, whatever key it was appended for.
    ///
    /// # Errors
    /// As [`ValueFiles::read`].
    pub fn read_of_any_key(&self, pointer: &ValuePointer) -> StorageResult<Vec<u8>> {
        let value_file = self.open(pointer.file)?;
        let file = (&*value_file.file, value_file.name.as_str());
        let mut value = Vec::new();
        read_whole(file, pointer, &mut |_| Ok(()), &mut value)?;
        Ok(value)
    }

    /// Hands the value that `pointer` leads to and that was appended for `key` to `sink`, piece by piece. Of a value in
    /// chunks no more than one is in memory at a time, and every piece is verified before it is handed out; any other
    /// value, and one of less than a mebibyte, is one piece.
    ///
    /// # Errors
    /// As [`ValueFiles::read`], and what `sink` answers, at once; what was handed out before stays handed out.
    pub fn stream(
        &self,
        pointer: &ValuePointer,
        key: &[u8],
        sink: &mut dyn FnMut(&[u8]) -> StorageResult<()>,
    ) -> StorageResult<()> {
        // Of so short a value pieces are of no use.
        if (pointer.value_bytes as usize) < LONG_VALUE_BYTES {
            return self.look(pointer, key, sink)?;
        }
        let value_file = self.open(pointer.file)?;
        let file = (&*value_file.file, value_file.name.as_str());
        if !is_chunked(file, pointer)? {
            return self.look(pointer, key, sink)?;
        }
        read_chunks(
            file,
            pointer,
            &mut |header| belongs(header, pointer, key),
            sink,
        )
        .map(|_| ())
    }

    /// What `look` makes of the value that `pointer` leads to and that was appended for `key`. The value is read as a whole, into
    /// memory that is used again.
    ///
    /// # Errors
    /// As [`ValueFiles::read`]; `look` was not called then.
    pub fn look<R>(
        &self,
        pointer: &ValuePointer,
        key: &[u8],
        look: impl FnOnce(&[u8]) -> R,
    ) -> StorageResult<R> {
        let value_bytes = pointer.value_bytes as usize;
        self.buffers
            .lend(value_bytes, |ReadBuffers { record, value }| {
                if !self.is_read_cached(pointer, key, value) {
                    self.read_from_file(pointer, key, (record, value))?;
                }
                Ok(look(value))
            })
    }

    /// Replaces the content of `value` by the value in `record`, which is what lies where `pointer` leads.
    ///
    /// # Errors
    /// As [`ValueFiles::read`].
    pub(crate) fn open_value(
        &self,
        record: &[u8],
        pointer: &ValuePointer,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> StorageResult<()> {
        if uses_dictionary(record) {
            return self.with(pointer.file, |file| {
                file.open_value(record, pointer, key, value)
            })?;
        }
        let header = open_record(record, place_of(pointer), value)
            .map_err(|fault| damaged(&vlog_path(pointer.file), pointer.offset, fault))?;
        belongs(&header, pointer, key)
    }

    /// Replaces the content of `record` by the record that `pointer` leads to. Nothing is verified.
    ///
    /// # Errors
    /// When reading fails, and `Corruption` for a place where no record can be; what `record` holds then means nothing.
    pub(crate) fn read_record(
        &self,
        pointer: &ValuePointer,
        record: &mut Vec<u8>,
    ) -> StorageResult<()> {
        self.with(pointer.file, |value_file| {
            let name = &value_file.name;
            let range = record_range(pointer, name)?;
            read_range_into(&*value_file.file, name, range, record)
        })?
    }

    /// Fills `piece` with the bytes of `file` from the first to the second of `span`, fewer at its end. Nothing is verified.
    ///
    /// # Errors
    /// When reading fails; what `piece` holds then means nothing.
    pub(crate) fn read_piece(
        &self,
        file: FileId,
        span: (u64, u64),
        piece: &mut Vec<u8>,
    ) -> StorageResult<()> {
        self.with(file, |value_file| {
            fill(&*value_file.file, &value_file.name, span, piece)
        })?
    }

    /// Whether those that read ahead go on from where they begin.
    pub(crate) fn habit(&self) -> &Habit {
        &self.habit
    }

    /// Closes the file as soon as nobody uses it; for files about to be removed.
    pub fn forget(&self, file: FileId) {
        self.files.forget(file);
        self.known.lock().remove(&file);
    }

    /// Closes idle files, to leave files to others: half of what is open.
    pub fn close_some(&self) {
        self.files.close_some();
    }

    /// Files open now.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.files.open_count()
    }

    /// Reads and checks a file from the first byte to the last. Calls `progress` with the bytes checked so far.
    ///
    /// # Errors
    /// The first damage found, and what reading fails with.
    pub fn verify_file(
        &self,
        meta: &ValueFileMeta,
        progress: &mut dyn FnMut(u64),
    ) -> StorageResult<()> {
        let value_file = self.open(meta.file)?;
        let (file, name) = (&*value_file.file, value_file.name.as_str());
        let footer = check_meta(file, name, meta)?;
        let records_end = meta.file_bytes - VLOG_FOOTER_BYTES as u64;
        let mut offset = VLOG_HEADER_BYTES as u64;
        let (mut records, mut content) = (0, 0);
        let mut value = Vec::new();
        while offset < records_end {
            let head_end = records_end.min(offset + RECORD_HEADER_BYTES as u64);
            let head = read_range(file, name, offset, head_end)?;
            let end = peek_record_bytes(&head)
                .map(|length| offset + length)
                .filter(|end| *end <= records_end)
                .ok_or_else(|| StorageError::malformed(name, offset, "record beyond the last"))?;
            let found = value_file.verify_record((meta.file, offset, end), &mut value)?;
            content = checksum_mix(content, found.content);
            records += 1;
            offset = end;
            progress(offset);
        }
        if records != meta.records {
            let fault = BlockFault::mismatch("number of records", meta.records, records);
            return Err(damaged(name, records_end, fault));
        }
        if let Some(expected) = footer.content.filter(|expected| *expected != content) {
            let what = "records are not the ones in the footer";
            let fault = BlockFault::mismatch(what, expected, content);
            return Err(damaged(name, records_end, fault));
        }
        progress(meta.file_bytes);
        Ok(())
    }

    /// For work that takes long: no other file stays open for it.
    fn open(&self, file_id: FileId) -> StorageResult<Arc<ValueFile>> {
        self.files.get(file_id, || self.open_new(file_id))
    }

    /// What `work` makes of the open file. For work that is short: readers beside each other do not count how many they are.
    fn with<R>(&self, file_id: FileId, work: impl FnOnce(&ValueFile) -> R) -> StorageResult<R> {
        self.files.with(file_id, || self.open_new(file_id), work)
    }

    fn open_new(&self, file_id: FileId) -> StorageResult<ValueFile> {
        let name = vlog_path(file_id);
        let file = self
            .directory
            .open(&vlog_name(file_id), OpenMode::Read)
            .map_err(|error| StorageError::io(&*name, "open", error))?;
        let known = self.known.lock().get(&file_id).copied();
        match known {
            Some(meta) => check_meta(&*file, &name, &meta).map(|_| ())?,
            None => check_header(&*file, &name, file_id)?,
        }
        Ok(ValueFile {
            file,
            name,
            dictionary: KeptDictionary::default(),
        })
    }
}

impl ValueFile {
    /// See [`ValueFiles::open_value`].
    fn open_value(
        &self,
        record: &[u8],
        pointer: &ValuePointer,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> StorageResult<()> {
        let place = BlockPlace {
            file: pointer.file,
            offset: pointer.offset,
        };
        let file = (&*self.file, self.name.as_str());
        let header = self.dictionary.open_record(file, (record, place), value)?;
        belongs(&header, pointer, key)
    }

    /// Checks the record at `offset..end`; `value` is scratch.
    fn verify_record(
        &self,
        (file_id, offset, end): (FileId, u64, u64),
        value: &mut Vec<u8>,
    ) -> StorageResult<RecordHeader> {
        let (file, name) = (&*self.file, self.name.as_str());
        let record_bytes = u32::try_from(end - offset)
            .map_err(|_| StorageError::malformed(name, offset, "impossible record length"))?;
        if record_bytes as usize >= LONG_VALUE_BYTES {
            let pointer = ValuePointer {
                file: file_id,
                offset,
                record_bytes,
                value_bytes: 0,
            };
            if is_chunked((file, name), &pointer)? {
                return read_chunks((file, name), &pointer, &mut |_| Ok(()), &mut |_| Ok(()));
            }
            return read_long((file, name), &pointer, (&mut Vec::new(), value));
        }
        let bytes = read_range(file, name, offset, end)?;
        let place = BlockPlace {
            file: file_id,
            offset,
        };
        self.dictionary
            .open_record((file, name), (&bytes, place), value)
    }
}

/// Where in the file `name` the record lies that `pointer` leads to.
///
/// # Errors
/// `Corruption` for a place where none can be.
fn record_range(pointer: &ValuePointer, name: &str) -> StorageResult<Range<u64>> {
    let (start, length) = (pointer.offset, u64::from(pointer.record_bytes));
    let end = start.checked_add(length);
    end.filter(|_| length <= RECORD_BYTES_MAX)
        .map(|end| start..end)
        .ok_or_else(|| StorageError::malformed(name, start, "impossible value pointer"))
}

/// The value in `record`, which is what lies where `pointer` leads, as it is stored there. `None` where that means nothing by
/// itself.
///
/// # Errors
/// As [`ValueFiles::read`].
pub(crate) fn stored_value<'a>(
    record: &'a [u8],
    pointer: &ValuePointer,
    key: &[u8],
) -> StorageResult<Option<StoredValue<'a>>> {
    let found = stored_in_record(record, place_of(pointer))
        .map_err(|fault| damaged(&vlog_path(pointer.file), pointer.offset, fault))?;
    let Some((header, stored)) = found else {
        return Ok(None);
    };
    belongs(&header, pointer, key)?;
    Ok(Some(stored))
}

/// Checks that the record with `header` is the one that `pointer` and `key` ask for.
fn belongs(header: &RecordHeader, pointer: &ValuePointer, key: &[u8]) -> StorageResult<()> {
    let wanted = key_hash(key);
    let fault = if header.key_hash != wanted {
        BlockFault::mismatch("value of another key", wanted, header.key_hash)
    } else if header.raw_bytes != pointer.value_bytes {
        let (wanted, found) = (pointer.value_bytes, header.raw_bytes);
        BlockFault::mismatch("value of another length", wanted.into(), found.into())
    } else {
        return Ok(());
    };
    Err(damaged(&vlog_path(pointer.file), pointer.offset, fault))
}

fn check_header(file: &dyn File, name: &str, file_id: FileId) -> StorageResult<()> {
    let header = read_range(file, name, 0, VLOG_HEADER_BYTES as u64)?;
    decode_vlog_header(&header, file_id).map_err(|fault| tail_error(name, 0, fault, VLOG_VERSION))
}

/// What a sealed value file says about itself, for rebuilding a manifest. Only header and footer are verified.
///
/// # Errors
/// When reading fails, `Corruption` when header or footer are damaged, `NewerVersion`.
pub fn read_value_file_meta(
    file: &dyn File,
    name: &str,
    file_id: FileId,
) -> StorageResult<ValueFileMeta> {
    read_footer(file, name, file_id).map(|(meta, _)| meta)
}

/// The footer of a sealed value file, which must be the one that `meta` describes.
fn check_meta(file: &dyn File, name: &str, meta: &ValueFileMeta) -> StorageResult<VlogFooter> {
    let (found, footer) = read_footer(file, name, meta.file)?;
    if found == *meta {
        return Ok(footer);
    }
    let (expected, sum) = (meta.footer_checksum, found.footer_checksum);
    let fault = BlockFault::mismatch("footer is not the one recorded", expected, sum);
    Err(damaged(name, found.file_bytes, fault))
}

fn read_footer(
    file: &dyn File,
    name: &str,
    file_id: FileId,
) -> StorageResult<(ValueFileMeta, VlogFooter)> {
    check_header(file, name, file_id)?;
    let file_bytes = file
        .len()
        .map_err(|error| StorageError::io(name, "read", error))?;
    // Footers of newer versions may be longer; they must be recognised all the same.
    let tail_start = file_bytes.saturating_sub(FOOTER_READ_BYTES as u64);
    let tail = read_range(file, name, tail_start, file_bytes)?;
    let footer_offset = file_bytes.saturating_sub(VLOG_FOOTER_BYTES as u64);
    let (footer, footer_checksum) = VlogFooter::decode(&tail, file_id, file_bytes)
        .map_err(|fault| tail_error(name, footer_offset, fault, VLOG_VERSION))?;
    let meta = ValueFileMeta {
        file: file_id,
        file_bytes,
        footer_checksum,
        records: footer.records,
    };
    Ok((meta, footer))
}
