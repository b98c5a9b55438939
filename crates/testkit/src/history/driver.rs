//! The state of a history and the choice of its operations.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, ops,
};

use kingtide::{ColumnFamily, Db, IsolationLevel, Iter, Options, Snapshot, SyncMode, Transaction};
use kingtide_base::SeqNo;
use kingtide_env::MemoryEnv;

use super::{
    draw::{self, Draw},
    prepared::Waiting,
    walk::Walk,
};
use crate::{
    model::{ClockSpan, FamilyNumber, Model, Write},
    random::Random,
    violation::{Checked, Violation},
    world,
};

/// Operations that a failure shows.
const TRACE_LENGTH: usize = 25;
/// Snapshots, iterators and transactions that are held at a time, each.
pub(super) const HELD_MAX: usize = 3;
/// Families at a time.
pub(super) const FAMILIES_MAX: usize = 5;

/// What histories went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Operations.
    pub operations: u64,
    /// Histories.
    pub seeds: u64,
    /// Clean reopenings.
    pub reopens: u64,
    /// Kills.
    pub kills: u64,
    /// Power cuts.
    pub power_cuts: u64,
    /// Commits that power cuts lost, all of them below no promise.
    pub commits_lost: u64,
    /// Commits refused because of a conflict.
    pub conflicts: u64,
    /// Transactions prepared.
    pub prepared: u64,
    /// Commits and prepares refused because of a prepared transaction's locks.
    pub locked: u64,
}

impl ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.seeds += other.seeds;
        self.reopens += other.reopens;
        self.kills += other.kills;
        self.power_cuts += other.power_cuts;
        self.commits_lost += other.commits_lost;
        self.conflicts += other.conflicts;
        self.prepared += other.prepared;
        self.locked += other.locked;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} operations, {} seeds, {} reopenings, {} kills, {} power cuts ({} unpromised commits lost), {} conflicts, \
             {} prepared, {} refused by locks",
            self.operations,
            self.seeds,
            self.reopens,
            self.kills,
            self.power_cuts,
            self.commits_lost,
            self.conflicts,
            self.prepared,
            self.locked
        )
    }
}

/// A family that is open.
pub(super) struct OpenFamily {
    pub number: FamilyNumber,
    pub handle: ColumnFamily,
    pub sync: SyncMode,
    pub comparator: String,
    /// When it was created, on the clock of `Driver::epoch`.
    pub epoch: u64,
}

pub(super) struct HeldSnapshot {
    pub snapshot: Snapshot,
    pub commit: u64,
    pub clock: ClockSpan,
    pub epoch: u64,
}

pub(super) struct HeldIter {
    pub iter: Iter,
    pub family: FamilyNumber,
    pub walk: Walk,
}

pub(super) struct HeldTransaction {
    pub transaction: Transaction,
    pub isolation: IsolationLevel,
    pub sync: Option<SyncMode>,
    pub commit: u64,
    pub clock: ClockSpan,
    pub epoch: u64,
    pub writes: Vec<Write>,
    /// The keys that the level remembers as read.
    pub reads: Vec<(FamilyNumber, Vec<u8>)>,
}

impl HeldTransaction {
    /// True when the level remembers a get that found its key, or did not.
    pub fn remembers(&self, is_found: bool) -> bool {
        match self.isolation {
            IsolationLevel::RepeatableRead => is_found,
            IsolationLevel::Serializable => true,
            _ => false,
        }
    }
}

/// A history under way.
pub(super) struct Driver {
    pub random: Random,
    pub draw: Draw,
    pub env: MemoryEnv,
    pub settings: Options,
    pub db: Db,
    pub model: Model,
    pub families: BTreeMap<String, OpenFamily>,
    pub snapshots: Vec<HeldSnapshot>,
    pub iters: Vec<HeldIter>,
    pub transactions: Vec<HeldTransaction>,
    pub waiting: Waiting,
    /// The newest commit that a power cut must not lose.
    pub floor: u64,
    /// Counts changes of the families and snapshots, to tell which came first.
    pub epoch: u64,
    /// The sequence number of the newest commit of this opening.
    pub last_sequence: SeqNo,
    pub tally: Tally,
    is_skewed: bool,
    families_named: usize,
    trace: VecDeque<String>,
}

type Operation = fn(&mut Driver) -> Checked;

/// The operations and how often they come.
const OPERATIONS: [(usize, Operation); 29] = [
    (180, Driver::put),
    (50, Driver::delete),
    (30, Driver::put_expiring),
    (80, Driver::batch),
    (6, Driver::large_batch),
    (180, Driver::get),
    (25, Driver::multi_get),
    (25, Driver::contains),
    (30, Driver::iterate),
    (25, Driver::begin),
    (90, Driver::step_transaction),
    (30, Driver::end_transaction),
    (10, Driver::prepare),
    (12, Driver::end_prepared),
    (12, Driver::take_snapshot),
    (50, Driver::read_snapshot),
    (6, Driver::drop_snapshot),
    (12, Driver::open_iter),
    (60, Driver::step_iter),
    (6, Driver::flush),
    (2, Driver::compact),
    (8, Driver::sync_wal),
    (12, Driver::advance_clock),
    (3, Driver::create_family),
    (2, Driver::drop_family),
    (4, Driver::rename_or_clone_family),
    (3, Driver::reopen),
    (8, Driver::crash),
    (5, Driver::bulk_load),
];

pub(super) fn run(seed: u64, operations: u64, is_kept: super::IsKept<'_>) -> Checked<Tally> {
    let mut random = Random::new(seed);
    let env = MemoryEnv::new(random.draw());
    let mut settings = world::options(&env);
    settings.block_cache_bytes = *random.pick(&[0, 64 << 10, 1 << 20]);
    settings.open_tables_max = *random.pick(&[0, 2, 256]);
    settings.flush_threads = random.below(3);
    settings.compaction_threads = random.between(1, 2);
    if !random.one_in(3) {
        // Long values go through the log, in records of several segments.
        settings.spill_bytes_min = 0;
    }
    let draw = Draw::new(&mut random);
    let is_skewed = random.one_in(3);
    let db = Db::open(world::DATABASE, settings.clone())?;
    let mut driver = Driver {
        random,
        draw,
        env,
        settings,
        db,
        model: Model::default(),
        families: BTreeMap::new(),
        snapshots: Vec::new(),
        iters: Vec::new(),
        transactions: Vec::new(),
        waiting: Waiting::default(),
        floor: 0,
        epoch: 0,
        last_sequence: SeqNo::ZERO,
        tally: Tally {
            seeds: 1,
            ..Tally::default()
        },
        is_skewed,
        families_named: 0,
        trace: VecDeque::new(),
    };
    let outcome = driver.run(operations, is_kept);
    if outcome.is_err() {
        // The threads of the database must not outlive the history.
        world::power_off(&driver.env);
    }
    let tally = driver.tally;
    let trace = driver.describe_trace();
    outcome
        .map(|()| tally)
        .map_err(|violation| Violation::new(format!("{violation}\nlast operations:\n{trace}")))
}

impl Driver {
    fn run(&mut self, operations: u64, is_kept: super::IsKept<'_>) -> Checked {
        let weights: Vec<usize> = OPERATIONS
            .iter()
            .map(|(weight, _)| weight * self.random.pick(&[0, 1, 1, 1, 4]))
            .collect();
        let total: usize = weights.iter().sum();
        for _ in 0..self.random.between(1, 3) {
            self.create_family()?;
        }
        let streams = self.random.draw();
        for number in 0..operations {
            if !is_kept(number) {
                continue;
            }
            self.random = Random::new(streams ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut at = self.random.below(total);
            let chosen = weights.iter().position(|weight| {
                let is_here = at < *weight;
                at = at.wrapping_sub(*weight);
                is_here
            });
            // A seed without any weight writes.
            let operation = chosen.map_or(Self::put as Operation, |index| OPERATIONS[index].1);
            operation(self)?;
            self.tally.operations += 1;
        }
        self.reopen()
    }

    /// Notes an operation for the report of a failure.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        if self.trace.len() == TRACE_LENGTH {
            self.trace.pop_front();
        }
        self.trace.push_back(what.into());
    }

    fn describe_trace(&self) -> String {
        let first =
            self.tally.operations + 1 - (self.trace.len() as u64).min(self.tally.operations + 1);
        self.trace
            .iter()
            .zip(first + 1..)
            .map(|(what, number)| format!("  about {number}: {what}\n"))
            .collect()
    }

    /// A name that was never used in this history.
    pub(super) fn new_name(&mut self) -> String {
        self.families_named += 1;
        format!("family{}", self.families_named)
    }

    /// The name of some family; there always is one. In some histories the first one gets nearly everything, so that
    /// the memtables of the others hold the log back over many segments.
    pub(super) fn some_family(&mut self) -> String {
        let names: Vec<&String> = self.families.keys().collect();
        if self.is_skewed && !self.random.one_in(40) {
            return names[0].clone();
        }
        (*self.random.pick(&names)).clone()
    }

    /// Some key of this history.
    pub(super) fn some_key(&mut self) -> Vec<u8> {
        self.draw.key(&mut self.random)
    }

    /// Some value.
    pub(super) fn some_value(&mut self) -> Vec<u8> {
        self.draw.value(&mut self.random)
    }

    /// Settings for a new family.
    pub(super) fn some_family_options(&mut self) -> kingtide::FamilyOptions {
        draw::family_options(&mut self.random)
    }
}

/// A key for people.
pub(super) fn key_text(key: &[u8]) -> String {
    let tail = &key[key.len().saturating_sub(24)..];
    format!("\"{}\"", tail.escape_ascii())
}
