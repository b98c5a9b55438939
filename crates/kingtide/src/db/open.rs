//! Opening: lock, manifest, families, replay, checkpoint — and only then writing.
//!
//! 1. The directory is opened (or created) and locked.
//! 2. The manifest tells the families and their tables. Every table and value file must be there with its length.
//! 3. The log is replayed into memtables, and these are written to tables.
//! 4. A segment begins a life that no segment has had, and takes the records of transactions that are still prepared;
//!    they are synced. One manifest edit installs the tables and moves the log's start to that life. From then on the
//!    old segments mean nothing: whatever of them was lost or is stale can never come back.
//! 5. Old segments, and files that no manifest names, are removed. Background threads start; writing is allowed.
//!
//! A crash anywhere before 4 leaves everything as it was. A read-only open does 2 and 3 in memory and writes nothing; where a file is
//! missing that a writer beside it may have removed, it does 2 again.

use std::{
    cell::Cell,
    collections::{BTreeSet, HashMap},
    io,
    path::Path,
    sync::Arc,
};

use kingtide_base::{
    ComparatorRef, DatabaseId, FileId, KeyOrder, SegmentId, SeqNo, StorageError,
    built_in_comparator,
    planted::{self, Bug},
};
use kingtide_collections::MemoryBudget;
use kingtide_env::{Directory, Env, FileLock, PosixEnv, sync::atomic::Ordering};
use kingtide_format::{Edit, TableMeta};
use kingtide_table::{klog_name, parse_klog_name, parse_vlog_name, vlog_name};

use super::{
    carry::Carrier,
    deferred::resume_all,
    deferring::Deferring,
    recover::{Recovered, Recovery},
};
use crate::{
    budget::{MemoryRoom, Plan},
    engine::{Engine, EngineParts, ManifestSlot},
    error::{Error, ErrorKind, Result},
    events::{Audience, Events, LogFile, TraceFile},
    family::{
        Family, FamilyParts, Opening, SuperVersion, decode_options, encode_options, is_pending_name,
    },
    files::{Files, FilesMemory, fit_open_files},
    manifest::{self, Manifest, ManifestState},
    memtable::MemtableSource,
    options::{FamilyOptions, Options},
    output::discard_output,
    version::Version,
    wal::{LogEnd, LogStart, Tail, read_log, segment_slot},
    write::{CommitLog, LockTable, Pipeline, PipelineParts, Prepared, PreparedNames},
};

/// The lock file.
const LOCK_NAME: &str = "LOCK";
/// A read-only opening looks at most so often whether the files are there that the manifest names.
const LOOKS_MAX: usize = 16;
/// Free memtable arenas that are kept for reuse.
const ARENAS_KEPT: usize = 1;
/// The directories of a database.
struct Place {
    env: Arc<dyn Env>,
    root: Arc<dyn Directory>,
    wal: Arc<dyn Directory>,
    klog: Arc<dyn Directory>,
    vlog: Arc<dyn Directory>,
    lock: Option<Box<dyn FileLock>>,
}

/// Opens the engine of the database at `path`. Background threads are not started.
///
/// # Errors
/// As [`Db::open`](super::Db::open).
pub(super) fn open(path: &Path, options: Options) -> Result<Arc<Engine>> {
    let env = options
        .env
        .clone()
        .unwrap_or_else(|| Arc::new(PosixEnv::new()));
    let opening = Opening::default();
    let mut place = open_place(path, &options, env)?;
    let mut slot = open_checked_manifest(&place, &options, path)?;
    let state = slot.state().clone();
    let plan = Plan::fit(&options, place.env.as_ref());
    let budget = MemoryBudget::new(plan.limit_bytes);
    let files = open_files(&place, &options, &state, (plan, &budget))?;
    let memtables = MemtableSource::new(ARENAS_KEPT, &budget, plan.memtable_bytes_max);
    let families = open_families(&state, &options, &files, &memtables, &opening)?;
    let now = (place.env.unix_micros() / 1_000_000) as i64;
    let mut recovery = Recovery::new(&files, &memtables, options.read_only, now);
    recovery.next_family = state.next_family_id();
    let values = state.value_files().iter();
    recovery.value_files = values.map(|(file, values)| (*file, values.meta)).collect();
    let replayed = replay(&place, &state, recovery, families)?;
    let last = last_sequence(&state, replayed.end.sequence);
    let log = match options.read_only {
        true => read_only_log(&replayed.end),
        false => begin_log(&place, &mut slot, &files, (&replayed, last))?,
    };
    let Replayed {
        recovered,
        end,
        prepared,
        ended,
    } = replayed;
    let pipeline = Arc::new(Pipeline::new(PipelineParts {
        env: Arc::clone(&place.env),
        log_directory: Arc::clone(&place.wal),
        log,
        last,
        memory: MemoryRoom::new(plan, budget, Some(files.caches())),
        wait_max: options.write_wait_max,
        memtables,
        prepared: PreparedNames::new(&prepared, ended),
    }));
    prepared.iter().for_each(|one| one.count_in(&files.budget));
    hold_spilled(&files, &state, &prepared);
    let events = start_events(&place, &options)?;
    files.tell(&events);
    pipeline.tell(&events);
    let engine = Arc::new(Engine::new(EngineParts {
        events,
        env: Arc::clone(&place.env),
        options,
        wal: Arc::clone(&place.wal),
        files,
        pipeline,
        manifest: slot,
        opening,
        lock: place.lock.take(),
    }));
    install(&engine, recovered)?;
    if !engine.options.read_only {
        remove_leftovers(&engine, &place, end.next_slot)?;
    }
    Ok(engine)
}

/// The tables and value files, and what of them is kept in memory.
fn open_files(
    place: &Place,
    options: &Options,
    state: &ManifestState,
    (plan, budget): (Plan, &Arc<MemoryBudget>),
) -> Result<Arc<Files>> {
    let files = Files::new(
        Arc::clone(&place.klog),
        Arc::clone(&place.vlog),
        fit_open_files(options.open_tables_max, place.env.open_files_max()),
        FilesMemory::of(&plan, budget),
        unused_file_id(place, state)?,
    );
    for values in state.value_files().values() {
        files.values.expect(&values.meta);
    }
    Ok(Arc::new(files))
}

/// Holds the spilled values of transactions that are still prepared. That the manifest names them was checked.
fn hold_spilled(files: &Arc<Files>, state: &ManifestState, prepared: &[Arc<Prepared>]) {
    for one in prepared {
        let held = one.pointers.iter().filter_map(|pointer| {
            let values = state.value_files().get(&pointer.file)?;
            Some(files.adopt(values.meta, *pointer))
        });
        one.hold(held.collect());
    }
}

/// Stands in for the end of a log that is only read.
fn read_only_log(end: &LogEnd) -> CommitLog {
    let tail = Tail::read_only(end.next_segment, end.position);
    CommitLog::new(tail, end.next_slot, LockTable::default())
}

fn open_place(path: &Path, options: &Options, env: Arc<dyn Env>) -> Result<Place> {
    let create = options.create_if_missing && !options.read_only;
    let root = env
        .open_directory(path, create)
        .map_err(|error| directory_error(path, &error))?;
    let lock = match options.read_only {
        true => None,
        false => Some(lock(root.as_ref(), path)?),
    };
    let may_create = !options.read_only;
    if may_create && !create && !manifest::is_present(root.as_ref())? {
        return Err(no_database(path));
    }
    let open = |name: &str| {
        root.open_directory(name, may_create)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => no_database(path),
                _ => StorageError::io(name, "open", error).into(),
            })
    };
    let (wal, klog, vlog) = (open("wal")?, open("klog")?, open("vlog")?);
    if may_create {
        root.sync()
            .map_err(|error| Error::from(StorageError::io(".", "sync", error)))?;
    }
    Ok(Place {
        env,
        root,
        wal,
        klog,
        vlog,
        lock,
    })
}

/// Who wants to know what happens in this opening.
fn start_events(place: &Place, options: &Options) -> Result<Arc<Events>> {
    let wants_log = options.log.to_file && !options.read_only;
    let trace = options.trace.as_ref().map(|path| {
        TraceFile::create(&place.env, path).map_err(|error| {
            let what = format!("cannot create the trace {}: {error}", path.display());
            Error::new(ErrorKind::Io, what)
        })
    });
    let audience = Audience {
        listener: options.listener.clone(),
        log: wants_log.then(|| LogFile::open(Arc::clone(&place.root), options.log)),
        trace: trace.transpose()?,
    };
    Events::start(&place.env, audience).map_err(|error| {
        Error::new(
            ErrorKind::Io,
            format!("cannot start a background thread: {error}"),
        )
    })
}

fn lock(root: &dyn Directory, path: &Path) -> Result<Box<dyn FileLock>> {
    root.lock(LOCK_NAME).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::new(
            ErrorKind::Locked,
            format!(
                "{} is open already, in this or another process: close it there first",
                path.display()
            ),
        ),
        _ => StorageError::io(LOCK_NAME, "lock", error).into(),
    })
}

fn no_database(path: &Path) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!(
            "there is no database in {}: check the path, or open it with create_if_missing",
            path.display()
        ),
    )
}

fn directory_error(path: &Path, error: &io::Error) -> Error {
    let (kind, advice) = match error.kind() {
        io::ErrorKind::NotFound => (
            ErrorKind::NotFound,
            "check the path, or open it with create_if_missing",
        ),
        io::ErrorKind::NotADirectory => (
            ErrorKind::InvalidArgument,
            "a file is in its place; name a directory",
        ),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            (ErrorKind::Io, "check its permissions, or open it read-only")
        }
        _ => (ErrorKind::Io, "see the system's answer"),
    };
    Error::new(
        kind,
        format!(
            "cannot open the directory {}: {error}: {advice}",
            path.display()
        ),
    )
}

/// Step 2. A writer beside a read-only opening may remove files that the manifest named when it was read: by then it names
/// others, and is read once more.
fn open_checked_manifest(place: &Place, options: &Options, path: &Path) -> Result<ManifestSlot> {
    let mut slot = open_manifest(place, options, path)?;
    let mut looks = 1;
    while let Err(error) = check_files(place, slot.state()) {
        if !options.read_only || looks == LOOKS_MAX {
            return Err(error);
        }
        let now = open_manifest(place, options, path)?;
        if now.state() == slot.state() {
            return Err(error);
        }
        slot = now;
        looks += 1;
    }
    Ok(slot)
}

fn open_manifest(place: &Place, options: &Options, path: &Path) -> Result<ManifestSlot> {
    let root = &place.root;
    if manifest::is_present(root.as_ref())? {
        return Ok(if options.read_only {
            ManifestSlot::ReadOnly(Box::new(manifest::read(root.as_ref())?))
        } else {
            let writer = Manifest::open(Arc::clone(root), Arc::clone(&place.env))?;
            ManifestSlot::Writer(Box::new(writer))
        });
    }
    for (directory, name) in [
        (&place.wal, "wal"),
        (&place.klog, "klog"),
        (&place.vlog, "vlog"),
    ] {
        let entries = directory
            .list()
            .map_err(|error| StorageError::io(name, "list", error))?;
        if let Some(entry) = entries.first() {
            return Err(StorageError::malformed(
                format!("{name}/{}", entry.name),
                0,
                "the directory holds files of a database but no manifest: restore it from a backup",
            )
            .into());
        }
    }
    if options.read_only {
        return Err(no_database(path));
    }
    let state = ManifestState::default();
    let writer = Manifest::create(Arc::clone(root), Arc::clone(&place.env), state)?;
    Ok(ManifestSlot::Writer(Box::new(writer)))
}

/// Every file that the manifest names is there, with the length it was sealed with.
fn check_files(place: &Place, state: &ManifestState) -> Result<()> {
    let lengths = |directory: &Arc<dyn Directory>, name: &str| -> Result<HashMap<String, u64>> {
        let entries = directory
            .list()
            .map_err(|error| StorageError::io(name, "list", error))?;
        Ok(entries
            .into_iter()
            .map(|entry| (entry.name, entry.bytes))
            .collect())
    };
    let klog = lengths(&place.klog, "klog")?;
    let vlog = lengths(&place.vlog, "vlog")?;
    let check = |found: &HashMap<String, u64>, folder: &str, name: String, bytes: u64| {
        let length = found.get(&name).copied();
        if length == Some(bytes) {
            return Ok(());
        }
        let what = match length {
            None => "the file is missing although the manifest names it",
            Some(_) => "the file does not have the length that the manifest records",
        };
        let file = format!("{folder}/{name}");
        Err(Error::from(StorageError::checksum(
            file,
            0,
            what,
            bytes,
            length.unwrap_or(0),
        )))
    };
    for (_, family) in state.families() {
        for (file, (_, meta)) in &family.tables {
            check(&klog, "klog", klog_name(*file), meta.file_bytes)?;
        }
    }
    for (file, values) in state.value_files() {
        check(&vlog, "vlog", vlog_name(*file), values.meta.file_bytes)?;
    }
    Ok(())
}

/// An id above those of the manifest and of every file there is: leftovers keep their names until they are removed.
fn unused_file_id(place: &Place, state: &ManifestState) -> Result<FileId> {
    let mut next = state.next_file_id().max(FileId(1));
    for (directory, name) in [(&place.klog, "klog"), (&place.vlog, "vlog")] {
        for entry in directory
            .list()
            .map_err(|error| StorageError::io(name, "list", error))?
        {
            let id = parse_klog_name(&entry.name).or_else(|| parse_vlog_name(&entry.name));
            next = next.max(id.map_or(FileId::ZERO, FileId::next));
        }
    }
    Ok(next)
}

/// The order that a family's settings name.
///
/// # Errors
/// `ComparatorMissing`.
pub(super) fn order_of(options: &FamilyOptions, comparators: &[ComparatorRef]) -> Result<KeyOrder> {
    let name = options.comparator.as_str();
    let custom = comparators
        .iter()
        .find(|order| order.name() == name)
        .cloned();
    custom.or_else(|| built_in_comparator(name)).map(KeyOrder::new).ok_or_else(|| {
        Error::new(
            ErrorKind::ComparatorMissing,
            format!("comparator {name:?} is not known: put it into Options::comparators and open again"),
        )
    })
}

fn open_families(
    state: &ManifestState,
    options: &Options,
    files: &Files,
    memtables: &MemtableSource,
    opening: &Opening,
) -> Result<Vec<(Arc<Family>, SeqNo)>> {
    // Clones share tables: all versions of all families must share one metadata for each, because it counts readers.
    let mut shared: HashMap<FileId, Arc<TableMeta>> = HashMap::new();
    let mut families = Vec::new();
    let mut deferring = Deferring::new(state);
    for (id, stored) in state.families() {
        let settings = decode_options(&stored.options).map_err(|message| {
            StorageError::malformed(
                "MANIFEST",
                0,
                format!("family {:?}: {message}", stored.name),
            )
        })?;
        let (order, waiting) = deferring.order_of(id, &settings, options)?;
        let tables = stored.tables.values().map(|(level, meta)| {
            let meta = shared
                .entry(meta.file)
                .or_insert_with(|| Arc::new((**meta).clone()));
            (*level, Arc::clone(meta))
        });
        let tables: Vec<_> = tables.collect();
        for (_, meta) in &tables {
            files.live.add(meta);
        }
        // What is not sorted yet cannot be judged.
        let opened = if waiting.is_some() {
            Vec::new()
        } else {
            tables.clone()
        };
        let version = Version::from_tables(order.clone(), opened).map_err(|fault| {
            StorageError::malformed("MANIFEST", 0, format!("family {:?}: {fault}", stored.name))
        })?;
        let active = memtables.make(&order, settings.write_buffer_bytes, 0, 0);
        let family = Arc::new(Family::new(FamilyParts {
            id,
            name: stored.name.clone(),
            order,
            options: settings,
            opening: opening.clone(),
            first: SuperVersion {
                active,
                sealed: Vec::new(),
                version: Arc::new(version),
            },
        }));
        if let Some(waiting) = waiting {
            deferring.add(&family, waiting, tables);
        }
        families.push((family, stored.flushed_through));
    }
    deferring.finish(&mut families, |parts| {
        let active = memtables.make(parts.0, parts.1.write_buffer_bytes, 0, 0);
        (active, opening.clone())
    });
    Ok(families)
}

fn log_start(state: &ManifestState) -> LogStart {
    let start = state.log_start();
    LogStart {
        segment: start.segment,
        position: start.position,
        durable: state.log_durable(),
        database: state.identity(),
    }
}

/// What step 3 found.
struct Replayed {
    recovered: Vec<Recovered>,
    end: LogEnd,
    /// Transactions that wait for their outcome.
    prepared: Vec<Arc<Prepared>>,
    /// Hashes of the names of those whose outcome is in the log.
    ended: BTreeSet<u128>,
}

/// Step 3: plays the log into the families, each from its flushed sequence number on.
fn replay<'a>(
    place: &Place,
    state: &ManifestState,
    mut recovery: Recovery<'a>,
    families: Vec<(Arc<Family>, SeqNo)>,
) -> Result<Replayed> {
    for (family, flushed_through) in families {
        recovery.keep_pending(&family);
        recovery.add(family, flushed_through);
    }
    let replayed = read_log(place.wal.as_ref(), log_start(state), &mut recovery);
    let two_phase = std::mem::take(&mut recovery.two_phase);
    let found = recovery.check(replayed).and_then(|end| {
        let waits = Cell::new(false);
        let found = two_phase.finish(&|id| {
            let family = recovery.family(id)?;
            waits.set(waits.get() || family.is_deferred());
            Some(family)
        });
        if waits.get() {
            return Err(Error::new(
                ErrorKind::ComparatorMissing,
                "a prepared transaction has locked keys of a family whose comparator is missing: put it into \
                 Options::comparators and open again",
            ));
        }
        let (prepared, ended) = found?;
        let mut pointers = prepared.iter().flat_map(|one| &one.pointers);
        pointers.try_for_each(|pointer| recovery.check_pointer(pointer))?;
        Ok((end, prepared, ended))
    });
    match found {
        Ok((end, prepared, ended)) => Ok(Replayed {
            recovered: recovery.finish()?,
            end,
            prepared,
            ended,
        }),
        Err(error) => {
            recovery.discard();
            Err(error)
        }
    }
}

fn last_sequence(state: &ManifestState, replayed: SeqNo) -> SeqNo {
    let flushed = state
        .families()
        .map(|(_, family)| family.flushed_through)
        .max();
    let last = replayed
        .max(state.log_start().sequence)
        .max(flushed.unwrap_or_default());
    if planted::is(Bug::SequenceReused) {
        return SeqNo(last.0.saturating_sub(1));
    }
    last
}

/// Step 4: the first segment of this opening with the transactions that are still prepared, and the checkpoint.
fn begin_log(
    place: &Place,
    slot: &mut ManifestSlot,
    files: &Files,
    (replayed, last): (&Replayed, SeqNo),
) -> Result<CommitLog> {
    let Replayed {
        recovered,
        end,
        prepared,
        ..
    } = replayed;
    let segment = end.next_segment.max(SegmentId(1));
    let known = slot.state().identity();
    let database = known.unwrap_or_else(|| draw_identity(place.env.as_ref()));
    let begun = Carrier {
        env: place.env.as_ref(),
        wal: place.wal.as_ref(),
        first_slot: end.next_slot,
        database,
    }
    .begin(
        (segment, end.position),
        prepared,
        (last, slot.state().log_durable()),
    );
    let begun = match begun {
        Ok(begun) => begun,
        Err(error) => {
            // A full disk must not become fuller with each attempt to open.
            for output in recovered.iter().flat_map(|found| &found.outputs) {
                discard_output(files, output);
            }
            return Err(error.into());
        }
    };
    // In one batch with the log's start: from there on every segment carries the identity that the manifest has.
    let mut edits = vec![
        Edit::Identity(database),
        Edit::NextFileId(files.next_id()),
        Edit::LogStart {
            segment,
            sequence: last,
            position: end.position,
        },
        Edit::LogDurable(begun.tail.position()),
    ];
    for family in recovered {
        edits.extend(edits_of(family, slot.state()));
    }
    slot.append(&edits)?;
    Ok(CommitLog::new(
        begun.tail,
        begun.next_slot,
        if planted::is(Bug::PreparedLocksForgotten) {
            LockTable::default()
        } else {
            LockTable::restored(&begun.carried)
        },
    ))
}

/// The identity of a database that has none: of a new one, or of one that earlier versions wrote.
fn draw_identity(env: &dyn Env) -> DatabaseId {
    let mut bytes = [0; 16];
    env.fill_random(&mut bytes);
    DatabaseId(u128::from_le_bytes(bytes))
}

/// What the manifest must learn of a family's replay.
fn edits_of(recovered: &Recovered, state: &ManifestState) -> Vec<Edit> {
    let family = &recovered.family;
    let id = family.id;
    let mut edits = Vec::new();
    if state.family(id).is_none() {
        // A pending family is recorded only when it holds something.
        if recovered.outputs.is_empty() {
            return edits;
        }
        edits.push(Edit::NextFamilyId(id.next()));
        edits.push(Edit::AddFamily {
            id,
            name: family.name(),
            options: encode_options(&family.options()),
        });
    }
    for output in &recovered.outputs {
        let values = output.value_files.iter();
        edits.extend(values.map(|file| Edit::AddValueFile(*file)));
        edits.extend(output.tables.iter().map(|meta| Edit::AddTable {
            family: id,
            level: 1,
            meta: meta.clone(),
        }));
    }
    edits.push(Edit::FlushedThrough {
        family: id,
        sequence: recovered.replayed_through,
    });
    edits
}

/// Puts what was recovered where readers see it.
fn install(engine: &Arc<Engine>, recovered: Vec<Recovered>) -> Result<()> {
    for mut found in recovered {
        let tables: Vec<(u8, Arc<TableMeta>)> = found
            .outputs
            .iter()
            .flat_map(|output| &output.tables)
            .map(|meta| (1, Arc::new(meta.clone())))
            .collect();
        for (_, table) in &tables {
            engine.files.live.add(table);
        }
        // Relaxed: a statistic.
        engine
            .recovered_tables
            .fetch_add(tables.len() as u64, Ordering::Relaxed);
        let current = found.family.load_full();
        let version = current
            .version
            .apply(&tables, &[], &[])
            .map_err(|fault| StorageError::malformed("MANIFEST", 0, fault.to_string()))?;
        found.sealed.reverse();
        let sealed = found.sealed;
        found.family.update(|current| SuperVersion {
            active: Arc::clone(&current.active),
            sealed,
            version: Arc::new(version),
        });
        if !is_pending_name(&found.family.name()) {
            engine.families.add(found.family)?;
        }
    }
    resume_all(engine)
}

/// Step 5. Everything removed here is proven dead: the durable manifest was read whole, and it does not name it.
fn remove_leftovers(engine: &Engine, place: &Place, first_slot: u64) -> Result<()> {
    let manifest = engine.manifest.lock();
    let state = manifest.state().clone();
    drop(manifest);
    let list = |directory: &Arc<dyn Directory>, name: &str| {
        directory
            .list()
            .map_err(|error| Error::from(StorageError::io(name, "list", error)))
    };
    for entry in list(&place.wal, "wal")? {
        let slot = segment_slot(&entry.name);
        if slot.is_some_and(|slot| slot < first_slot) {
            engine.remove_segments(vec![entry.name]);
        }
    }
    for entry in list(&place.klog, "klog")? {
        if parse_klog_name(&entry.name).is_some_and(|id| !state.is_file_used(id)) {
            // What cannot be removed now is found again by the next open.
            let _ = place.klog.remove(&entry.name);
        }
    }
    for entry in list(&place.vlog, "vlog")? {
        if parse_vlog_name(&entry.name).is_some_and(|id| !state.is_file_used(id)) {
            // As above.
            let _ = place.vlog.remove(&entry.name);
        }
    }
    let unused = |file: &FileId| !engine.files.live.uses_values(*file);
    let dead: Vec<FileId> = state.value_files().keys().copied().filter(unused).collect();
    engine.remove_value_files(dead)
}
