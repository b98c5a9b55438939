//! What every other crate of Kingtide speaks in: ids, sequence numbers, entry kinds, key orders, checksums, varints
//! and limits. No I/O, no threads, no clock.

mod batch;
mod coding;
mod comparator;
mod entry;
mod error;
mod hash;
mod ids;
mod kind;
pub mod limits;
mod partition;
pub mod planted;
mod ranges;

pub use batch::Batch;
pub use coding::{ByteReader, Truncated, write_bytes, write_varint};
pub use comparator::{
    BUILT_IN_COMPARATORS, Comparator, ComparatorRef, KeyOrder, built_in_comparator,
};
pub use entry::{Cursor, EntryHead, EntryRef, ValuePointer, ValueRef};
pub use error::{Corruption, StorageError, StorageResult};
pub use hash::{ChecksumParts, checksum, checksum_mix, key_hash, xid_hash};
pub use ids::{DatabaseId, FamilyId, FileId, Lsn, SegmentId, SeqNo};
pub use kind::EntryKind;
pub use partition::partition;
pub use ranges::{Fragment, Fragments, RangeTombstone, compare_ends, is_before_end};
