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

impl Table {
    /// Brings the data blocks that are not in `cache` into it, from the first on, while it has room for them: none leaves for
    /// them. `goes_on` is asked before each block. Answers true when all of them are there.
    ///
    /// # Errors
    /// When reading fails, or a block is damaged; those before it are in the cache.
    pub fn warm(
        &self,
        (cache, form): (&BlockCache<DataBlock>, CachedForm),
        goes_on: impl Fn() -> bool,
    ) -> StorageResult<bool> {
        let mut read_ahead = ReadAhead::default();
        for index in 0..self.fences.blocks() {
            let extent = self.fences.extent(index);
            let key = (self.meta.file, extent.start);
            if !goes_on() || !cache.has_room(&key, (extent.end - extent.start) as usize) {
                return Ok(false);
            }
            if self.is_noted(index) {
                continue;
            }
            let read = read_ahead.fetch(self, cache, CursorUse::Scan, (index, None))?;
            if let Some(block) = Arc::into_inner(read) {
                self.cache_block_as(index, block, cache, form);
            }
        }
        Ok(true)
    }
}
