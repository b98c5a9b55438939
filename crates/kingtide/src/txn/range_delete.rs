//! Deleting ranges of keys at once.

use std::cmp::Ordering;

use kingtide_base::EntryKind;
use kingtide_format::Op;

use super::{Transaction, writes::check_key};
use crate::{
    error::{Error, Result},
    family::ColumnFamily,
    read::iter::prefix_range,
};

impl Transaction {
    /// Deletes every key from `start` on and before `end`, in the family's order. It costs about what deleting one key
    /// does, however many there are. Nothing is deleted when the two are equal.
    ///
    /// What this transaction wrote in the range before is undone by it; what it writes there afterwards counts.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, FamilyOptions, Options};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let events = db.open_family("events", FamilyOptions::default())?;
    /// for day in ["2024-12-30", "2024-12-31", "2025-01-01"] {
    ///     db.put(&events, day.as_bytes(), b"seen")?;
    /// }
    /// let mut transaction = db.begin()?;
    /// transaction.delete_range(&events, b"2024", b"2025")?;
    /// transaction.put(&events, b"2024-12-31", b"kept")?;
    /// transaction.commit()?;
    /// assert!(!db.contains(&events, b"2024-12-30")?);
    /// assert_eq!(db.get(&events, b"2024-12-31")?.expect("written after"), b"kept");
    /// assert!(db.contains(&events, b"2025-01-01")?);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` when `start` lies behind `end` or one of them is empty, `TooLarge` when one of them is longer
    /// than a key may be, and as [`Transaction::put`].
    pub fn delete_range(&mut self, family: &ColumnFamily, start: &[u8], end: &[u8]) -> Result<()> {
        self.check_active()?;
        check_key(start)?;
        check_key(end)?;
        match family.family.order.compare(start, end) {
            Ordering::Less => self.delete_until(family, start, end),
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(Error::invalid(format!(
                "the range from \"{}\" ends before it begins, at \"{}\"",
                start.escape_ascii(),
                end.escape_ascii()
            ))),
        }
    }

    /// Deletes every key that begins with `prefix`; with the empty prefix, every key. As [`Transaction::delete_range`]
    /// otherwise. Only in plain byte order, where such keys lie side by side.
    ///
    /// # Errors
    /// `InvalidArgument` for a family of another order, `TooLarge` when the prefix is longer than a key may be, and as
    /// [`Transaction::put`].
    pub fn delete_prefix(&mut self, family: &ColumnFamily, prefix: &[u8]) -> Result<()> {
        self.check_active()?;
        if !prefix.is_empty() {
            check_key(prefix)?;
        }
        let (start, end) = prefix_range(prefix, &family.family.order)?;
        self.delete_until(family, &start, &end)
    }

    /// As [`Transaction::delete_range`]; an empty `end` stands for none.
    fn delete_until(&mut self, family: &ColumnFamily, start: &[u8], end: &[u8]) -> Result<()> {
        self.write(
            family,
            &Op {
                kind: EntryKind::RangeDelete,
                key: start,
                value: end,
                expires_at: 0,
            },
        )
    }
}
