//! Since when the tables of a pass hold tombstones.
//!
//! A flush dates the tombstones of its tables by the memtable: when its first tombstone was noticed, or else now. A merge
//! hands on the oldest date of those inputs that a tombstone of the output can come from: they share keys with it, and are
//! not wholly older than its oldest tombstone. So fresh tombstones are not taken for old ones because they were merged
//! beside some, and no merge makes a tombstone younger. What became a tombstone in the merge (a put that expired) dates from now.

use std::sync::Arc;

use kingtide_base::KeyOrder;
use kingtide_format::TableMeta;

use super::Output;

impl Output {
    /// Dates the tombstones of the tables that have no date yet: they are there since `since`, in Unix seconds.
    pub(crate) fn date_tombstones(&mut self, since: u64) {
        for table in &mut self.tables {
            if table.has_tombstones() && table.oldest_tombstone.since == 0 {
                table.oldest_tombstone.since = since;
            }
        }
    }

    /// Dates the tombstones of the tables by those of `inputs`, the tables (with their levels) that they were made of; by
    /// `now`, in Unix seconds, where none of them had any.
    pub(crate) fn inherit_dates(
        &mut self,
        inputs: &[(u8, Arc<TableMeta>)],
        order: &KeyOrder,
        now: u64,
    ) {
        let dated = || {
            let inputs = inputs.iter().map(|(_, table)| table);
            inputs.filter(|table| table.oldest_tombstone.since > 0)
        };
        for table in self
            .tables
            .iter_mut()
            .filter(|table| table.has_tombstones())
        {
            let oldest = table.oldest_tombstone.sequence;
            let sources = dated().filter(|input| {
                input.sequence_max >= oldest
                    && order.compare(&input.smallest, &table.largest).is_le()
                    && order.compare(&table.smallest, &input.largest).is_le()
            });
            let since = sources.map(|input| input.oldest_tombstone.since).min();
            table.oldest_tombstone.since = since.unwrap_or(now);
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
