//! What the manifest records about a table or a value file.

use kingtide_base::{FileId, SeqNo};

/// What a table uses of one value file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueFileUse {
    /// The value file.
    pub file: FileId,
    /// The records in it that this table points to.
    pub records: u64,
    /// Their length in the file, headers included, in bytes.
    pub bytes: u64,
}

/// Since when a table holds tombstones, or range deletes. Only the manifest knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestTombstone {
    /// The smallest sequence number of a tombstone or range delete; 0 without any.
    pub sequence: SeqNo,
    /// When the oldest of them was first seen in memory or flushed, in Unix seconds; 0 for a table without any, and for one
    /// of a manifest that does not record it.
    pub since: u64,
}

/// A sealed table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// Names the file.
    pub file: FileId,
    /// The length of the klog file in bytes.
    pub file_bytes: u64,
    /// The checksum that stands in the file's footer.
    pub footer_checksum: u64,
    /// The smallest key, or the start of a range delete before it.
    pub smallest: Vec<u8>,
    /// The largest key, or the end of a range delete behind it.
    pub largest: Vec<u8>,
    /// True when `largest` is the end of a range delete, which does not belong to the table any more.
    pub is_largest_excluded: bool,
    /// The smallest sequence number of an entry or range delete.
    pub sequence_min: SeqNo,
    /// The largest sequence number of an entry or range delete.
    pub sequence_max: SeqNo,
    /// What is added to every sequence number in the file: only the manifest knows it. 0 but for tables of a bulk load,
    /// whose number is found when the load is installed. `sequence_min` and `sequence_max` count it in.
    pub sequence_base: SeqNo,
    /// Entries, all versions and tombstones counted.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// Since when it holds tombstones or range deletes.
    pub oldest_tombstone: OldestTombstone,
    /// Range deletes: the numbers of all fragments. They are not among the entries.
    pub range_deletes: u64,
    /// Bytes of keys and values as users wrote them, separated values included.
    pub raw_bytes: u64,
    /// The value files it points to, by ascending id.
    pub value_files: Vec<ValueFileUse>,
}

impl TableMeta {
    /// True when it holds tombstones or range deletes.
    #[must_use]
    pub const fn has_tombstones(&self) -> bool {
        self.tombstones > 0 || self.range_deletes > 0
    }

    /// Adds `base` to every sequence number that the file of the table holds.
    pub fn raise_sequences(&mut self, base: SeqNo) {
        let raised = |number: SeqNo| SeqNo(number.0.saturating_add(base.0));
        self.sequence_min = raised(self.sequence_min);
        self.sequence_max = raised(self.sequence_max);
        self.sequence_base = raised(self.sequence_base);
    }
}

/// A sealed value file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueFileMeta {
    /// Names the file.
    pub file: FileId,
    /// The length of the vlog file in bytes.
    pub file_bytes: u64,
    /// The checksum that stands in the file's footer.
    pub footer_checksum: u64,
    /// Records in the file.
    pub records: u64,
}
