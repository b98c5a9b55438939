//! Values that are compressed with a dictionary.
//!
//! The dictionary is the value of a record of its own, an ordinary one whose key hash is 0. A record that uses it has the codec
//! number [`WITH_DICTIONARY`], and its stored bytes begin with the offset of the dictionary's record; an LZ4 block follows.
//! Whoever reads such a record verifies it first ([`DictionaryRecord::verify`]), then gets the dictionary that it names,
//! verified at its own place, and then has the value ([`DictionaryRecord::open`]).
//!
//! A dictionary's record uses no dictionary, is not in chunks, and ends before any record that uses it begins; chunks use none.

use kingtide_collections::{Lz4Dictionary, lz4_with_dictionary};

use super::record::{
    Claims, RECORD_HEADER_BYTES, RecordHeader, VLOG_HEADER_BYTES, open_plain_record, peek_record,
    seal_record, verify_claims,
};
use crate::CodecId;
use crate::block::{BlockFault, BlockPlace, saves_an_eighth};

/// The codec number of a record whose value is compressed with a dictionary. No [`CodecId`]: there is none outside of value
/// files.
pub(super) const WITH_DICTIONARY: u8 = 5;
/// What [`RecordHeader::codec`] says of such a record.
pub(super) const WITH_DICTIONARY_CODEC: CodecId = CodecId::Lz4;
/// The key hash of a dictionary's record.
pub const DICTIONARY_KEY_HASH: u64 = 0;
/// The offset of the dictionary's record, in front of the LZ4 block.
const OFFSET_BYTES: usize = 4;
/// The most bytes that a dictionary may have: matches reach no further back.
const DICTIONARY_BYTES_MAX: usize = 64 << 10;
/// The most raw bytes of a value with a dictionary: of what lies further back, a dictionary is out of reach.
const DICTIONARY_RAW_BYTES_MAX: usize = 64 << 10;

/// The dictionary of a value file, verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dictionary {
    offset: u64,
    end: u64,
    bytes: Vec<u8>,
}

impl Dictionary {
    /// The length of a dictionary's record, header included, as its `header` claims: no more than one may take.
    ///
    /// # Errors
    /// When it is no header of a dictionary's record.
    pub fn record_bytes(header: &[u8]) -> Result<usize, BlockFault> {
        let claimed = peek_record(header)?;
        let is_short = claimed.stored_bytes as usize <= DICTIONARY_BYTES_MAX
            && claimed.raw_bytes as usize <= DICTIONARY_BYTES_MAX;
        let is_plain = !claimed.is_chunked && !claimed.uses_dictionary;
        if !is_short || !is_plain || claimed.key_hash != DICTIONARY_KEY_HASH {
            return Err(BlockFault::malformed("no dictionary where one should be"));
        }
        Ok(claimed.stored_bytes as usize + RECORD_HEADER_BYTES)
    }

    /// Verifies the dictionary's record `bytes` (all of it and nothing else).
    ///
    /// # Errors
    /// As [`open_record`](super::open_record), and when it is no dictionary's record.
    pub fn open(bytes: &[u8], place: BlockPlace) -> Result<Self, BlockFault> {
        Self::record_bytes(bytes)?;
        let mut dictionary = Vec::new();
        open_plain_record(bytes, place, &mut dictionary)?;
        Ok(Self {
            offset: place.offset,
            end: place.offset.saturating_add(bytes.len() as u64),
            bytes: dictionary,
        })
    }

    /// The dictionary whose record lies at `place` of the file `file`, all of whose bytes are given.
    ///
    /// # Errors
    /// As [`Dictionary::open`], and when it does not lie within the file.
    pub fn find(file: &[u8], place: BlockPlace) -> Result<Self, BlockFault> {
        const FAULT: BlockFault = BlockFault::malformed("dictionary beyond the file");
        let start = usize::try_from(place.offset).map_err(|_| FAULT)?;
        let rest = file.get(start..).ok_or(FAULT)?;
        let record = rest.get(..Self::record_bytes(rest)?).ok_or(FAULT)?;
        Self::open(record, place)
    }

    /// Where its record lies.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// Whether the record that begins with `header` claims to use a dictionary; nothing is verified.
#[must_use]
pub fn uses_dictionary(header: &[u8]) -> bool {
    header.get(RECORD_HEADER_BYTES - 1) == Some(&WITH_DICTIONARY)
}

/// A verified record that uses a dictionary.
///
/// ```
/// # use kingtide_base::FileId;
/// # use kingtide_collections::Lz4Dictionary;
/// # use kingtide_format::{CodecId, block::BlockPlace, vlog::*};
/// # let place = |offset| BlockPlace { file: FileId(1), offset };
/// # let words = b"words that most values of this file have in common";
/// # let (mut file, value) = (vec![0; 32], words.repeat(2));
/// # encode_record(&mut file, CodecId::Lz4, DICTIONARY_KEY_HASH, words, place(32));
/// # let start = file.len();
/// # let mut dictionary = Lz4Dictionary::new(words.to_vec());
/// # encode_record_with(&mut file, (&mut dictionary, 32), 7, &value, place(start as u64));
/// let record = &file[start..];
/// assert!(uses_dictionary(record));
/// let record = DictionaryRecord::verify(record, place(start as u64)).expect("intact");
/// let dictionary = Dictionary::find(&file, place(record.dictionary())).expect("intact");
/// let mut found = Vec::new();
/// assert_eq!(record.open(&dictionary, &mut found).expect("intact").key_hash, 7);
/// assert_eq!(found, value);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DictionaryRecord<'a> {
    claims: Claims,
    /// Where the record lies, and where its dictionary does.
    offset: u64,
    dictionary: u64,
    block: &'a [u8],
}

impl<'a> DictionaryRecord<'a> {
    /// Verifies the record `bytes` (all of it and nothing else), but not that it decompresses.
    ///
    /// # Errors
    /// When the record fails its checksum, contradicts itself, uses no dictionary, or one that cannot be where it says.
    pub fn verify(bytes: &'a [u8], place: BlockPlace) -> Result<Self, BlockFault> {
        let (claims, stored) = verify_claims(bytes, place)?;
        if claims.codec != WITH_DICTIONARY {
            return Err(BlockFault::malformed("record without a dictionary"));
        }
        let Some((offset, block)) = stored.split_first_chunk::<OFFSET_BYTES>() else {
            return Err(BlockFault::malformed("record too short for a dictionary"));
        };
        let raw_bytes = claims.raw_bytes as usize;
        if raw_bytes > DICTIONARY_RAW_BYTES_MAX || block.len() >= raw_bytes {
            return Err(BlockFault::malformed("impossible length for a dictionary"));
        }
        let dictionary = u64::from(u32::from_le_bytes(*offset));
        let end = dictionary + RECORD_HEADER_BYTES as u64;
        if dictionary < VLOG_HEADER_BYTES as u64 || end > place.offset {
            let found = dictionary;
            return Err(BlockFault::mismatch(
                "dictionary is not before its record",
                place.offset,
                found,
            ));
        }
        Ok(Self {
            claims,
            offset: place.offset,
            dictionary,
            block,
        })
    }

    /// Where in the file the dictionary's record lies.
    #[must_use]
    pub fn dictionary(&self) -> u64 {
        self.dictionary
    }

    /// Replaces the content of `target` by the value.
    ///
    /// # Errors
    /// When `dictionary` is not the one at [`DictionaryRecord::dictionary`], or its record reaches into this one, and when
    /// the value does not decompress.
    pub fn open(
        &self,
        dictionary: &Dictionary,
        target: &mut Vec<u8>,
    ) -> Result<RecordHeader, BlockFault> {
        if dictionary.offset != self.dictionary || dictionary.end > self.offset {
            let (wanted, found) = (self.dictionary, dictionary.offset);
            return Err(BlockFault::mismatch("another dictionary", wanted, found));
        }
        let raw_bytes = self.claims.raw_bytes as usize;
        if !lz4_with_dictionary(&dictionary.bytes, self.block, raw_bytes, target) {
            let message = "compressed bytes do not give the recorded length";
            return Err(BlockFault::malformed(message));
        }
        Ok(RecordHeader {
            uses_dictionary: true,
            ..self.claims.header(WITH_DICTIONARY_CODEC)
        })
    }
}

/// Appends the record of `value` to `target`, compressed with `words`, a dictionary whose record lies at the offset beside
/// it, when that saves an eighth, and as it is otherwise; the length of the record in bytes.
pub fn encode_record_with(
    target: &mut Vec<u8>,
    (words, dictionary): (&mut Lz4Dictionary, u32),
    key_hash: u64,
    value: &[u8],
    place: BlockPlace,
) -> u32 {
    debug_assert!(u64::from(dictionary) < place.offset);
    let start = target.len();
    target.resize(start + RECORD_HEADER_BYTES, 0);
    let stored_at = target.len();
    target.extend_from_slice(&dictionary.to_le_bytes());
    let is_packed = words.compress(value, target);
    let codec = match is_packed && saves_an_eighth(target.len() - stored_at, value.len()) {
        true => WITH_DICTIONARY,
        false => {
            target.truncate(stored_at);
            target.extend_from_slice(value);
            CodecId::None as u8
        }
    };
    seal_record(&mut target[start..], key_hash, (value.len(), codec), place)
}

/// How many bytes [`encode_record_with`] would store of `value` with the dictionary `words`, behind the record's header. What `scratch` holds is lost.
#[must_use]
pub fn stored_bytes_with(words: &mut Lz4Dictionary, value: &[u8], scratch: &mut Vec<u8>) -> usize {
    scratch.clear();
    scratch.extend_from_slice(&[0; OFFSET_BYTES]);
    let is_packed = words.compress(value, scratch);
    match is_packed && saves_an_eighth(scratch.len(), value.len()) {
        true => scratch.len(),
        false => value.len(),
    }
}
