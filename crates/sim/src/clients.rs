//! Several clients that commit at the same time, and power cuts at calls of any thread.
//!
//! Everything that is committed is written down with its sequence number. At chosen calls the world is copied as a power
//! cut would leave it, together with what had been promised by then; the run itself goes on untouched. When it is over,
//! each copy is opened and must show the state after some prefix of the commits, in the order of their numbers, across
//! all families:
//!
//! - never before the newest commit that was acknowledged in mode full, or before a sync of the log that had returned;
//! - never before a bulk load that had returned; one that had not is wholly there or wholly absent;
//! - where nothing unsynced was lost, never before any commit that was acknowledged.
//!
//! One copy in ten is cut again while it recovers, and must then show the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use kingtide::{ColumnFamily, Db, ErrorKind, FamilyOptions, Options, SyncMode, TransactionOptions};
use kingtide_env::{
    CrashImage, FaultyEnv, MemoryEnv, Operation, Rule, Times, baton::BatonEnv, give_way,
};
use kingtide_testkit::{
    Checked, Random, Violation,
    dump::{Dump, dump},
    history::{family_options, sync_mode},
    order::{self, OrderedKey},
    together::together,
    violation::ensure,
    world::{self, DATABASE, IMAGES},
};

use crate::{plan::Plan, tally::SimTally};

/// Power cuts of a run, at most, unless every call is cut.
const CUTS_MAX: usize = 24;
const FAMILY_NAMES: [&str; 3] = ["left", "middle", "right"];

/// One write: family, key, value (`None` deletes).
type Write = (usize, Vec<u8>, Option<Vec<u8>>);

/// What was written down about a commit.
struct Commit {
    sequence: u64,
    writes: Vec<Write>,
}

/// What the clients share.
struct Shared {
    db: Db,
    families: Vec<ColumnFamily>,
    options: Vec<FamilyOptions>,
    keys: usize,
    notes: Arc<Mutex<Notes>>,
    /// Tables cannot be written now and then: background work may fail, and tries again.
    has_faults: bool,
}

/// What is known from outside.
#[derive(Default)]
struct Notes {
    commits: Vec<Commit>,
    /// The largest sequence number that was acknowledged.
    acknowledged: u64,
    /// The largest sequence number that no power cut may lose.
    floor: u64,
    copies: Vec<Copied>,
}

/// The world at one call.
struct Copied {
    call: u64,
    image: CrashImage,
    seed: u64,
    /// The state after at least this commit must be there.
    floor: u64,
    world: MemoryEnv,
}

/// Which calls are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// Some, drawn from the seed.
    Drawn,
    /// Each, from the first to the second of these, with every image.
    Each(u64, u64),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the plan and checks all copies. The caller is a thread of a simulation.
pub fn run(plan: &Plan, cuts: Cuts) -> Checked<SimTally> {
    let mut random = Random::new(plan.seed);
    let memory = MemoryEnv::new(random.draw());
    let notes = Arc::new(Mutex::new(Notes::default()));
    let armed = Arc::new(AtomicBool::new(false));
    let watch = Watcher {
        memory: memory.clone(),
        notes: Arc::clone(&notes),
        armed: Arc::clone(&armed),
        seen: Mutex::new(0),
        chosen: Mutex::new(BTreeSet::new()),
        is_every_call: match cuts {
            Cuts::Drawn => None,
            Cuts::Each(first, last) => Some((first, last)),
        },
        random: Mutex::new(Random::new(random.draw())),
    };
    let chance = random.between(4, 60);
    let faulty = FaultyEnv::new(Arc::new(memory.clone()));
    let has_faults = random.one_in(3);
    let env = BatonEnv::watched(
        Arc::new(faulty.clone()),
        Arc::new(move || watch.look(chance)),
    );
    let mut shared = open(&mut random, env, Arc::clone(&notes))?;
    if has_faults {
        shared.has_faults = true;
        for _ in 0..random.between(1, 3) {
            faulty.fail(table_fault(&mut random));
        }
    }
    armed.store(true, Ordering::SeqCst);
    let clients = random.between(2, 4) as u64;
    let bodies = (0..clients).map(|client| {
        let shared = &shared;
        let body: Box<dyn FnOnce() -> Checked + Send + '_> = Box::new(move || {
            for number in (client..plan.operations).step_by(clients as usize) {
                if plan.keeps(number) {
                    operation(shared, plan.seed, number)
                        .map_err(|violation| violation.within(format!("operation {number}")))?;
                }
            }
            Ok(())
        });
        body
    });
    for outcome in together(bodies.collect())? {
        outcome?;
    }
    armed.store(false, Ordering::SeqCst);
    faulty.clear();
    let Shared { db, options, .. } = shared;
    db.close()?;
    let mut notes = std::mem::take(&mut *lock(&notes));
    notes.commits.sort_by_key(|commit| commit.sequence);
    check_copies(&notes, &options, &memory)
}

/// A full disk, or one that cannot be written to, met by flushes and merges.
fn table_fault(random: &mut Random) -> Rule {
    Rule {
        operation: *random.pick(&[Operation::Write, Operation::Create, Operation::Write]),
        name_contains: random.pick(&[".klog", ".vlog"]).to_string(),
        nth: random.between(1, 6) as u64,
        error: *random.pick(&[io::ErrorKind::StorageFull, io::ErrorKind::Other]),
        times: Times::Once,
    }
}

fn open(random: &mut Random, env: BatonEnv, notes: Arc<Mutex<Notes>>) -> Checked<Shared> {
    let settings = Options {
        block_cache_bytes: *random.pick(&[0, 64 << 10, 1 << 20]),
        open_tables_max: *random.pick(&[0, 2, 256]),
        flush_threads: random.between(1, 2),
        compaction_threads: random.between(1, 2),
        spill_bytes_min: *random.pick(&[0, 300, 2000]),
        comparators: order::registered(),
        env: Some(Arc::new(env)),
        ..Options::default()
    };
    let db = Db::open(DATABASE, settings)?;
    let mut families = Vec::new();
    let mut options = Vec::new();
    for name in &FAMILY_NAMES[..random.between(1, FAMILY_NAMES.len())] {
        let mut chosen = family_options(random);
        chosen.write_buffer_bytes = random.between(8, 24) << 10;
        families.push(db.create_family(name, chosen.clone())?);
        options.push(chosen);
    }
    let keys = *random.pick(&[5, 20, 80]);
    Ok(Shared {
        db,
        families,
        options,
        keys,
        notes,
        has_faults: false,
    })
}

/// One operation of a client. What it does follows from the seed and its number.
fn operation(shared: &Shared, seed: u64, number: u64) -> Checked {
    let mut random = Random::new(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    match random.below(100) {
        0..=1 => background(shared, shared.db.flush(random.pick(&shared.families))),
        2 => background(shared, shared.db.compact(random.pick(&shared.families))),
        3..=5 => {
            let before = lock(&shared.notes).acknowledged;
            shared.db.sync_wal()?;
            let mut notes = lock(&shared.notes);
            notes.floor = notes.floor.max(before);
            Ok(())
        }
        6..=8 => bulk_load(shared, &mut random, number),
        9..=20 => read(shared, &mut random),
        _ => commit(shared, &mut random, number),
    }
}

/// A failure that was asked for is none.
fn background(shared: &Shared, outcome: kingtide::Result<()>) -> Checked {
    match outcome {
        Err(error)
            if shared.has_faults
                && matches!(
                    error.kind(),
                    ErrorKind::Io | ErrorKind::DiskFull | ErrorKind::Busy
                ) =>
        {
            Ok(())
        }
        outcome => Ok(outcome?),
    }
}

fn key(shared: &Shared, random: &mut Random) -> Vec<u8> {
    format!("key{:03}", random.below(shared.keys)).into_bytes()
}

fn value(random: &mut Random, number: u64) -> Vec<u8> {
    let length = match random.below(40) {
        0 => random.between(2_000, 9_000),
        1..=8 => random.between(100, 700),
        _ => random.between(0, 60),
    };
    let mut value = number.to_le_bytes().to_vec();
    value.extend(random.bytes(length));
    value
}

fn commit(shared: &Shared, random: &mut Random, number: u64) -> Checked {
    let sync = random.one_in(2).then(|| sync_mode(random));
    let mut transaction = shared.db.begin_with(TransactionOptions {
        sync,
        ..TransactionOptions::default()
    })?;
    let count = match random.below(20) {
        0 => random.between(30, 60),
        1..=6 => random.between(2, 8),
        _ => 1,
    };
    let mut writes: Vec<Write> = Vec::new();
    for _ in 0..count {
        let family = random.below(shared.families.len());
        let key = key(shared, random);
        let value = (!random.one_in(4)).then(|| value(random, number));
        let outcome = match &value {
            Some(value) => transaction.put(&shared.families[family], &key, value),
            None => transaction.delete(&shared.families[family], &key),
        };
        if outcome.is_err() {
            // A long value goes to a file at once. The transaction is given up.
            return background(shared, outcome);
        }
        writes.push((family, key, value));
    }
    let is_full = match sync {
        Some(sync) => sync == SyncMode::Full,
        None => writes
            .iter()
            .any(|(family, ..)| shared.options[*family].sync == SyncMode::Full),
    };
    let sequence = match transaction.commit() {
        Ok(sequence) => sequence.0,
        // Nothing was written: memtables are full and cannot be flushed.
        Err(error) => return background(shared, Err(error)),
    };
    see(shared, sequence)?;
    let mut notes = lock(&shared.notes);
    notes.commits.push(Commit { sequence, writes });
    notes.acknowledged = notes.acknowledged.max(sequence);
    if is_full {
        notes.floor = notes.floor.max(sequence);
    }
    Ok(())
}

/// What was acknowledged is seen by whoever looks afterwards.
fn see(shared: &Shared, sequence: u64) -> Checked {
    let seen = shared.db.snapshot()?.sequence().0;
    ensure(seen >= sequence, || {
        format!("commit {sequence} was acknowledged, and then a snapshot saw {seen}")
    })
}

/// Loads some entries as one commit, which is durable whatever the mode of the family.
fn bulk_load(shared: &Shared, random: &mut Random, number: u64) -> Checked {
    let family = random.below(shared.families.len());
    let order = order::key_order(&shared.options[family].comparator);
    let count = random.between(1, 100);
    let mut entries: Vec<_> = (0..count)
        .map(|_| (key(shared, random), value(random, number)))
        .collect();
    entries.sort_by(|left, right| order.compare(&left.0, &right.0));
    entries.dedup_by(|left, right| order.compare(&left.0, &right.0).is_eq());
    let mut loader = shared.db.bulk_load(&shared.families[family])?;
    for (key, value) in &entries {
        if let Err(error) = loader.put(key, value) {
            return background(shared, Err(error));
        }
        if random.one_in(8) {
            give_way();
        }
    }
    if random.one_in(8) {
        // Given up.
        return Ok(());
    }
    let sequence = match loader.finish() {
        Ok(report) => report.sequence.0,
        Err(error) => return background(shared, Err(error)),
    };
    see(shared, sequence)?;
    let writes = entries.into_iter();
    let writes = writes.map(|(key, value)| (family, key, Some(value)));
    let mut notes = lock(&shared.notes);
    notes.commits.push(Commit {
        sequence,
        writes: writes.collect(),
    });
    notes.acknowledged = notes.acknowledged.max(sequence);
    notes.floor = notes.floor.max(sequence);
    Ok(())
}

/// Two views through one snapshot are the same, whatever happens between them.
fn read(shared: &Shared, random: &mut Random) -> Checked {
    let family = random.pick(&shared.families);
    let snapshot = shared.db.snapshot()?;
    let transaction = match shared.db.begin_at(
        &snapshot,
        TransactionOptions {
            isolation: kingtide::IsolationLevel::Snapshot,
            ..TransactionOptions::default()
        },
    ) {
        Ok(transaction) => transaction,
        Err(error) if error.kind() == ErrorKind::Busy => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let keys: Vec<Vec<u8>> = (0..5).map(|_| key(shared, random)).collect();
    let mut found = Vec::new();
    for key in &keys {
        found.push(transaction.get(family, key)?);
    }
    let mut scanned = BTreeMap::new();
    let mut iter = transaction.iter(family, kingtide::IterOptions::default())?;
    let mut is_valid = iter.seek_to_first()?;
    while is_valid {
        scanned.insert(iter.key().to_vec(), iter.value()?.to_vec());
        is_valid = iter.next()?;
    }
    for (key, value) in keys.iter().zip(found) {
        let value = value.map(|value| value.to_vec());
        ensure(scanned.get(key) == value.as_ref(), || {
            format!(
                "key \"{}\": a get and an iterator of one snapshot disagree",
                key.escape_ascii()
            )
        })?;
    }
    Ok(())
}

/// Copies the world at chosen calls.
struct Watcher {
    memory: MemoryEnv,
    notes: Arc<Mutex<Notes>>,
    armed: Arc<AtomicBool>,
    /// The call that was looked at last.
    seen: Mutex<u64>,
    chosen: Mutex<BTreeSet<u64>>,
    is_every_call: Option<(u64, u64)>,
    random: Mutex<Random>,
}

impl Watcher {
    fn look(&self, chance: usize) {
        if !self.armed.load(Ordering::SeqCst) {
            return;
        }
        // What is promised is read first: it only grows, and so does what is stored.
        let (floor, acknowledged) = {
            let notes = lock(&self.notes);
            (notes.floor, notes.acknowledged)
        };
        let call = self.memory.io_count();
        if std::mem::replace(&mut *lock(&self.seen), call) == call {
            return;
        }
        let images: Vec<(CrashImage, u64)> = {
            let mut random = lock(&self.random);
            match self.is_every_call {
                Some((first, last)) if (first..=last).contains(&call) => {
                    IMAGES.map(|image| (image, random.draw())).to_vec()
                }
                Some(_) => Vec::new(),
                None => {
                    let mut chosen = lock(&self.chosen);
                    let is_chosen = chosen.len() < CUTS_MAX && random.one_in(chance);
                    if is_chosen {
                        chosen.insert(call);
                        IMAGES.map(|image| (image, random.draw())).to_vec()
                    } else {
                        Vec::new()
                    }
                }
            }
        };
        for (image, seed) in images {
            let world = self.memory.crash(image, seed);
            // Nothing that reached the kernel is lost in this image, so it is held to what was acknowledged.
            let floor = match image {
                CrashImage::Everything => acknowledged,
                _ => floor,
            };
            lock(&self.notes).copies.push(Copied {
                call,
                image,
                seed,
                floor,
                world,
            });
        }
    }
}

/// The content of all families after each commit, built step by step.
struct States<'a> {
    options: &'a [FamilyOptions],
    families: Vec<BTreeMap<OrderedKey, Vec<u8>>>,
}

impl States<'_> {
    fn apply(&mut self, commit: &Commit) {
        for (family, key, value) in &commit.writes {
            let order = order::key_order(&self.options[*family].comparator);
            let key = OrderedKey::new(&order, key);
            // The key stays as it was written first where the order calls two keys equal; they are written alike here.
            match value {
                Some(value) => self.families[*family].insert(key, value.clone()),
                None => self.families[*family].remove(&key),
            };
        }
    }

    fn matches(&self, found: &Dump) -> bool {
        self.families
            .iter()
            .zip(FAMILY_NAMES)
            .all(|(entries, name)| {
                found.get(name).is_some_and(|found| {
                    found.len() == entries.len()
                        && found
                            .iter()
                            .zip(entries)
                            .all(|((key, value), (expected, of))| {
                                *key == expected.bytes && value == of
                            })
                })
            })
    }
}

fn check_copies(notes: &Notes, options: &[FamilyOptions], memory: &MemoryEnv) -> Checked<SimTally> {
    let mut tally = SimTally {
        runs: 1,
        commits: notes.commits.len() as u64,
        calls: memory.io_count(),
        ..SimTally::default()
    };
    for copied in &notes.copies {
        let within = |violation: Violation| {
            violation.within(format!(
                "power cut after call {}, image {:?} (seed {})",
                copied.call, copied.image, copied.seed
            ))
        };
        tally.images += 1;
        if copied.image == IMAGES[0] {
            tally.cuts += 1;
        }
        let mut random = Random::new(copied.seed);
        let found = if random.one_in(10) {
            tally.recovery_cuts += 1;
            recover_twice(&copied.world, &mut random).map_err(within)?
        } else {
            recover(&copied.world).map_err(within)?
        };
        let mut states = States {
            options,
            families: vec![BTreeMap::new(); options.len()],
        };
        let mut holds = copied.floor == 0 && states.matches(&found);
        for commit in &notes.commits {
            states.apply(commit);
            if holds {
                break;
            }
            holds = commit.sequence >= copied.floor && states.matches(&found);
        }
        ensure(holds, || {
            format!(
                "the database shows no state from commit {} on; {} commits, the last is {}",
                copied.floor,
                notes.commits.len(),
                notes.commits.last().map_or(0, |commit| commit.sequence)
            )
        })
        .map_err(within)?;
    }
    Ok(tally)
}

fn recover(found: &MemoryEnv) -> Checked<Dump> {
    let db = Db::open(DATABASE, world::options(found))
        .map_err(|error| Violation::from(error).within("open after a power cut"))?;
    let content = dump(&db)?;
    db.close()?;
    Ok(content)
}

/// Cuts a recovery as well; the second one must find what an undisturbed one finds.
fn recover_twice(found: &MemoryEnv, random: &mut Random) -> Checked<Dump> {
    let undisturbed = found.kill();
    let expected = recover(&undisturbed)?;
    let calls = undisturbed.io_count();
    let cut = random.below(usize::try_from(calls).unwrap_or(usize::MAX).max(1)) as u64;
    let again = found.kill();
    again.halt_after(cut);
    if let Ok(db) = Db::open(DATABASE, world::options(&again)) {
        let _ = db.close();
    }
    let after = again.crash(*random.pick(&IMAGES), random.draw());
    let content = recover(&after)
        .map_err(|violation| violation.within(format!("recovery cut after {cut} calls")))?;
    ensure(content == expected, || {
        format!("recovery cut after {cut} calls: the second one shows another state")
    })?;
    Ok(content)
}
