//! Repair brings back what is whole and tells what is not.
//!
//! A small database with several families, tables, value files, deletes and a log is built in the world in memory and
//! killed. Then, in copies of that world, one file at a time is damaged: a byte inverted, a run of zeros, the end cut
//! off, the whole file gone, or that of a database that differs in its values alone. The database is repaired into another directory, and of what is found there:
//!
//! - every value was once written for its key;
//! - every key that is missing, or shows an older value, or came back, lies in a range of keys that the report calls
//!   affected, in a family that it names, or was in the log, if the report calls the log damaged or missing;
//! - when the report says that nothing was damaged, everything is there;
//! - the new database is whole, and the damaged one is as it was.
//!
//! A manifest that was cut off exactly between two batches looks whole; what it does not name any more must then be listed
//! as left over.
//!
//! As for an opening, the last commit may be missing without a word when the damage is in the log, and more when zeros
//! cover its end: that looks as if it had never been written.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use kingtide::{
    Compression, Db, FamilyOptions, IterOptions, ManifestFound, Options, RepairLoss, RepairOptions,
    RepairReport, SyncMode, repair,
};
use kingtide_env::{CrashImage, Env, MemoryEnv};

use crate::{
    random::Random,
    violation::{Checked, Violation, ensure, no_panic},
    world,
};

/// Where repaired databases go.
const REPAIRED: &str = "/repaired";
/// Bytes of a run of zeros.
const ZEROS: usize = 512;
/// In a run of zeros longer than this, only one byte in so many is damaged.
const ZEROS_STRIDE: usize = 4096;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// What happens to a file.
#[derive(Clone, Copy, Debug)]
pub enum Harm {
    /// All bits of the byte at this offset are inverted.
    Invert(usize),
    /// The 512 bytes from this offset on become zero.
    Zero(usize),
    /// The file is cut to this length, in bytes.
    Cut(usize),
    /// The file is removed.
    Remove,
    /// The file is that of another database.
    Foreign,
}

/// One damage.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file.
    pub path: PathBuf,
    /// What happens to it.
    pub harm: Harm,
    /// True when nothing but zeros is left of the file from there on.
    pub reaches_end: bool,
}

/// What a proof of repairs went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepairTally {
    /// Damaged copies that were repaired.
    pub repairs: u64,
    /// Those of which something is lost.
    pub with_losses: u64,
    /// Keys that were affected, in all of them.
    pub keys_affected: u64,
    /// Copies of which nothing of the manifest was whole.
    pub without_manifest: u64,
}

impl std::ops::AddAssign for RepairTally {
    fn add_assign(&mut self, other: Self) {
        self.repairs += other.repairs;
        self.with_losses += other.with_losses;
        self.keys_affected += other.keys_affected;
        self.without_manifest += other.without_manifest;
    }
}

/// What one family must show.
#[derive(Clone, Debug, Default)]
struct Wanted {
    live: Content,
    /// Every value that was ever written for a key.
    ever: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// Keys that were written after the last flush.
    in_log: BTreeSet<Vec<u8>>,
}

/// A database at rest.
pub struct Specimen {
    env: MemoryEnv,
    /// A database of the same history with other values.
    other: Option<MemoryEnv>,
    families: BTreeMap<&'static str, Wanted>,
    /// Family and key of the last commit.
    last: (&'static str, Vec<u8>),
}

impl Specimen {
    /// Builds the database.
    ///
    /// # Errors
    /// What the database answers.
    pub fn build() -> Checked<Self> {
        let other = Self::build_with(0x55)?.env;
        Ok(Self {
            other: Some(other),
            ..Self::build_with(0)?
        })
    }

    /// Every byte of its random values differs by `flavour`.
    fn build_with(flavour: u8) -> Checked<Self> {
        let env = MemoryEnv::new(7 + u64::from(flavour));
        let db = Db::open(world::DATABASE, world::options(&env))?;
        let mut families: BTreeMap<&'static str, Wanted> = BTreeMap::new();
        for (name, compression, order) in [
            ("plain", Compression::None, "memcmp"),
            ("packed", Compression::Lz4, "reverse_memcmp"),
        ] {
            db.create_family(name, family_options(compression, order))?;
            families.insert(name, Wanted::default());
        }
        let mut random = Random::new(23);
        for round in 0..4 {
            for (name, wanted) in &mut families {
                write_round(&db, name, (wanted, round, flavour), &mut random)?;
            }
            if round == 1 {
                load(&db, "plain", families.entry("plain").or_default())?;
            }
            if round < 3 {
                for name in families.keys() {
                    db.flush(&db.family(name)?)?;
                }
            }
        }
        db.sync_wal()?;
        db.wait_idle()?;
        let last = ("plain", b"last".to_vec());
        let wanted = families.entry(last.0).or_default();
        put(&db, last.0, wanted, (&last.1, b"nothing comes after this"))?;
        wanted.in_log.insert(last.1.clone());
        let found = env.kill();
        world::power_off(&env);
        let _ = db.close();
        let specimen = Self {
            env: found,
            other: None,
            families,
            last,
        };
        let report = specimen
            .check_copy(&specimen.copy(), Path::new(""), false)?
            .0;
        ensure(report.is_whole(), || {
            format!("the undamaged database is called damaged: {report:?}")
        })?;
        Ok(specimen)
    }

    fn copy(&self) -> MemoryEnv {
        self.env.crash(CrashImage::Everything, 3)
    }

    /// Damages of every file: every `stride`-th byte, and a few of the larger kind.
    #[must_use]
    pub fn cases(&self, stride: usize) -> Vec<Case> {
        let stride = stride.max(1);
        let mut cases = Vec::new();
        for path in self.env.paths() {
            let bytes = self.env.read_file(&path).unwrap_or_default();
            let used = bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| last + 1);
            let mut add = |harm| {
                cases.push(Case {
                    path: path.clone(),
                    harm,
                    reaches_end: matches!(harm, Harm::Zero(offset) if offset + ZEROS >= used),
                });
            };
            add(Harm::Remove);
            let other = self.other.as_ref().and_then(|other| other.read_file(&path));
            if other.is_some_and(|other| other != bytes) {
                add(Harm::Foreign);
            }
            for offset in (0..bytes.len()).step_by(stride) {
                if offset < used || offset.is_multiple_of(ZEROS_STRIDE) {
                    add(Harm::Invert(offset));
                }
            }
            for offset in (0..used).step_by(stride.saturating_mul(16)) {
                add(Harm::Zero(offset));
                add(Harm::Cut(offset));
            }
        }
        cases
    }

    /// Damages a copy, repairs it and checks what is there.
    ///
    /// # Errors
    /// The violation, with the case.
    pub fn check(&self, case: &Case) -> Checked<RepairTally> {
        let env = self.copy();
        match (case.harm, &self.other) {
            (Harm::Foreign, Some(other)) => {
                let foreign = other.read_file(&case.path).unwrap_or_default();
                env.write_file(&case.path, &foreign)?;
            }
            _ => harm(&env, case)?,
        }
        let outcome = no_panic(|| {
            let (report, keys_affected) = self.check_copy(&env, &case.path, case.reaches_end)?;
            Ok(RepairTally {
                repairs: 1,
                with_losses: u64::from(!report.is_whole()),
                keys_affected,
                without_manifest: u64::from(report.manifest == ManifestFound::Lost),
            })
        });
        world::power_off(&env);
        outcome.map_err(|violation| {
            violation.within(format_args!("{} {:?}", case.path.display(), case.harm))
        })
    }

    /// Repairs what is in `env`; the report, and how many keys are not as they should be.
    fn check_copy(
        &self,
        env: &MemoryEnv,
        damaged: &Path,
        reaches_end: bool,
    ) -> Checked<(RepairReport, u64)> {
        let before = files_of(env);
        let options = RepairOptions {
            into: Some(REPAIRED.into()),
            env: Some(std::sync::Arc::new(env.clone())),
            ..RepairOptions::default()
        };
        let report = repair(world::DATABASE, &options, &mut |_, _| {})?;
        ensure(files_of(env) == before, || {
            "the damaged database was changed".to_owned()
        })?;
        let opened = Options {
            create_if_missing: false,
            ..world::options(env)
        };
        let db = Db::open(REPAIRED, opened)?;
        let verified = db.verify(&mut |_, _| {})?;
        ensure(verified.damages.is_empty(), || {
            format!("the new database is damaged: {:?}", verified.damages)
        })?;
        let mut affected = 0;
        for (name, wanted) in &self.families {
            let found = match db.family(name) {
                Ok(family) => content(&db, &family)?,
                Err(_) => Content::new(),
            };
            let is_log = damaged.extension().is_some_and(|kind| kind == "wal");
            let name_of = damaged.file_name().unwrap_or_default().to_string_lossy();
            let is_manifest = name_of.starts_with("MANIFEST");
            let excused = match (is_log, reaches_end) {
                (false, _) if is_manifest && !report.leftovers.is_empty() => Excused::LeftOver,
                (false, _) => Excused::Nothing,
                (true, false) => Excused::Last,
                (true, true) => Excused::Log,
            };
            affected += self.check_family((name, wanted), &found, &report, excused)?;
        }
        let known = |name: &String| self.families.contains_key(name.as_str());
        let unknown = db.families().into_iter().find(|name| !known(name));
        ensure(unknown.is_none(), || {
            format!("family {unknown:?} was made up although every table tells its own")
        })?;
        db.close()?;
        Ok((report, affected))
    }

    fn check_family(
        &self,
        (name, wanted): (&str, &Wanted),
        found: &Content,
        report: &RepairReport,
        excused: Excused,
    ) -> Checked<u64> {
        for (key, value) in found {
            let is_known = wanted
                .ever
                .get(key)
                .is_some_and(|ever| ever.contains(value));
            ensure(is_known, || {
                format!(
                    "{name} \"{}\" has a value that was never written",
                    key.escape_ascii()
                )
            })?;
        }
        let keys: BTreeSet<&Vec<u8>> = found.keys().chain(wanted.live.keys()).collect();
        let wrong: Vec<&Vec<u8>> = keys
            .into_iter()
            .filter(|key| found.get(*key) != wanted.live.get(*key))
            .collect();
        for key in &wrong {
            let is_last = excused == Excused::Last && (name, *key) == (self.last.0, &self.last.1);
            let explains = |loss: &RepairLoss| explains(loss, (name, wanted), key);
            let is_unlogged =
                (report.has_no_log || excused == Excused::Log) && wanted.in_log.contains(*key);
            let is_left_over = excused == Excused::LeftOver;
            ensure(
                is_last || is_unlogged || is_left_over || report.losses.iter().any(explains),
                || {
                    format!(
                        "{name} \"{}\" is {} without a word of it: {report:#?}",
                        key.escape_ascii(),
                        match found.get(*key) {
                            None => "missing",
                            Some(_) => "not what was written last",
                        }
                    )
                },
            )?;
        }
        Ok(wrong.len() as u64)
    }
}

/// What may be missing without a word: nothing in what is left of the log can tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Excused {
    Nothing,
    /// The last commit.
    Last,
    /// What was in the log: its end is zeros, as if it had never been written.
    Log,
    /// What is in tables that the manifest does not name, since it was cut off between two batches: the report lists them
    /// as left over, which is what a crash leaves too.
    LeftOver,
}

/// True when `loss` says that `key` may be affected.
fn explains(loss: &RepairLoss, (name, wanted): (&str, &Wanted), key: &[u8]) -> bool {
    if !loss.has_keys || !(loss.families.is_empty() || loss.families.iter().any(|of| of == name)) {
        return false;
    }
    if loss.file.starts_with("wal") {
        return wanted.in_log.contains(key);
    }
    // The families have different orders; whichever it is, the key lies between the two.
    let (low, high) = match &loss.keys {
        (Some(left), Some(right)) if left > right => (Some(right), Some(left)),
        (left, right) if name == "packed" => (right.as_ref(), left.as_ref()),
        (left, right) => (left.as_ref(), right.as_ref()),
    };
    low.is_none_or(|low| low.as_slice() <= key) && high.is_none_or(|high| key <= high.as_slice())
}

fn family_options(compression: Compression, order: &str) -> FamilyOptions {
    FamilyOptions {
        value_threshold_bytes: 600,
        compression,
        comparator: order.to_owned(),
        disk_free_bytes_min: 0,
        // Several tables stay beside each other.
        l1_file_count_trigger: 100,
        sync: SyncMode::Full,
        ..FamilyOptions::default()
    }
}

/// Puts, and in some rounds deletes.
fn write_round(
    db: &Db,
    name: &str,
    (wanted, round, flavour): (&mut Wanted, usize, u8),
    random: &mut Random,
) -> Checked {
    let family = db.family(name)?;
    for _ in 0..60 {
        let key = format!("key{:03}", random.below(120)).into_bytes();
        if round == 3 {
            wanted.in_log.insert(key.clone());
        }
        if round > 0 && random.one_in(8) {
            db.delete(&family, &key)?;
            wanted.live.remove(&key);
            continue;
        }
        let length = if random.one_in(6) { 700 } else { 150 };
        let mut value = random.bytes(length);
        value.iter_mut().for_each(|byte| *byte ^= flavour);
        put(db, name, wanted, (&key, &value))?;
    }
    if round == 2 {
        let (start, end) = match name {
            "packed" => (b"key030", b"key025"),
            _ => (b"key025", b"key030"),
        };
        db.delete_range(&family, start, end)?;
        let (low, high) = (start.min(end), start.max(end));
        wanted.live.retain(|key, _| match name {
            "packed" => key.as_slice() <= low.as_slice() || key.as_slice() > high.as_slice(),
            _ => key.as_slice() < low.as_slice() || key.as_slice() >= high.as_slice(),
        });
    }
    Ok(())
}

/// A bulk load over some of the keys.
fn load(db: &Db, name: &str, wanted: &mut Wanted) -> Checked {
    let family = db.family(name)?;
    let mut loader = db.bulk_load(&family)?;
    for number in (0..120).step_by(7) {
        let key = format!("key{number:03}").into_bytes();
        let value = format!("loaded {number}").into_bytes();
        loader.put(&key, &value)?;
        wanted
            .ever
            .entry(key.clone())
            .or_default()
            .insert(value.clone());
        wanted.live.insert(key, value);
    }
    loader.finish()?;
    Ok(())
}

fn put(db: &Db, name: &str, wanted: &mut Wanted, (key, value): (&[u8], &[u8])) -> Checked {
    db.put(&db.family(name)?, key, value)?;
    let ever = wanted.ever.entry(key.to_vec()).or_default();
    ever.insert(value.to_vec());
    wanted.live.insert(key.to_vec(), value.to_vec());
    Ok(())
}

fn harm(env: &MemoryEnv, case: &Case) -> Checked {
    let mut bytes = env.read_file(&case.path).unwrap_or_default();
    match case.harm {
        Harm::Invert(offset) => bytes[offset] ^= 0xff,
        Harm::Zero(offset) => {
            let end = bytes.len().min(offset + ZEROS);
            bytes[offset..end].fill(0);
        }
        Harm::Cut(length) => bytes.truncate(length),
        Harm::Remove => {
            let parent = case.path.parent().unwrap_or(Path::new("/"));
            let name = case.path.file_name().unwrap_or_default().to_string_lossy();
            env.open_directory(parent, false)?.remove(&name)?;
            return Ok(());
        }
        // Done where the other database is known.
        Harm::Foreign => {}
    }
    Ok(env.write_file(&case.path, &bytes)?)
}

/// The files of the damaged database, without its lock.
fn files_of(env: &MemoryEnv) -> BTreeMap<PathBuf, Vec<u8>> {
    let is_database = |path: &PathBuf| {
        path.starts_with(world::DATABASE) && path.file_name().is_none_or(|name| name != "LOCK")
    };
    let paths = env.paths().into_iter().filter(is_database);
    paths
        .map(|path| {
            let bytes = env.read_file(&path).unwrap_or_default();
            (path, bytes)
        })
        .collect()
}

fn content(db: &Db, family: &kingtide::ColumnFamily) -> Checked<Content> {
    let mut found = Content::new();
    let mut iter = db.iter(family, IterOptions::default())?;
    let mut is_valid = iter.seek_to_first()?;
    while is_valid {
        found.insert(iter.key().to_vec(), iter.value()?.to_vec());
        is_valid = iter.next()?;
    }
    Ok(found)
}

/// Every damage of the specimen, for tests.
///
/// # Errors
/// The first violation.
pub fn check_all(stride: usize) -> Checked<RepairTally> {
    let specimen = Specimen::build()?;
    let mut tally = RepairTally::default();
    for case in specimen.cases(stride) {
        tally += specimen.check(&case)?;
    }
    if tally.with_losses == 0 {
        return Err(Violation::new("nothing was ever lost: nothing was shown"));
    }
    Ok(tally)
}
