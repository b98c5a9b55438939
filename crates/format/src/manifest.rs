//! The head of a manifest file. 64 bytes at offset 0; frames follow. The page is docs/formats/manifest.md.

use kingtide_base::{ByteReader, Truncated};

use crate::header::{BODY_BYTES, HEADER_BYTES, HeaderFault, decode_header, encode_header};

/// The newest version of the manifest format that this build reads, and the one it writes. Version 1 has no identity of the
/// database.
pub const MANIFEST_VERSION: u32 = 2;
/// The length of the header in bytes; the first frame begins here.
pub const MANIFEST_HEADER_BYTES: usize = HEADER_BYTES;

const MANIFEST_MAGIC: [u8; 4] = *b"KTMF";

/// The head of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestHeader {
    /// The number in the file's name.
    pub number: u64,
    /// Seeds the checksums of the frames; random.
    pub salt: u64,
    /// Bytes of frames after the header that were durable before the file got its name: all of them must be valid.
    pub snapshot_bytes: u64,
}

impl ManifestHeader {
    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; MANIFEST_HEADER_BYTES] {
        let mut body = [0_u8; BODY_BYTES];
        body[..8].copy_from_slice(&self.number.to_le_bytes());
        body[8..16].copy_from_slice(&self.salt.to_le_bytes());
        body[16..24].copy_from_slice(&self.snapshot_bytes.to_le_bytes());
        encode_header(MANIFEST_MAGIC, MANIFEST_VERSION, &body)
    }

    /// The header at the front of `bytes`.
    ///
    /// # Errors
    /// [`HeaderFault`] says why there is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let (_, body) = decode_header(bytes, MANIFEST_MAGIC, MANIFEST_VERSION)?;
        let mut reader = ByteReader::new(&body);
        let header = Self::read(&mut reader).map_err(|Truncated| HeaderFault::Malformed)?;
        if reader.rest().iter().any(|byte| *byte != 0) {
            return Err(HeaderFault::Malformed);
        }
        Ok(header)
    }

    fn read(reader: &mut ByteReader<'_>) -> Result<Self, Truncated> {
        Ok(Self {
            number: reader.u64()?,
            salt: reader.u64()?,
            snapshot_bytes: reader.u64()?,
        })
    }
}
