//! Packed payloads: what a frame holds whose header says that it is [packed](kingtide_collections::pack). The frame's checksum
//! covers the packed bytes, so damage is found before anything is unpacked.

use kingtide_base::limits::FRAME_PAYLOAD_BYTES_MAX;
use kingtide_collections::unpack;

use crate::block::BlockFault;

use super::Frame;

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
        const FAULT: BlockFault = BlockFault::malformed("a packed payload that does not unpack");
        unpack(self.payload, FRAME_PAYLOAD_BYTES_MAX, scratch).ok_or(FAULT)
    }
}
