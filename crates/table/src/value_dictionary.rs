//! Dictionaries of value files: values of a few KiB that resemble each other, each compressed for itself and yet not each
//! from the beginning.
//!
//! Writing, by a [`ValuePacker`]:
//! 1. The first short values give a *sample*: what of them fits [`SAMPLE_BYTES`].
//! 2. The next [`TRIAL_VALUES`] are on *trial*: compressed with the sample as their dictionary too, but stored without.
//! 3. When that would have saved a fourth of what they take, the dictionary is kept; otherwise the file has none, and nothing
//!    more is tried. A fourth, because a value with a dictionary costs a look at that too, to write and to read.
//! 4. The dictionary is written as a record, once the file is so long that it makes up little of it, and before a value that
//!    uses it: what nothing points to counts as garbage, and a file must not look as if it were worth copying for that.
//!    From then on short values are compressed with it.
//!
//! Reading, by a [`KeptDictionary`]: the dictionary is read and verified when a record first asks for it, and stays in memory
//! for as long as the file is open. Writers put one into a file; of others, which are read as well, only the first is kept.
//!
//! Records that use a dictionary lie behind it in the file, and what is written to a file goes there in order: whoever can read
//! such a record can read its dictionary.

use std::sync::OnceLock;

use kingtide_base::StorageResult;
use kingtide_collections::{Lz4Dictionary, PACKED_FOR_GOOD_BYTES_MIN};
use kingtide_env::File;
use kingtide_format::CodecId;
use kingtide_format::block::{BlockFault, BlockPlace, compress_if_smaller};
use kingtide_format::vlog::{
    DICTIONARY_KEY_HASH, Dictionary, DictionaryRecord, RECORD_HEADER_BYTES, RecordHeader,
    StoredValue, encode_record, encode_record_with, open_record, stored_bytes_with,
    uses_dictionary,
};

use crate::names::damaged;
use crate::sections::read_range;

/// What a dictionary is made of, in bytes.
const SAMPLE_BYTES: usize = 4 << 10;
/// The longest value that is compressed with a dictionary: longer ones have enough of their own to refer to.
const SHORT_BYTES_MAX: usize = 16 << 10;
// What is packed for good is compressed without one.
const _: () = assert!(cfg!(simulated) || SHORT_BYTES_MAX < PACKED_FOR_GOOD_BYTES_MIN);
/// Values that are compressed both ways before it is decided.
const TRIAL_VALUES: u32 = 8;
/// A trial is won when it saves one in so many bytes.
const SAVED_PART: usize = 4;
/// A dictionary takes at most one in so many bytes of its file. No bound for the live share of files is so strict that this
/// would be too much garbage.
const FILE_PART: u64 = 16;

/// True when `value` may be compressed with a dictionary.
fn is_short(value: &[u8]) -> bool {
    !value.is_empty() && value.len() <= SHORT_BYTES_MAX
}

/// Makes records of the values of one file, and a dictionary for them if that pays.
#[derive(Debug)]
pub(crate) struct ValuePacker {
    codec: CodecId,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// There is no dictionary, and there will be none.
    Without,
    /// The sample so far.
    Sample(Vec<u8>),
    Trial(Trial),
    /// The trial was won by this dictionary; its record will take so many bytes.
    Won(Lz4Dictionary, u64),
    /// In use; its record lies there.
    With(Lz4Dictionary, u32),
}

#[derive(Debug)]
struct Trial {
    dictionary: Lz4Dictionary,
    scratch: Vec<u8>,
    values: u32,
    /// Bytes stored, and how many of them the dictionary would have saved.
    stored: usize,
    saved: usize,
}

impl ValuePacker {
    /// For a new file, whose values are compressed with `codec`.
    pub(crate) fn new(codec: CodecId) -> Self {
        let stage = match codec {
            CodecId::Lz4 | CodecId::Lz4Fast => Stage::Sample(Vec::new()),
            CodecId::None | CodecId::Snappy | CodecId::Zstd => Stage::Without,
        };
        Self { codec, stage }
    }

    /// Bytes that it takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.stage {
            Stage::Without => 0,
            Stage::Sample(sample) => sample.capacity(),
            Stage::Trial(trial) => trial.dictionary.memory_bytes() + trial.scratch.capacity(),
            Stage::Won(dictionary, _) | Stage::With(dictionary, _) => dictionary.memory_bytes(),
        }
    }

    /// Appends the dictionary's record to `target`, at `place`, when it is to be there before `value`; true then.
    pub(crate) fn append_dictionary(
        &mut self,
        target: &mut Vec<u8>,
        value: &[u8],
        place: BlockPlace,
    ) -> bool {
        let Stage::Won(_, record_bytes) = &self.stage else {
            return false;
        };
        let is_time = place.offset >= record_bytes.saturating_mul(FILE_PART) && is_short(value);
        let (true, Ok(offset)) = (is_time, u32::try_from(place.offset)) else {
            return false;
        };
        let Stage::Won(dictionary, _) = std::mem::replace(&mut self.stage, Stage::Without) else {
            return false;
        };
        let bytes = dictionary.bytes();
        encode_record(target, self.codec, DICTIONARY_KEY_HASH, bytes, place);
        self.stage = Stage::With(dictionary, offset);
        true
    }

    /// Whether [`ValuePacker::append`] would make of a value what another file stores of it.
    pub(crate) fn would_store(&self, stored: &StoredValue<'_>) -> bool {
        let is_short = stored.value_bytes <= SHORT_BYTES_MAX;
        stored.codec == self.codec
            && stored.codec != CodecId::None
            && (!is_short || matches!(self.stage, Stage::Without))
    }

    /// Appends the record of `value` to `target`; its length.
    pub(crate) fn append(
        &mut self,
        target: &mut Vec<u8>,
        key_hash: u64,
        value: &[u8],
        place: BlockPlace,
    ) -> u32 {
        if let Stage::With(dictionary, offset) = &mut self.stage
            && is_short(value)
        {
            return encode_record_with(target, (dictionary, *offset), key_hash, value, place);
        }
        let bytes = encode_record(target, self.codec, key_hash, value, place);
        if is_short(value) {
            self.learn(value, bytes as usize - RECORD_HEADER_BYTES);
        }
        bytes
    }

    /// A short value was stored without a dictionary, in so many bytes.
    fn learn(&mut self, value: &[u8], stored: usize) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Without) {
            Stage::Sample(sample) => sampled(sample, value),
            Stage::Trial(trial) => trial.judged(self.codec, value, stored),
            decided => decided,
        };
    }
}

/// Where `sample` stands with what fits it of `value`.
fn sampled(mut sample: Vec<u8>, value: &[u8]) -> Stage {
    let room = SAMPLE_BYTES - sample.len();
    sample.extend_from_slice(&value[..room.min(value.len())]);
    if sample.len() < SAMPLE_BYTES {
        return Stage::Sample(sample);
    }
    Stage::Trial(Trial {
        dictionary: Lz4Dictionary::new(sample),
        scratch: Vec::new(),
        values: 0,
        stored: 0,
        saved: 0,
    })
}

impl Trial {
    /// Where it stands with `value`, which was stored in so many bytes.
    fn judged(mut self, codec: CodecId, value: &[u8], stored: usize) -> Stage {
        let with = stored_bytes_with(&mut self.dictionary, value, &mut self.scratch);
        self.values += 1;
        self.stored += stored;
        self.saved += stored.saturating_sub(with);
        if self.values < TRIAL_VALUES {
            return Stage::Trial(self);
        }
        if self.saved < self.stored.div_ceil(SAVED_PART) {
            return Stage::Without;
        }
        self.scratch.clear();
        compress_if_smaller(codec, self.dictionary.bytes(), &mut self.scratch);
        let record_bytes = (RECORD_HEADER_BYTES + self.scratch.len()) as u64;
        Stage::Won(self.dictionary, record_bytes)
    }
}

/// The dictionary of an open file, once a record asked for it.
#[derive(Debug, Default)]
pub(crate) struct KeptDictionary(OnceLock<Dictionary>);

impl KeptDictionary {
    /// Replaces the content of `value` by the value in `record`, which is the whole record at `place` of `file`.
    ///
    /// # Errors
    /// `Corruption`, of the record or of its dictionary's, and when reading that fails.
    pub(crate) fn open_record(
        &self,
        (file, name): (&dyn File, &str),
        (record, place): (&[u8], BlockPlace),
        value: &mut Vec<u8>,
    ) -> StorageResult<RecordHeader> {
        let fault = |fault: BlockFault| damaged(name, place.offset, fault);
        if !uses_dictionary(record) {
            return open_record(record, place, value).map_err(fault);
        }
        let record = DictionaryRecord::verify(record, place).map_err(fault)?;
        let offset = record.dictionary();
        if let Some(dictionary) = self.0.get().filter(|kept| kept.offset() == offset) {
            return record.open(dictionary, value).map_err(fault);
        }
        let dictionary = read_dictionary((file, name), BlockPlace { offset, ..place })?;
        let header = record.open(&dictionary, value).map_err(fault)?;
        // Another reader may have been faster.
        let _ = self.0.set(dictionary);
        Ok(header)
    }
}

fn read_dictionary(
    (file, name): (&dyn File, &str),
    place: BlockPlace,
) -> StorageResult<Dictionary> {
    let start = place.offset;
    let fault = |fault: BlockFault| damaged(name, start, fault);
    let head_end = start.saturating_add(RECORD_HEADER_BYTES as u64);
    let head = read_range(file, name, start, head_end)?;
    let bytes = Dictionary::record_bytes(&head).map_err(fault)?;
    let record = read_range(file, name, start, start.saturating_add(bytes as u64))?;
    Dictionary::open(&record, place).map_err(fault)
}

#[cfg(test)]
mod tests;
