//! Reads: own writes first, then the view; remembered where the level asks for it.

use std::sync::Arc;

use kingtide_base::{
    EntryKind,
    planted::{self, Bug},
};

use super::{
    Transaction, acquire, contains_at, get_at, iter_at,
    view::{Answer, iter_bounds, with_answer},
    writes::check_key,
};
use crate::{
    error::Result,
    family::{ColumnFamily, Family},
    options::IterOptions,
    read::{
        Iter, Value,
        get::{Found, pointer_in_memory},
        iter::mvcc::is_expired,
        tracker::Tracked,
    },
    snapshot::SnapshotGuard,
    write::OwnWrite,
};

/// Whether a read is remembered for the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remembered {
    /// Where the level asks for it.
    ByLevel,
    Never,
}

impl Transaction {
    /// The value of `key` as this transaction sees it: its own write, or what its isolation level shows of others.
    ///
    /// From repeatable read up a key that is found is remembered for the commit, at serializable also one that is not.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty key, `NotFound` when the family was dropped, `Closed`, `Aborted`, `MemoryLimit`
    /// when the read cannot be remembered, and `Io` or `Corruption` when storage fails: damage is never reported as an
    /// absent key.
    pub fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        self.find(family, key, Remembered::ByLevel, |answer| answer.load())
    }

    /// As [`Transaction::get`], but not remembered at any level: that the key changes meanwhile is no conflict.
    ///
    /// # Errors
    /// As [`Transaction::get`], without `MemoryLimit`.
    pub fn get_untracked(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        self.find(family, key, Remembered::Never, |answer| answer.load())
    }

    /// Puts the value of `key`, as [`Transaction::get`] would answer it, into the place of what `value` holds, and is true; false
    /// when there is none, and `value` stays as it is. The memory of `value` is used again if it is enough: who reads many values
    /// by one buffer allocates nothing, and a value that is stored compressed is decompressed where it is wanted.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, FamilyOptions, Options};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("names", FamilyOptions::default())?;
    /// db.put(&family, b"first", b"Ada")?;
    /// let transaction = db.begin()?;
    /// let mut name = Vec::new();
    /// assert!(transaction.get_into(&family, b"first", &mut name)?);
    /// assert!(!transaction.get_into(&family, b"second", &mut name)?);
    /// assert_eq!(name, b"Ada");
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]; what `value` holds then means nothing.
    pub fn get_into(&self, family: &ColumnFamily, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.find(family, key, Remembered::ByLevel, |answer| {
            answer.read_into(value)
        })
    }

    /// What `look` makes of the value of `key`, as [`Transaction::get`] would answer it; `None` when there is none. `look` is given
    /// the value where it lies, if that is in memory: nothing is copied, and nothing kept beyond the call. It should be
    /// short: it holds back what frees memory.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, FamilyOptions, Options};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("names", FamilyOptions::default())?;
    /// db.put(&family, b"first", b"Ada")?;
    /// let transaction = db.begin()?;
    /// assert_eq!(transaction.get_with(&family, b"first", <[u8]>::len)?, Some(3));
    /// assert_eq!(transaction.get_with(&family, b"second", <[u8]>::len)?, None);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`]; `look` was not called then.
    pub fn get_with<R>(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.find(family, key, Remembered::ByLevel, |answer| answer.look(look))
    }

    /// As [`Transaction::get_with`], but not remembered: see [`Transaction::get_untracked`].
    ///
    /// # Errors
    /// As [`Transaction::get_untracked`]; `look` was not called then.
    pub fn get_untracked_with<R>(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.find(family, key, Remembered::Never, |answer| answer.look(look))
    }

    /// Looks for the value of `key` as this transaction sees it, and hands it to `use_answer` where it lies, which is there until
    /// that returns.
    pub(super) fn find<R>(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        remembered: Remembered,
        use_answer: impl FnOnce(Answer<'_>) -> Result<R>,
    ) -> Result<R> {
        self.check_active()?;
        if let Some(own) = self.own_write(family, key) {
            return use_answer(self.own_answer(family, key, own)?);
        }
        let seen = self.seen()?;
        let family = &family.family;
        with_answer(&self.engine, family, key, seen.snapshot(), |answer| {
            if remembered == Remembered::ByLevel {
                self.remember(family, key, answer.is_there())?;
            }
            use_answer(answer)
        })
    }

    /// As [`Transaction::get`], and the key counts as written here when it comes to conflicts, at every level: the
    /// commit fails if another transaction wrote it after what this read saw. Nobody waits for anybody.
    ///
    /// What is read for update stays so when writes are taken back to a savepoint.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Db, ErrorKind, FamilyOptions, Options};
    ///
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("stock", FamilyOptions::default())?;
    /// let mut order = db.begin()?; // read committed
    /// assert!(order.get_for_update(&family, b"apples")?.is_none());
    /// db.put(&family, b"apples", b"3")?;
    /// order.put(&family, b"note", b"no apples")?;
    /// assert_eq!(order.commit().expect_err("there are some").kind(), ErrorKind::Conflict);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get`], and `ReadOnly`.
    pub fn get_for_update(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        self.check_active()?;
        self.engine.check_writable()?;
        self.engine.check_family(&family.family)?;
        check_key(key)?;
        let fresh = (!self.options.isolation.has_one_view()).then(|| acquire(&self.engine));
        let seen = self.seen()?;
        let Some(snapshot) = fresh.as_ref().or(seen.snapshot()) else {
            return self.get(family, key);
        };
        let since = snapshot.sequence();
        let value = match self.own_write(family, key) {
            Some(own) => self.own_answer(family, key, own)?.load()?,
            None => get_at(&self.engine, &family.family, key, Some(snapshot))?,
        };
        drop(seen);
        let held = self.remembered().with(|reads| {
            reads
                .add_update(&family.family, key, since)
                .map(|()| reads.bytes())
        })?;
        let held = held + self.writes.bytes();
        self.holding.note(&self.engine, held, &self.writes);
        if let Some(fresh) = fresh {
            self.pins.keep_for_update(fresh);
        }
        Ok(value)
    }

    /// The values of `keys`, in their order, all read at one point in time. Remembered as by [`Transaction::get`].
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        family: &ColumnFamily,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        self.check_active()?;
        let seen = self.seen()?;
        let fresh = self.fresh_snapshot(seen.snapshot());
        let snapshot = seen.snapshot().or(fresh.as_ref());
        keys.iter()
            .map(|key| {
                let key = key.as_ref();
                if let Some(own) = self.own_write(family, key) {
                    return self.own_answer(family, key, own)?.load();
                }
                let value = get_at(&self.engine, &family.family, key, snapshot)?;
                self.remember(&family.family, key, value.is_some())?;
                Ok(value)
            })
            .collect()
    }

    /// True when `key` has a value. Cheaper than a get of a long value. Not remembered at any level: where a decision that
    /// must hold at the commit rests on it, use [`Transaction::get`].
    ///
    /// # Errors
    /// As [`Transaction::get_untracked`].
    pub fn contains(&self, family: &ColumnFamily, key: &[u8]) -> Result<bool> {
        self.check_active()?;
        match self.own_write(family, key) {
            Some(own) => Ok(self.live_value(own).is_some()),
            None => contains_at(&self.engine, &family.family, key, self.seen()?.snapshot()),
        }
    }

    /// An iterator over what this transaction sees of `family` now, the writes made so far included. It does not borrow
    /// the transaction: it stays as it is while the transaction goes on, and may outlive it.
    ///
    /// At repeatable read the keys that it returns are remembered for the commit; at serializable everything that its
    /// moves tell, that is, also that there is nothing in between and at the ends. What it does after the end of the
    /// transaction is not.
    ///
    /// # Errors
    /// `InvalidArgument` for impossible bounds, and as [`Transaction::get`].
    pub fn iter(&self, family: &ColumnFamily, options: IterOptions) -> Result<Iter> {
        self.check_active()?;
        let seen = self.seen()?;
        let fresh = self.fresh_snapshot(seen.snapshot());
        let Some(snapshot) = seen.snapshot().or(fresh.as_ref()) else {
            return Err(crate::Error::invalid(
                "the transaction has no view to iterate over",
            ));
        };
        let own_writes = self.writes.cursor(&family.family);
        let mut iter = iter_at(&self.engine, &family.family, &options, snapshot, own_writes)?;
        if let (Some(tracked), Some(reads)) = (self.tracked(), &self.reads) {
            let bounds = iter_bounds(&family.family, &options)?;
            iter.track_with(reads.track(&family.family, bounds, tracked)?);
        }
        self.engine.pipeline.note_walk(&family.family);
        Ok(iter)
    }

    pub(super) fn seen(&self) -> Result<super::abort::Seen<'_>> {
        self.pins.seen(self.options.isolation.has_one_view())
    }

    /// A snapshot of its own for one operation, when the transaction has none.
    fn fresh_snapshot(&self, held: Option<&SnapshotGuard>) -> Option<SnapshotGuard> {
        held.is_none().then(|| acquire(&self.engine))
    }

    /// Remembers a key that was read, if the level asks for it.
    #[inline]
    pub(super) fn remember(&self, family: &Arc<Family>, key: &[u8], is_found: bool) -> Result<()> {
        let (Some(tracked), Some(reads)) = (self.tracked(), &self.reads) else {
            return Ok(());
        };
        if (tracked == Tracked::Items || planted::is(Bug::MissNotChecked)) && !is_found {
            return Ok(());
        }
        let held = reads.with(|reads| reads.add_point(family, key).map(|()| reads.bytes()))?;
        let held = held + self.writes.bytes();
        self.holding.note(&self.engine, held, &self.writes);
        Ok(())
    }

    pub(super) fn own_write(&self, family: &ColumnFamily, key: &[u8]) -> Option<OwnWrite<'_>> {
        self.writes.find(&family.family, key)
    }

    /// What a read of `key` finds in a write of this transaction.
    fn own_answer<'a>(
        &'a self,
        family: &'a ColumnFamily,
        key: &'a [u8],
        own: OwnWrite<'a>,
    ) -> Result<Answer<'a>> {
        let find = |value: &'a [u8]| match own.kind {
            EntryKind::PutSpilled => pointer_in_memory(value).map(Found::Separated),
            EntryKind::PutPacked => Ok(Found::Packed(value)),
            _ => Ok(Found::Own(value)),
        };
        Ok(Answer {
            engine: &self.engine,
            key,
            order: &family.family.order,
            found: self.live_value(own).map(find).transpose()?,
        })
    }

    /// The value of a write that has one: of a spilled one the pointer to it, a packed one as it is.
    fn live_value<'a>(&self, own: OwnWrite<'a>) -> Option<&'a [u8]> {
        let is_put = matches!(
            own.kind,
            EntryKind::Put | EntryKind::PutSpilled | EntryKind::PutPacked
        );
        if !is_put {
            return None;
        }
        let is_live = own.expires_at == 0 || !is_expired(own.expires_at, self.clock());
        is_live.then_some(own.value)
    }

    /// By what the expiry of own writes is judged: the clock of the view.
    fn clock(&self) -> i64 {
        let seen = self.seen().ok();
        seen.as_ref()
            .and_then(|seen| seen.snapshot())
            .map_or_else(|| self.engine.now(), SnapshotGuard::clock)
    }
}
