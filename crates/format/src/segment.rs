//! The head of a log segment file: which life of the file this is, and where in the log it begins.
//!
//! The 64 bytes of the header stand at offset 0 and once more at 512, in another sector: one damaged byte cannot hide a
//! whole segment. Frames begin at 1024. The page is docs/formats/wal.md.

use kingtide_base::{ByteReader, DatabaseId, Lsn, SegmentId, Truncated};

use crate::FRAME_ALIGN;
use crate::header::{BODY_BYTES, HEADER_BYTES, HeaderFault, decode_header, encode_header};

/// The newest version of the log format that this build reads, and the one it writes. Before version 5 no put is packed,
/// before version 4 no frame; those before version 3 do not say of which database they are, and version 1 has no spilled
/// puts.
pub const SEGMENT_VERSION: u32 = 5;
/// The first version that says of which database a segment is.
const SEGMENT_VERSION_DATABASE: u32 = 3;
/// The length of one copy of the header in bytes.
pub const SEGMENT_HEADER_BYTES: usize = HEADER_BYTES;
/// Where the second copy of the header begins, in bytes from the start of the file: in another sector than the first.
pub const SEGMENT_HEADER_COPY_OFFSET: u64 = 512;
/// Where the first frame begins, in bytes from the start of the file.
pub const SEGMENT_FRAMES_OFFSET: u64 = 1024;

const _: () = assert!(SEGMENT_HEADER_BYTES as u64 <= SEGMENT_HEADER_COPY_OFFSET);
const _: () =
    assert!(SEGMENT_HEADER_COPY_OFFSET + SEGMENT_HEADER_BYTES as u64 <= SEGMENT_FRAMES_OFFSET);
const _: () = assert!(SEGMENT_FRAMES_OFFSET.is_multiple_of(FRAME_ALIGN as u64));

const SEGMENT_MAGIC: [u8; 4] = *b"KTWL";

/// The head of a log segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The life: larger than that of every segment begun before.
    pub segment: SegmentId,
    /// Seeds the checksums of the frames of this life; random.
    pub salt: u64,
    /// The database whose log this is; `None` in a segment of an earlier version.
    pub database: Option<DatabaseId>,
    /// The position in the log of the first frame.
    pub base: Lsn,
    /// The length to which the file was secured when the life began, in bytes, both copies of this header included.
    pub bytes: u64,
}

impl SegmentHeader {
    /// The header as bytes; without a database it is that of the version before.
    #[must_use]
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut body = [0_u8; BODY_BYTES];
        body[..8].copy_from_slice(&self.segment.0.to_le_bytes());
        body[8..16].copy_from_slice(&self.salt.to_le_bytes());
        let database = self.database.map_or(0, |database| database.0);
        body[16..32].copy_from_slice(&database.to_le_bytes());
        body[32..40].copy_from_slice(&self.base.0.to_le_bytes());
        body[40..].copy_from_slice(&self.bytes.to_le_bytes());
        let version = match self.database {
            Some(_) => SEGMENT_VERSION,
            None => SEGMENT_VERSION_DATABASE - 1,
        };
        encode_header(SEGMENT_MAGIC, version, &body)
    }

    /// The header of the segment file that begins with `bytes`: its first copy, or its second when the first is no
    /// header. [`SEGMENT_FRAMES_OFFSET`] bytes are enough.
    ///
    /// # Errors
    /// [`HeaderFault::NewerVersion`] when the first copy that is whole is newer, else what ails the first copy.
    pub fn decode_either(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let copy = bytes
            .get(SEGMENT_HEADER_COPY_OFFSET as usize..)
            .unwrap_or_default();
        match Self::decode(bytes) {
            Err(fault) if !matches!(fault, HeaderFault::NewerVersion(_)) => {
                match Self::decode(copy) {
                    Err(newer @ HeaderFault::NewerVersion(_)) => Err(newer),
                    other => other.map_err(|_| fault),
                }
            }
            outcome => outcome,
        }
    }

    /// The header at the front of `bytes`, one copy.
    ///
    /// # Errors
    /// [`HeaderFault`] says why there is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let (version, body) = decode_header(bytes, SEGMENT_MAGIC, SEGMENT_VERSION)?;
        let mut header =
            Self::read(&mut ByteReader::new(&body)).map_err(|Truncated| HeaderFault::Malformed)?;
        if header.bytes < SEGMENT_FRAMES_OFFSET {
            return Err(HeaderFault::Malformed);
        }
        if version < SEGMENT_VERSION_DATABASE {
            // The start of the machine during which the life began stood there.
            header.database = None;
        }
        Ok(header)
    }

    fn read(reader: &mut ByteReader<'_>) -> Result<Self, Truncated> {
        Ok(Self {
            segment: SegmentId(reader.u64()?),
            salt: reader.u64()?,
            database: Some(DatabaseId(reader.u128()?)),
            base: Lsn(reader.u64()?),
            bytes: reader.u64()?,
        })
    }
}

#[cfg(test)]
mod tests;
