//! Brings back what is whole in a damaged table, for repair.
//!
//! Works block by block: a block that fails its checksum or contradicts itself is left out and reported, all others give
//! their entries in order. Needs an intact footer and index (without them the blocks cannot be found). It does not judge
//! what the loss of a block means: an older version of a lost key, in this table or in another, may come to light.

use kingtide_base::{Corruption, EntryRef, StorageError, StorageResult, checksum_mix};
use kingtide_format::block::{BlockFault, DataBlock};

use crate::table::Table;

impl Table {
    /// Passes every entry of every intact block to `keep`, in order, and answers the damage found.
    ///
    /// # Errors
    /// When reading fails for another reason than damage, and when `keep` fails.
    pub fn salvage(
        &self,
        keep: &mut dyn FnMut(&EntryRef<'_>) -> StorageResult<()>,
    ) -> StorageResult<Vec<Corruption>> {
        let mut damage = Vec::new();
        let mut content = 0;
        let mut values = Vec::new();
        let mut key = Vec::new();
        for index in 0..self.fences.blocks() {
            // The whole block is checked before any entry of it is passed on.
            let checked = self.read_block(index).and_then(|block| {
                check_values(&block, &mut values)
                    .map_err(|fault| self.damaged_block(index, fault))?;
                Ok(block)
            });
            let block = match checked {
                Ok(block) => block,
                Err(StorageError::Corruption(corruption)) => {
                    damage.push(*corruption);
                    continue;
                }
                Err(other) => return Err(other),
            };
            content = checksum_mix(content, block.checksum());
            for entry in 0..block.entries() {
                block.copy_key(entry, &mut key);
                let value = block
                    .value(entry, &values)
                    .map_err(|fault| self.damaged_block(index, fault))?;
                keep(&EntryRef {
                    key: &key,
                    sequence: block.sequence(entry),
                    kind: block.kind(entry),
                    expires_at: block.expires_at(entry),
                    value,
                })?;
            }
        }
        if damage.is_empty()
            && let Err(StorageError::Corruption(corruption)) = self.check_content(content)
        {
            damage.push(*corruption);
        }
        Ok(damage)
    }
}

/// Decompresses the value column and reads every value in it once.
fn check_values(block: &DataBlock, values: &mut Vec<u8>) -> Result<(), BlockFault> {
    block.decompress_values(values)?;
    (0..block.entries()).try_for_each(|entry| block.value(entry, values).map(|_| ()))
}
