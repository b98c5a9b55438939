//! Verifying a table whose order is not known: every checksum, and nothing about the order of the keys.

use std::cmp::Ordering;
use std::sync::Arc;

use kingtide_base::{Comparator, KeyOrder, StorageError, StorageResult};
use kingtide_env::{Directory, OpenMode};
use kingtide_format::TableMeta;
use kingtide_table::{Table, klog_name};

/// Stands for an order that is not known: whatever comes first is the smaller one.
struct AsFound(String);

impl Comparator for AsFound {
    fn name(&self) -> &str {
        &self.0
    }

    fn compare(&self, _: &[u8], _: &[u8]) -> Ordering {
        Ordering::Less
    }
}

/// Reads and checks every byte of the table `meta` in `directory`, past every cache.
///
/// # Errors
/// The first damage, and what reading fails with.
pub(crate) fn verify_unsorted(
    directory: &dyn Directory,
    meta: &TableMeta,
    order_name: &str,
) -> StorageResult<()> {
    let name = format!("klog/{}", klog_name(meta.file));
    let file = directory
        .open(&klog_name(meta.file), OpenMode::Read)
        .map_err(|error| StorageError::io(&name, "open", error))?;
    let order = KeyOrder::new(Arc::new(AsFound(order_name.to_owned())));
    let table = Table::open(file, name, meta, order)?;
    let mut damages = table.salvage(&mut |_| Ok(()))?;
    match damages.is_empty() {
        true => Ok(()),
        false => Err(StorageError::Corruption(Box::new(damages.swap_remove(0)))),
    }
}
