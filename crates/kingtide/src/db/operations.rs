//! Maintenance on demand: flushing and compacting, cancelling merges, changing settings, asking for estimates.

use std::sync::Arc;

use kingtide_format::Edit;

use super::{Db, estimate, families};
use crate::{
    background::Task,
    compaction::run::{MergeOutcome, Wanted, merge_once},
    error::{Error, Result},
    family::{ColumnFamily, Family, encode_options, validate_options},
    options::FamilyOptions,
};

impl Db {
    /// Merges every table of the family that holds keys from `start` to `end`, both included, to the bottom level,
    /// after a flush; returns when that is done. `None` is the first or the last key. Without such tables nothing
    /// happens.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # use kingtide::{Db, FamilyOptions, Options};
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("f", FamilyOptions::default())?;
    /// for key in [b"a", b"b", b"c"] {
    ///     db.put(&family, key, b"value")?;
    ///     db.delete(&family, key)?;
    /// }
    /// db.compact_range(&family, Some(b"a"), None)?;
    /// assert_eq!(db.stats()?.tables, 0); // nothing is left of a put and its delete
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` without any bound (use [`Db::compact`]) and for an empty key; otherwise as [`Db::compact`].
    pub fn compact_range(
        &self,
        family: &ColumnFamily,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        if start.is_none() && end.is_none() {
            return Err(Error::invalid(
                "a range needs a start or an end; compact the whole family instead",
            ));
        }
        if [start, end].contains(&Some(&[][..])) {
            return Err(Error::invalid("a key has at least one byte"));
        }
        self.merge_by_hand(&family.family, Wanted::Range(start, end))
    }

    /// Flushes the family and merges everything in it to the bottom level; returns when that is done.
    ///
    /// # Errors
    /// As [`Db::flush`]; `ReopenRequired` after [`Db::cancel_background_work`].
    pub fn compact(&self, family: &ColumnFamily) -> Result<()> {
        self.merge_by_hand(&family.family, Wanted::All)
    }

    /// Flushes the family and compacts it, and returns when no memtable of it waits and no merge of it is due.
    ///
    /// # Errors
    /// As [`Db::compact`], and the failure of background work that keeps failing.
    pub fn purge_family(&self, family: &ColumnFamily) -> Result<()> {
        self.merge_by_hand(&family.family, Wanted::All)?;
        self.shared.background.wait_idle_family(&family.family)
    }

    /// Flushes and compacts every family, and returns when nothing is left to do: no memtable waits, no merge is due.
    ///
    /// # Errors
    /// As [`Db::purge_family`]; families that wait for their comparator, or are dropped
    /// meanwhile, are passed over.
    pub fn purge(&self) -> Result<()> {
        self.engine().check_writable()?;
        for family in self.engine().families.all() {
            match self.merge_by_hand(&family, Wanted::All) {
                Err(_) if family.is_dropped() || family.is_deferred() => {}
                outcome => outcome?,
            }
        }
        self.wait_idle()
    }

    /// Seals the memtable of the family and has it flushed in the background. Waits only where a write would have to:
    /// while sealed memtables take all the room there is for them. Nothing in memory: nothing happens.
    ///
    /// # Errors
    /// As [`Transaction::commit`](crate::Transaction::commit) when flushing falls behind; `NotFound`, `ReadOnly`,
    /// `Closed`.
    pub fn flush_background(&self, family: &ColumnFamily) -> Result<()> {
        self.engine().check_writable()?;
        let family = &family.family;
        self.engine().check_family(family)?;
        let current = family.load_full();
        if !current.active.table.is_empty() {
            // Tells the scheduler itself.
            return self
                .engine()
                .pipeline
                .rotate(family, &current.active, (0, 0));
        }
        if !current.sealed.is_empty() {
            self.shared.background.schedule(Task::Flush, family);
        }
        Ok(())
    }

    /// True while a memtable of the family waits for its flush or is being flushed.
    ///
    /// # Errors
    /// `NotFound`, `Closed`.
    pub fn is_flushing(&self, family: &ColumnFamily) -> Result<bool> {
        self.engine().check_open()?;
        self.engine().check_family(&family.family)?;
        Ok(self.shared.background.is_flushing(&family.family))
    }

    /// True while a merge of the family is due or runs.
    ///
    /// # Errors
    /// `NotFound`, `Closed`.
    pub fn is_compacting(&self, family: &ColumnFamily) -> Result<bool> {
        self.engine().check_open()?;
        self.engine().check_family(&family.family)?;
        Ok(self.shared.background.is_merging(&family.family))
    }

    /// Ends all merges at their next checkpoint, and lets none begin for the rest of this opening. What a merge wrote is
    /// removed, the tables stay as they were; flushes go on. [`Db::compact`] and its like fail from then on.
    ///
    /// # Errors
    /// `ReadOnly`, `Closed`.
    pub fn cancel_background_work(&self) -> Result<()> {
        self.engine().check_writable()?;
        self.shared.background.cancel_merges();
        for family in self.engine().families.all() {
            family.value_room.clear();
        }
        Ok(())
    }

    /// Changes the settings of an open family. They count for what begins from now on: commits, memtables, flushes,
    /// merges; what is stored stays as it is until a merge rewrites it. With `persist` they are stored, and count for
    /// later openings too; otherwise the next opening finds the settings that were stored last.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # use kingtide::{Db, FamilyOptions, Options, SyncMode};
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("f", FamilyOptions::default())?;
    /// let options = FamilyOptions { sync: SyncMode::None, ..family.options() };
    /// db.update_family_options(&family, options.clone(), true)?;
    /// assert_eq!(family.options(), options);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for impossible settings, and when comparator, `use_btree` or an `object_*` setting differ from
    /// those in force, which cannot change; `NotFound`, `ReadOnly`, `Closed`, and what storage answers. Nothing changes
    /// then.
    pub fn update_family_options(
        &self,
        family: &ColumnFamily,
        options: FamilyOptions,
        persist: bool,
    ) -> Result<()> {
        let engine = self.engine();
        engine.check_writable()?;
        validate_options(&options)?;
        let family = &family.family;
        let mut manifest = engine.manifest.lock();
        engine.check_family(family)?;
        check_unchangeable(&family.options(), &options)?;
        if persist {
            manifest.append(&[Edit::SetFamilyOptions {
                id: family.id,
                options: encode_options(&options),
            }])?;
        }
        family.set_options(options);
        drop(manifest);
        self.shared.background.schedule_merge(engine, family);
        self.shared.background.schedule_collection(engine, family);
        Ok(())
    }

    /// What reading all keys between `a` and `b`, both included and in any order, would cost: about the number of
    /// blocks of 4 KiB that it touches in tables, value log and memtables. 0 where nothing is stored, and never less for
    /// a wider range of the same data. Reads no data, only the indexes of tables at the edges of the range.
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # use kingtide::{Db, FamilyOptions, Options};
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let family = db.open_family("f", FamilyOptions::default())?;
    /// for number in 0..1000 {
    ///     db.put(&family, format!("{number:04}").as_bytes(), &[0; 100])?;
    /// }
    /// let narrow = db.range_cost(&family, b"0100", b"0199")?;
    /// let wide = db.range_cost(&family, b"0999", b"0000")?;
    /// assert!(0.0 < narrow && narrow < wide);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NotFound`, `Closed`, and what opening a table answers.
    pub fn range_cost(&self, family: &ColumnFamily, a: &[u8], b: &[u8]) -> Result<f64> {
        self.engine().check_open()?;
        self.engine().check_family(&family.family)?;
        estimate::range_cost(self.engine(), &family.family, a, b)
    }

    /// About how many keys of the family have a value. Exact as long as no key is written twice and every delete meets a
    /// key; a key that was written again counts once for each table that still holds an older version, until merges
    /// bring them together; expired keys, and those that a range delete hides, count until a merge drops them. Reads no data.
    ///
    /// # Errors
    /// `NotFound`, `Closed`.
    pub fn estimate_cardinality(&self, family: &ColumnFamily) -> Result<u64> {
        self.engine().check_open()?;
        self.engine().check_family(&family.family)?;
        Ok(estimate::live_keys(&family.family.load_full()))
    }

    /// Flushes `family` and runs the merge that is `wanted`, alone among the merges of the family.
    fn merge_by_hand(&self, family: &Arc<Family>, wanted: Wanted<'_>) -> Result<()> {
        let engine = self.engine();
        let background = &self.shared.background;
        engine.check_writable()?;
        engine.check_family(family)?;
        let held = match background.hold_merges(family) {
            Ok(held) => held,
            // Closing stops merges too.
            Err(error) => return engine.check_open().and(Err(error)),
        };
        families::flush(engine, family)?;
        let is_cancelled = || background.are_merges_stopped();
        // Nobody else merges the family: nothing is busy, so nothing to merge means nothing there.
        let outcome = merge_once(engine, family, wanted, &is_cancelled)?;
        drop(held);
        if outcome == MergeOutcome::Cancelled {
            engine.check_open()?;
            engine.check_family(family)?;
            return background.check_merges();
        }
        background.schedule_merge(engine, family);
        background.schedule_collection(engine, family);
        Ok(())
    }
}

/// Refuses changes of what the stored data depends on.
fn check_unchangeable(present: &FamilyOptions, next: &FamilyOptions) -> Result<()> {
    let rules = [
        ("comparator", present.comparator == next.comparator),
        ("use_btree", present.use_btree == next.use_btree),
        (
            "object_target_file_bytes",
            present.object_target_file_bytes == next.object_target_file_bytes,
        ),
        (
            "object_lazy_compaction",
            present.object_lazy_compaction == next.object_lazy_compaction,
        ),
        (
            "object_prefetch_compaction",
            present.object_prefetch_compaction == next.object_prefetch_compaction,
        ),
    ];
    match rules.iter().find(|(_, is_same)| !is_same) {
        Some((name, _)) => Err(Error::invalid(format!(
            "{name} is fixed when a column family is created: create another one"
        ))),
        None => Ok(()),
    }
}
