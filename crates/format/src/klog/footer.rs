//! The footer: the last bytes of a klog file, and the tail that footers of klog and vlog files of every version share.
//!
//! ```text
//! tail    -24  8  checksum: XXH3-64 of the footer without this field, seeded with mix(file id, offset of the footer)
//!         -16  4  version
//!         -12  4  footer bytes
//!         -8   8  magic
//! ```
//!
//! Because the tail is the same in all versions, a newer file is told from a damaged one: its checksum is right and its
//! version is too high.

use kingtide_base::{ByteReader, FileId, Truncated, checksum, checksum_mix};

use crate::CodecId;
use crate::block::BlockFault;

/// The newest version of klog files that this build reads: blocks may be compressed with the dictionary of their table.
pub const KLOG_VERSION: u32 = 5;
/// The version of tables without a dictionary, which this build writes too: the footer has a digest of the content.
pub const KLOG_VERSION_CONTENT: u32 = 4;
/// The version of tables that know their family, before.
pub const KLOG_VERSION_FAMILY: u32 = 3;
/// The version of tables without range deletes that do not know their family, before.
pub const KLOG_VERSION_PLAIN: u32 = 1;
/// The length of the footer in bytes.
pub const KLOG_FOOTER_BYTES: usize = 88;
/// The most bytes a footer of any version may have: what a reader fetches from the end of the file.
pub const FOOTER_READ_BYTES: usize = 4096;
/// The length of the tail in bytes.
const TAIL_BYTES: usize = 24;
const KLOG_MAGIC: [u8; 8] = *b"KTKLOG\r\n";

/// Why a footer cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailFault {
    /// The bytes are damaged, or not of such a file.
    Damaged(BlockFault),
    /// The file is whole but this build is too old for it; the version found.
    Newer(u32),
}

impl From<BlockFault> for TailFault {
    fn from(fault: BlockFault) -> Self {
        Self::Damaged(fault)
    }
}

/// What distinguishes the footers of two kinds of file.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// The last 8 bytes of the file.
    pub magic: [u8; 8],
    /// The newest version that is read.
    pub version: u32,
    /// The length of the footer of all versions up to that one.
    pub footer_bytes: usize,
}

/// Completes a footer of `version` whose fields are in `footer`; its checksum.
pub fn seal_tail(
    footer: &mut Vec<u8>,
    (tail, version): (&Tail, u32),
    file: FileId,
    offset: u64,
) -> u64 {
    let mut covered = footer.clone();
    let mut rest = Vec::with_capacity(16);
    rest.extend_from_slice(&version.to_le_bytes());
    rest.extend_from_slice(&(tail.footer_bytes as u32).to_le_bytes());
    rest.extend_from_slice(&tail.magic);
    covered.extend_from_slice(&rest);
    let sum = checksum(&covered, checksum_mix(file.0, offset));
    footer.extend_from_slice(&sum.to_le_bytes());
    footer.extend_from_slice(&rest);
    debug_assert_eq!(footer.len(), tail.footer_bytes);
    sum
}

/// Verifies the footer at the end of `bytes` (the end of a file of `file_bytes` bytes); its fields, its checksum and its
/// version.
///
/// # Errors
/// [`TailFault::Newer`] for an intact footer of a newer version, [`TailFault::Damaged`] for anything else.
pub fn open_tail<'a>(
    bytes: &'a [u8],
    tail: &Tail,
    file: FileId,
    file_bytes: u64,
) -> Result<(&'a [u8], u64, u32), TailFault> {
    const SHORT: BlockFault = BlockFault::malformed("file too short for its footer");
    let (_, end) = bytes.split_last_chunk::<TAIL_BYTES>().ok_or(SHORT)?;
    let mut reader = ByteReader::new(end);
    let mut read = || -> Result<_, Truncated> {
        Ok((reader.u64()?, reader.u32()?, reader.u32()?, reader.u64()?))
    };
    let (expected, version, footer_bytes, magic) = read().map_err(|Truncated| SHORT)?;
    if magic.to_le_bytes() != tail.magic {
        let wanted = u64::from_le_bytes(tail.magic);
        return Err(BlockFault::mismatch("magic number of the footer", wanted, magic).into());
    }
    let length = footer_bytes as usize;
    if length < TAIL_BYTES || length > bytes.len() {
        return Err(BlockFault::mismatch(
            "length of the footer",
            tail.footer_bytes as u64,
            u64::from(footer_bytes),
        )
        .into());
    }
    let footer = &bytes[bytes.len() - length..];
    let fields = &footer[..length - TAIL_BYTES];
    let mut covered = fields.to_vec();
    covered.extend_from_slice(&footer[length - TAIL_BYTES + 8..]);
    let seed = checksum_mix(file.0, file_bytes.wrapping_sub(length as u64));
    let found = checksum(&covered, seed);
    if expected != found {
        return Err(BlockFault::mismatch("footer checksum", expected, found).into());
    }
    if version > tail.version {
        return Err(TailFault::Newer(version));
    }
    if version == 0 || length != tail.footer_bytes {
        return Err(BlockFault::malformed("footer of an unknown version").into());
    }
    Ok((fields, expected, version))
}

/// What the footer says: where the sections are (each ends where the next begins, the last at the footer), their checksums,
/// and a digest of those of the data blocks. So the footer's own checksum pins everything in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KlogFooter {
    /// Where the index begins, in bytes: where the data blocks end.
    pub index_offset: u64,
    /// Where the filter begins; equal to `properties_offset` when there is none.
    pub filter_offset: u64,
    /// Where the properties begin.
    pub properties_offset: u64,
    /// The checksum of the index block.
    pub index_checksum: u64,
    /// The checksum of the filter block; 0 when there is none.
    pub filter_checksum: u64,
    /// The checksum of the properties block.
    pub properties_checksum: u64,
    /// Data blocks.
    pub blocks: u32,
    /// The codec that blocks were to be compressed with; each block says what it uses.
    pub codec: CodecId,
    /// The checksums of the data blocks, in order, folded by `mix` from 0 on; 0 in versions before
    /// [`KLOG_VERSION_CONTENT`].
    pub content: u64,
    /// [`KLOG_VERSION`], or an earlier one.
    pub version: u32,
}

impl KlogFooter {
    /// How klog footers end.
    pub const TAIL: Tail = Tail {
        magic: KLOG_MAGIC,
        version: KLOG_VERSION,
        footer_bytes: KLOG_FOOTER_BYTES,
    };

    /// The footer of `file`, to be written at `offset`, and its checksum.
    #[must_use]
    pub fn encode(&self, file: FileId, offset: u64) -> (Vec<u8>, u64) {
        let mut target = Vec::with_capacity(KLOG_FOOTER_BYTES);
        for number in [
            self.index_offset,
            self.filter_offset,
            self.properties_offset,
            self.index_checksum,
            self.filter_checksum,
            self.properties_checksum,
        ] {
            target.extend_from_slice(&number.to_le_bytes());
        }
        target.extend_from_slice(&self.blocks.to_le_bytes());
        target.extend_from_slice(&[self.codec as u8, 0, 0, 0]);
        target.extend_from_slice(&self.content.to_le_bytes());
        let sum = seal_tail(&mut target, (&Self::TAIL, self.version), file, offset);
        (target, sum)
    }

    /// Reads the footer at the end of `bytes` (the end of a file of `file_bytes` bytes), and its checksum.
    ///
    /// # Errors
    /// As [`open_tail`]; also when the sections are not in order.
    pub fn decode(bytes: &[u8], file: FileId, file_bytes: u64) -> Result<(Self, u64), TailFault> {
        let (fields, sum, version) = open_tail(bytes, &Self::TAIL, file, file_bytes)?;
        let footer = Self::decode_fields(fields, version)
            .map_err(|Truncated| BlockFault::malformed("fields of the footer"))?;
        let end = file_bytes - KLOG_FOOTER_BYTES as u64;
        let ordered = footer.index_offset < footer.filter_offset
            && footer.filter_offset <= footer.properties_offset
            && footer.properties_offset < end;
        if !ordered {
            return Err(BlockFault::malformed("sections out of order").into());
        }
        Ok((footer, sum))
    }

    fn decode_fields(fields: &[u8], version: u32) -> Result<Self, Truncated> {
        let mut reader = ByteReader::new(fields);
        let mut footer = Self {
            index_offset: reader.u64()?,
            filter_offset: reader.u64()?,
            properties_offset: reader.u64()?,
            index_checksum: reader.u64()?,
            filter_checksum: reader.u64()?,
            properties_checksum: reader.u64()?,
            blocks: reader.u32()?,
            codec: CodecId::from_byte(reader.u8()?).ok_or(Truncated)?,
            content: 0,
            version,
        };
        let reserved = [reader.u8()?, reader.u8()?, reader.u8()?];
        footer.content = reader.u64()?;
        let has_content = version > KLOG_VERSION_FAMILY;
        if reserved != [0; 3] || !(has_content || footer.content == 0) || !reader.is_empty() {
            return Err(Truncated);
        }
        Ok(footer)
    }
}
