//! Repair: what is whole in a damaged database, written to a new one. The damaged one is only read.
//!
//! 1. [`survey`]: the manifest is read; when it is damaged, what single frames of it still say, and the tables tell the
//!    rest themselves. Every table is scanned for whole blocks.
//! 2. [`log`]: records that are not in tables, up to the first hole, and on demand beyond.
//! 3. [`merge`]: of each family, the whole entries of all tables and of the log by key and, for one key, by sequence
//!    number. That says what is newest without knowing levels. Range deletes hide as they always do.
//! 4. [`target`]: what is live is loaded into a new database, which gets its name when it is whole and durable.
//!
//! Rules: nothing is invented, that is, every value in the new database was written for its key. When the value of the
//! newest version is lost, the key is lost: an older value would look as if it were the newest. When a block of a table
//! is lost, nobody knows which versions it held, and older ones may come to light; the report tells the range of keys.
//!
//! Whole files of another database are left out ([`foreign`]).
//!
//! It does not keep sequence numbers, snapshots, or what reads a prepared transaction had locked.

mod foreign;
mod log;
mod manifest;
mod merge;
mod report;
mod source;
mod survey;
mod target;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use kingtide_base::{ComparatorRef, EntryKind, ValuePointer};
use kingtide_env::{Env, PosixEnv};

pub use report::{ManifestFound, RepairLoss, RepairReport, RepairedFamily};

use self::{
    log::{LogFound, PreparedFound},
    merge::{Values, live_entries},
    source::Source,
    survey::{Plan, Survey},
    target::Target,
};
use crate::error::Result;

/// How a database is repaired.
#[derive(Clone, Default)]
pub struct RepairOptions {
    /// Where the repaired database goes: a directory that is missing or empty. `None`: nothing is written, and the
    /// report tells what would be.
    pub into: Option<PathBuf>,
    /// Use also records of the log that lie behind a hole in it. Without this the log ends at its first hole, so that
    /// what is salvaged from it depends on nothing that is lost. Default: false.
    pub log_after_holes: bool,
    /// Orders of keys besides the built-in ones.
    pub comparators: Vec<ComparatorRef>,
    /// The world to run in; the real one when `None`.
    pub env: Option<Arc<dyn Env>>,
}

impl std::fmt::Debug for RepairOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RepairOptions")
            .field("into", &self.into)
            .field("log_after_holes", &self.log_after_holes)
            .finish_non_exhaustive()
    }
}

/// Salvages what is whole from the damaged database in `path`, which is only read, into a new one, and tells what is
/// lost. Works on undamaged databases too. `progress` is told the bytes done and the bytes in all, from this thread.
///
/// The whole log is held in memory, and of the tables one at a time. It needs the database closed.
///
/// ```
/// # fn main() -> kingtide::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// use kingtide::{Db, FamilyOptions, Options, RepairOptions, repair};
///
/// let path = directory.path().join("db");
/// let db = Db::open(&path, Options::default())?;
/// let family = db.open_family("f", FamilyOptions::default())?;
/// db.put(&family, b"k", b"v")?;
/// db.close()?;
/// // The manifest is gone.
/// for entry in std::fs::read_dir(&path).expect("it is there") {
///     let file = entry.expect("a name").path();
///     if file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("MANIFEST")) {
///         std::fs::remove_file(file).expect("it is there");
///     }
/// }
/// let into = directory.path().join("repaired");
/// let options = RepairOptions { into: Some(into.clone()), ..RepairOptions::default() };
/// let report = repair(&path, &options, &mut |_, _| {})?;
/// assert!(!report.is_whole());
///
/// let db = Db::open(&into, Options::default())?;
/// assert_eq!(db.get(&db.family("f")?, b"k")?.expect("it was whole"), b"v");
/// # db.close()
/// # }
/// ```
///
/// # Errors
/// `NotFound` (no such directory), `Locked` (open, here or in another process), `ComparatorMissing`, `NewerVersion` (an
/// intact file of a newer version), `AlreadyExists` (the target is not empty), `InvalidArgument` (a target without a
/// name), `DiskFull`, `Io`. Damage is part of the report. After an error nothing is at the target.
pub fn repair(
    path: impl AsRef<Path>,
    options: &RepairOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<RepairReport> {
    let env = options
        .env
        .clone()
        .unwrap_or_else(|| Arc::new(PosixEnv::new()));
    let source = Source::open(Arc::clone(&env), path.as_ref())?;
    let mut found = find(&source, false, options, progress)?;
    if found.2.contradicts_manifest {
        found = find(&source, true, options, progress)?;
    }
    let (mut report, plans, log) = found;
    let target = match &options.into {
        Some(into) => Some(Target::make(&env, into, options)?),
        None => None,
    };
    for plan in &plans {
        write_family(&source, plan, target.as_ref(), (&env, &mut report))?;
    }
    finish((&source, target), &plans, log, &mut report)?;
    Ok(report)
}

/// Steps 1 and 2.
fn find(
    source: &Source,
    is_cut: bool,
    options: &RepairOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(RepairReport, Vec<Plan>, LogFound)> {
    let mut report = RepairReport::default();
    let survey = Survey::take(source, is_cut, &mut report, progress)?;
    let mut plans = survey.plans(&options.comparators, &mut report)?;
    let log = log::read(source, &survey, &mut plans, (options, &mut report))?;
    Ok((report, plans, log))
}

fn write_family(
    source: &Source,
    plan: &Plan,
    target: Option<&Target>,
    (env, report): (&Arc<dyn Env>, &mut RepairReport),
) -> Result<()> {
    let now = (env.unix_micros() / 1_000_000) as i64;
    let mut found = RepairedFamily {
        name: plan.name.clone(),
        is_name_lost: plan.is_name_lost,
        are_settings_lost: plan.are_settings_lost,
        ..RepairedFamily::default()
    };
    let mut lost = Vec::new();
    match target {
        Some(target) => target.load(plan, &mut |sink| {
            live_entries(source, plan, now, (&mut found, &mut lost), sink)
        })?,
        None => live_entries(
            source,
            plan,
            now,
            (&mut found, &mut lost),
            &mut |_, _, _| Ok(()),
        )?,
    }
    report.families.push(found);
    report.losses.append(&mut lost);
    Ok(())
}

fn finish(
    (source, target): (&Source, Option<Target>),
    plans: &[Plan],
    log: LogFound,
    report: &mut RepairReport,
) -> Result<()> {
    for mut prepared in log.prepared {
        let lost = load_spilled(source, plans, &mut prepared)?;
        if !lost.is_empty() {
            // Half of a transaction is none.
            report.losses.extend(lost);
            continue;
        }
        report.prepared.push(prepared.xid.clone());
        if let Some(target) = &target {
            target.prepare(plans, &prepared)?;
        }
    }
    match target {
        Some(target) => target.finish(),
        None => Ok(()),
    }
}

/// Puts the spilled values of a transaction that waits in their places; what of them is lost.
fn load_spilled(
    source: &Source,
    plans: &[Plan],
    prepared: &mut PreparedFound,
) -> Result<Vec<RepairLoss>> {
    let mut losses = Vec::new();
    for (id, op) in &mut prepared.operations {
        let plan = plans.iter().find(|plan| plan.id == *id);
        let pointer = ValuePointer::decode(&op.value);
        let (EntryKind::PutSpilled, Some(plan), Some(pointer)) = (op.kind, plan, pointer) else {
            continue;
        };
        let mut values = Values::new(source, plan);
        if let Some(value) = values.read(&pointer, (&plan.order, &op.key))? {
            (op.kind, op.value) = (EntryKind::Put, value);
        }
        losses.extend(values.into_losses(&plan.name));
    }
    Ok(losses)
}
