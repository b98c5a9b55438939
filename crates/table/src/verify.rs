//! Verifies a whole klog file: every byte by its checksum, and everything the bytes say against each other.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use kingtide_base::{
    FileId, Fragments, SeqNo, StorageError, StorageResult, ValueRef, checksum_mix,
};
use kingtide_format::block::{BlockDictionary, BlockFault, DataBlock};
use kingtide_format::klog::KLOG_VERSION_CONTENT;
use kingtide_format::{OldestTombstone, TableMeta, ValueFileUse};

use crate::builder::{note_tombstone, widen_by_ranges};
use crate::names::damaged;
use crate::sections::Sections;
use crate::table::Table;

/// What a walk over the entries has seen.
struct Walk {
    meta: TableMeta,
    value_files: BTreeMap<FileId, (u64, u64)>,
    previous: Option<(Vec<u8>, SeqNo)>,
    key: Vec<u8>,
    values: Vec<u8>,
    /// That of the blocks so far.
    dictionary: BlockDictionary,
}

impl Table {
    /// Reads and checks the file from the first byte to the last, past every cache: checksums, order of the entries,
    /// separators, filter, counts. Calls `progress` with the bytes checked so far.
    ///
    /// # Errors
    /// The first damage found, and what reading fails with.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> StorageResult<()> {
        let mut walk = Walk {
            meta: TableMeta {
                smallest: Vec::new(),
                largest: Vec::new(),
                is_largest_excluded: false,
                sequence_min: SeqNo::MAX,
                sequence_max: SeqNo::ZERO,
                entries: 0,
                tombstones: 0,
                oldest_tombstone: OldestTombstone::default(),
                range_deletes: 0,
                raw_bytes: 0,
                value_files: Vec::new(),
                ..self.meta.clone()
            },
            value_files: BTreeMap::new(),
            previous: None,
            key: Vec::new(),
            values: Vec::new(),
            dictionary: BlockDictionary::default(),
        };
        let mut separator = Vec::new();
        let mut content = 0;
        for index in 0..self.fences.blocks() {
            let block = self.read_block(index)?;
            content = checksum_mix(content, block.checksum());
            walk.block(self, &block, &separator, index > 0)
                .map_err(|fault| self.damaged_block(index, fault))?;
            self.fences.copy_separator(index, &mut separator);
            if self.order.compare(&walk.key, &separator) == Ordering::Greater {
                let fault = BlockFault::malformed("key after the separator of its block");
                return Err(self.damaged_block(index, fault));
            }
            progress(self.fences.extent(index).end);
        }
        self.check_content(content)?;
        // The sections were verified when the table was opened; the file may have changed since.
        let mut sections = Sections::read(&*self.file, &self.name, self.meta.file)?;
        sections.meta.raise_sequences(self.meta.sequence_base);
        // The file does not know since when; what was recorded of the numbers is the smallest or less.
        let recorded = self.meta.oldest_tombstone;
        let made = std::mem::take(&mut walk.dictionary);
        let mut walked = walk.finish(self);
        let is_recorded = recorded.sequence <= walked.oldest_tombstone.sequence;
        walked.oldest_tombstone = recorded;
        sections.meta.oldest_tombstone = recorded;
        let dictionary = self.dictionary.as_deref();
        if dictionary.is_some_and(|copy| *copy != made)
            || sections.dictionary.as_ref() != dictionary
        {
            let what = "dictionary is not what the first blocks make";
            let place = sections.footer.properties_offset;
            return Err(StorageError::malformed(&*self.name, place, what));
        }
        let ranges = Fragments::from_list(&self.order, sections.ranges);
        let is_same = ranges.is_some_and(|ranges| ranges == *self.ranges);
        if !is_same || !is_recorded || walked != sections.meta || sections.footer != self.footer {
            return Err(StorageError::malformed(
                &*self.name,
                sections.footer.properties_offset,
                "properties do not describe the entries",
            ));
        }
        progress(sections.meta.file_bytes);
        Ok(())
    }

    /// The digest of the data blocks is that of the footer, if that has one: each of them may be whole, and of a file of
    /// the same name of another database.
    pub(crate) fn check_content(&self, content: u64) -> StorageResult<()> {
        let expected = self.footer.content;
        if self.footer.version < KLOG_VERSION_CONTENT || content == expected {
            return Ok(());
        }
        let what = "data blocks are not the ones in the footer";
        let fault = BlockFault::mismatch(what, expected, content);
        Err(damaged(&self.name, self.footer.index_offset, fault))
    }
}

impl Walk {
    fn block(
        &mut self,
        table: &Table,
        block: &DataBlock,
        separator: &[u8],
        has_separator: bool,
    ) -> Result<(), BlockFault> {
        block.decompress_values(&mut self.values)?;
        if block.uses_dictionary() && !self.dictionary.is_full() {
            return Err(BlockFault::malformed(
                "a dictionary made of a block that uses it",
            ));
        }
        self.dictionary.add(&self.values);
        for index in 0..block.entries() {
            block.copy_key(index, &mut self.key);
            if index == 0 && has_separator && table.order.compare(separator, &self.key).is_gt() {
                return Err(BlockFault::malformed(
                    "key before the separator of the previous block",
                ));
            }
            self.entry(table, block, index)?;
        }
        Ok(())
    }

    fn entry(&mut self, table: &Table, block: &DataBlock, index: usize) -> Result<(), BlockFault> {
        let sequence = block.sequence(index);
        if let Some((key, newer)) = &self.previous {
            let is_ordered = match table.order.compare(key, &self.key) {
                Ordering::Less => true,
                Ordering::Equal => *newer >= sequence,
                Ordering::Greater => false,
            };
            if !is_ordered {
                return Err(BlockFault::malformed("entries out of order"));
            }
        }
        if let (Some(filter), Some(hash)) = (&table.filter, table.order.hash(&self.key))
            && !filter.may_contain(hash)
        {
            return Err(BlockFault::malformed("key missing from the filter"));
        }
        let meta = &mut self.meta;
        let value_bytes = match block.value(index, &self.values)? {
            ValueRef::Inline(bytes) => bytes.len() as u64,
            ValueRef::Separated(pointer) => {
                let used = self.value_files.entry(pointer.file).or_default();
                used.0 += 1;
                used.1 += u64::from(pointer.record_bytes);
                u64::from(pointer.value_bytes)
            }
        };
        if meta.entries == 0 {
            meta.smallest.clone_from(&self.key);
        }
        meta.entries += 1;
        if block.kind(index).is_tombstone() {
            meta.tombstones += 1;
            note_tombstone(meta, sequence);
        }
        meta.raw_bytes += self.key.len() as u64 + value_bytes;
        meta.sequence_min = meta.sequence_min.min(sequence);
        meta.sequence_max = meta.sequence_max.max(sequence);
        let (key, newer) = self.previous.get_or_insert_default();
        key.clone_from(&self.key);
        *newer = sequence;
        Ok(())
    }

    fn finish(mut self, table: &Table) -> TableMeta {
        if self.meta.entries == 0 && table.ranges.is_empty() {
            self.meta.sequence_min = SeqNo::ZERO;
        }
        self.meta.largest = self.key;
        widen_by_ranges(&mut self.meta, &table.ranges, &table.order);
        self.meta.value_files = self
            .value_files
            .into_iter()
            .map(|(file, (records, bytes))| ValueFileUse {
                file,
                records,
                bytes,
            })
            .collect();
        self.meta
    }
}
