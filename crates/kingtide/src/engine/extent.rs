//! How much of a family lies in a range of keys, from what memtables and tables know of themselves. No entry is read.

use kingtide_base::KeyOrder;
use kingtide_format::TableMeta;

use super::Engine;
use crate::{error::Result, memtable::Memory};

impl Engine {
    /// Bytes of the table's file that hold keys between `first` and `last`, both included, in whole blocks; without
    /// `last` all behind `first`. The whole file when the whole table lies in the range.
    ///
    /// # Errors
    /// What opening the table answers; only tables at the edges of the range are opened.
    pub(crate) fn table_bytes_between(
        &self,
        (meta, order): (&TableMeta, &KeyOrder),
        first: &[u8],
        last: Option<&[u8]>,
    ) -> Result<u64> {
        let begins_after = last.is_some_and(|last| order.compare(&meta.smallest, last).is_gt());
        if begins_after || order.compare(&meta.largest, first).is_lt() {
            return Ok(0);
        }
        let ends_inside = last.is_none_or(|last| order.compare(&meta.largest, last).is_le());
        if ends_inside && order.compare(first, &meta.smallest).is_le() {
            return Ok(meta.file_bytes);
        }
        let table = self.files.tables.get(meta, order)?;
        let bytes = table.bytes_between(first, last.unwrap_or(&meta.largest));
        Ok(bytes.min(meta.file_bytes))
    }

    /// Bytes that the entries of `memory` with keys between `first` and `last`, both included, take about; without
    /// `last` all entries.
    pub(crate) fn memory_bytes_between(
        &self,
        memory: &Memory,
        first: &[u8],
        last: Option<&[u8]>,
    ) -> f64 {
        let entries = memory.table.entries();
        if entries == 0 {
            return 0.0;
        }
        // The entries may grow between the two looks; the share never exceeds the whole.
        let inside = match last {
            Some(last) => memory.table.entries_between(first, last).min(entries),
            None => entries,
        };
        memory.table.bytes() as f64 * (inside as f64 / entries as f64)
    }
}
