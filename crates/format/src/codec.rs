//! The numbers under which codecs are stored. The same as in the C ABI.

/// How a block or a value was compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CodecId {
    /// Stored as it is.
    None = 0,
    /// Snappy, raw format.
    Snappy = 1,
    /// LZ4 block.
    Lz4 = 2,
    /// Zstandard frame.
    Zstd = 3,
    /// LZ4 block, written by the faster search; read like [`CodecId::Lz4`].
    Lz4Fast = 4,
}

impl CodecId {
    /// The codec that `byte` stands for, or `None` for a number that this version does not know.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::None),
            1 => Some(Self::Snappy),
            2 => Some(Self::Lz4),
            3 => Some(Self::Zstd),
            4 => Some(Self::Lz4Fast),
            _ => None,
        }
    }
}
