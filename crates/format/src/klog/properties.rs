//! The properties: what the manifest knows about a table, repeated in the table so that a manifest can be rebuilt.
//!
//! ```text
//! bytes order name                          varint length, then the bytes; so for all "bytes"
//! varint entries, tombstones, raw bytes, sequence minimum, sequence maximum
//! bytes smallest key, bytes largest key
//! varint value files, then for each: varint file, records, bytes
//! ```
//!
//! In a table with range deletes (version 2) their fragments follow:
//!
//! ```text
//! u8     1 when the largest key is the end of a range delete, which does not belong to the table, else 0
//! varint fragments, then for each:
//!     bytes start, bytes end                not empty
//!     varint numbers, then varint the first, and for each further one how much smaller it is
//! ```
//!
//! In a table that knows its family (version 3) the fragments, of which there may be none, are followed by it:
//!
//! ```text
//! varint family
//! bytes name of the family when the table was written
//! ```
//!
//! In a table with a dictionary (version 5) its family is followed by a copy of it:
//!
//! ```text
//! u8    blocks that it is made of
//! bytes dictionary
//! ```

use kingtide_base::limits::{COMPARATOR_NAME_BYTES_MAX, FAMILY_NAME_BYTES_MAX, KEY_BYTES_MAX};
use kingtide_base::{
    ByteReader, FamilyId, FileId, Fragment, Fragments, SeqNo, Truncated, write_bytes, write_varint,
};

use crate::block::BlockDictionary;
use crate::{OldestTombstone, TableMeta, ValueFileUse};

/// The fewest bytes of a fragment: start and end of one byte, one number.
const FRAGMENT_BYTES_MIN: usize = 6;
/// The longest end of a fragment: the successor of the longest key.
const END_BYTES_MAX: usize = KEY_BYTES_MAX + 1;

/// What the properties block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The name of the keys' order.
    pub order_name: String,
    /// Without what the footer knows: `file_bytes` and `footer_checksum` are 0.
    pub meta: TableMeta,
    /// The fragments of the range deletes, as they stand there: whether they are in order is for those to judge who know
    /// the order.
    pub ranges: Vec<Fragment>,
    /// The family that it was written for, and the name that this had then.
    pub family: Option<(FamilyId, String)>,
    /// A copy of the dictionary that blocks are compressed with.
    pub dictionary: Option<BlockDictionary>,
}

/// The family that a table is written for, the name that it has, and the dictionary of the table, if there is one.
pub type OfFamily<'a> = (FamilyId, &'a str, Option<&'a BlockDictionary>);

/// The payload of the properties block. What the footer knows (file, length, checksum) is not in it. The fragments of
/// `ranges` have ends; their numbers are `range_deletes` in all.
#[must_use]
pub fn encode_properties(
    meta: &TableMeta,
    order_name: &str,
    ranges: &Fragments,
    family: Option<OfFamily<'_>>,
) -> Vec<u8> {
    let mut target = Vec::new();
    write_bytes(&mut target, order_name.as_bytes());
    for number in [
        meta.entries,
        meta.tombstones,
        meta.raw_bytes,
        meta.sequence_min.0,
        meta.sequence_max.0,
    ] {
        write_varint(&mut target, number);
    }
    write_bytes(&mut target, &meta.smallest);
    write_bytes(&mut target, &meta.largest);
    write_varint(&mut target, meta.value_files.len() as u64);
    for used in &meta.value_files {
        write_varint(&mut target, used.file.0);
        write_varint(&mut target, used.records);
        write_varint(&mut target, used.bytes);
    }
    if !ranges.is_empty() || family.is_some() {
        encode_ranges(&mut target, meta, ranges);
    }
    if let Some((id, name, dictionary)) = family {
        write_varint(&mut target, id.0.into());
        write_bytes(&mut target, name.as_bytes());
        if let Some(dictionary) = dictionary {
            target.push(dictionary.blocks());
            write_bytes(&mut target, dictionary.bytes());
        }
    }
    target
}

fn encode_ranges(target: &mut Vec<u8>, meta: &TableMeta, ranges: &Fragments) {
    target.push(u8::from(meta.is_largest_excluded));
    write_varint(target, ranges.list().len() as u64);
    for fragment in ranges.list() {
        debug_assert!(!fragment.end.is_empty());
        write_bytes(target, &fragment.start);
        write_bytes(target, &fragment.end);
        let sequences = fragment.sequences();
        write_varint(target, sequences.len() as u64);
        let mut newer = None;
        for sequence in sequences {
            let number = newer.map_or(sequence.0, |newer: u64| newer - sequence.0);
            write_varint(target, number);
            newer = Some(sequence.0);
        }
    }
}

/// Reads back what [`encode_properties`] wrote about the table in `file`.
///
/// # Errors
/// [`Truncated`] when the payload is not of that form.
pub fn decode_properties(payload: &[u8], file: FileId) -> Result<Properties, Truncated> {
    let mut reader = ByteReader::new(payload);
    let order_name = std::str::from_utf8(reader.bytes(COMPARATOR_NAME_BYTES_MAX)?)
        .map_err(|_| Truncated)?
        .to_owned();
    let mut meta = TableMeta {
        file,
        file_bytes: 0,
        footer_checksum: 0,
        entries: reader.varint()?,
        tombstones: reader.varint()?,
        oldest_tombstone: OldestTombstone::default(),
        raw_bytes: reader.varint()?,
        sequence_min: SeqNo(reader.varint()?),
        sequence_max: SeqNo(reader.varint()?),
        sequence_base: SeqNo::ZERO,
        smallest: reader.bytes(KEY_BYTES_MAX)?.to_vec(),
        largest: reader.bytes(KEY_BYTES_MAX)?.to_vec(),
        is_largest_excluded: false,
        range_deletes: 0,
        value_files: Vec::new(),
    };
    // Three varints are at least three bytes: the count is bounded by what is left.
    let count = reader.length(reader.rest().len() / 3 + 1)?;
    for _ in 0..count {
        meta.value_files.push(ValueFileUse {
            file: FileId(reader.varint()?),
            records: reader.varint()?,
            bytes: reader.varint()?,
        });
    }
    let mut ranges = Vec::new();
    if !reader.is_empty() {
        meta.is_largest_excluded = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(Truncated),
        };
        ranges = decode_ranges(&mut reader)?;
        let numbers = |fragment: &Fragment| fragment.sequences().len() as u64;
        meta.range_deletes = ranges.iter().map(numbers).sum();
        if reader.is_empty() && ranges.is_empty() {
            return Err(Truncated);
        }
    }
    let (mut family, mut dictionary) = (None, None);
    if !reader.is_empty() {
        let id = u32::try_from(reader.varint()?).map_err(|_| Truncated)?;
        let name = std::str::from_utf8(reader.bytes(FAMILY_NAME_BYTES_MAX)?);
        family = Some((FamilyId(id), name.map_err(|_| Truncated)?.to_owned()));
    }
    if !reader.is_empty() {
        let blocks = reader.u8()?;
        let bytes = reader.bytes(BlockDictionary::BYTES_MAX)?;
        dictionary = Some(BlockDictionary::copied(blocks, bytes).ok_or(Truncated)?);
    }
    if !reader.is_empty() {
        return Err(Truncated);
    }
    Ok(Properties {
        order_name,
        meta,
        ranges,
        family,
        dictionary,
    })
}

fn decode_ranges(reader: &mut ByteReader<'_>) -> Result<Vec<Fragment>, Truncated> {
    let count = reader.length(reader.rest().len() / FRAGMENT_BYTES_MIN)?;
    let mut ranges = Vec::with_capacity(count);
    for _ in 0..count {
        let start = reader.bytes(KEY_BYTES_MAX)?;
        let end = reader.bytes(END_BYTES_MAX)?;
        if start.is_empty() || end.is_empty() {
            return Err(Truncated);
        }
        let numbers = reader.length(reader.rest().len())?;
        let mut sequences: Vec<SeqNo> = Vec::with_capacity(numbers);
        for _ in 0..numbers {
            let number = reader.varint()?;
            let sequence = match sequences.last() {
                None => number,
                Some(newer) => newer.0.checked_sub(number).ok_or(Truncated)?,
            };
            sequences.push(SeqNo(sequence));
        }
        ranges.push(Fragment::new(start, end, &sequences).ok_or(Truncated)?);
    }
    Ok(ranges)
}
