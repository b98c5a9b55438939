//! Packed payloads: what a frame holds whose header says that it is packed.
//!
//! | size | field |
//! |---|---|
//! | 4 | length of the payload in bytes; at most [`FRAME_PAYLOAD_BYTES_MAX`] |
//! | rest | the payload as an LZ4 block |
//!
//! The frame's checksum covers the packed bytes, so damage is found before anything is unpacked.

use kingtide_base::limits::FRAME_PAYLOAD_BYTES_MAX;

use crate::{
    CodecId,
    block::{BlockFault, compress_within, decompress},
};

use super::Frame;

/// Packs `payload`, which is not empty and at most [`FRAME_PAYLOAD_BYTES_MAX`] bytes long, into the front of `target`;
/// how many bytes it takes there, or `None` when it does not fit.
#[must_use]
pub fn pack_payload(payload: &[u8], target: &mut [u8]) -> Option<usize> {
    let (length, rest) = target.split_first_chunk_mut()?;
    *length = (payload.len() as u32).to_le_bytes();
    let packed = compress_within(CodecId::Lz4Fast, payload, rest)?;
    Some(length.len() + packed)
}

impl<'a> Frame<'a> {
    /// The payload as it was before it was packed; in `scratch`, whose content is replaced, if it was.
    ///
    /// # Errors
    /// When it does not unpack to the length that it says, or says an impossible one, or memory for it is refused.
    pub fn unpacked<'s>(&self, scratch: &'s mut Vec<u8>) -> Result<&'s [u8], BlockFault>
    where
        'a: 's,
    {
        if !self.header.is_packed {
            return Ok(self.payload);
        }
        const LENGTH: BlockFault = BlockFault::malformed("impossible length of a packed payload");
        let (length, packed) = self.payload.split_first_chunk().ok_or(LENGTH)?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_PAYLOAD_BYTES_MAX {
            return Err(LENGTH);
        }
        decompress(CodecId::Lz4Fast, packed, length, scratch)?;
        Ok(scratch)
    }
}
