//! Dictionaries of tables: values that resemble each other from block to block, and not only within one.
//!
//! The dictionary of a table is what the value columns of its first blocks hold, raw, one behind the other: as many blocks as
//! fill [`BlockDictionary::BYTES_MAX`], or [`DICTIONARY_BLOCKS_MAX`], and of the last one what fits. Whoever opens a table has it
//! from the copy in the properties; who reads a damaged one from the front makes it from these blocks. So no single damage makes
//! all values unreadable. A value column that is compressed with it carries the codec number
//! [`WITH_DICTIONARY`] and begins with the number of blocks that the dictionary is made of; an LZ4 block follows. The
//! blocks that it is made of use none.

use super::BlockFault;

/// The codec number of a value column that is compressed with the dictionary of its table. No [`CodecId`](crate::CodecId):
/// there is none for whole blocks.
pub(super) const WITH_DICTIONARY: u8 = 5;
/// The most blocks that a dictionary is made of.
const DICTIONARY_BLOCKS_MAX: u8 = u8::MAX;

/// The dictionary of a table, or as much of it as was added so far.
///
/// ```
/// # use kingtide_format::block::BlockDictionary;
/// let mut dictionary = BlockDictionary::default();
/// while !dictionary.is_full() {
///     dictionary.add(b"what the value column of the next block holds, raw");
/// }
/// assert_eq!(dictionary.bytes().len(), 50 * 255);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockDictionary {
    bytes: Vec<u8>,
    blocks: u8,
}

impl BlockDictionary {
    /// Bytes of one that is full. Together with a block of the usual length it is within the reach of a match.
    pub const BYTES_MAX: usize = 32 << 10;

    /// The one of so many blocks with these bytes; `None` if it would not be full.
    #[must_use]
    pub fn copied(blocks: u8, bytes: &[u8]) -> Option<Self> {
        let copied = Self {
            bytes: bytes.to_vec(),
            blocks,
        };
        (bytes.len() <= Self::BYTES_MAX && blocks > 0 && copied.is_full()).then_some(copied)
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }

    /// True when no further block belongs to it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() == Self::BYTES_MAX || self.blocks == DICTIONARY_BLOCKS_MAX
    }

    /// Adds the value column of the next block, raw, unless it is full.
    pub fn add(&mut self, column: &[u8]) {
        if self.is_full() {
            return;
        }
        let room = Self::BYTES_MAX - self.bytes.len();
        let part = &column[..room.min(column.len())];
        self.bytes.reserve_exact(part.len());
        self.bytes.extend_from_slice(part);
        self.blocks += 1;
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many blocks it is made of.
    #[must_use]
    pub fn blocks(&self) -> u8 {
        self.blocks
    }

    /// Whether this is the whole dictionary of a block that claims one of `blocks` blocks.
    pub(super) fn check(&self, blocks: u8) -> Result<(), BlockFault> {
        let what = "dictionary of another number of blocks";
        match self.is_full() && self.blocks == blocks {
            true => Ok(()),
            false => Err(BlockFault::mismatch(
                what,
                blocks.into(),
                self.blocks.into(),
            )),
        }
    }
}
