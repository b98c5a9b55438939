//! Brings a table into the cache before anybody asks for its blocks.

use std::sync::Arc;

use kingtide_base::StorageResult;
use kingtide_collections::BlockCache;
use kingtide_format::block::DataBlock;

use crate::{
    cursor::CursorUse,
    read_ahead::ReadAhead,
    table::{CachedForm, Table},
};

/// So many blocks in a row find no room in a cache that is full: each of them belongs to another part of it.
const REFUSALS_MAX: u32 = 8;

impl Table {
    /// Brings the data blocks that are not in `cache` into it, from the first on, while it has room for them: none leaves for
    /// them. `goes_on` is asked before each block. Answers true when it came to the end.
    ///
    /// # Errors
    /// When reading fails, or a block is damaged; those before it are in the cache.
    pub fn warm(
        &self,
        (cache, form): (&BlockCache<DataBlock>, CachedForm),
        goes_on: impl Fn() -> bool,
    ) -> StorageResult<bool> {
        let mut read_ahead = ReadAhead::default();
        let mut refused = 0;
        for index in 0..self.fences.blocks() {
            let extent = self.fences.extent(index);
            let key = (self.meta.file, extent.start);
            if !goes_on() || refused == REFUSALS_MAX {
                return Ok(false);
            }
            if self.is_noted(index) {
                continue;
            }
            if !cache.has_room(&key, (extent.end - extent.start) as usize) {
                refused += 1;
                continue;
            }
            refused = 0;
            let read = read_ahead.fetch(self, cache, CursorUse::Scan, (index, None))?;
            if let Some(block) = Arc::into_inner(read) {
                self.cache_block(index, block, (cache, form));
            }
        }
        Ok(refused < REFUSALS_MAX)
    }
}
