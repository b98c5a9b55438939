//! Backups and checkpoints: a copy of the database as of one moment, in a directory of its own, while writing goes on.
//!
//! 1. The target is checked, and a work directory beside it is made and locked ([`target`]).
//! 2. Under the manifest lock and, for a few pointers, the commit lock, the views of all families are taken: all of them
//!    hold exactly the commits up to one number ([`point`]). Holding a view keeps its files and memtables.
//! 3. What is in memtables is written to tables of the work directory. The log is not copied.
//! 4. The other files are linked, or copied and then verified ([`transfer`]).
//! 5. A manifest of its own is written; everything is synced; the work directory takes the target's name.
//!
//! A crash before 5 leaves a work directory that no one takes for a database, and that the next attempt for the same
//! target removes. Nothing of the source is written or changed. What is prepared but not committed is not in the copy.

mod point;
mod target;
mod transfer;
mod unsorted;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use kingtide_base::{FileId, KeyOrder, SeqNo};
use kingtide_collections::Memtable;
use kingtide_env::Directory;
use kingtide_format::{Edit, TableMeta, ValueFileMeta};

pub(crate) use self::unsorted::verify_unsorted;
use self::{
    point::{Pinned, Point},
    target::Target,
    transfer::Transfer,
};
use crate::{
    compaction::filter::VersionFilter,
    engine::Engine,
    error::{Error, ErrorKind, Result},
    events::Event,
    family::encode_options,
    files::{Files, FilesMemory, OpenFilesMax},
    flush::{MemoryPass, write_memtables},
    manifest::{Manifest, ManifestState},
    output::{Output, cuts::Cuts},
};

/// Files of the copy that are kept open while they are verified.
const OPEN_MAX: OpenFilesMax = OpenFilesMax {
    tables: 16,
    values: 16,
};

/// What a backup or a checkpoint made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The newest commit in it; every older one is in it too, and no newer one.
    pub sequence: SeqNo,
    /// Table and value files that are hard links to those of the database.
    pub files_linked: u64,
    /// Table and value files that were copied.
    pub files_copied: u64,
    /// Table and value files that were written from memory.
    pub files_written: u64,
    /// The length of all these files, in bytes.
    pub bytes: u64,
}

/// How files get into the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// By a second name where the file system can do that, else as [`Method::Copy`].
    Link,
    /// Byte by byte; every copy is then verified.
    Copy,
}

/// Makes a copy of the database at `source` in the directory `target`.
///
/// # Errors
/// As [`Db::backup`](crate::Db::backup).
pub(crate) fn run(
    engine: &Engine,
    (source, target): (&Path, &Path),
    method: Method,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<BackupReport> {
    engine.check_open()?;
    let begun = engine.events.is_on().then(|| engine.env.monotonic_nanos());
    let target = Target::begin(engine.env.as_ref(), source, target)?;
    let mut point = point::take(engine);
    let mut report = BackupReport {
        sequence: point.sequence,
        ..BackupReport::default()
    };
    let tables = tables_of(&point);
    let mut values = values_of(&point.state);
    let bytes = tables.values().map(|table| table.meta.file_bytes);
    let bytes: u64 = bytes
        .chain(values.values().map(|meta| meta.file_bytes))
        .sum();
    if method == Method::Copy {
        check_space(target.root.as_ref(), bytes)?;
    }
    let files = Files::new(
        Arc::clone(&target.klog),
        Arc::clone(&target.vlog),
        OPEN_MAX,
        FilesMemory {
            cache_bytes: 0,
            cache_floor_bytes: 0,
            budget: Arc::clone(&engine.files.budget),
        },
        engine.files.next_id(),
    );
    let outputs = write_memories(engine, &files, &mut point)?;
    let spilled = spilled_of(&point.state, &outputs);
    let bytes: u64 = bytes + spilled.values().map(|meta| meta.file_bytes).sum::<u64>();
    values.extend(spilled);
    for output in &outputs {
        report.files_written += (output.tables.len() + output.value_files.len()) as u64;
        report.bytes += output.bytes();
    }
    let state = state_of(&point, &outputs, files.next_id())?;
    let mut transfer = Transfer::new(engine, &files, method, (bytes, progress));
    transfer.tables(&tables)?;
    transfer.values(&values)?;
    transfer.add_to(&mut report);
    engine.check_open()?;
    target.sync()?;
    drop(Manifest::create(
        Arc::clone(&target.root),
        Arc::clone(&engine.env),
        state,
    )?);
    target.finish()?;
    if let Some(begun) = begun {
        let nanos = engine.env.monotonic_nanos().saturating_sub(begun);
        engine.events.emit(|| Event::CopyMade {
            sequence: report.sequence.0,
            files_linked: report.files_linked,
            files_written: report.files_copied + report.files_written,
            micros: nanos / 1_000,
        });
    }
    Ok(report)
}

/// A table to be copied.
struct Listed {
    meta: Arc<TableMeta>,
    order: KeyOrder,
    /// False while the order is not known.
    is_sorted: bool,
}

/// Each table once, although clones share them.
fn tables_of(point: &Point) -> BTreeMap<FileId, Listed> {
    let mut all = BTreeMap::new();
    for pinned in &point.families {
        let sorted = pinned.version.tables().map(|(_, meta)| (meta, true));
        let unsorted = pinned.deferred.iter().map(|(_, meta)| (meta, false));
        for (meta, is_sorted) in sorted.chain(unsorted) {
            let listed = Listed {
                meta: Arc::clone(meta),
                order: pinned.family.order.clone(),
                is_sorted,
            };
            all.entry(meta.file).or_insert(listed);
        }
    }
    all
}

/// The value files that tables point to; others only wait for their removal.
fn values_of(state: &ManifestState) -> BTreeMap<FileId, ValueFileMeta> {
    let used = state
        .value_files()
        .iter()
        .filter(|(_, file)| file.tables > 0);
    used.map(|(id, file)| (*id, file.meta)).collect()
}

/// The value files of spilled values that the tables of the copy point to and no table of the source.
fn spilled_of(state: &ManifestState, outputs: &[Output]) -> BTreeMap<FileId, ValueFileMeta> {
    let tables = outputs.iter().flat_map(|output| &output.tables);
    let uses = tables.flat_map(|table| &table.value_files);
    let unused = uses.filter_map(|used| {
        let file = state.value_files().get(&used.file)?;
        (file.tables == 0).then_some((used.file, file.meta))
    });
    unused.collect()
}

/// Refuses early what cannot fit; the system decides in the end.
fn check_space(target: &dyn Directory, bytes: u64) -> Result<()> {
    match target.available_bytes() {
        Ok(available) if available < bytes => Err(Error::new(
            ErrorKind::DiskFull,
            format!("the copy takes {bytes} bytes and the target's device has {available} left"),
        )),
        _ => Ok(()),
    }
}

/// Step 3: one output for each family, in the order of the point's families; the memtables are let go.
fn write_memories(engine: &Engine, files: &Files, point: &mut Point) -> Result<Vec<Output>> {
    let mut outputs = Vec::with_capacity(point.families.len());
    for pinned in &mut point.families {
        outputs.push(write_memory(engine, files, pinned, point.sequence)?);
        // The files that these point to are still to be copied.
        let spilled = pinned
            .memories
            .iter()
            .flat_map(|memory| memory.spilled.all());
        pinned.spilled = spilled.collect();
        pinned.memories.clear();
    }
    Ok(outputs)
}

fn write_memory(engine: &Engine, files: &Files, pinned: &Pinned, last: SeqNo) -> Result<Output> {
    let family = &pinned.family;
    let memtables = pinned.memories.iter().map(|memory| &memory.table);
    let memtables: Vec<_> = memtables.filter(is_filled).cloned().collect();
    if memtables.is_empty() {
        return Ok(Output::default());
    }
    let noticed = pinned.memories.iter();
    let noticed = noticed.filter_map(|memory| memory.tombstones_since()).min();
    let since = noticed.unwrap_or_else(|| engine.unix_seconds());
    // Nobody has a snapshot of the copy yet.
    let boundaries = vec![last];
    let is_bottom = pinned.version.is_empty();
    let mut filter = VersionFilter::new(family.order.clone(), boundaries, is_bottom, engine.now());
    let is_cancelled = || engine.check_open().is_err();
    let mut older = pinned.version.tables().map(|(_, meta)| &**meta);
    let pass = MemoryPass {
        family,
        memtables: &memtables,
        last,
        older: &mut older,
        cuts: Cuts::default(),
    };
    let output = write_memtables(files, pass, &mut filter, &is_cancelled)?;
    match output {
        Some(mut output) => {
            output.date_tombstones(since);
            Ok(output)
        }
        None => Err(engine
            .check_open()
            .err()
            .unwrap_or_else(|| Error::new(ErrorKind::Closed, "the database was closed meanwhile"))),
    }
}

fn is_filled(memtable: &&Arc<Memtable>) -> bool {
    !memtable.is_empty() || memtable.has_range_deletes()
}

/// What the copy's manifest says: the source's, with the outputs on level 1 and an empty log behind the point.
fn state_of(point: &Point, outputs: &[Output], next_file: FileId) -> Result<ManifestState> {
    let mut state = point.state.clone();
    let mut edits = vec![
        Edit::NextFileId(next_file),
        Edit::LogStart {
            segment: point.log_segment,
            sequence: point.sequence,
            position: point.log_position,
        },
        Edit::LogDurable(point.log_position),
    ];
    let unused = point.state.value_files().iter();
    let spilled = spilled_of(&point.state, outputs);
    let unused = unused.filter(|(id, file)| file.tables == 0 && !spilled.contains_key(id));
    edits.extend(unused.map(|(id, _)| Edit::RemoveValueFile(*id)));
    for (pinned, output) in point.families.iter().zip(outputs) {
        let family = pinned.family.id;
        if point.state.family(family).is_none() {
            // A pending family that only this opening, which reads, knows of.
            if output.tables.is_empty() {
                continue;
            }
            edits.push(Edit::AddFamily {
                id: family,
                name: pinned.family.name(),
                options: encode_options(&pinned.family.options()),
            });
        }
        let values = output.value_files.iter();
        edits.extend(values.map(|file| Edit::AddValueFile(*file)));
        edits.extend(output.tables.iter().map(|meta| Edit::AddTable {
            family,
            level: 1,
            meta: meta.clone(),
        }));
        edits.push(Edit::FlushedThrough {
            family,
            sequence: point.sequence,
        });
    }
    for edit in &edits {
        state.apply(edit).map_err(|fault| {
            Error::new(
                ErrorKind::ReopenRequired,
                format!("the database's state contradicts itself: {fault}"),
            )
        })?;
    }
    Ok(state)
}
