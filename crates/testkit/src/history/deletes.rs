//! Deletes. Of the two kinds of delete of a single key the model knows only one: reads cannot tell them apart.

use kingtide::{ColumnFamily, Result, Transaction};

use crate::{model::Write, random::Random};

/// Applies a write to a transaction.
pub(super) fn apply(
    random: &mut Random,
    transaction: &mut Transaction,
    family: &ColumnFamily,
    write: &Write,
) -> Result<()> {
    match (&write.value, &write.end) {
        (_, Some(end)) => transaction.delete_range(family, &write.key, end),
        (None, None) => delete(random, transaction, family, &write.key),
        (Some(value), None) if write.expires_at == 0 => transaction.put(family, &write.key, value),
        (Some(value), None) => {
            transaction.put_expiring(family, &write.key, value, write.expires_at)
        }
    }
}

/// Deletes `key`, in half of all cases with the hint that it was put once, which need not be true.
fn delete(
    random: &mut Random,
    transaction: &mut Transaction,
    family: &ColumnFamily,
    key: &[u8],
) -> Result<()> {
    if random.one_in(2) {
        transaction.single_delete(family, key)
    } else {
        transaction.delete(family, key)
    }
}
