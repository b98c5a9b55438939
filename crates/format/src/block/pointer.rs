//! Pointers into the value log, as value columns hold them.

use kingtide_base::ValuePointer;

use super::BlockFault;

/// Appends a pointer as the value column stores it: four varints.
pub fn encode_pointer(target: &mut Vec<u8>, pointer: &ValuePointer) {
    pointer.encode(target);
}

/// Reads back what [`encode_pointer`] wrote; `bytes` must hold nothing else.
///
/// # Errors
/// When the bytes are not one pointer.
pub fn decode_pointer(bytes: &[u8]) -> Result<ValuePointer, BlockFault> {
    ValuePointer::decode(bytes).ok_or(BlockFault::malformed("malformed value pointer"))
}
