//! The 64-byte head that every log segment and every manifest begins with.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic: which kind of file |
//! | 4 | 4 | format version |
//! | 8 | 48 | the fields of the kind |
//! | 56 | 8 | checksum of bytes 0..56 |
//!
//! Magic, version and checksum keep their places in every future version, so that "written by a newer version" is told
//! from "damaged" without knowing the newer version: the checksum is judged first, the version after it.

use std::fmt;

use kingtide_base::checksum;

/// The length of a file header in bytes.
pub(crate) const HEADER_BYTES: usize = 64;
/// Where the fields of the file kind begin.
const BODY_OFFSET: usize = 8;
/// The length of the fields of the file kind in bytes.
pub(crate) const BODY_BYTES: usize = 48;
const CHECKSUM_OFFSET: usize = BODY_OFFSET + BODY_BYTES;

const _: () = assert!(CHECKSUM_OFFSET + 8 == HEADER_BYTES);

/// Why the head of a file was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// All 64 bytes are zero: the file was allocated and never begun.
    Empty,
    /// The file is shorter than a header.
    Truncated,
    /// The checksum does not match.
    Checksum {
        /// What the header promises.
        expected: u64,
        /// What the bytes give.
        found: u64,
    },
    /// The header is whole; this is the version that wrote it, and it is newer than this build.
    NewerVersion(u32),
    /// The checksum matches, but the bytes are not a header of this kind of file.
    Malformed,
}

impl fmt::Display for HeaderFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the header is all zero"),
            Self::Truncated => f.write_str("the file is shorter than its header"),
            Self::Checksum { .. } => f.write_str("the header fails its checksum"),
            Self::NewerVersion(version) => {
                write!(f, "the header was written by format version {version}")
            }
            Self::Malformed => f.write_str("the header is not of this kind of file"),
        }
    }
}

impl std::error::Error for HeaderFault {}

pub(crate) fn encode_header(
    magic: [u8; 4],
    version: u32,
    body: &[u8; BODY_BYTES],
) -> [u8; HEADER_BYTES] {
    let mut header = [0_u8; HEADER_BYTES];
    header[..4].copy_from_slice(&magic);
    header[4..BODY_OFFSET].copy_from_slice(&version.to_le_bytes());
    header[BODY_OFFSET..CHECKSUM_OFFSET].copy_from_slice(body);
    let sum = checksum(&header[..CHECKSUM_OFFSET], 0);
    header[CHECKSUM_OFFSET..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// The version and the body of the header at the front of `bytes`.
pub(crate) fn decode_header(
    bytes: &[u8],
    magic: [u8; 4],
    version_supported: u32,
) -> Result<(u32, [u8; BODY_BYTES]), HeaderFault> {
    let header = bytes
        .first_chunk::<HEADER_BYTES>()
        .ok_or(HeaderFault::Truncated)?;
    if *header == [0; HEADER_BYTES] {
        return Err(HeaderFault::Empty);
    }
    let found = checksum(&header[..CHECKSUM_OFFSET], 0);
    let expected = u64::from_le_bytes(field(header, CHECKSUM_OFFSET));
    if expected != found {
        return Err(HeaderFault::Checksum { expected, found });
    }
    let version = u32::from_le_bytes(field(header, 4));
    if field(header, 0) != magic || version == 0 {
        return Err(HeaderFault::Malformed);
    }
    if version > version_supported {
        return Err(HeaderFault::NewerVersion(version));
    }
    Ok((version, field(header, BODY_OFFSET)))
}

/// The `N` bytes at `offset`, which the caller knows to lie inside `bytes`.
#[inline]
pub(crate) fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut value = [0_u8; N];
    value.copy_from_slice(&bytes[offset..offset + N]);
    value
}
