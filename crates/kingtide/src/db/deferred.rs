//! Comparators that come after the open.
//!
//! With [`Options::defer_missing_comparators`](crate::Options::defer_missing_comparators) a database opens although
//! comparators are missing. The families that need one are *deferred*: calls on them answer `ComparatorMissing`. Recovery
//! moves the log's start as always, so their commits from the log must go somewhere else: into a pending family, which is
//! written to tables and recorded in the manifest by the same batch that moves the log's start. When the comparator comes:
//!
//! 1. its name is filled into the order of each family that waits for it, and the family's tables make a version;
//! 2. what is pending is replayed into memtables, which become tables, as recovery does;
//! 3. one manifest batch adds these and drops the pending family; then the family is open.
//!
//! A crash before 3 leaves everything as it was. Handles that were taken before stay valid. A read-only opening does the
//! same in memory.

use std::sync::Arc;

use kingtide_base::{
    BUILT_IN_COMPARATORS, ComparatorRef, FamilyId, SeqNo, StorageError, built_in_comparator,
    limits::COMPARATOR_NAME_BYTES_MAX,
};
use kingtide_format::{Edit, TableMeta};

use super::{
    Db, pending,
    recover::{Recovered, Recovery},
};
use crate::{
    engine::Engine,
    error::{Error, ErrorKind, Result},
    events::Event,
    family::{Deferred, Family, SuperVersion},
    options::IterOptions,
    txn::acquire,
    version::Version,
};

impl Db {
    /// Makes an order of keys known to this opening: families that waited for it are opened, and families can be created
    /// with it. See [`Options::defer_missing_comparators`](crate::Options::defer_missing_comparators).
    ///
    /// ```
    /// # fn main() -> kingtide::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// use kingtide::{Comparator, Db, FamilyOptions, Options};
    /// use std::{cmp::Ordering, sync::Arc};
    ///
    /// struct ByLength;
    ///
    /// impl Comparator for ByLength {
    ///     fn name(&self) -> &str {
    ///         "by_length"
    ///     }
    ///     fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
    ///         left.len().cmp(&right.len()).then_with(|| left.cmp(right))
    ///     }
    /// }
    ///
    /// let deferring = || Options { defer_missing_comparators: true, ..Options::default() };
    /// let db = Db::open(directory.path(), deferring())?;
    /// db.register_comparator(Arc::new(ByLength))?;
    /// let options = FamilyOptions { comparator: "by_length".to_owned(), ..FamilyOptions::default() };
    /// let words = db.create_family("words", options)?;
    /// db.put(&words, b"tide", b"1")?;
    /// db.close()?;
    ///
    /// let db = Db::open(directory.path(), deferring())?;
    /// let words = db.family("words")?;
    /// assert!(db.get(&words, b"tide").is_err(), "its order is not known yet");
    /// db.register_comparator(Arc::new(ByLength))?;
    /// assert_eq!(db.get(&words, b"tide")?.expect("was put"), b"1");
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument`: the name is empty, longer than 63 bytes, built in or registered already, or the order has
    /// [canonical bytes](crate::Comparator::canonical) and families wait for it: such an order must be in
    /// [`Options::comparators`](crate::Options::comparators). `Corruption`, `DiskFull`, `Io`, `ReopenRequired` when a
    /// family cannot be opened: the call may be made again. `Closed`.
    pub fn register_comparator(&self, comparator: ComparatorRef) -> Result<()> {
        let engine = self.engine();
        engine.check_open()?;
        let _one_at_a_time = engine.registering.lock();
        let name = comparator.name().to_owned();
        check_name(engine, &name)?;
        let all = engine.families.all();
        let waiting = all
            .iter()
            .filter(|family| family.is_deferred() && family.options().comparator == name);
        let waiting: Vec<_> = waiting.collect();
        if !waiting.is_empty() && comparator.canonical(b"k").is_some() {
            return Err(Error::invalid(format!(
                "comparator {name:?} has canonical bytes: put it into Options::comparators and open again"
            )));
        }
        for family in &waiting {
            if let Some(order) = family.deferred().and_then(|deferred| deferred.order) {
                order.set(&comparator);
            }
            resume(engine, family)?;
            self.shared.background.schedule_merge(engine, family);
        }
        engine.comparators.lock().push(comparator);
        engine.events.emit(|| Event::ComparatorRegistered {
            name,
            families: waiting.len(),
        });
        Ok(())
    }

    /// The order of keys of that name: built in, from the options, or registered; `None` when it is not known.
    #[must_use]
    pub fn comparator(&self, name: &str) -> Option<ComparatorRef> {
        let known = self.engine().comparators.lock();
        let own = known.iter().find(|order| order.name() == name).cloned();
        own.or_else(|| built_in_comparator(name))
    }
}

fn check_name(engine: &Engine, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > COMPARATOR_NAME_BYTES_MAX {
        return Err(Error::invalid("a comparator's name has 1 to 63 bytes"));
    }
    let known = engine.comparators.lock();
    if BUILT_IN_COMPARATORS.contains(&name) || known.iter().any(|order| order.name() == name) {
        return Err(Error::invalid(format!(
            "comparator {name:?} is known already"
        )));
    }
    Ok(())
}

/// Opens the families whose comparator is known and which only wait for what is pending; at the end of an open.
///
/// # Errors
/// As [`Db::register_comparator`].
pub(super) fn resume_all(engine: &Engine) -> Result<()> {
    for family in engine.families.all() {
        if family
            .deferred()
            .is_some_and(|deferred| deferred.order.is_none())
        {
            resume(engine, &family)?;
        }
    }
    Ok(())
}

/// Steps 1 to 3 for one family, whose order is complete.
fn resume(engine: &Engine, family: &Arc<Family>) -> Result<()> {
    let Some(deferred) = family.deferred() else {
        return Ok(());
    };
    let version = Version::from_tables(family.order.clone(), deferred.tables.iter().cloned())
        .map_err(|fault| {
            let what = format!("family {:?}: {fault}", family.name());
            StorageError::malformed("MANIFEST", 0, what)
        })?;
    let version = Arc::new(version);
    // Nobody reads it before the family is open; the replay looks at what is below it.
    family.update(|current| current.with_version(Arc::clone(&version), None));
    let recovered = replay(engine, family, &deferred)?;
    let outputs = recovered.iter().flat_map(|found| &found.outputs);
    let added: Vec<(u8, Arc<TableMeta>)> = outputs
        .clone()
        .flat_map(|output| &output.tables)
        .map(|meta| (1, Arc::new(meta.clone())))
        .collect();
    let version = version
        .apply(&added, &[], &[])
        .map_err(|fault| Error::new(ErrorKind::ReopenRequired, fault.to_string()))?;
    let version = Arc::new(version);
    let mut manifest = engine.manifest.lock();
    if !engine.options.read_only {
        let mut edits = vec![Edit::NextFileId(engine.files.next_id())];
        for output in outputs {
            let values = output.value_files.iter();
            edits.extend(values.map(|file| Edit::AddValueFile(*file)));
        }
        edits.extend(added.iter().map(|(level, meta)| Edit::AddTable {
            family: family.id,
            level: *level,
            meta: (**meta).clone(),
        }));
        let id = deferred.pending.id;
        if manifest.state().family(id).is_some() {
            edits.push(Edit::DropFamily { id });
        }
        manifest.append(&edits)?;
    }
    for (_, table) in &added {
        engine.files.live.add(table);
    }
    let sealed: Vec<_> = recovered
        .into_iter()
        .flat_map(|found| found.sealed)
        .rev()
        .collect();
    family.update(|current| SuperVersion {
        active: Arc::clone(&current.active),
        sealed: sealed.clone(),
        version: Arc::clone(&version),
    });
    family.undefer();
    drop(manifest);
    let pending = deferred.pending.load_full();
    for (_, table) in pending.version.tables() {
        engine.files.live.remove(table);
    }
    drop((pending, deferred));
    if engine.options.read_only {
        return Ok(());
    }
    // What cannot be removed now is found again by the next sweep, or by the next open.
    let _ = engine.sweep_files();
    Ok(())
}

/// Step 2.
fn replay(engine: &Engine, family: &Arc<Family>, deferred: &Deferred) -> Result<Vec<Recovered>> {
    let snapshot = acquire(engine);
    let everything = IterOptions::default();
    let iter = crate::txn::iter_at(engine, &deferred.pending, &everything, &snapshot, None)?;
    let memtables = &engine.pipeline.memtables;
    let is_read_only = engine.options.read_only;
    let mut recovery = Recovery::new(&engine.files, memtables, is_read_only, engine.now());
    recovery.add(Arc::clone(family), SeqNo::ZERO);
    let id: FamilyId = family.id;
    match pending::replay(iter, &mut |sequence, ops| {
        recovery.section(sequence, id, ops)
    }) {
        Ok(()) => recovery.finish(),
        Err(error) => {
            recovery.discard();
            Err(error)
        }
    }
}
