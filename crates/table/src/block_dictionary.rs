//! Dictionaries of tables: value columns that resemble each other from block to block (see [`BlockDictionary`]).
//!
//! Writing, by a [`BlockPacker`]:
//! 1. The first blocks give the dictionary.
//! 2. The next [`TRIAL_BLOCKS`] are on *trial*: compressed with it too, but stored without.
//! 3. When that would have saved a fourth of what they take, blocks are compressed with it from then on; otherwise nothing more
//!    is tried. A fourth, because the dictionary of each open table takes memory.
//!
//! A copy goes into the properties, so whoever opens the table has it. It stays in memory for as long as the table is open.

use kingtide_collections::Lz4Dictionary;
use kingtide_format::CodecId;
use kingtide_format::block::{BlockDictionary, BlockPlace, DataBlockBuilder};

/// Blocks that are compressed both ways before it is decided.
const TRIAL_BLOCKS: u32 = 8;
/// A trial is won when it saves one in so many bytes.
const SAVED_PART: usize = 4;

/// Appends the blocks of one table, and makes a dictionary for them if that pays.
pub(crate) struct BlockPacker {
    codec: CodecId,
    stage: Stage,
}

enum Stage {
    /// There is no dictionary, and there will be none.
    Without,
    /// The dictionary so far.
    Sample(BlockDictionary),
    Trial(Trial),
    /// In use; made of so many blocks.
    With(Lz4Dictionary, u8),
}

struct Trial {
    words: Lz4Dictionary,
    made_of: u8,
    scratch: Vec<u8>,
    blocks: u32,
    /// Bytes that blocks took, and how many of them the dictionary would have saved.
    stored: usize,
    saved: usize,
}

impl BlockPacker {
    /// For a new table, whose blocks are compressed with `codec` alone.
    pub(crate) fn without_dictionary(codec: CodecId) -> Self {
        Self {
            codec,
            stage: Stage::Without,
        }
    }

    /// For a new table, whose blocks are compressed with `codec`.
    pub(crate) fn new(codec: CodecId) -> Self {
        let stage = match codec {
            CodecId::Lz4 | CodecId::Lz4Fast => Stage::Sample(BlockDictionary::default()),
            CodecId::None | CodecId::Snappy | CodecId::Zstd => Stage::Without,
        };
        Self { codec, stage }
    }

    /// Bytes that it takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.stage {
            Stage::Without => 0,
            Stage::Sample(sample) => sample.bytes().len(),
            Stage::Trial(trial) => trial.words.memory_bytes() + trial.scratch.capacity(),
            Stage::With(words, _) => words.memory_bytes(),
        }
    }

    /// The dictionary that blocks may have been compressed with.
    pub(crate) fn dictionary(&self) -> Option<BlockDictionary> {
        match &self.stage {
            Stage::With(words, blocks) => BlockDictionary::copied(*blocks, words.bytes()),
            _ => None,
        }
    }

    /// Appends `block` to `target` and empties it; the block's checksum, `None` when there was nothing to append.
    pub(crate) fn finish(
        &mut self,
        block: &mut DataBlockBuilder,
        place: BlockPlace,
        target: &mut Vec<u8>,
    ) -> Option<u64> {
        let codec = self.codec;
        if let Stage::With(words, made_of) = &mut self.stage {
            return block.finish_with((words, *made_of), codec, place, target);
        }
        let start = target.len();
        let saved = match &mut self.stage {
            Stage::Sample(sample) => {
                block.add_to(sample);
                0
            }
            Stage::Trial(trial) => block.saved_with(&mut trial.words, codec, &mut trial.scratch),
            Stage::Without | Stage::With(..) => 0,
        };
        let sum = block.finish(codec, place, target);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Without) {
            Stage::Sample(sample) if sample.is_full() => Stage::Trial(Trial::of(&sample)),
            Stage::Trial(trial) => trial.judged(target.len() - start, saved),
            stage => stage,
        };
        sum
    }
}

impl Trial {
    fn of(sample: &BlockDictionary) -> Self {
        Self {
            words: Lz4Dictionary::new(sample.bytes().to_vec()),
            made_of: sample.blocks(),
            scratch: Vec::new(),
            blocks: 0,
            stored: 0,
            saved: 0,
        }
    }

    /// Where it stands with one more block, which took so many bytes, of which the dictionary would have saved so many.
    fn judged(mut self, stored: usize, saved: usize) -> Stage {
        self.blocks += 1;
        self.stored += stored;
        self.saved += saved;
        if self.blocks < TRIAL_BLOCKS {
            return Stage::Trial(self);
        }
        match self.saved >= self.stored.div_ceil(SAVED_PART) {
            true => Stage::With(self.words, self.made_of),
            false => Stage::Without,
        }
    }
}
