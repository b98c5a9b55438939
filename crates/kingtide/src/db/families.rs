//! Creating, dropping, renaming and cloning column families. Each syncs the log and makes one manifest edit, so that
//! after a crash the families fit the commits that survive. Ids are never used again: log records of a dropped family
//! find nobody to go to.

use std::sync::Arc;

use kingtide_base::{FamilyId, KeyOrder, SeqNo, limits};
use kingtide_format::Edit;

use super::open::order_of;
use crate::{
    engine::{Engine, ManifestSlot},
    error::{Error, ErrorKind, Result},
    family::{
        Family, FamilyParts, SuperVersion, already_exists, encode_options, validate_name,
        validate_options,
    },
    flush::flush_oldest,
    options::FamilyOptions,
    version::Version,
};

/// Creates an empty family.
///
/// # Errors
/// As [`Db::create_family`](super::Db::create_family).
pub(super) fn create(engine: &Engine, name: &str, options: FamilyOptions) -> Result<Arc<Family>> {
    engine.check_writable()?;
    validate_name(name)?;
    validate_options(&options)?;
    let order = order_of(&options, &engine.comparators.lock())?;
    let mut manifest = engine.manifest.lock();
    check_free(engine, &manifest, name)?;
    engine.pipeline.sync_log()?;
    let id = manifest.state().next_family_id();
    let add = Edit::AddFamily {
        id,
        name: name.to_owned(),
        options: encode_options(&options),
    };
    manifest.append(&[Edit::NextFamilyId(id.next()), add])?;
    let version = Arc::new(Version::empty(order.clone()));
    open_new(engine, (id, name), (order, options), version)
}

/// Opens a family that the durable manifest has just got.
fn open_new(
    engine: &Engine,
    (id, name): (FamilyId, &str),
    (order, options): (KeyOrder, FamilyOptions),
    version: Arc<Version>,
) -> Result<Arc<Family>> {
    let active = engine
        .pipeline
        .memtables
        .make(&order, options.write_buffer_bytes, 0, 0);
    let family = Arc::new(Family::new(FamilyParts {
        id,
        name: name.to_owned(),
        order,
        options,
        opening: engine.opening.clone(),
        first: SuperVersion {
            active,
            sealed: Vec::new(),
            version,
        },
    }));
    engine.families.add(Arc::clone(&family))?;
    Ok(family)
}

fn check_free(engine: &Engine, manifest: &ManifestSlot, name: &str) -> Result<()> {
    if engine.families.contains(name) {
        return Err(already_exists(name));
    }
    if manifest.state().families().count() >= limits::FAMILIES_MAX {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "a database has at most {} column families",
                limits::FAMILIES_MAX
            ),
        ));
    }
    Ok(())
}

/// Drops a family. Iterators and snapshots that are open on it go on; its files go when they end.
///
/// # Errors
/// As [`Db::drop_family`](super::Db::drop_family).
pub(super) fn drop_family(engine: &Engine, name: &str) -> Result<()> {
    engine.check_writable()?;
    let mut manifest = engine.manifest.lock();
    let family = engine.families.get(name)?;
    engine.check_family(&family)?;
    let no_prepares = engine.pipeline.prepared.hold_changes();
    engine.pipeline.check_unprepared(&family)?;
    engine.pipeline.sync_log()?;
    manifest.append(&[Edit::DropFamily { id: family.id }])?;
    engine.families.remove(name);
    let (gone, _hook) = {
        // Under the commit lock: no commit is between its check and its memtable.
        let _commit_lock = engine.pipeline.order.lock();
        family.set_dropped();
        let gone = family.load_full();
        let version = Arc::new(Version::empty(family.order.clone()));
        let active = engine.pipeline.memtables.make(&family.order, 4096, 0, 0);
        family.update(|_| SuperVersion {
            active,
            sealed: Vec::new(),
            version,
        });
        // The calls of commits before this go on.
        (gone, family.hooks.replace(None))
    };
    // Before the manifest is locked again: another drop takes the two in the order from above.
    drop((no_prepares, manifest));
    *engine.dropped_totals.lock() += family.counters.totals();
    gone.memories().for_each(|memory| memory.unpin_spilled());
    for _ in &gone.sealed {
        engine.pipeline.stall.subtract();
    }
    for (_, table) in gone.version.tables() {
        engine.files.live.remove(table);
    }
    drop(gone);
    engine.sweep_files()
}

/// Gives a family another name.
///
/// # Errors
/// As [`Db::rename_family`](super::Db::rename_family).
pub(super) fn rename(engine: &Engine, from: &str, to: &str) -> Result<()> {
    engine.check_writable()?;
    validate_name(to)?;
    let mut manifest = engine.manifest.lock();
    let family = engine.families.get(from)?;
    engine.check_family(&family)?;
    if from == to {
        return Ok(());
    }
    if engine.families.contains(to) {
        return Err(already_exists(to));
    }
    engine.pipeline.sync_log()?;
    manifest.append(&[Edit::RenameFamily {
        id: family.id,
        name: to.to_owned(),
    }])?;
    engine.families.rename(from, to);
    Ok(())
}

/// Makes an independent copy of a family, which shares its tables at first.
///
/// # Errors
/// As [`Db::clone_family`](super::Db::clone_family).
pub(super) fn clone_family(engine: &Engine, from: &str, to: &str) -> Result<Arc<Family>> {
    engine.check_writable()?;
    validate_name(to)?;
    let source = engine.families.get(from)?;
    if from == to {
        return Err(Error::invalid(
            "a column family cannot be cloned to its own name",
        ));
    }
    flush(engine, &source)?;
    let mut manifest = engine.manifest.lock();
    engine.check_family(&source)?;
    check_free(engine, &manifest, to)?;
    engine.pipeline.sync_log()?;
    let id = manifest.state().next_family_id();
    let flushed_through = manifest
        .state()
        .family(source.id)
        .map_or(SeqNo::ZERO, |stored| stored.flushed_through);
    let version = Arc::clone(&source.load().version);
    let settings = (**source.options()).clone();
    let options = encode_options(&settings);
    let mut edits = vec![
        Edit::NextFamilyId(id.next()),
        Edit::AddFamily {
            id,
            name: to.to_owned(),
            options,
        },
        Edit::FlushedThrough {
            family: id,
            sequence: flushed_through,
        },
    ];
    edits.extend(version.tables().map(|(level, meta)| Edit::AddTable {
        family: id,
        level,
        meta: (**meta).clone(),
    }));
    manifest.append(&edits)?;
    for (_, table) in version.tables() {
        engine.files.live.add(table);
    }
    let settings = (source.order.clone(), settings);
    open_new(engine, (id, to), settings, version)
}

/// Seals the memtable of `family` and waits until everything committed before the call is in tables.
///
/// # Errors
/// What flushing answers.
pub(super) fn flush(engine: &Engine, family: &Arc<Family>) -> Result<()> {
    engine.check_family(family)?;
    let active = Arc::clone(&family.load().active);
    // First what waits already: sealing another one may need its room.
    flush_sealed(engine, family)?;
    if !active.table.is_empty() {
        engine.pipeline.rotate(family, &active, (0, 0))?;
    }
    flush_sealed(engine, family)
}

/// Writes the sealed memtables of `family` to tables.
///
/// # Errors
/// What flushing answers.
pub(super) fn flush_sealed(engine: &Engine, family: &Arc<Family>) -> Result<()> {
    while flush_oldest(engine, family)? {}
    Ok(())
}
