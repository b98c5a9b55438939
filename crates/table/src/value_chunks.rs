//! Values in chunks: written and read with one chunk in memory at a time.
//!
//! A [`SpilledValueWriter`] writes a value file that holds one value. Its record's header is written last, when the lengths
//! are known, over zeros that no header equals; until then, and without a footer, the file is an incomplete one that
//! nothing points to. Readers walk the chunks as [`ChunkWalk`] asks for them.

use std::sync::Arc;

use kingtide_base::limits::VALUE_BYTES_MAX;
use kingtide_base::{FileId, StorageError, StorageResult, ValuePointer, checksum_mix, key_hash};
use kingtide_collections::MemoryBudget;
use kingtide_env::File;
use kingtide_format::block::{BlockFault, BlockPlace};
use kingtide_format::vlog::{
    CHUNK_BYTES_MAX, CHUNK_HEADS_BYTES_MAX, ChunkWalk, RECORD_HEADER_BYTES, RecordHeader,
    VlogFooter, encode_chunked_header, encode_record, encode_vlog_header, peek_record,
};
use kingtide_format::{CodecId, ValueFileMeta};

use crate::names::{damaged, vlog_path};
use crate::output::Output;
use crate::sections::{read_range, read_range_into};

/// Writes a value file that holds one value, chunk by chunk. Dropping it without [`SpilledValueWriter::finish`] leaves an
/// incomplete file to be removed.
#[derive(Debug)]
pub struct SpilledValueWriter {
    output: Output,
    file_id: FileId,
    codec: CodecId,
    key_hash: u64,
    /// Where the record begins.
    record: u64,
    value_bytes: u64,
    /// The checksums of the chunks so far, folded.
    content: u64,
}

impl SpilledValueWriter {
    /// The most bytes that [`SpilledValueWriter::append`] takes at once, and what all chunks but the last should have.
    pub const CHUNK_BYTES: usize = CHUNK_BYTES_MAX;

    /// Begins the value file `file_id` in `file`, which must be new and empty, for a value of `key` (spelled as for
    /// [`ValueLogBuilder::append`](crate::ValueLogBuilder::append)) whose chunks are compressed with `codec` where that
    /// pays. Its buffer counts in `budget`.
    #[must_use]
    pub fn new(
        file: Arc<dyn File>,
        (file_id, codec): (FileId, CodecId),
        key: &[u8],
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let mut output = Output::new(file, vlog_path(file_id));
        output.set_budget(budget);
        output
            .buffer()
            .extend_from_slice(&encode_vlog_header(file_id));
        let record = output.position();
        output.buffer().extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        Self {
            output,
            file_id,
            codec,
            key_hash: key_hash(key),
            record,
            value_bytes: 0,
            content: 0,
        }
    }

    /// Bytes of the value so far.
    #[must_use]
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    /// Appends the next bytes of the value as a chunk: at most [`SpilledValueWriter::CHUNK_BYTES`]. None is no chunk.
    ///
    /// # Errors
    /// When writing fails; `InvalidInput` when the chunk, the value or the number of chunks is larger than any may be. The
    /// file is then unusable.
    pub fn append(&mut self, chunk: &[u8]) -> StorageResult<()> {
        if chunk.is_empty() {
            return Ok(());
        }
        let stored = self.output.position() - self.record;
        let stored_max = (VALUE_BYTES_MAX + CHUNK_HEADS_BYTES_MAX) as u64;
        let is_over = self.value_bytes + chunk.len() as u64 > VALUE_BYTES_MAX as u64
            || stored + (chunk.len() + RECORD_HEADER_BYTES) as u64 > stored_max;
        if chunk.len() > Self::CHUNK_BYTES || is_over {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "value too long");
            return Err(StorageError::io(self.output.name(), "write", error));
        }
        let place = BlockPlace {
            file: self.file_id,
            offset: self.output.position(),
        };
        let target = self.output.buffer();
        let start = target.len();
        encode_record(target, self.codec, self.key_hash, chunk, place);
        self.content = checksum_mix(self.content, checksum_of(&target[start..]));
        self.value_bytes += chunk.len() as u64;
        self.output.account(0);
        self.output.flush_if_full()
    }

    /// Writes footer and header and syncs the file; what to record of it, and where the value is. The caller syncs the
    /// directory.
    ///
    /// # Errors
    /// When writing or syncing fails; the file is then unusable.
    pub fn finish(mut self) -> StorageResult<(ValueFileMeta, ValuePointer)> {
        let end = self.output.position();
        // Both fit: the limits of `append`.
        let record_bytes = (end - self.record) as u32;
        let value_bytes = self.value_bytes as u32;
        let place = BlockPlace {
            file: self.file_id,
            offset: self.record,
        };
        let lengths = (record_bytes - RECORD_HEADER_BYTES as u32, value_bytes);
        let header = encode_chunked_header(self.key_hash, lengths, place);
        let content = checksum_mix(self.content, checksum_of(&header));
        let footer = VlogFooter {
            records: 1,
            content: Some(checksum_mix(0, content)),
        };
        let (footer, footer_checksum) = footer.encode(self.file_id, end);
        self.output.buffer().extend_from_slice(&footer);
        self.output.flush()?;
        self.output.overwrite(&header, self.record)?;
        let meta = ValueFileMeta {
            file: self.file_id,
            file_bytes: self.output.sync()?,
            footer_checksum,
            records: 1,
        };
        let pointer = ValuePointer {
            file: self.file_id,
            offset: self.record,
            record_bytes,
            value_bytes,
        };
        Ok((meta, pointer))
    }
}

/// The checksum of the record that begins with `header`.
pub(crate) fn checksum_of(header: &[u8]) -> u64 {
    u64::from_le_bytes(header.first_chunk().copied().unwrap_or_default())
}

/// Where the record lies that `pointer` leads to.
pub(crate) fn place_of(pointer: &ValuePointer) -> BlockPlace {
    BlockPlace {
        file: pointer.file,
        offset: pointer.offset,
    }
}

fn read_header((file, name): (&dyn File, &str), offset: u64) -> StorageResult<Vec<u8>> {
    let end = offset.saturating_add(RECORD_HEADER_BYTES as u64);
    read_range(file, name, offset, end)
}

/// True when the record that `pointer` leads to says that it is in chunks. Nothing is verified.
pub(crate) fn is_chunked(
    (file, name): (&dyn File, &str),
    pointer: &ValuePointer,
) -> StorageResult<bool> {
    let header = read_header((file, name), pointer.offset)?;
    Ok(peek_record(&header).is_ok_and(|header| header.is_chunked))
}

/// Reads the chunks of one value, in order.
struct Chunks<'f> {
    file: &'f dyn File,
    name: &'f str,
    walk: ChunkWalk,
    /// Where the record begins.
    start: u64,
    /// The chunk as it is stored.
    stored: Vec<u8>,
}

impl<'f> Chunks<'f> {
    /// Those of the value that `pointer` leads to, once `judge` has seen whose it is.
    ///
    /// # Errors
    /// When reading fails, `Corruption`, and what `judge` answers.
    fn begin(
        (file, name): (&'f dyn File, &'f str),
        pointer: &ValuePointer,
        judge: &mut dyn FnMut(&RecordHeader) -> StorageResult<()>,
    ) -> StorageResult<Self> {
        let start = pointer.offset;
        let fault = |fault: BlockFault| damaged(name, start, fault);
        let header = read_header((file, name), start)?;
        let walk = ChunkWalk::begin(&header, place_of(pointer)).map_err(fault)?;
        let claimed = u64::from(walk.header().stored_bytes) + RECORD_HEADER_BYTES as u64;
        if claimed != u64::from(pointer.record_bytes) {
            let wanted = u64::from(pointer.record_bytes);
            return Err(fault(BlockFault::mismatch(
                "record length",
                wanted,
                claimed,
            )));
        }
        judge(walk.header())?;
        Ok(Self {
            file,
            name,
            walk,
            start,
            stored: Vec::new(),
        })
    }

    /// Puts the next chunk, verified, behind the first `filled` bytes of `target`, which must be there, and answers where it ends;
    /// `None` behind the last. `target` grows where it is too short, and keeps what lies behind.
    ///
    /// # Errors
    /// When reading fails, and `Corruption`.
    fn next_into(&mut self, target: &mut Vec<u8>, filled: usize) -> StorageResult<Option<usize>> {
        let Some(at) = self.walk.next_header() else {
            return Ok(None);
        };
        let (file, name) = (self.file, self.name);
        let fault = |fault: BlockFault| damaged(name, at, fault);
        let head = read_header((file, name), at)?;
        let length = self.walk.chunk_bytes(&head).map_err(fault)?;
        let range = at..at.saturating_add(length as u64);
        read_range_into(file, name, range, &mut self.stored)?;
        let end = self.walk.open(&self.stored, (target, filled));
        end.map(Some).map_err(fault)
    }

    /// Ends the walk behind the last chunk.
    ///
    /// # Errors
    /// `Corruption`, when the chunks hold less than the record says.
    fn finish(self) -> StorageResult<RecordHeader> {
        let finished = self.walk.finish();
        finished.map_err(|fault| damaged(self.name, self.start, fault))
    }
}

/// Hands the value in chunks that `pointer` leads to to `sink`, chunk by chunk, each verified, once `judge` has seen whose
/// it is.
///
/// # Errors
/// When reading fails, `Corruption`, and what `judge` and `sink` answer.
pub(crate) fn read_chunks(
    file: (&dyn File, &str),
    pointer: &ValuePointer,
    judge: &mut dyn FnMut(&RecordHeader) -> StorageResult<()>,
    sink: &mut dyn FnMut(&[u8]) -> StorageResult<()>,
) -> StorageResult<RecordHeader> {
    let mut chunks = Chunks::begin(file, pointer, judge)?;
    let mut piece = Vec::new();
    while let Some(bytes) = chunks.next_into(&mut piece, 0)? {
        sink(&piece[..bytes])?;
    }
    chunks.finish()
}

/// Puts the whole value in chunks that `pointer` leads to in the place of what `value` holds, with no more than a chunk in memory
/// besides.
///
/// # Errors
/// As [`read_chunks`]; what `value` holds then means nothing.
pub(crate) fn read_whole(
    file: (&dyn File, &str),
    pointer: &ValuePointer,
    judge: &mut dyn FnMut(&RecordHeader) -> StorageResult<()>,
    value: &mut Vec<u8>,
) -> StorageResult<()> {
    let mut chunks = Chunks::begin(file, pointer, judge)?;
    let value_bytes = pointer.value_bytes as usize;
    let mut filled = 0;
    while let Some(end) = chunks.next_into(value, filled)? {
        if filled == 0 && value.len() < value_bytes {
            // Only now: a length that nothing intact stands behind must not make it ask for memory. New memory of that length
            // comes zeroed from the system; what a vector grows by is zeroed once more.
            let mut whole = vec![0; value_bytes];
            whole[..end].copy_from_slice(&value[..end]);
            *value = whole;
        }
        filled = end;
    }
    value.truncate(filled);
    chunks.finish().map(|_| ())
}

#[cfg(test)]
mod tests;
