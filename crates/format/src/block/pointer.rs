//! Pointers into the value log, as value columns hold them.

use kingtide_base::{ByteReader, FileId, Truncated, ValuePointer, write_varint};

use super::BlockFault;

/// Appends a pointer as the value column stores it: four varints.
pub fn encode_pointer(target: &mut Vec<u8>, pointer: &ValuePointer) {
    write_varint(target, pointer.file.0);
    write_varint(target, pointer.offset);
    write_varint(target, pointer.record_bytes.into());
    write_varint(target, pointer.value_bytes.into());
}

/// Reads back what [`encode_pointer`] wrote; `bytes` must hold nothing else.
///
/// # Errors
/// When the bytes are not one pointer.
pub fn decode_pointer(bytes: &[u8]) -> Result<ValuePointer, BlockFault> {
    const FAULT: BlockFault = BlockFault::malformed("malformed value pointer");
    let mut reader = ByteReader::new(bytes);
    let mut number = || reader.varint().map_err(|Truncated| FAULT);
    let pointer = ValuePointer {
        file: FileId(number()?),
        offset: number()?,
        record_bytes: u32::try_from(number()?).map_err(|_| FAULT)?,
        value_bytes: u32::try_from(number()?).map_err(|_| FAULT)?,
    };
    if reader.is_empty() {
        Ok(pointer)
    } else {
        Err(FAULT)
    }
}
