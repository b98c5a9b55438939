//! Header, records and footer of a value file.

use kingtide_base::limits::VALUE_BYTES_MAX;
use kingtide_base::{ByteReader, ChecksumParts, FileId, Truncated, checksum, checksum_mix};

use super::chunks::{CHUNKED, CHUNKED_CODEC, open_chunked};
use super::dictionary::{WITH_DICTIONARY, WITH_DICTIONARY_CODEC};
use crate::CodecId;
use crate::block::{BlockFault, BlockPlace, compress_if_smaller, decompress_behind};
use crate::klog::{Tail, TailFault, open_tail, seal_tail};

/// The newest version of vlog files that this build reads, and the one it writes: values may be compressed with a dictionary.
pub const VLOG_VERSION: u32 = 4;
/// The first version whose footer has a digest of the content, and the last that has none.
const VLOG_VERSION_DIGEST: u32 = 3;
const VLOG_VERSION_PLAIN: u32 = 2;
/// The length of the file header in bytes: the offset of the first record.
pub const VLOG_HEADER_BYTES: usize = 32;
/// The length of a record's header in bytes.
pub const RECORD_HEADER_BYTES: usize = 25;
/// The length of the footer in bytes.
pub const VLOG_FOOTER_BYTES: usize = 40;
const VLOG_MAGIC: [u8; 8] = *b"KTVLOG\r\n";

const _: () = assert!(VALUE_BYTES_MAX + RECORD_HEADER_BYTES < u32::MAX as usize);

/// The first bytes of the value file `file`.
#[must_use]
pub fn encode_vlog_header(file: FileId) -> [u8; VLOG_HEADER_BYTES] {
    let mut target = [0; VLOG_HEADER_BYTES];
    target[..8].copy_from_slice(&VLOG_MAGIC);
    target[8..12].copy_from_slice(&VLOG_VERSION.to_le_bytes());
    target[16..24].copy_from_slice(&file.0.to_le_bytes());
    let sum = checksum(&target[..24], checksum_mix(file.0, 0));
    target[24..].copy_from_slice(&sum.to_le_bytes());
    target
}

/// Verifies that `bytes` begin with the header of `file`.
///
/// # Errors
/// [`TailFault::Newer`] for an intact header of a newer version, [`TailFault::Damaged`] for anything else.
pub fn decode_vlog_header(bytes: &[u8], file: FileId) -> Result<(), TailFault> {
    let header = bytes
        .first_chunk::<VLOG_HEADER_BYTES>()
        .ok_or(BlockFault::malformed("file too short for its header"))?;
    let mut reader = ByteReader::new(header);
    let mut read = || -> Result<_, Truncated> {
        Ok((
            reader.u64()?,
            reader.u32()?,
            reader.u32()?,
            reader.u64()?,
            reader.u64()?,
        ))
    };
    let (magic, version, reserved, id, expected) =
        read().map_err(|Truncated| BlockFault::malformed("file header"))?;
    let wanted = u64::from_le_bytes(VLOG_MAGIC);
    if magic != wanted {
        return Err(BlockFault::mismatch("magic number of the header", wanted, magic).into());
    }
    let found = checksum(&header[..24], checksum_mix(file.0, 0));
    if expected != found {
        return Err(BlockFault::mismatch("header checksum", expected, found).into());
    }
    if version > VLOG_VERSION {
        return Err(TailFault::Newer(version));
    }
    if version == 0 || reserved != 0 || id != file.0 {
        return Err(BlockFault::malformed("fields of the file header").into());
    }
    Ok(())
}

/// A verified record, less its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// The checksum that the record carries, and has.
    pub checksum: u64,
    /// What stands for the record in the digest of its file: its checksum; of a record in chunks, once all are verified,
    /// the checksums of the chunks, in order, and then its own, folded by `mix` from 0 on.
    pub content: u64,
    /// The hash of the key that the value belongs to.
    pub key_hash: u64,
    /// The length of the stored value in bytes.
    pub stored_bytes: u32,
    /// The length of the value in bytes.
    pub raw_bytes: u32,
    /// How the value is compressed; of a value in chunks nothing is said.
    pub codec: CodecId,
    /// True when the value is in chunks.
    pub is_chunked: bool,
    /// True when the value is compressed with a dictionary.
    pub uses_dictionary: bool,
}

/// The fields of a record's header, as they are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claims {
    checksum: u64,
    key_hash: u64,
    stored_bytes: u32,
    pub(super) raw_bytes: u32,
    pub(super) codec: u8,
}

impl Claims {
    fn decode(header: &[u8]) -> Result<Self, BlockFault> {
        let mut reader = ByteReader::new(header);
        let mut read = || -> Result<_, Truncated> {
            Ok(Self {
                checksum: reader.u64()?,
                key_hash: reader.u64()?,
                stored_bytes: reader.u32()?,
                raw_bytes: reader.u32()?,
                codec: reader.u8()?,
            })
        };
        read().map_err(|Truncated| BlockFault::malformed("record header"))
    }

    /// They mean this for a plain record compressed with `codec`.
    pub(super) fn header(&self, codec: CodecId) -> RecordHeader {
        RecordHeader {
            checksum: self.checksum,
            content: self.checksum,
            key_hash: self.key_hash,
            stored_bytes: self.stored_bytes,
            raw_bytes: self.raw_bytes,
            codec,
            is_chunked: false,
            uses_dictionary: false,
        }
    }
}

/// Appends the record of `value` to `target`, compressed when that pays; the length of the record in bytes.
/// The caller keeps the limit of values.
pub fn encode_record(
    target: &mut Vec<u8>,
    codec: CodecId,
    key_hash: u64,
    value: &[u8],
    place: BlockPlace,
) -> u32 {
    debug_assert!(value.len() <= VALUE_BYTES_MAX);
    let start = target.len();
    target.resize(start + RECORD_HEADER_BYTES, 0);
    let used = compress_if_smaller(codec, value, target);
    seal_record(
        &mut target[start..],
        key_hash,
        (value.len(), used as u8),
        place,
    )
}

/// Writes the header of the whole record `record`, behind which what is stored of a value of so many bytes lies, under this
/// codec number; the length of the record.
pub(super) fn seal_record(
    record: &mut [u8],
    key_hash: u64,
    (value_bytes, codec): (usize, u8),
    place: BlockPlace,
) -> u32 {
    let stored_bytes = (record.len() - RECORD_HEADER_BYTES) as u32;
    write_fields(record, key_hash, (stored_bytes, value_bytes as u32), codec);
    let sum = checksum(&record[8..], place.seed());
    record[..8].copy_from_slice(&sum.to_le_bytes());
    record.len() as u32
}

/// Writes the fields of a record's header but for the checksum, which covers them.
pub(super) fn write_fields(
    header: &mut [u8],
    key_hash: u64,
    (stored_bytes, raw_bytes): (u32, u32),
    codec: u8,
) {
    header[8..16].copy_from_slice(&key_hash.to_le_bytes());
    header[16..20].copy_from_slice(&stored_bytes.to_le_bytes());
    header[20..24].copy_from_slice(&raw_bytes.to_le_bytes());
    header[24] = codec;
}

/// The header of the record of a value that is stored like this by the caller, who writes it behind the header: what
/// [`encode_record`] makes. The caller keeps the limit of values.
#[must_use]
pub fn encode_stored_header(
    key_hash: u64,
    stored: &StoredValue<'_>,
    place: BlockPlace,
) -> [u8; RECORD_HEADER_BYTES] {
    debug_assert!(stored.value_bytes <= VALUE_BYTES_MAX);
    let mut header = [0; RECORD_HEADER_BYTES];
    let lengths = (stored.bytes.len() as u32, stored.value_bytes as u32);
    write_fields(&mut header, key_hash, lengths, stored.codec as u8);
    let mut sum = ChecksumParts::new(place.seed());
    sum.add(&header[8..]);
    sum.add(stored.bytes);
    header[..8].copy_from_slice(&sum.finish().to_le_bytes());
    header
}

/// What the header of a record claims; nothing of it is verified. For a value that is stored as it is,
/// [`check_raw_record`] does that.
///
/// # Errors
/// When it is not a whole header, or names an unknown codec.
pub fn peek_record(header: &[u8]) -> Result<RecordHeader, BlockFault> {
    let claims = Claims::decode(header)?;
    let codec = match claims.codec {
        CHUNKED => CHUNKED_CODEC,
        WITH_DICTIONARY => WITH_DICTIONARY_CODEC,
        byte => CodecId::from_byte(byte).ok_or(BlockFault::malformed("unknown codec"))?,
    };
    Ok(RecordHeader {
        is_chunked: claims.codec == CHUNKED,
        uses_dictionary: claims.codec == WITH_DICTIONARY,
        ..claims.header(codec)
    })
}

/// Verifies a record whose value is stored as it is and lies apart from its header.
///
/// # Errors
/// As [`open_record`].
pub fn check_raw_record(
    header: &[u8],
    value: &[u8],
    place: BlockPlace,
) -> Result<RecordHeader, BlockFault> {
    let found = peek_record(header)?;
    let mut sum = ChecksumParts::new(place.seed());
    sum.add(header.get(8..RECORD_HEADER_BYTES).unwrap_or_default());
    sum.add(value);
    if found.checksum != sum.finish() {
        return Err(BlockFault::mismatch(
            "record checksum",
            found.checksum,
            sum.finish(),
        ));
    }
    let length = value.len() as u64;
    if u64::from(found.stored_bytes) != length || found.raw_bytes != found.stored_bytes {
        let stored = u64::from(found.stored_bytes);
        return Err(BlockFault::mismatch("record length", stored, length));
    }
    Ok(found)
}

/// The length of the record that begins with `header`, header included, as the header claims (not yet verified).
#[must_use]
pub fn peek_record_bytes(header: &[u8]) -> Option<u64> {
    let stored = header.get(16..20)?;
    let stored = u32::from_le_bytes([stored[0], stored[1], stored[2], stored[3]]);
    Some(u64::from(stored) + RECORD_HEADER_BYTES as u64)
}

/// A value as its record stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredValue<'a> {
    /// What made `bytes` of the value.
    pub codec: CodecId,
    /// The length of the value.
    pub value_bytes: usize,
    /// What is stored.
    pub bytes: &'a [u8],
}

/// Verifies the record `bytes` (all of it and nothing else); what it stores, which is not decompressed. `None` where that means
/// nothing by itself: in chunks, or with a dictionary.
///
/// # Errors
/// When the record fails its checksum, or contradicts itself.
pub fn stored_in_record(
    bytes: &[u8],
    place: BlockPlace,
) -> Result<Option<(RecordHeader, StoredValue<'_>)>, BlockFault> {
    if let Some(&(CHUNKED | WITH_DICTIONARY)) = bytes.get(RECORD_HEADER_BYTES - 1) {
        return Ok(None);
    }
    verify_plain_record(bytes, place).map(Some)
}

/// Verifies a record that is not in chunks and uses no dictionary.
fn verify_plain_record(
    bytes: &[u8],
    place: BlockPlace,
) -> Result<(RecordHeader, StoredValue<'_>), BlockFault> {
    let (claims, stored) = verify_claims(bytes, place)?;
    if claims.codec == WITH_DICTIONARY {
        return Err(BlockFault::malformed("a dictionary where none may be used"));
    }
    let codec = CodecId::from_byte(claims.codec).ok_or(BlockFault::malformed("unknown codec"))?;
    let value = StoredValue {
        codec,
        value_bytes: claims.raw_bytes as usize,
        bytes: stored,
    };
    Ok((claims.header(codec), value))
}

/// Verifies the record `bytes` (all of it and nothing else) and replaces the content of `target` by its value. One that
/// [uses a dictionary](super::uses_dictionary) is opened in [another way](super::DictionaryRecord).
///
/// # Errors
/// When the record fails its checksum, contradicts itself, or does not decompress.
pub fn open_record(
    bytes: &[u8],
    place: BlockPlace,
    target: &mut Vec<u8>,
) -> Result<RecordHeader, BlockFault> {
    match bytes.get(RECORD_HEADER_BYTES - 1) {
        Some(&CHUNKED) => open_chunked(bytes, place, target),
        _ => open_plain_record(bytes, place, target),
    }
}

/// As [`open_record`], for a record that is not in chunks.
pub(super) fn open_plain_record(
    bytes: &[u8],
    place: BlockPlace,
    target: &mut Vec<u8>,
) -> Result<RecordHeader, BlockFault> {
    let header = open_plain_record_behind(bytes, place, (target, 0))?;
    target.truncate(header.raw_bytes as usize);
    Ok(header)
}

/// As [`open_plain_record`], but puts the value behind the first `start` bytes of `target`, which must be there. `target` grows
/// where it is too short, and keeps what lies behind.
pub(super) fn open_plain_record_behind(
    bytes: &[u8],
    place: BlockPlace,
    (target, start): (&mut Vec<u8>, usize),
) -> Result<RecordHeader, BlockFault> {
    let (header, stored) = verify_plain_record(bytes, place)?;
    let sized = (stored.bytes, stored.value_bytes);
    decompress_behind(stored.codec, sized, target, start)?;
    Ok(header)
}

/// Verifies checksum and lengths of a record that is not in chunks; what its header says, and what is stored.
pub(super) fn verify_claims(
    bytes: &[u8],
    place: BlockPlace,
) -> Result<(Claims, &[u8]), BlockFault> {
    let Some((head, stored)) = bytes.split_at_checked(RECORD_HEADER_BYTES) else {
        return Err(BlockFault::malformed("record shorter than its header"));
    };
    let claims = Claims::decode(head)?;
    let found = checksum(&bytes[8..], place.seed());
    if claims.checksum != found {
        return Err(BlockFault::mismatch(
            "record checksum",
            claims.checksum,
            found,
        ));
    }
    if claims.stored_bytes as usize != stored.len() {
        return Err(BlockFault::mismatch(
            "record length",
            u64::from(claims.stored_bytes),
            stored.len() as u64,
        ));
    }
    if claims.raw_bytes as usize > VALUE_BYTES_MAX {
        return Err(BlockFault::malformed("value longer than any may be"));
    }
    Ok((claims, stored))
}

/// What the footer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlogFooter {
    /// Records in the file.
    pub records: u64,
    /// [`RecordHeader::content`] of all records, in order, folded by `mix` from 0 on; `None` in versions before 3.
    pub content: Option<u64>,
}

impl VlogFooter {
    /// How vlog footers end.
    pub const TAIL: Tail = Tail {
        magic: VLOG_MAGIC,
        version: VLOG_VERSION,
        footer_bytes: VLOG_FOOTER_BYTES,
    };

    /// The footer of `file`, to be written at `offset`, and its checksum. Without a digest it is that of version 2, the
    /// last that had none.
    #[must_use]
    pub fn encode(&self, file: FileId, offset: u64) -> (Vec<u8>, u64) {
        let mut target = Vec::with_capacity(VLOG_FOOTER_BYTES);
        target.extend_from_slice(&self.records.to_le_bytes());
        // Where there is a digest, it stands in the place of the offset, which seeds the checksum anyway.
        target.extend_from_slice(&self.content.unwrap_or(offset).to_le_bytes());
        let version = match self.content {
            Some(_) => VLOG_VERSION,
            None => VLOG_VERSION_PLAIN,
        };
        let sum = seal_tail(&mut target, (&Self::TAIL, version), file, offset);
        (target, sum)
    }

    /// Reads the footer at the end of `bytes` (the end of a file of `file_bytes` bytes), and its checksum.
    ///
    /// # Errors
    /// As for klog footers; in versions before 3 also when the records do not end at the footer.
    pub fn decode(bytes: &[u8], file: FileId, file_bytes: u64) -> Result<(Self, u64), TailFault> {
        let (fields, sum, version) = open_tail(bytes, &Self::TAIL, file, file_bytes)?;
        let mut reader = ByteReader::new(fields);
        let mut read = || -> Result<_, Truncated> { Ok((reader.u64()?, reader.u64()?)) };
        let (records, end) =
            read().map_err(|Truncated| BlockFault::malformed("fields of the footer"))?;
        if version >= VLOG_VERSION_DIGEST {
            let content = Some(end);
            return Ok((Self { records, content }, sum));
        }
        if file_bytes.checked_sub(VLOG_FOOTER_BYTES as u64) != Some(end) {
            return Err(BlockFault::mismatch("end of the records", file_bytes, end).into());
        }
        let content = None;
        Ok((Self { records, content }, sum))
    }
}
