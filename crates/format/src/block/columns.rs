//! Where the columns of a data block lie: the head of its payload, decoded and checked against the block's length.
//! What the columns are is said in `data.rs`.

use kingtide_base::{ByteReader, Truncated};

use super::{BLOCK_HEADER_BYTES, BlockFault, codec};
use crate::CodecId;

/// The most entries of one block.
pub(super) const ENTRIES_MAX: usize = u16::MAX as usize;

/// Where the columns of a block begin, and how wide their cells are. Offsets are from the start of the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    pub(super) entries: u32,
    /// 0 when all middles have `key_width` bytes.
    pub(super) key_ends_width: u8,
    pub(super) sequence_width: u8,
    pub(super) expiry_width: u8,
    /// 0 when all values have `value_width` bytes.
    pub(super) value_ends_width: u8,
    /// The kind byte of all entries, or 0 when there is a column.
    pub(super) kind: u8,
    pub(super) codec: CodecId,
    /// How many blocks the dictionary is made of that the value column is compressed with; 0 when it is without.
    pub(super) dictionary_blocks: u8,
    pub(super) sequence_min: u64,
    pub(super) prefix: u32,
    pub(super) suffix: u32,
    pub(super) key_ends: u32,
    pub(super) keys: u32,
    pub(super) key_width: u32,
    pub(super) kinds: u32,
    pub(super) sequences: u32,
    pub(super) expiries: u32,
    pub(super) value_ends: u32,
    pub(super) value_width: u32,
    pub(super) values: u32,
    pub(super) values_raw_bytes: u32,
}

/// Cuts consecutive columns off the payload, checking that each lies inside.
struct Cutter {
    position: usize,
    end: usize,
}

impl Cutter {
    fn cut(&mut self, cells: usize, width: usize) -> Result<u32, BlockFault> {
        const FAULT: BlockFault = BlockFault::malformed("column reaches beyond its block");
        let start = self.position;
        let bytes = cells.checked_mul(width).ok_or(FAULT)?;
        self.position = start.checked_add(bytes).ok_or(FAULT)?;
        if self.position > self.end {
            return Err(FAULT);
        }
        u32::try_from(start).map_err(|_| FAULT)
    }
}

const fn width_of_code(code: u8) -> Option<u8> {
    match code {
        0 => Some(0),
        1 => Some(2),
        2 => Some(4),
        _ => None,
    }
}

impl Columns {
    /// Reads the head of the payload of the block `bytes` and lays the columns out, each inside the block.
    pub(super) fn decode(
        bytes: &[u8],
        (codec, uses_dictionary): (CodecId, bool),
        values_raw_bytes: u32,
    ) -> Result<Self, BlockFault> {
        let payload = bytes
            .get(BLOCK_HEADER_BYTES..)
            .ok_or(BlockFault::malformed("block shorter than its header"))?;
        let mut reader = ByteReader::new(payload);
        let mut columns = Self::decode_shape(&mut reader, codec, values_raw_bytes)
            .map_err(|Truncated| BlockFault::malformed("column header"))?;
        let mut cutter = Cutter {
            position: bytes.len() - reader.rest().len(),
            end: bytes.len(),
        };
        let entries = columns.entries as usize;
        // Until here the fields hold lengths; now they become offsets.
        columns.prefix = cutter.cut(columns.prefix as usize, 1)?;
        columns.suffix = cutter.cut(columns.suffix as usize, 1)?;
        columns.key_ends = cutter.cut(entries, columns.key_ends_width.into())?;
        let middles = if columns.key_ends_width == 0 {
            entries
        } else {
            1
        };
        columns.keys = cutter.cut(middles, columns.key_width as usize)?;
        columns.kinds = cutter.cut(entries, usize::from(columns.kind == 0))?;
        columns.sequences = cutter.cut(entries, columns.sequence_width.into())?;
        columns.expiries = cutter.cut(entries, columns.expiry_width.into())?;
        columns.value_ends = cutter.cut(entries, columns.value_ends_width.into())?;
        if uses_dictionary {
            let blocks = cutter.cut(1, 1)?;
            columns.dictionary_blocks = bytes[blocks as usize];
            if columns.dictionary_blocks == 0 {
                return Err(BlockFault::malformed("dictionary of no block"));
            }
        }
        columns.values = cutter.cut(0, 1)?;
        let stored = cutter.end - cutter.position;
        let raw_bytes = values_raw_bytes as usize;
        if codec == CodecId::None && stored != raw_bytes {
            return Err(BlockFault::mismatch(
                "value column length",
                u64::from(values_raw_bytes),
                stored as u64,
            ));
        }
        if columns.value_ends_width == 0
            && entries.checked_mul(columns.value_width as usize) != Some(raw_bytes)
        {
            return Err(BlockFault::malformed("value length"));
        }
        Ok(columns)
    }

    /// Reads the head of the payload. The offsets of the result hold lengths where they are known, else 0.
    fn decode_shape(
        reader: &mut ByteReader<'_>,
        codec: CodecId,
        values_raw_bytes: u32,
    ) -> Result<Self, Truncated> {
        let entries = reader.length(ENTRIES_MAX)?;
        let shape = reader.u8()?;
        let sequence_width = reader.u8()?;
        let key_ends_width = width_of_code(shape & 3).ok_or(Truncated)?;
        let value_ends_width = width_of_code((shape >> 3) & 3).ok_or(Truncated)?;
        // Expiries are u32 or u64: twice the width of the same code for ends.
        let expiry_width = width_of_code((shape >> 5) & 3).ok_or(Truncated)? * 2;
        let has_kinds = shape & 4 != 0;
        let kind = if has_kinds { 0 } else { reader.u8()? };
        if entries == 0
            || shape & 0x80 != 0
            || !matches!(sequence_width, 0 | 1 | 2 | 4 | 8)
            || (!has_kinds && kind == 0)
        {
            return Err(Truncated);
        }
        let length = |reader: &mut ByteReader<'_>| reader.length(codec::RAW_BYTES_MAX);
        let sequence_min = reader.varint()?;
        let prefix = length(reader)? as u32;
        let suffix = length(reader)? as u32;
        let key_width = length(reader)? as u32;
        let value_width = if value_ends_width == 0 {
            length(reader)? as u32
        } else {
            0
        };
        if suffix != 0 && key_ends_width != 0 {
            return Err(Truncated);
        }
        Ok(Self {
            entries: entries as u32,
            key_ends_width,
            sequence_width,
            expiry_width,
            value_ends_width,
            kind,
            codec,
            dictionary_blocks: 0,
            sequence_min,
            prefix,
            suffix,
            key_ends: 0,
            keys: 0,
            key_width,
            kinds: 0,
            sequences: 0,
            expiries: 0,
            value_ends: 0,
            value_width,
            values: 0,
            values_raw_bytes,
        })
    }
}
