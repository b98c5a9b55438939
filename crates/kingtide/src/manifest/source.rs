//! Reads frames of a file through a buffer. What is allocated is bounded by the longest frame, not by the file.

use kingtide_base::{Lsn, StorageError, StorageResult};
use kingtide_env::File;
use kingtide_format::{
    FRAME_HEADER_BYTES, Frame, FrameFault, decode_frame, decode_frame_header, frame_bytes,
};

/// What is read at once when the frames are short.
const READ_BYTES: usize = 256 << 10;

/// A manifest file for reading. The position of a frame is its offset in the file.
pub(super) struct FrameSource<'a> {
    file: &'a dyn File,
    name: &'a str,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    buffer_offset: u64,
}

impl<'a> FrameSource<'a> {
    /// Nothing is read yet; `name` is for messages.
    pub(super) const fn new(file: &'a dyn File, name: &'a str) -> Self {
        Self {
            file,
            name,
            buffer: Vec::new(),
            buffer_offset: 0,
        }
    }

    /// Drops what was read, so that the next read sees what the file holds then.
    pub(super) fn forget(&mut self) {
        self.buffer.clear();
    }

    /// The bytes from `offset` on, `count` of them or fewer at the end of the file.
    pub(super) fn bytes(&mut self, offset: u64, count: usize) -> StorageResult<&[u8]> {
        let buffered = offset
            .checked_sub(self.buffer_offset)
            .and_then(|skip| usize::try_from(skip).ok())
            .filter(|skip| {
                skip.checked_add(count)
                    .is_some_and(|end| end <= self.buffer.len())
            });
        if let Some(skip) = buffered {
            return Ok(&self.buffer[skip..skip + count]);
        }
        self.buffer.resize(count.max(READ_BYTES), 0);
        self.buffer_offset = offset;
        let read = self.file.read_at(&mut self.buffer, offset);
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        read.map_err(|error| StorageError::io(self.name, "read", error))?;
        Ok(&self.buffer[..count.min(self.buffer.len())])
    }

    /// The frame at `offset` of a file with this salt.
    pub(super) fn frame(
        &mut self,
        salt: u64,
        offset: u64,
    ) -> StorageResult<Result<Frame<'_>, FrameFault>> {
        let position = Lsn(offset);
        let head = self.bytes(offset, FRAME_HEADER_BYTES)?;
        let header = match decode_frame_header(head, salt, position) {
            Ok(header) => header,
            Err(fault) => return Ok(Err(fault)),
        };
        let whole = self.bytes(offset, frame_bytes(header.payload_bytes as usize))?;
        Ok(decode_frame(whole, salt, position))
    }
}
