//! Everything that a database shows, read through its public calls.

use std::collections::BTreeMap;

use kingtide::{ColumnFamily, Db, IterOptions};
use kingtide_base::KeyOrder;

use crate::violation::{Checked, ensure};

/// The entries of each family by name, in the order in which an iterator visits them.
pub type Dump = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

/// The family that every database has; no test writes to it, and dumps leave it out.
pub const DEFAULT_FAMILY: &str = "default";

/// Reads all families but the default one.
///
/// # Errors
/// What the database answers, or a violation when an iterator breaks the order of its family.
pub fn dump(db: &Db) -> Checked<Dump> {
    let mut dump = Dump::new();
    for name in db.families() {
        if name != DEFAULT_FAMILY {
            let family = db.family(&name)?;
            let order = crate::order::key_order(&family.options().comparator);
            let entries =
                dump_family(db, &family, &order).map_err(|violation| violation.within(&name))?;
            dump.insert(name, entries);
        }
    }
    Ok(dump)
}

/// Reads one family from the first key to the last.
///
/// # Errors
/// As [`dump`].
pub fn dump_family(
    db: &Db,
    family: &ColumnFamily,
    order: &KeyOrder,
) -> Checked<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut iter = db.iter(family, IterOptions::default())?;
    let mut is_valid = iter.seek_to_first()?;
    while is_valid {
        let key = iter.key().to_vec();
        let value = iter.value()?.to_vec();
        if let Some((last, _)) = entries.last() {
            ensure(order.compare(last, &key).is_lt(), || {
                format!(
                    "the iterator went from \"{}\" to \"{}\"",
                    last.escape_ascii(),
                    key.escape_ascii()
                )
            })?;
        }
        entries.push((key, value));
        is_valid = iter.next()?;
    }
    Ok(entries)
}
