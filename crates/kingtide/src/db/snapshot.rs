//! A view of the past.

use std::{fmt, sync::Arc};

use kingtide_base::SeqNo;

use crate::{
    engine::Engine,
    error::Result,
    family::ColumnFamily,
    options::IterOptions,
    read::{Iter, Value},
    snapshot::{ListedSnapshot, SnapshotGuard},
    txn::{contains_at, get_at, iter_at},
};

/// The database as it was when the snapshot was taken, over all column families at once. Clones are the same snapshot.
/// It pins what it sees in memory and on disk until all clones are dropped.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, FamilyOptions, Options};
///
/// let db = Db::open(directory.path(), Options::default())?;
/// let family = db.open_family("f", FamilyOptions::default())?;
/// db.put(&family, b"kept", b"1")?;
/// let before = db.snapshot()?;
/// db.delete(&family, b"kept")?;
/// assert!(before.contains(&family, b"kept")?);
/// assert!(!db.contains(&family, b"kept")?);
/// # db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot {
    engine: Arc<Engine>,
    listed: Arc<ListedSnapshot>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("name", &self.name())
            .field("sequence", &self.sequence())
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(super) fn new(engine: Arc<Engine>, listed: Arc<ListedSnapshot>) -> Self {
        Self { engine, listed }
    }

    pub(super) fn guard(&self) -> &SnapshotGuard {
        self.listed.guard()
    }

    /// True when it was taken of that opening.
    pub(super) fn is_of(&self, engine: &Arc<Engine>) -> bool {
        Arc::ptr_eq(&self.engine, engine)
    }

    /// Its name, if it was taken with one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.listed.name()
    }

    /// The newest commit that the snapshot sees.
    #[must_use]
    pub fn sequence(&self) -> SeqNo {
        self.guard().sequence()
    }

    /// The value that `key` had. Keys that had expired by then are absent; keys that expire later stay.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        self.engine.check_open()?;
        get_at(&self.engine, &family.family, key, Some(self.guard()))
    }

    /// The values that `keys` had, in their order.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        keys.iter()
            .map(|key| self.get(family, key.as_ref()))
            .collect()
    }

    /// True when `key` had a value.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get).
    pub fn contains(&self, family: &ColumnFamily, key: &[u8]) -> Result<bool> {
        self.engine.check_open()?;
        contains_at(&self.engine, &family.family, key, Some(self.guard()))
    }

    /// An iterator over what the snapshot sees.
    ///
    /// # Errors
    /// As [`Db::iter`](crate::Db::iter).
    pub fn iter(&self, family: &ColumnFamily, options: IterOptions) -> Result<Iter> {
        self.engine.check_open()?;
        iter_at(&self.engine, &family.family, &options, self.guard(), None)
    }
}
