//! The two kinds of delete of a single key: reads cannot tell them apart, so the model knows only one.

use kingtide::{ColumnFamily, Result, Transaction};

use crate::random::Random;

/// Deletes `key`, in half of all cases with the hint that it was put once, which need not be true.
pub(super) fn delete(
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
