//! A value in chunks: a record whose stored bytes are records themselves.
//!
//! A value that is too long to be held as a whole is written and read a chunk at a time. Its record begins with a header of
//! the usual form, whose codec is [`CHUNKED`] and whose checksum covers the header alone; behind it the chunks lie side by
//! side, each a whole record of the same key at its own place: compressed on its own, with its own checksum. Header and
//! chunks must agree on both lengths. Chunks hold no chunks, and use no dictionary.

use kingtide_base::limits::VALUE_BYTES_MAX;
use kingtide_base::{checksum, checksum_mix};

use super::record::{
    RECORD_HEADER_BYTES, RecordHeader, open_plain_record_behind, peek_record, write_fields,
};
use crate::CodecId;
use crate::block::{BlockFault, BlockPlace};

/// The codec number of a record in chunks.
pub(super) const CHUNKED: u8 = 0x80;
/// The most bytes of a value in one chunk, and what all chunks but the last hold.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;
/// The most bytes that chunks take besides what they hold: a value of the greatest length has 1024 of them, and one more if
/// they were cut where it was not a multiple.
pub const CHUNK_HEADS_BYTES_MAX: usize = 2048 * RECORD_HEADER_BYTES;

const _: () =
    assert!(VALUE_BYTES_MAX + CHUNK_HEADS_BYTES_MAX + RECORD_HEADER_BYTES < u32::MAX as usize);

/// The header of a record in chunks: `stored_bytes` of chunks follow, which hold `raw_bytes` of value.
#[must_use]
pub fn encode_chunked_header(
    key_hash: u64,
    (stored_bytes, raw_bytes): (u32, u32),
    place: BlockPlace,
) -> [u8; RECORD_HEADER_BYTES] {
    let mut header = [0; RECORD_HEADER_BYTES];
    write_fields(&mut header, key_hash, (stored_bytes, raw_bytes), CHUNKED);
    let sum = checksum(&header[8..], place.seed());
    header[..8].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Walks the chunks of one record, in order: the header first, then chunk by chunk with the bytes that the walk asks for.
///
/// ```
/// # use kingtide_base::FileId;
/// # use kingtide_format::{CodecId, block::BlockPlace, vlog::*};
/// # let place = |offset| BlockPlace { file: FileId(1), offset };
/// # let mut chunk = Vec::new();
/// # let stored = encode_record(&mut chunk, CodecId::None, 7, b"value", place(57));
/// # let header = encode_chunked_header(7, (stored, 5), place(32));
/// let mut walk = ChunkWalk::begin(&header, place(32)).expect("an intact header");
/// let mut value = Vec::new();
/// while let Some(at) = walk.next_header() {
///     let offset = (at - 57) as usize; // `chunk` is what lies in the file from 57 on
///     let bytes = walk.chunk_bytes(&chunk[offset..offset + RECORD_HEADER_BYTES]).expect("fits");
///     walk.open(&chunk[offset..offset + bytes], (&mut value, 0)).expect("intact");
/// }
/// assert_eq!((walk.finish().expect("all of it").raw_bytes, value.as_slice()), (5, &b"value"[..]));
/// ```
#[derive(Clone, Debug)]
pub struct ChunkWalk {
    header: RecordHeader,
    place: BlockPlace,
    /// Bytes of chunks, and of value in them, that were gone by.
    stored: u32,
    raw: u32,
    /// The checksums of the chunks that were gone by, folded.
    content: u64,
}

impl ChunkWalk {
    /// Begins at a record of chunks; `header` is its header.
    ///
    /// # Errors
    /// When it is no header of a record in chunks, or fails its checksum, or claims a value longer than any may be.
    pub fn begin(header: &[u8], place: BlockPlace) -> Result<Self, BlockFault> {
        let found = peek_record(header)?;
        if !found.is_chunked {
            return Err(BlockFault::malformed("a record that is not in chunks"));
        }
        let head = header.get(8..RECORD_HEADER_BYTES).unwrap_or_default();
        let sum = checksum(head, place.seed());
        if sum != found.checksum {
            return Err(BlockFault::mismatch("record checksum", found.checksum, sum));
        }
        if found.raw_bytes as usize > VALUE_BYTES_MAX {
            return Err(BlockFault::malformed("value longer than any may be"));
        }
        Ok(Self {
            header: found,
            place,
            stored: 0,
            raw: 0,
            content: 0,
        })
    }

    /// What the record's header says.
    #[must_use]
    pub fn header(&self) -> &RecordHeader {
        &self.header
    }

    /// Where in the file the header of the next chunk lies; `None` behind the last.
    #[must_use]
    pub fn next_header(&self) -> Option<u64> {
        (self.stored < self.header.stored_bytes).then(|| self.place_of_next().offset)
    }

    fn place_of_next(&self) -> BlockPlace {
        let before = RECORD_HEADER_BYTES as u64 + u64::from(self.stored);
        BlockPlace {
            offset: self.place.offset.saturating_add(before),
            ..self.place
        }
    }

    /// The length of the next chunk, header included, as `header` claims. At most what one chunk may take.
    ///
    /// # Errors
    /// When it claims more than is left, or than a chunk may hold, or nothing.
    pub fn chunk_bytes(&self, header: &[u8]) -> Result<usize, BlockFault> {
        const FAULT: BlockFault = BlockFault::malformed("length of a chunk");
        let claimed = peek_record(header)?;
        let bytes = u64::from(claimed.stored_bytes) + RECORD_HEADER_BYTES as u64;
        let left = u64::from(self.header.stored_bytes - self.stored);
        let is_short = claimed.stored_bytes as usize <= CHUNK_BYTES_MAX
            && claimed.raw_bytes as usize <= CHUNK_BYTES_MAX;
        let is_plain = !claimed.is_chunked && !claimed.uses_dictionary;
        if !is_plain || bytes > left || !is_short || claimed.raw_bytes == 0 {
            return Err(FAULT);
        }
        Ok(bytes as usize)
    }

    /// Verifies the next chunk, all of whose bytes are `bytes`, puts what it holds behind the first `start` bytes of `target`,
    /// which must be there, and goes on; answers where that ends. `target` grows where it is too short, and keeps what lies
    /// behind.
    ///
    /// # Errors
    /// As [`open_record`](super::open_record), and when the chunk is of another key.
    pub fn open(
        &mut self,
        bytes: &[u8],
        (target, start): (&mut Vec<u8>, usize),
    ) -> Result<usize, BlockFault> {
        let header = open_plain_record_behind(bytes, self.place_of_next(), (target, start))?;
        if header.key_hash != self.header.key_hash {
            return Err(BlockFault::mismatch(
                "chunk of another key",
                self.header.key_hash,
                header.key_hash,
            ));
        }
        let stored = u32::try_from(bytes.len()).ok();
        let stored = stored.and_then(|bytes| self.stored.checked_add(bytes));
        let raw = self.raw.checked_add(header.raw_bytes);
        let (Some(stored), Some(raw)) = (stored, raw) else {
            return Err(BlockFault::malformed("length of a chunk"));
        };
        if stored > self.header.stored_bytes || raw > self.header.raw_bytes {
            return Err(BlockFault::malformed("more chunks than the record says"));
        }
        (self.stored, self.raw) = (stored, raw);
        self.content = checksum_mix(self.content, header.checksum);
        Ok(start + header.raw_bytes as usize)
    }

    /// Ends the walk behind the last chunk.
    ///
    /// # Errors
    /// When the chunks hold less than the record says.
    pub fn finish(mut self) -> Result<RecordHeader, BlockFault> {
        if self.stored != self.header.stored_bytes || self.raw != self.header.raw_bytes {
            let (wanted, found) = (self.header.raw_bytes, self.raw);
            return Err(BlockFault::mismatch(
                "bytes in the chunks",
                wanted.into(),
                found.into(),
            ));
        }
        self.header.content = checksum_mix(self.content, self.header.checksum);
        Ok(self.header)
    }
}

/// Verifies the record in chunks `bytes` (all of it and nothing else) and replaces the content of `target` by its value.
pub(super) fn open_chunked(
    bytes: &[u8],
    place: BlockPlace,
    target: &mut Vec<u8>,
) -> Result<RecordHeader, BlockFault> {
    let mut walk = ChunkWalk::begin(bytes, place)?;
    let length = bytes.len() - RECORD_HEADER_BYTES;
    if u64::from(walk.header.stored_bytes) != length as u64 {
        return Err(BlockFault::mismatch(
            "record length",
            walk.header.stored_bytes.into(),
            length as u64,
        ));
    }
    let mut filled = 0;
    while walk.next_header().is_some() {
        let rest = &bytes[RECORD_HEADER_BYTES + walk.stored as usize..];
        let chunk = rest
            .get(..walk.chunk_bytes(rest)?)
            .ok_or(BlockFault::malformed("chunk beyond its record"))?;
        filled = walk.open(chunk, (target, filled))?;
    }
    target.truncate(filled);
    walk.finish()
}

/// What [`RecordHeader::codec`] says of a record in chunks, whose chunks have codecs of their own.
pub(super) const CHUNKED_CODEC: CodecId = CodecId::None;
