//! The in-memory structures of Kingtide. Each has a naive model that its tests compare it with; the concurrent ones
//! have loom models too.
//!
//! | module | what it is |
//! |---|---|
//! | [`Memtable`] | the writes that are not in a table yet: arena, hash index, sorted runs and skip lists |
//! | [`Arena`], [`ArenaPool`] | append-only entries that readers reach without locks |
//! | [`HashIndex`] | the newest version of each key of a memtable |
//! | [`SkipList`] | a small ordered structure for small commits |
//! | [`PreparedRun`], [`SortedRun`] | the sorted index of a large commit, and merges of such |
//! | [`Filter`], [`FilterBuilder`] | which keys a table may hold |
//! | [`lz4_prefix`] | the beginning of a compressed column |
//! | [`Lz4Dictionary`], [`lz4_with_dictionary`], [`lz4_with_dictionary_into`] | compression with bytes that writer and reader know |
//! | [`pack`], [`unpack`], [`pack_value`], [`unpack_value`] | bytes that are compressed in the log and in memtables |
//! | [`MemoryBudget`], [`Account`], [`Charge`] | who holds how much memory |
//! | [`BlockCache`], [`BlockPlaces`], [`Hit`] | decoded blocks, within a hard byte limit |
//! | [`BlockMemory`], [`BlockBytes`] | memory for them, in huge pages |
//! | [`PageSize`] | whether memory comes in huge pages |
//! | [`Striped`] | one of something for every few threads |
//! | [`MergeCursor`] | many cursors walked as one |
//! | [`BatchedCursor`] | a cursor that takes the entries of another one many at a time |

mod arena;
mod batched;
mod block_cache;
mod block_memory;
mod budget;
mod filter;
mod hash_index;
mod lz4_dictionary;
mod lz4_prefix;
mod memtable;
mod merge;
mod packed;
mod pages;
mod skip_list;
mod sorted_run;
mod striped;

#[cfg(test)]
mod testing;

pub use arena::{Arena, ArenaEntry, ArenaPool, ArenaWriter, EntryOffset, NewEntry, entry_bytes};
pub use batched::BatchedCursor;
pub use block_cache::{
    Admission, BlockCache, BlockCacheUsage, BlockKey, BlockPlaces, Hit, PieceAnswer,
};
pub use block_memory::{BlockBytes, BlockMemory, bytes_in};
pub use budget::{Account, Charge, MemoryBudget};
pub use filter::{Filter, FilterBuilder, FilterFault};
pub use hash_index::{HashIndex, Probe, prefetch_bytes};
pub use lz4_dictionary::{Lz4Dictionary, lz4_with_dictionary, lz4_with_dictionary_into};
pub use lz4_prefix::lz4_prefix;
pub use memtable::{
    Full, Memtable, MemtableEntry, MemtableOp, PassCursor, shown_kind, shown_value,
};
pub use merge::MergeCursor;
pub use packed::{
    FAST_ACCELERATION, LONG_VALUE_BYTES, PACKED_FOR_GOOD_BYTES_MIN, long_value_samples, pack,
    pack_value, packed_block, packed_raw_bytes, unpack, unpack_value, unpacked_value,
};
pub use pages::PageSize;
pub use skip_list::SkipList;
pub use sorted_run::{PreparedRun, RunSource, SortedRun};
pub use striped::Striped;
