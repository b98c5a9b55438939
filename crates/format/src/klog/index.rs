//! The index: the length of every data block and a separator that is at or after its last key.
//!
//! ```text
//! varint blocks, then for each block:
//!     varint block bytes                    blocks lie side by side from offset 0
//!     varint shared, varint rest bytes, rest     the separator: so many bytes of the previous one, then the rest
//! ```
//!
//! A separator is at or after the last key of its block, and before the first key of the next block (equal to both
//! when the versions of one key spill over). So the first block whose separator is at or after a key is the first
//! that may hold it.

use kingtide_base::limits::KEY_BYTES_MAX;
use kingtide_base::{ByteReader, Truncated, write_varint};

/// The shortest bytes that are at or after `last` and before `next`, in byte order; `last` itself when nothing shorter
/// is. Expects `last <= next`.
#[must_use]
pub fn shortest_separator<'a>(last: &'a [u8], next: &[u8], target: &'a mut Vec<u8>) -> &'a [u8] {
    let shared = last.iter().zip(next).take_while(|(a, b)| a == b).count();
    let (Some(from), Some(to)) = (last.get(shared), next.get(shared)) else {
        // Equal, or `last` begins `next`: nothing shorter is between them.
        return last;
    };
    target.clear();
    if from + 1 < *to {
        target.extend_from_slice(&last[..shared]);
        target.push(from + 1);
    } else {
        // The byte cannot grow without reaching `next`; one behind it can, and the result stays before `next`.
        let Some(skipped) = last[shared + 1..].iter().position(|byte| *byte != 0xff) else {
            return last;
        };
        let at = shared + 1 + skipped;
        target.extend_from_slice(&last[..at]);
        target.push(last[at] + 1);
    }
    if target.len() < last.len() {
        target
    } else {
        last
    }
}

/// Writes an index, block by block.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    blocks: u32,
    bytes: Vec<u8>,
    previous: Vec<u8>,
}

impl IndexBuilder {
    /// An empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next block.
    pub fn add(&mut self, block_bytes: u64, separator: &[u8]) {
        let pairs = self.previous.iter().zip(separator);
        let shared = pairs.take_while(|(a, b)| a == b).count();
        let rest = &separator[shared..];
        write_varint(&mut self.bytes, block_bytes);
        write_varint(&mut self.bytes, shared as u64);
        write_varint(&mut self.bytes, rest.len() as u64);
        self.bytes.extend_from_slice(rest);
        self.previous.truncate(shared);
        self.previous.extend_from_slice(rest);
        self.blocks += 1;
    }

    /// Blocks so far.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The bytes so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The payload of the index block.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.bytes.len() + 5);
        write_varint(&mut payload, u64::from(self.blocks));
        payload.extend_from_slice(&self.bytes);
        payload
    }
}

/// One block of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    /// The length of the block in the file, header included, in bytes.
    pub block_bytes: u64,
    /// At or after its last key.
    pub separator: &'a [u8],
}

/// Reads an index, block by block.
#[derive(Debug)]
pub struct IndexReader<'a> {
    reader: ByteReader<'a>,
    left: u64,
    separator: Vec<u8>,
}

impl<'a> IndexReader<'a> {
    /// A reader at the first block.
    ///
    /// # Errors
    /// [`Truncated`] when the payload is empty or promises more blocks than it has bytes.
    pub fn new(payload: &'a [u8]) -> Result<Self, Truncated> {
        let mut reader = ByteReader::new(payload);
        let left = reader.varint()?;
        if left > reader.rest().len() as u64 {
            return Err(Truncated);
        }
        Ok(Self {
            reader,
            left,
            separator: Vec::new(),
        })
    }

    /// Blocks not yet read.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The next block, `None` after the last.
    ///
    /// # Errors
    /// [`Truncated`] when the payload ends early, goes on after the last block, or shares more than there is.
    pub fn next_block(&mut self) -> Result<Option<IndexEntry<'_>>, Truncated> {
        if self.left == 0 {
            return if self.reader.is_empty() {
                Ok(None)
            } else {
                Err(Truncated)
            };
        }
        self.left -= 1;
        let block_bytes = self.reader.varint()?;
        let shared = self.reader.length(self.separator.len())?;
        let rest = self.reader.bytes(KEY_BYTES_MAX)?;
        self.separator.truncate(shared);
        self.separator.extend_from_slice(rest);
        Ok(Some(IndexEntry {
            block_bytes,
            separator: &self.separator,
        }))
    }
}
