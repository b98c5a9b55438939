//! What the database is made to do while a call of it fails: everything that calls into the world.
//!
//! The work is a list of steps, each of which may fail while a fault lasts. What each key may show is noted on the way: a
//! write that succeeded leaves one possibility, one that failed adds one.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use kingtide::{
    ColumnFamily, Compression, Db, Error, ErrorKind, FamilyOptions, IterOptions, Layout,
    LogOptions, Options, RepairOptions, Result, SyncMode, TransactionOptions, repair,
};
use kingtide_env::{Directory, Env, FaultyEnv, MemoryEnv};

use crate::{
    order,
    random::Random,
    violation::{Checked, ensure},
    world,
};

/// Where the work leaves copies.
pub(super) const COPIES: [&str; 3] = ["/copy/backup", "/copy/checkpoint", "/copy/repaired"];

/// Families whose every commit is durable when it is acknowledged.
const FULL: [&str; 2] = ["plain", "packed"];
/// A family whose commits are synced in the background, and one whose are not.
const LAZY: [&str; 2] = ["interval", "none"];

/// A family, a key, and its value; `None` deletes.
type Write = (&'static str, Vec<u8>, Option<Vec<u8>>);

/// What a key may show.
type May = BTreeSet<Option<Vec<u8>>>;

/// A database at work, and what it may show.
pub(super) struct Work {
    memory: MemoryEnv,
    env: FaultyEnv,
    pub(super) db: Option<Db>,
    may: BTreeMap<(&'static str, Vec<u8>), May>,
    written: u64,
}

/// One step and its name.
pub(super) type Step = (&'static str, fn(&mut Work) -> Result<()>);

/// The work. Every step finds what it needs, or makes it, so that each may fail.
pub(super) const STEPS: [Step; 29] = [
    ("commits", commits),
    ("flush", flush),
    ("commits", commits),
    ("background flush", flush_background),
    ("prepare", prepare),
    ("long values", long_values),
    ("flush", flush),
    ("reads", reads),
    ("bulk load", bulk_load),
    ("reopen", reopen),
    ("end prepared", end_prepared),
    ("overwrite long values", overwrite),
    ("compact", compact),
    ("rest", rest),
    ("clone, rename, drop", families),
    ("settings", settings),
    ("backup", backup),
    ("checkpoint", checkpoint),
    ("verify", verify),
    ("large commits", large_commits),
    ("rest", rest),
    ("layout", layout),
    ("read-only opening", read_only),
    ("an opening without syncs", lazy_opening),
    ("a missing order", missing_order),
    ("repair", repaired),
    ("repair without a manifest", repaired_in_parts),
    ("close", reopen),
    ("rest", rest),
];

impl Work {
    pub(super) fn new(memory: MemoryEnv, env: FaultyEnv) -> Self {
        Self {
            memory,
            env,
            db: None,
            may: BTreeMap::new(),
            written: 0,
        }
    }

    fn options(&self) -> Options {
        Options {
            env: Some(Arc::new(self.env.clone())),
            // Nothing is cached for long, so that reads reach the files.
            block_cache_bytes: 0,
            open_tables_max: 1,
            log: LogOptions {
                to_file: true,
                truncate_bytes: 2000,
                ..LogOptions::default()
            },
            trace: Some("/trace.json".into()),
            comparators: order::registered(),
            write_wait_max: Duration::from_secs(2),
            ..Options::default()
        }
    }

    /// Opens the database if it is closed, and answers it.
    pub(super) fn open(&mut self) -> Result<Db> {
        if let Some(db) = &self.db {
            return Ok(db.clone());
        }
        let db = Db::open(world::DATABASE, self.options())?;
        self.db = Some(db.clone());
        Ok(db)
    }

    /// Closes the database if it is open.
    pub(super) fn close(&mut self) -> Result<()> {
        self.db.take().map_or(Ok(()), |db| db.close())
    }

    fn family(&mut self, name: &'static str) -> Result<(Db, ColumnFamily)> {
        let db = self.open()?;
        let sync = match name {
            "interval" => SyncMode::Interval(Duration::from_millis(1)),
            "none" => SyncMode::None,
            _ => SyncMode::Full,
        };
        let compression = match name {
            "packed" => Compression::Lz4,
            _ => Compression::None,
        };
        let options = FamilyOptions {
            write_buffer_bytes: 64 << 10,
            l1_file_count_trigger: 3,
            level_size_ratio: 2,
            value_threshold_bytes: 256,
            disk_free_bytes_min: 4096,
            sync,
            compression,
            ..FamilyOptions::default()
        };
        let family = db.open_family(name, options)?;
        Ok((db, family))
    }

    /// Writes `keys` to each of `names` in one transaction; values of `bytes` bytes, each one its own.
    fn write(&mut self, names: &[&'static str], keys: &[String], bytes: usize) -> Result<()> {
        self.written += 1;
        let mut random = Random::new(self.written);
        let mut values = Vec::new();
        for name in names {
            for key in keys {
                values.push((*name, key.clone().into_bytes(), Some(random.bytes(bytes))));
            }
        }
        let outcome = self.commit(&values);
        self.note(values, outcome.is_ok());
        outcome
    }

    fn commit(&mut self, values: &[Write]) -> Result<()> {
        let db = self.open()?;
        let mut transaction = db.begin_with(TransactionOptions::default())?;
        for (name, key, value) in values {
            let family = self.family(name)?.1;
            match value {
                Some(value) => transaction.put(&family, key, value)?,
                None => transaction.delete(&family, key)?,
            }
        }
        transaction.commit().map(drop)
    }

    fn note(&mut self, values: Vec<Write>, is_done: bool) {
        for (name, key, value) in values {
            let may = self
                .may
                .entry((name, key))
                .or_insert_with(|| BTreeSet::from([None]));
            if is_done {
                may.clear();
            }
            may.insert(value);
        }
    }

    /// The same work with the database in another world.
    pub(super) fn moved(&self, memory: MemoryEnv) -> Self {
        Self {
            env: FaultyEnv::new(Arc::new(memory.clone())),
            memory,
            db: None,
            may: self.may.clone(),
            written: self.written,
        }
    }

    /// The commits of the families that are synced late may be lost, or not.
    pub(super) fn forgive_lazy(&mut self) {
        for ((name, _), may) in &mut self.may {
            if LAZY.contains(name) {
                may.clear();
            }
        }
    }

    /// What `db` shows is what it may show, and from now on what it shows. A key of which nothing is known may show
    /// anything.
    pub(super) fn check(&mut self, db: &Db) -> Checked {
        for name in FULL.into_iter().chain(LAZY) {
            let Ok(family) = db.family(name) else {
                let is_needed = |((of, _), may): (&(&str, Vec<u8>), &May)| {
                    *of == name && !may.is_empty() && !may.contains(&None)
                };
                ensure(!self.may.iter().any(is_needed), || {
                    format!("family {name} is missing although something was written to it")
                })?;
                continue;
            };
            let mut found = BTreeMap::new();
            let mut iter = db.iter(&family, IterOptions::default())?;
            let mut is_valid = iter.seek_to_first()?;
            while is_valid {
                found.insert(iter.key().to_vec(), iter.value()?.to_vec());
                is_valid = iter.next()?;
            }
            for ((_, key), may) in self.may.iter_mut().filter(|((of, _), _)| *of == name) {
                let shown = found.remove(key);
                let got = db.get(&family, key)?.map(|value| value.to_vec());
                ensure(got == shown, || {
                    format!("{name} \"{}\": get and iterator differ", key.escape_ascii())
                })?;
                ensure(may.is_empty() || may.contains(&shown), || {
                    format!(
                        "{name} \"{}\" shows {} bytes, which was not acknowledged last, nor under way",
                        key.escape_ascii(),
                        shown.as_ref().map_or(0, Vec::len)
                    )
                })?;
                may.clear();
                may.insert(shown);
            }
            ensure(found.is_empty(), || {
                format!("{name} shows {} keys that were never written", found.len())
            })?;
        }
        Ok(())
    }

    /// The files of the database, relative to its directory.
    pub(super) fn files(&self) -> Vec<String> {
        let paths = self.memory.paths().into_iter();
        let relative = paths.filter_map(|path| {
            let relative = path.strip_prefix(world::DATABASE).ok()?;
            Some(relative.display().to_string())
        });
        relative.collect()
    }

    /// Removes what an interrupted or earlier copy has left, as its user would.
    pub(super) fn clear_copies(&self) -> std::io::Result<()> {
        let copies = self.memory.open_directory(Path::new("/copy"), true)?;
        clear(copies.as_ref())
    }
}

fn clear(directory: &dyn Directory) -> std::io::Result<()> {
    for entry in directory.list()? {
        if entry.is_directory {
            clear(directory.open_directory(&entry.name, false)?.as_ref())?;
            directory.remove_directory(&entry.name)?;
        } else {
            directory.remove(&entry.name)?;
        }
    }
    Ok(())
}

fn keys(prefix: &str, numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers
        .into_iter()
        .map(|number| format!("{prefix}{number:03}"))
        .collect()
}

/// Small commits to all families, with deletes, and one over two of them.
fn commits(work: &mut Work) -> Result<()> {
    for name in FULL.into_iter().chain(LAZY) {
        work.write(&[name], &keys("key", 0..10), 100)?;
    }
    work.write(&FULL, &keys("both", 0..3), 50)?;
    let deleted: Vec<_> = keys("key", 0..2)
        .into_iter()
        .map(|key| ("plain", key.into_bytes(), None))
        .collect();
    let outcome = work.commit(&deleted);
    work.note(deleted, outcome.is_ok());
    outcome?;
    work.open()?.sync_wal()
}

fn flush(work: &mut Work) -> Result<()> {
    for name in FULL.into_iter().chain(LAZY) {
        let (db, family) = work.family(name)?;
        db.flush(&family)?;
    }
    Ok(())
}

/// Flushes and merges by the threads of the database.
fn flush_background(work: &mut Work) -> Result<()> {
    for _ in 0..3 {
        for name in FULL {
            work.write(&[name], &keys("many", 0..60), 200)?;
            let (db, family) = work.family(name)?;
            db.flush_background(&family)?;
        }
    }
    work.open()?.wait_idle()
}

fn long_values(work: &mut Work) -> Result<()> {
    work.write(&["plain"], &keys("long", 0..12), 1000)?;
    work.write(&["packed"], &keys("long", 0..3), 40_000)?;
    work.write(&["plain"], &keys("huge", 0..1), (1 << 20) + 1)?;
    // Goes to a file of its own when it is put.
    work.write(&["packed"], &keys("spilled", 0..1), (4 << 20) + 1)?;
    flush(work)
}

/// Most long values are overwritten, so that their files are emptied.
fn overwrite(work: &mut Work) -> Result<()> {
    for end in [11, 10, 9] {
        work.write(&["plain"], &keys("long", 0..end), 1000)?;
        flush(work)?;
    }
    Ok(())
}

fn prepare(work: &mut Work) -> Result<()> {
    let (db, family) = work.family("plain")?;
    let values = vec![(
        "plain",
        b"prepared".to_vec(),
        Some(b"and committed".to_vec()),
    )];
    let mut transaction = db.begin()?;
    transaction.put(&family, b"prepared", b"and committed")?;
    // Whatever comes of it, from now on the value may show.
    work.note(values, false);
    transaction.prepare(b"xid")
}

fn end_prepared(work: &mut Work) -> Result<()> {
    let db = work.open()?;
    if db.prepared()?.is_empty() {
        return Ok(());
    }
    let values = vec![(
        "plain",
        b"prepared".to_vec(),
        Some(b"and committed".to_vec()),
    )];
    let outcome = db.commit_prepared(b"xid");
    work.note(values, outcome.is_ok());
    outcome.map(drop)
}

fn reads(work: &mut Work) -> Result<()> {
    let (db, family) = work.family("plain")?;
    for key in keys("long", 0..12) {
        db.get(&family, key.as_bytes())?;
    }
    let mut iter = db.iter(&family, IterOptions::default())?;
    let mut is_valid = iter.seek_to_last()?;
    while is_valid {
        iter.value()?;
        is_valid = iter.prev()?;
    }
    db.range_cost(&family, b"a", b"z")?;
    db.estimate_cardinality(&family).map(drop)
}

fn bulk_load(work: &mut Work) -> Result<()> {
    let (db, family) = work.family("packed")?;
    work.written += 1;
    let mut random = Random::new(work.written);
    let values: Vec<_> = keys("bulk", 0..30)
        .into_iter()
        .map(|key| ("packed", key.into_bytes(), Some(random.bytes(300))))
        .collect();
    let load = || -> Result<()> {
        let mut loader = db.bulk_load(&family)?;
        for (_, key, value) in &values {
            loader.put(key, value.as_deref().unwrap_or_default())?;
        }
        loader.finish().map(drop)
    };
    let outcome = load();
    work.note(values, outcome.is_ok());
    outcome
}

fn reopen(work: &mut Work) -> Result<()> {
    work.close()?;
    work.open().map(drop)
}

fn compact(work: &mut Work) -> Result<()> {
    for name in FULL {
        let (db, family) = work.family(name)?;
        db.compact(&family)?;
    }
    Ok(())
}

fn rest(work: &mut Work) -> Result<()> {
    work.open()?.wait_idle()
}

fn families(work: &mut Work) -> Result<()> {
    let (db, _) = work.family("plain")?;
    let drop_old = |name: &str| match db.drop_family(name) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    for name in ["clone", "renamed"] {
        drop_old(name)?;
    }
    db.clone_family("plain", "clone")?;
    db.rename_family("clone", "renamed")?;
    drop_old("renamed")
}

fn settings(work: &mut Work) -> Result<()> {
    let (db, family) = work.family("none")?;
    let options = FamilyOptions {
        bloom_false_positive_rate: 0.02,
        ..family.options()
    };
    db.update_family_options(&family, options, true)
}

fn backup(work: &mut Work) -> Result<()> {
    commits(work)?;
    work.clear_copies().map_err(harness)?;
    let db = work.open()?;
    db.backup(COPIES[0], &mut |_, _| {}).map(drop)
}

/// Into a directory that is there and empty, beside what an attempt that crashed has left.
fn checkpoint(work: &mut Work) -> Result<()> {
    work.clear_copies().map_err(harness)?;
    let copies = work.memory.open_directory(Path::new(COPIES[1]), true);
    copies.map_err(harness)?;
    let crashed = "/copy/.checkpoint.0123456789abcdef.unfinished/klog/000001.klog";
    work.memory.write_file(crashed, b"half").map_err(harness)?;
    let db = work.open()?;
    db.checkpoint(COPIES[1]).map(drop)
}

fn verify(work: &mut Work) -> Result<()> {
    let db = work.open()?;
    db.verify(&mut |_, _| {}).map(drop)
}

/// Enough for several segments of the log, held back by a small commit; then the log is given back.
fn large_commits(work: &mut Work) -> Result<()> {
    work.write(&["none"], &keys("key", 0..1), 10)?;
    for _ in 0..5 {
        work.write(&["interval"], &keys("large", 0..8), 70_000)?;
    }
    flush(work)
}

/// With a cache, into which pieces of value files come.
fn read_only(work: &mut Work) -> Result<()> {
    work.write(&["plain"], &keys("key", 0..3), 20)?;
    let options = Options {
        read_only: true,
        block_cache_bytes: 1 << 20,
        ..work.options()
    };
    let db = Db::open(world::DATABASE, options)?;
    let family = db.family("plain")?;
    db.get(&family, b"key000")?;
    for key in keys("long", 0..12) {
        db.get(&family, key.as_bytes())?;
    }
    db.close()
}

fn layout(work: &mut Work) -> Result<()> {
    work.open()?;
    Layout::read(world::DATABASE, &work.options()).map(drop)
}

/// Where nothing is synced, the log is written through windows, and its segments are made in another way.
fn lazy_opening(work: &mut Work) -> Result<()> {
    reopen(work)?;
    for _ in 0..4 {
        work.write(&["none"], &keys("large", 0..8), 70_000)?;
    }
    reopen(work)
}

/// A family waits for its order, and its tables are verified without it.
fn missing_order(work: &mut Work) -> Result<()> {
    let db = work.open()?;
    let options = FamilyOptions {
        comparator: order::SHORT_FIRST.to_owned(),
        ..FamilyOptions::default()
    };
    let family = db.open_family("ordered", options)?;
    db.put(&family, b"key", b"value")?;
    db.flush(&family)?;
    drop((db, family));
    work.close()?;
    let options = Options {
        comparators: Vec::new(),
        defer_missing_comparators: true,
        ..work.options()
    };
    let db = Db::open(world::DATABASE, options)?;
    let outcome = db.verify(&mut |_, _| {}).map(drop);
    db.close()?;
    outcome
}

fn repaired(work: &mut Work) -> Result<()> {
    work.close()?;
    work.clear_copies().map_err(harness)?;
    // A directory that is there and empty will do.
    let copies = work.memory.open_directory(Path::new(COPIES[2]), true);
    copies.map_err(harness)?;
    repair_into(work, world::DATABASE)
}

/// A copy of the database whose manifest is damaged.
fn repaired_in_parts(work: &mut Work) -> Result<()> {
    work.close()?;
    work.clear_copies().map_err(harness)?;
    for file in work.files() {
        let mut bytes = work
            .memory
            .read_file(Path::new(world::DATABASE).join(&file));
        if let Some(byte) = bytes.as_mut().and_then(|bytes| bytes.get_mut(70))
            && file.starts_with("MANIFEST")
        {
            *byte ^= 1;
        }
        let copied = Path::new("/copy/damaged").join(&file);
        let written = work.memory.write_file(copied, &bytes.unwrap_or_default());
        written.map_err(harness)?;
    }
    repair_into(work, "/copy/damaged")
}

fn repair_into(work: &Work, path: &str) -> Result<()> {
    let options = RepairOptions {
        into: Some(Path::new(COPIES[2]).to_path_buf()),
        env: Some(Arc::new(work.env.clone())),
        comparators: order::registered(),
        ..RepairOptions::default()
    };
    repair(path, &options, &mut |_, _| {}).map(drop)
}

/// The world below the faults never fails.
fn harness(error: std::io::Error) -> Error {
    panic!("the world in memory failed: {error}")
}
